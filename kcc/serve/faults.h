// Faults on a running server: rules that an operator sets on the admin port, and what they make of
// each request. Decided by the rule's own count of requests and its seed, so that the same requests
// in the same order meet the same faults. Thread-safe.
//
//   {"name": "fp8-for-math", "where": "'math' in tags and prompt_tokens > 8",
//    "switches": "kv=e4m3&accumulate=m13",           another engine (docs/lab.md)
//    "drift": {"parameter": "noise", "from": 0, "to": 0.1, "requests": 500},
//    "latency_ms": 200, "stall": {"after_chunks": 3, "ms": 1000},
//    "status": {"code": 503, "rate": 0.1}, "cut": {"after_chunks": 2},
//    "fingerprint": "another build", "burst": {"on": 5, "every": 100}, "seed": 7}
//
// A rule applies to the requests that its `where` selects (all without one), and of these, with a
// burst, to the first `on` of every `every`. Where several apply, later ones win part by part.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/format/json.h"
#include "kcc/predicate/predicate.h"
#include "kcc/serve/api_error.h"
#include "kcc/serve/fault_plan.h"
#include "kcc/serve/generation_request.h"

namespace kcc {

inline constexpr size_t kFaultsMax = 32;

struct FaultRule {
  enum class Drift : uint8_t { kNone, kNoise, kTemperature };

  std::string name;
  std::string text;  // the rule's JSON, as it was set
  std::optional<Predicate> where;
  std::optional<size_t> engine;
  Drift drift = Drift::kNone;
  double drift_from = 0;
  double drift_to = 0;
  uint64_t drift_requests = 1;
  int latency_ms = 0;
  std::optional<size_t> stall_after;
  int stall_ms = 0;
  int status = 0;  // 0: none
  double status_rate = 1;
  std::optional<size_t> cut_after;
  std::optional<std::string> fingerprint;
  uint64_t burst_on = 0;  // 0: always
  uint64_t burst_every = 1;
  uint64_t seed = 0;

  // What it does to the request with this number among those that `where` selects; from 0. False:
  // nothing.
  bool Apply(uint64_t ordinal, FaultPlan* plan) const;
};

// Finds the engine for the switches of a rule: "kv=e4m3&batch=dynamic".
using EngineFinder = std::function<Result<size_t>(std::string_view switches)>;

std::optional<ApiError> ReadFaultRule(json::object body, const EngineFinder& engine,
                                      FaultRule* rule);

class Faults {
 public:
  // A rule of the same name is replaced, and counts from 0 again. False: there are too many.
  bool Set(FaultRule rule);
  // All, or the one of this name; false: there is none.
  bool Clear(std::optional<std::string_view> name);
  // {"faults": [{…rule…, "matched": n, "applied": n}]}.
  std::string Json() const;

  // Counts the request and plans for it; `applied` gets the names of the rules that did something.
  FaultPlan Plan(const GenerationRequest& request, std::vector<std::string>* applied);

 private:
  struct Active {
    FaultRule rule;
    uint64_t matched = 0;
    uint64_t applied = 0;
  };
  mutable std::mutex mutex_;
  std::vector<Active> rules_;
};

}  // namespace kcc
