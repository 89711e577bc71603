// Any bytes as a state (the first line) and events (one in each further line): what reads is taken
// a step with, whatever it says, and what comes out reads back as itself.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "kcc/base/check.h"
#include "kcc/contract/policy_reader.h"
#include "kcc/promotion/promotion.h"
#include "kcc/promotion/promotion_json.h"

namespace {

constexpr std::string_view kPolicy =
    "apiVersion: kcc/v1\nkind: PromotionPolicy\nmetadata: {name: p, version: 1.0.0}\nspec:\n"
    "  offline: {clean: 10, deadline: 10h, onDeadline: reject}\n"
    "  shadow: {minRequests: 5, clean: 10, stabilityWindow: 1h, looks: [{requests: 9, alpha: "
    "1%}]}\n"
    "  canary: {steps: [{traffic: 1%}, {traffic: 10%}], clean: 10, approvals: {count: 1}}\n"
    "  full: {clean: 10}\n"
    "  enforce: [{clause: W, mode: shadow}]\n"
    "  hooks: [{point: confirm-promotion, name: gate, exec: a},"
    " {point: rollback, name: back, exec: a}]\n";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const kcc::PromotionPolicy policy = *kcc::ReadPolicy(kPolicy).policy;
  static const std::string digest = kcc::PolicyDigest(policy);
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto line = [&] {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return one;
  };
  auto state = kcc::ReadPromotionState(line());
  if (!state.has_value()) return 0;
  state->policy = digest;  // no input would guess it
  KCC_CHECK(*kcc::ReadPromotionState(kcc::ToJson(*state)) == *state);
  while (!text.empty()) {
    const auto event = kcc::ReadPromotionEvent(line());
    if (!event.has_value()) continue;
    KCC_CHECK(*kcc::ReadPromotionEvent(kcc::ToJson(*event)) == *event);
    const auto result = kcc::Step(policy, *state, *event);
    if (!result.has_value()) continue;
    KCC_CHECK(!result->note.empty() || !result->transitions.empty());
    const auto again = kcc::ReadPromotionState(kcc::ToJson(result->state));
    if (!again.has_value()) return 0;  // more rollbacks than a state may have
    KCC_CHECK(*again == result->state);
    *state = *again;
  }
  return 0;
}
