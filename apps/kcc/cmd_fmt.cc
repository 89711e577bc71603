// kcc fmt: a contract or a promotion policy in the standard layout, comments carried along. A
// comment is never lost unless --drop-comments asks for it.
#include "apps/kcc/commands.h"
#include "apps/kcc/safe_output.h"
#include "kcc/base/file.h"
#include "kcc/contract/canonical.h"
#include "kcc/contract/comments.h"

namespace kcc::cli {
namespace {

Error CommentsStay(const std::string& name) {
  return InvalidError(
      "its comments cannot all be carried into the standard layout; move comments out of values, "
      "or leave them out with --drop-comments",
      Place{name});
}

Result<std::string> Format(const Document& source, const std::string& name, bool drop_comments) {
  const auto& contract = source.contract.contract;
  const auto& policy = source.policy.policy;
  std::string formatted = contract ? ToYaml(*contract) : ToYaml(*policy);
  if (drop_comments || !HasComments(source.text)) return formatted;
  std::optional<std::string> commented;
  if (contract) {
    const ReadOutcome outcome = ReadContract(formatted);
    if (outcome.contract) {
      commented = CarryComments(source.text, *contract, formatted, *outcome.contract);
    }
  } else {
    const PolicyOutcome outcome = ReadPolicy(formatted);
    if (outcome.policy) {
      commented = CarryComments(source.text, *policy, formatted, *outcome.policy);
    }
  }
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
    const std::string canonical = source->contract.contract
                                      ? CanonicalJson(*source->contract.contract)
                                      : CanonicalJson(*source->policy.policy);
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
