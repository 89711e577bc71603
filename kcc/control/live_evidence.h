// What a gateway measures of a promotion's candidate, as evidence of the stage that is under way
// (docs/promotion.md "Live evidence").
//
// Collected from what the monitor has folded and logged, and from nothing else: of the candidate,
// audited and counted, of requests that began after the stage did. What was sampled of it and could
// not be read, scored or delivered is counted, and makes every clause inconclusive that is not
// violated: a summary with requests missing certifies nothing (judge/facts.h).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "kcc/contract/contract.h"
#include "kcc/contract/policy.h"
#include "kcc/control/live_monitor.h"
#include "kcc/monitor/observation_meter.h"
#include "kcc/promotion/promotion.h"

namespace kcc {

struct LiveStage {
  std::string promotion;
  int64_t entered = 0;     // event of the register with which it was
  int64_t entered_ms = 0;  // and its time
  Stage stage = Stage::kShadow;
  std::string kernel;  // of the pool
  Deployment candidate;
  RequestStorage storage;

  bool Same(const LiveStage& other) const {
    return promotion == other.promotion && entered == other.entered && kernel == other.kernel;
  }
};

struct CollectedEvidence {
  LiveStage stage;
  Summary summary;  // with its source
  uint64_t lost = 0;
  int64_t from_ms = 0, to_ms = 0;  // when its first and last request began
  int64_t observations = 0;        // of the decision log, at the last of them
};

class LiveEvidence {
 public:
  // `name`: of this process, that no other has.
  LiveEvidence(const Contract& contract, std::string name)
      : contract_(contract), name_(std::move(name)) {}

  // From now on of this stage; `lost`: that is missing of it already. Goes on where it is the same.
  Result<> Begin(const LiveStage& stage, const Plan& plan, uint64_t lost);
  bool Collects(const LiveStage& stage) const;
  // Forgets what was collected: another gateway decides.
  void Discard();
  // What the monitor has folded; the evaluator's thread.
  void Take(const Evidence& evidence, const EvidenceOrigin& origin,
            const MonitorDecision& decision);

  // All that there is, where it is enough more than the last time; `all`: where it is more at all.
  std::optional<CollectedEvidence> Collect(int64_t now_ms, bool all);

 private:
  Source SourceOf(const Summary& summary) const;

  const Contract contract_;
  const std::string name_;
  mutable std::mutex mutex_;
  std::optional<LiveStage> stage_;
  std::optional<ObservationMeter> meter_;
  uint64_t lost_ = 0;
  int64_t from_ms_ = 0, to_ms_ = 0, observations_ = 0;
  uint64_t given_ = 0;  // requests, lost ones too, when it was last collected
  int64_t given_ms_ = 0;
};

}  // namespace kcc
