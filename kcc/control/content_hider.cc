#include "kcc/control/content_hider.h"

#include <algorithm>
#include <random>

#include "kcc/base/sha256.h"
#include "kcc/gateway/route_word.h"
#include "kcc/summary/plan.h"

namespace kcc {
namespace {

constexpr std::string_view kTokenField = "token.token";

bool ReadsTokens(const Contract& contract) {
  return std::any_of(contract.slices.begin(), contract.slices.end(), [](const Slice& slice) {
    if (!slice.where) return false;
    const std::vector<std::string> fields = slice.where->Fields();
    return std::find(fields.begin(), fields.end(), kTokenField) != fields.end();
  });
}

std::string GroupOf(const MonitorObservation& observation) {
  if (observation.asked) {
    const auto group = observation.asked->fields.find("replay_group");
    if (group != observation.asked->fields.end()) {
      if (const auto* text = std::get_if<std::string>(&group->second)) return *text;
    }
  }
  return observation.id();
}

}  // namespace

ContentHider::ContentHider(const Contract& contract)
    : keeps_tokens_(ReadsTokens(contract)),
      compares_repeats_(Plan::FromContract(contract).repeats() != Repeats::kNone) {
  std::random_device random;
  secret_ = (uint64_t{random()} << 32) | random();
}

void ContentHider::Hide(MonitorObservation* observation) const {
  if (!observation->session.empty()) observation->session = Sha256Of(observation->session);
  if (keeps_tokens_) return;
  if (!compares_repeats_) {
    observation->tokens.token.clear();
    return;
  }
  const uint64_t salt = HashBytes(secret_, GroupOf(*observation));
  for (int32_t& token : observation->tokens.token) {
    constexpr uint64_t kPositive = 0x7FFFFFFF;
    const std::string_view bytes(reinterpret_cast<const char*>(&token), sizeof token);
    token = static_cast<int32_t>(HashBytes(salt, bytes) & kPositive);
  }
}

}  // namespace kcc
