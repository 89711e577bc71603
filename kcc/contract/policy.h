// The promotion policy: the typed form of a document of kind PromotionPolicy (docs/promotion.md).
// It says what each stage asks of a candidate before the next one may begin, and what happens where
// the evidence does not come.
//
// A PromotionPolicy is only made by ReadPolicy (contract/policy_reader.h), so it is always valid:
// steps rise, looks spend no more than they may, outcomes fit their stage. Whether its clauses
// exist depends on the contract it is used with (kcc/promotion).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/contract/contract.h"

namespace kcc {

// What happens to a promotion that is still in a stage when the stage's deadline passes.
enum class DeadlineOutcome : uint8_t { kFreeze, kReject, kRollback };

// How much a clause may decide. kShadow: judged and shown, and without any consequence.
enum class Enforce : uint8_t { kOff, kShadow, kOn };

// Where a hook is called; the names are Flagger's.
enum class HookPoint : uint8_t {
  kConfirmRollout,          // before the promotion begins
  kPreRollout,              // before the first live traffic
  kRollout,                 // at every step of the canary
  kConfirmTrafficIncrease,  // before a step of the canary is left for a larger one
  kConfirmPromotion,        // before all traffic goes to the candidate
  kPostRollout,             // after the end, whatever it was; its answer decides nothing
  kRollback,                // asked again and again while live; an answer of yes rolls back
  kEvent,                   // told of every change; its answer decides nothing
};

// A size at which growing evidence is looked at, and the error that this look may spend.
struct Look {
  int64_t requests = 0;
  double alpha = 0;

  bool operator==(const Look&) const = default;
};

// How a stage spends its error over its looks. kEven: the same at each. kObrienFleming: by the
// spending function of Lan and DeMets (1983) that is close to O'Brien and Fleming's bounds: little
// at first, most at the last.
enum class Spending : uint8_t { kEven, kObrienFleming };

// The alphas of looks at these sizes, rising, which together spend `total`. A later look may spend
// what is left, so the sum never exceeds it.
std::vector<double> SpentAlphas(Spending spending, const std::vector<int64_t>& requests,
                                double total);

struct ApprovalRule {
  int64_t count = 0;               // different people, none of them the proposer
  std::vector<std::string> roles;  // sorted, distinct; empty: any role
  bool must_sign = false;          // each by a key of its own
  std::string keyring;             // digest of the keyring whose keys count; empty: any

  bool operator==(const ApprovalRule&) const = default;
};

struct CanaryStep {
  double traffic = 0;  // share of live requests that the candidate answers
  int64_t min_requests = 0;
  int64_t stability_ms = 0;
  Mark mark;
};

// Not a braced list of the member: g++ 12 warns falsely of its temporary.
inline std::vector<ViolationLevel> DefaultLevels() {
  std::vector<ViolationLevel> levels(2, ViolationLevel::kL2);
  levels[1] = ViolationLevel::kL3;
  return levels;
}

// What one stage asks. Members that a stage has no key for stay at their defaults.
struct StagePolicy {
  bool in_force = false;
  std::vector<ViolationLevel> levels = DefaultLevels();  // sorted
  std::vector<std::string> clauses;  // sorted; not empty: these count, whatever their level
  int64_t min_requests = 0;
  int64_t stability_ms = 0;
  std::optional<int64_t> clean;  // none: hard clauses that samples cannot certify are never held
  std::optional<int64_t> deadline_ms;
  DeadlineOutcome on_deadline = DeadlineOutcome::kFreeze;
  ApprovalRule approvals;
  std::vector<Look> looks;           // empty: tests that hold however often one looks
  std::optional<Spending> spending;  // by which the alphas of the looks were made; none: as written
  double mirror = 1;                 // shadow: share of live requests that are mirrored
  std::vector<CanaryStep> steps;
};

struct EnforceRule {
  std::string clause;
  Enforce mode = Enforce::kOn;
  Mark mark;
};

struct PolicyHook {
  HookPoint point = HookPoint::kEvent;
  std::string name;  // unique in the policy
  std::string exec;  // one of the two is set
  std::string http;
  int64_t timeout_ms = 30'000;
  Mark mark;
};

// What is kept of requests, to be run again (docs/replay.md). kHashes: digests of token ids and
// signatures alone.
enum class StoreRequests : uint8_t { kNone, kHashes, kFull };

// Which requests of a judged run are kept, how much of each, and for how long.
struct RequestStorage {
  StoreRequests store = StoreRequests::kNone;
  bool flagged = true;                  // those beyond a threshold
  double sample = 0;                    // and this share of all, by a hash of their ids
  std::optional<int64_t> retention_ms;  // none: until somebody removes them
  bool text = false;                    // with kFull: texts among the fields, too

  bool operator==(const RequestStorage&) const = default;
};
// In words: "the token ids of flagged requests and 1% of all, for 720h; no text".
std::string StorageWords(const RequestStorage& storage);

struct PromotionPolicy {
  std::string name;
  std::string version;
  std::string owner;
  std::string description;
  std::map<std::string, std::string> labels;
  double confidence = 0.95;  // of the rates that clean requests exclude, and of all looks together
  int64_t cool_down_ms = 3'600'000;
  std::array<StagePolicy, 4> stages;  // by Stage
  std::vector<EnforceRule> enforce;   // distinct clauses
  std::vector<PolicyHook> hooks;
  RequestStorage requests;

  const StagePolicy& stage(Stage which) const { return stages[static_cast<size_t>(which)]; }
  StagePolicy& stage(Stage which) { return stages[static_cast<size_t>(which)]; }
  Enforce EnforceOf(std::string_view clause) const;
  // The next stage in force; none after full.
  std::optional<Stage> StageAfter(Stage stage) const;
};

inline constexpr std::array kStages = {Stage::kOffline, Stage::kShadow, Stage::kCanary,
                                       Stage::kFull};

// Whether the clause decides in this stage: by its id or its level, and by `enforce`.
bool CountsIn(const PromotionPolicy& policy, Stage stage, std::string_view clause,
              ViolationLevel level);

// The words of the language.
std::string_view Name(DeadlineOutcome outcome);
std::string_view Name(Enforce mode);
std::string_view Name(HookPoint point);
std::string_view Name(StoreRequests store);
std::optional<StoreRequests> ParseStoreRequests(std::string_view word);
std::string_view Name(Spending spending);
std::string DurationText(int64_t ms);  // "90s", "24h"; "0s" for none

// Canonical form, identity and the text for people, as of a contract (contract/canonical.h).
std::string CanonicalJson(const PromotionPolicy& policy);
std::string PolicyDigest(const PromotionPolicy& policy);
std::string ToYaml(const PromotionPolicy& policy);

}  // namespace kcc
