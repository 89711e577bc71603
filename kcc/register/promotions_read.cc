// Promotions as the log has them. What changes them: promotions.cc.
#include <algorithm>

#include "kcc/contract/policy_reader.h"
#include "kcc/format/json.h"
#include "kcc/promotion/promotion_json.h"
#include "kcc/register/promotions.h"

namespace kcc {
namespace {

Result<PromotionPolicy> ReadKeptPolicy(Register& source, const std::string& blob,
                                       const std::string& digest) {
  KCC_TRY(const std::optional<std::string> text, source.ReadBlob(blob));
  if (!text) {
    return InvalidError("the policy " + blob + " of this promotion is no longer stored",
                        Place{source.name()});
  }
  PolicyOutcome outcome = ReadPolicy(*text);
  if (!outcome.policy || PolicyDigest(*outcome.policy) != digest) {
    return BrokenEvidenceError("the stored text of policy " + digest + " is not this policy",
                               Place{source.name()});
  }
  return std::move(*outcome.policy);
}

Result<KeptPromotion> ReadKept(Register& source, const Event& event) {
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, event.body));
  const json::object body = root.get_object().value_unsafe();
  KeptPromotion kept;
  kept.event = event;
  const auto state = JsonMember(body, "state");
  if (!state) return BrokenEvidenceError("a promotion.changed without a state");
  KCC_TRY(kept.state, ReadPromotionState(simdjson::minify(*state)));
  kept.triple = JsonText(JsonMember(body, "triple"));
  kept.policy_blob = JsonText(JsonMember(body, "policy"));
  const auto number = [&](std::string_view name) -> int64_t {
    const auto value = JsonMember(body, name);
    int64_t read = 0;
    return value && value->get_int64().get(read) == simdjson::SUCCESS ? read : 0;
  };
  kept.considered = number("considered");
  kept.entered = number("entered");
  KCC_TRY(kept.policy, ReadKeptPolicy(source, kept.policy_blob, kept.state.policy));
  return kept;
}

Error NoPromotion(const Register& source, const std::string& id) {
  return InvalidError("there is no promotion '" + id + "'; `kcc promote status` lists all",
                      Place{source.name()});
}

}  // namespace

Result<KeptPromotion> ReadPromotion(Register& source, const std::string& id) {
  KCC_TRY(const std::optional<Entry> entry, source.Find({EntryTable::kPromotions, id}));
  if (!entry) return NoPromotion(source, id);
  return ReadKept(source, entry->event);
}

Result<std::vector<KeptPromotion>> ReadPromotions(Register& source) {
  KCC_TRY(std::vector<Entry> entries, source.List({.table = EntryTable::kPromotions}));
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.state.added < b.state.added; });
  std::vector<KeptPromotion> all;
  for (const Entry& entry : entries) {
    KCC_TRY(KeptPromotion kept, ReadKept(source, entry.event));
    all.push_back(std::move(kept));
  }
  return all;
}

Result<std::vector<PromotionHistoryRow>> ReadHistory(Register& source, const std::string& id) {
  KCC_TRY(const std::optional<Entry> entry, source.Find({EntryTable::kPromotions, id}));
  if (!entry) return NoPromotion(source, id);
  KCC_TRY(const std::vector<Event> events,
          source.ReadEvents({.first = entry->state.added, .kind = "promotion.changed"}));
  std::vector<PromotionHistoryRow> history;
  json::parser parser;
  for (const Event& event : events) {
    KCC_TRY(const json::element root, ParseJson(parser, event.body));
    const json::object body = root.get_object().value_unsafe();
    const auto text = [&](std::string_view name) {
      return std::string(JsonText(JsonMember(body, name)));
    };
    if (text("promotion") != id) continue;
    std::string reason = text("note");
    const auto state = JsonMember(body, "state");
    if (reason.empty() && state && state->is_object()) {
      reason = JsonText(JsonMember(state->get_object().value_unsafe(), "reason"));
    }
    history.push_back({event, text("from"), text("to"), text("cause"), std::move(reason)});
  }
  return history;
}

}  // namespace kcc
