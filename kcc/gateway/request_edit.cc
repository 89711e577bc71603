#include "kcc/gateway/request_edit.h"

#include <algorithm>
#include <utility>

#include "kcc/base/json_writer.h"
#include "kcc/gateway/text_edit.h"

namespace kcc {
namespace {

class BodyEdits {
 public:
  BodyEdits(std::string_view body, const RequestScan& scan) : body_(body), scan_(scan) {}

  // Each name once.
  void Set(std::string_view name, std::string json) {
    if (const JsonPart* const part = scan_.FindPart(name)) {
      if (part->value == json) return;
      const auto begin = static_cast<size_t>(part->value.data() - body_.data());
      edits_.push_back({begin, begin + part->value.size(), std::move(json)});
      return;
    }
    if (!scan_.members.empty() || !added_.empty()) added_ += ',';
    added_.append(JsonQuote(name)).append(":").append(json);
  }

  std::string Take() {
    if (!added_.empty()) edits_.push_back({scan_.close, scan_.close, std::move(added_)});
    if (edits_.empty()) return std::string(body_);
    return ApplyEdits(body_, edits_);
  }

 private:
  const std::string_view body_;
  const RequestScan& scan_;
  std::vector<TextEdit> edits_;
  std::string added_;  // before the closing bracket
};

bool AsksFor(std::string_view name, bool is_switch, const RequestScan& scan,
             const PoolKernel& kernel) {
  if (kernel.set.contains(std::string(name))) return true;
  const auto value = scan.Find(name);
  // Where a number is expected, servers take false for 0.
  return value && *value != "null" && !(is_switch && *value == "false");
}

// The client, or the configuration in its place, asks for one of these already.
bool AsksForAny(std::span<const WireField> fields, std::span<const std::string_view> also,
                const RequestScan& scan, const PoolKernel& kernel) {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const WireField& field) {
                       return AsksFor(field.name, field.value == "true", scan, kernel);
                     }) ||
         std::any_of(also.begin(), also.end(),
                     [&](std::string_view name) { return AsksFor(name, false, scan, kernel); });
}

bool HasTools(const RequestScan& scan) {
  for (const std::string_view name : {"tools", "functions"}) {
    const auto list = scan.Find(name);
    JsonPart part;
    if (list && JsonParts(*list).Next(&part)) return true;
  }
  return false;
}

void Inject(std::span<const WireField> fields, int32_t top, BodyEdits* edits) {
  for (const WireField& field : fields) {
    edits->Set(field.name, field.value == "K" ? std::to_string(top) : std::string(field.value));
  }
}

}  // namespace

EditedRequest EditRequest(std::string_view body, const RequestScan& scan, const GatewayPool& pool,
                          const PoolKernel& kernel, bool chat, bool stream, bool sampled) {
  EditedRequest edited;
  BodyEdits edits(body, scan);
  if (!kernel.model.empty() && kernel.model != pool.model) {
    edits.Set("model", JsonQuote(kernel.model));
  }
  for (const auto& [name, json] : kernel.set) {
    if (name != "model" || kernel.model.empty()) edits.Set(name, json);
  }
  const WireRoute& wire = kernel.wire->Route(chat);
  if (sampled) {
    edited.injected.ids = !wire.ids.empty() && (wire.ids_in_stream || !stream) &&
                          !AsksForAny(wire.ids, {}, scan, kernel);
    edited.injected.logprobs = !wire.logprobs.empty() && (wire.logprobs_in_stream || !stream) &&
                               (wire.logprobs_with_tools_in_stream || !stream || !HasTools(scan)) &&
                               !AsksForAny(wire.logprobs, wire.also_logprobs, scan, kernel);
    if (edited.injected.ids) Inject(wire.ids, pool.top, &edits);
    if (edited.injected.logprobs) Inject(wire.logprobs, pool.top, &edits);
  }
  constexpr std::string_view kTexts = "return_tokens_as_token_ids";
  edited.token_id_texts =
      kernel.wire->token_id_texts && (edited.injected.logprobs || scan.Asks(kTexts));
  edited.body = edits.Take();
  return edited;
}

}  // namespace kcc
