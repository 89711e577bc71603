// The words of the language's fixed choices, in the order of their enumerations (contract.h).
#pragma once

#include <array>
#include <string_view>

namespace kcc {

// Of a document (document_kind.h).
inline constexpr std::array<std::string_view, 4> kKindWords = {"KernelContract", "PromotionPolicy",
                                                               "MonitorPolicy", "Gateway"};

inline constexpr std::array<std::string_view, 4> kFamilyWords = {"numerical", "statistical",
                                                                 "runtime", "observability"};
inline constexpr std::array<std::string_view, 3> kLevelWords = {"L1", "L2", "L3"};
inline constexpr std::array<std::string_view, 5> kActionWords = {"log", "guard", "freeze",
                                                                 "fallback", "rollback"};
inline constexpr std::array<std::string_view, 4> kStageWords = {"offline", "shadow", "canary",
                                                                "full"};

// Where a difference between two kernels comes from (the paper's eq. 12).
inline constexpr std::array<std::string_view, 4> kErrorSourceWords = {"operator", "precision",
                                                                      "batch", "route"};

// Of a metric of one's own: token and request are the first two of QuantityLevel.
inline constexpr std::array<std::string_view, 2> kOwnLevelWords = {"token", "request"};
inline constexpr std::array<std::string_view, 3> kDirectionWords = {"lower", "higher", "signed"};
// Without the empty one, which stands for a pure number.
inline constexpr std::array<std::string_view, 7> kUnitWords = {"ms",  "token", "token/s", "MB",
                                                               "nat", "logit", "ulp"};

// Of a promotion policy (policy.h).
inline constexpr std::array<std::string_view, 3> kDeadlineWords = {"freeze", "reject", "rollback"};
inline constexpr std::array<std::string_view, 3> kEnforceWords = {"off", "shadow", "on"};
inline constexpr std::array<std::string_view, 3> kStoreWords = {"none", "hashes", "full"};
inline constexpr std::array<std::string_view, 2> kSpendingWords = {"even", "obrien-fleming"};
inline constexpr std::array<std::string_view, 8> kHookPointWords = {
    "confirm-rollout",   "pre-rollout",  "rollout",  "confirm-traffic-increase",
    "confirm-promotion", "post-rollout", "rollback", "event"};

// Of a monitor policy (monitor_policy.h).
inline constexpr std::array<std::string_view, 5> kKernelRoleWords = {"infer", "guard", "fallback",
                                                                     "candidate", "audit"};
inline constexpr std::array<std::string_view, 2> kDetectorWords = {"e-sr", "e-cusum"};
inline constexpr std::array<std::string_view, 1> kReleaseWords = {"pass"};
inline constexpr std::array<std::string_view, 3> kPanicWords = {"serve-safest", "fail-closed",
                                                                "fail-open"};

// Of a gateway (gateway_config.h). The servers are those of kcc/kernel, which lies above.
inline constexpr std::array<std::string_view, 4> kServerWords = {"vllm", "sglang", "llamacpp",
                                                                 "trtllm"};
// Fields of the catalog that hooks give; no client may say them (predicate/fields.h).
inline constexpr std::array<std::string_view, 3> kGradedFieldWords = {"parsed", "refused",
                                                                      "reward"};
inline constexpr std::array<std::string_view, 4> kGradeWords = {"json", "phrases", "exec", "http"};

}  // namespace kcc
