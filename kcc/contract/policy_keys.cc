// The key tables of a promotion policy (keys.h). The stages have tables of their own, so that an
// editor offers in each what it can use: there is no traffic to share offline.
#include <algorithm>
#include <array>

#include "kcc/base/constants.h"
#include "kcc/contract/key_rows.h"

namespace kcc {
namespace {

using enum ValueType;

// clang-format off
constexpr KeyRow kPolicy[] = {
    {"apiVersion", kWord, kRequired, "", "version of the contract language", kApiVersions},
    {"kind", kWord, kRequired, "", "what the document is", KindWordAt(1)},
    {"metadata", kMapping, kRequired, "", "name and version of the policy",
     {}, -kInf, kInf, kClosed, kClosed, "policyMetadata"},
    {"spec", kMapping, kRequired, "", "the policy itself: what every stage asks",
     {}, -kInf, kInf, kClosed, kClosed, "policySpec"},
};

constexpr KeyRow kPolicySpec[] = {
    {"confidence", kRatio, kOptional, "0.95", "how sure the rate is that `clean` requests exclude; what is left of 1 is the most that all looks of a stage may spend",
     {}, 0.5, 1, kClosed, kOpen},
    {"coolDown", kDuration, kOptional, "1h", "how long a candidate that was rolled back waits before it may try again; the second time twice as long, and so on"},
    {"offline", kMapping, kRequired, "", "on a fixed evaluation set, before any traffic",
     {}, -kInf, kInf, kClosed, kClosed, "offlineStage"},
    {"shadow", kMapping, kOptional, "", "on mirrored traffic whose answers nobody sees; left out: skipped",
     {}, -kInf, kInf, kClosed, kClosed, "shadowStage"},
    {"canary", kMapping, kOptional, "", "on a small share of live traffic, in steps; left out: skipped",
     {}, -kInf, kInf, kClosed, kClosed, "canaryStage"},
    {"full", kMapping, kRequired, "", "on all traffic, until the candidate is the new incumbent",
     {}, -kInf, kInf, kClosed, kClosed, "fullStage"},
    {"enforce", kMappingList, kOptional, "", "clauses that are watched before they have power",
     {}, -kInf, kInf, kClosed, kClosed, "enforceRule"},
    {"hooks", kMappingList, kOptional, "", "programs and addresses that are asked or told",
     {}, -kInf, kInf, kClosed, kClosed, "hook"},
    {"requests", kMapping, kOptional, "", "which requests are kept, to be run again; left out: none",
     {}, -kInf, kInf, kClosed, kClosed, "requestStorage"},
};

constexpr KeyRow kRequestStorage[] = {
    {"store", kWord, kRequired, "", "none; hashes: digests of token ids, and replay signatures; full: the token ids too", kStoreWords},
    {"flagged", kBoolean, kOptional, "true", "keep requests with a value beyond the threshold of a clause"},
    {"sample", kRatio, kOptional, "0", "keep this share of all requests, chosen by a hash of their ids", {}, 0, 1},
    {"retention", kDuration, kOptional, "", "how long they are kept; after that kcc register gc removes them. Without it, until somebody does"},
    {"text", kBoolean, kOptional, "false", "with full: keep texts among the fields of a request too; else only numbers, flags and tags"},
};

constexpr KeyRow kLevels = {"levels", kWordList, kOptional, "[L2, L3]", "clauses of these levels must be satisfied before the stage is left", kLevelWords};
constexpr KeyRow kClauses = {"clauses", kIdentifierList, kOptional, "", "in place of levels: these clauses, and no others, must be satisfied"};
constexpr KeyRow kMinRequests = {"minRequests", kInteger, kOptional, "0", "least requests of the stage's own evidence", {}, 0, 1e15};
constexpr KeyRow kStability = {"stabilityWindow", kDuration, kOptional, "0s", "how long the evidence must stay satisfied, from its first satisfied look to its last"};
constexpr KeyRow kClean = {"clean", kInteger, kOptional, "", "audited requests without one exceedance after which a hard clause that no sample can certify counts as held; without it, never", {}, 1, 1e12};
constexpr KeyRow kDeadline = {"deadline", kDuration, kOptional, "", "longest stay in the stage (in the canary: in a step); without it, no limit"};
constexpr KeyRow kApprovals = {"approvals", kMapping, kOptional, "", "people who must agree before the stage is left", {}, -kInf, kInf, kClosed, kClosed, "approvals"};
constexpr KeyRow kLooks = {"looks", kMappingList, kOptional, "", "sizes at which the evidence is looked at, by tests for one look; looking at other moments does not count. Without it: at any time, by tests that hold however often one looks", {}, -kInf, kInf, kClosed, kClosed, "look"};

constexpr KeyRow kSpending = {"spending", kWord, kOptional, "", "how the looks spend what the confidence leaves, in place of an alpha for each: even, or obrien-fleming, little at first and most at the last", kSpendingWords};

constexpr std::array<std::string_view, 2> kBeforeTraffic = {"freeze", "reject"};
constexpr std::array<std::string_view, 3> kInTraffic = kDeadlineWords;
constexpr KeyRow kEndBefore = {"onDeadline", kWord, kOptional, "freeze", "what a passed deadline does: freeze waits for a person, reject ends the promotion", kBeforeTraffic};
constexpr KeyRow kEndLive = {"onDeadline", kWord, kOptional, "freeze", "what a passed deadline does: freeze waits for a person, rollback (or reject, which is the same here) gives all traffic back to the incumbent", kInTraffic};

constexpr KeyRow kOfflineStage[] = {
    kLevels, kClauses, kMinRequests, kClean, kDeadline, kEndBefore, kApprovals,
};

constexpr KeyRow kShadowStage[] = {
    {"mirror", kRatio, kOptional, "1", "share of live requests that the candidate is shown", {}, 0, 1, kOpen},
    kLevels, kClauses, kMinRequests, kStability, kClean, kDeadline, kEndBefore, kApprovals, kLooks, kSpending,
};

constexpr KeyRow kCanaryStage[] = {
    {"steps", kMappingList, kRequired, "", "shares of live traffic, each larger than the one before",
     {}, -kInf, kInf, kClosed, kClosed, "canaryStep"},
    kLevels, kClauses, kMinRequests, kStability, kClean, kDeadline, kEndLive, kApprovals, kLooks, kSpending,
};

constexpr KeyRow kCanaryStep[] = {
    {"traffic", kRatio, kRequired, "", "share of live requests that the candidate answers", {}, 0, 1, kOpen, kOpen},
    {"minRequests", kInteger, kOptional, "", "in place of the stage's", {}, 0, 1e15},
    {"stabilityWindow", kDuration, kOptional, "", "in place of the stage's"},
};

constexpr KeyRow kFullStage[] = {
    kLevels, kClauses, kMinRequests, kStability, kClean, kDeadline, kEndLive, kApprovals, kLooks, kSpending,
};

constexpr KeyRow kApprovalRule[] = {
    {"count", kInteger, kRequired, "", "how many different people, not counting who proposed it", {}, 1, 100},
    {"roles", kIdentifierList, kOptional, "", "roles that count; without it, any"},
    {"signed", kBoolean, kOptional, "false", "an approval counts only if it is signed, each by a key of its own"},
    {"keyring", kText, kOptional, "", "sha256:… of the keyring file whose keys count; without it, the keyring that is given"},
};

constexpr KeyRow kLook[] = {
    {"requests", kInteger, kRequired, "", "requests of evidence at this look, exactly", {}, 1, 1e15},
    {"alpha", kRatio, kOptional, "", "error that this look may spend; required without spending", {}, 0, 0.5, kOpen},
};

constexpr KeyRow kEnforceRule[] = {
    {"clause", kIdentifier, kRequired, "", "id of the clause in the contract"},
    {"mode", kWord, kRequired, "", "off: not looked at; shadow: judged and shown, without consequence; on: as any other", kEnforceWords},
};

constexpr KeyRow kHook[] = {
    {"point", kWord, kRequired, "", "when it is called", kHookPointWords},
    {"name", kIdentifier, kRequired, "", "name of the hook, unique in the policy"},
    {"exec", kText, kOptional, "", "a command; it answers yes by exit code 0. A hook has exec or http"},
    {"http", kText, kOptional, "", "an address; it answers yes by a status of 200 to 299"},
    {"timeout", kDuration, kOptional, "30s", "after this time the answer is an error, which is not yes"},
};

constexpr MappingTable kPolicyTables[] = {
    {"policy", "a promotion policy", kPolicy},
    {"policyMetadata", "what identifies the policy", kPolicyMetadataRows},
    {"policySpec", "the policy: four stages, hooks, and how long to wait after a rollback", kPolicySpec},
    {"offlineStage", "what a candidate must show before any traffic", kOfflineStage},
    {"shadowStage", "what mirrored traffic must show", kShadowStage},
    {"canaryStage", "what every step of live traffic must show", kCanaryStage},
    {"canaryStep", "one step of the canary", kCanaryStep},
    {"fullStage", "what all traffic must show before the old incumbent is let go", kFullStage},
    {"approvals", "people who must agree", kApprovalRule},
    {"look", "one planned look at growing evidence", kLook},
    {"enforceRule", "how much one clause may decide", kEnforceRule},
    {"hook", "a program or an address that is asked or told", kHook},
    {"requestStorage", "which requests are kept, to be run again", kRequestStorage},
};
// clang-format on

static_assert(std::all_of(std::begin(kPolicyTables), std::end(kPolicyTables),
                          [](const MappingTable& table) {
                            return table.keys.size() <= kMappingKeysMax;
                          }));

}  // namespace

std::span<const MappingTable> PolicyTables() { return kPolicyTables; }

}  // namespace kcc
