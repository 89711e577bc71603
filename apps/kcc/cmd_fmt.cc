// kcc fmt: a contract, a policy or a gateway in the standard layout, comments carried along. A
// comment is never lost unless --drop-comments asks for it.
#include "apps/kcc/commands.h"
#include "apps/kcc/safe_output.h"
#include "kcc/base/file.h"
#include "kcc/contract/canonical.h"
#include "kcc/contract/comments.h"
#include "kcc/contract/gateway_reader.h"
#include "kcc/contract/monitor_reader.h"
#include "kcc/contract/policy_reader.h"

namespace kcc::cli {
namespace {

Error CommentsStay(const std::string& name) {
  return InvalidError(
      "its comments cannot all be carried into the standard layout; move comments out of values, "
      "or leave them out with --drop-comments",
      Place{name});
}

// What the document holds, handed to `use`, whatever its kind.
template <class Use>
auto Visit(const Document& document, Use use) {
  if (document.promotion) return use(*document.promotion);
  if (document.monitor) return use(*document.monitor);
  if (document.gateway) return use(*document.gateway);
  return use(*document.contract);
}

std::optional<Contract> Reread(const Contract&, std::string_view text) {
  return ReadContract(text).contract;
}
std::optional<PromotionPolicy> Reread(const PromotionPolicy&, std::string_view text) {
  return ReadPolicy(text).policy;
}
std::optional<MonitorPolicy> Reread(const MonitorPolicy&, std::string_view text) {
  return ReadMonitorPolicy(text).policy;
}
std::optional<GatewayConfig> Reread(const GatewayConfig&, std::string_view text) {
  return ReadGateway(text).config;
}

Result<std::string> Format(const Document& source, const std::string& name, bool drop_comments) {
  std::string formatted = Visit(source, [](const auto& meant) { return ToYaml(meant); });
  if (drop_comments || !HasComments(source.text)) return formatted;
  std::optional<std::string> commented =
      Visit(source, [&](const auto& meant) -> std::optional<std::string> {
        const auto again = Reread(meant, formatted);
        if (!again) return std::nullopt;
        return CarryComments(source.text, meant, formatted, *again);
      });
  if (!commented) return CommentsStay(name);
  return std::move(*commented);
}

int FormatOne(const FmtOptions& options, const std::string& path, Console& console) {
  const std::string name = DisplayName(path);
  int exit_code = kExitOk;
  const auto source = RequireDocument(path, console, &exit_code);
  if (!source) return exit_code;
  const Result<std::string> formatted = Format(*source, name, options.drop_comments);
  if (!formatted.has_value()) return ReportError(formatted.error(), console);

  const bool changes = *formatted != source->text;
  if (options.check) {
    if (changes && !console.json) console.out << Shown(name) << '\n';
    if (console.json) {
      JsonWriter json(JsonWriter::Style::kCompact);
      json.BeginObject().Field("file", name).Field("formatted", !changes).EndObject();
      console.out << json.Take();
    }
    return changes ? kExitViolated : kExitOk;
  }
  if (options.in_place) {
    if (changes) {
      const Result<> written = WriteFileAtomically(path, *formatted);
      if (!written.has_value()) return ReportError(written.error(), console);
    }
    if (console.json) {
      JsonWriter json(JsonWriter::Style::kCompact);
      json.BeginObject().Field("file", name).Field("changed", changes).EndObject();
      console.out << json.Take();
    }
    return kExitOk;
  }
  if (console.json) {
    const std::string canonical =
        Visit(*source, [](const auto& meant) { return CanonicalJson(meant); });
    console.out << canonical << (canonical.ends_with('\n') ? "" : "\n");
  } else {
    console.contract = true;
    console.out << *formatted;
  }
  return kExitOk;
}

}  // namespace

int RunFmt(const FmtOptions& options, Console& console) {
  int exit_code = kExitOk;
  for (const std::string& path : options.files) {
    if (options.in_place && path == "-") {
      return ReportError(InvalidError("standard input cannot be replaced; leave out -i"), console);
    }
  }
  if (options.files.size() > 1 && !options.in_place && !options.check) {
    return ReportError(
        InvalidError("several contracts would be printed as one; format them with -i, or look at "
                     "them with --check"),
        console);
  }
  for (const std::string& path : options.files) {
    exit_code = std::max(exit_code, FormatOne(options, path, console));
  }
  return exit_code;
}

}  // namespace kcc::cli
