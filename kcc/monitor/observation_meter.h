// From observations to a summary, as a trace with the same requests would give: what live evidence
// is recorded as, so that a promotion can judge it (docs/promotion.md "Live evidence").
//
// Of tokens the quantities are those that the observation holds; nothing is estimated. A request
// that shows values in place of tokens, or whose records contradict each other, cannot be part of a
// summary. Repeats of a request are left out: a summary cannot keep them from other clauses.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/drift/token_drift.h"
#include "kcc/monitor/observation.h"
#include "kcc/summary/plan.h"
#include "kcc/summary/summary.h"

namespace kcc {

class ObservationMeter {
 public:
  // `trusted`: fields that are believed though infer alone has them (Contract::trust).
  static Result<ObservationMeter> Make(Plan plan, std::vector<std::string> trusted);
  ObservationMeter(ObservationMeter&&) noexcept;
  ObservationMeter& operator=(ObservationMeter&&) noexcept;
  ~ObservationMeter();

  // False: it cannot be part of a summary, and nothing has changed. Precondition: no other with its
  // id was added.
  bool Add(const MonitorObservation& observation, std::string_view fingerprint);
  uint64_t requests() const;
  uint64_t tokens() const;  // that count
  // What was added so far, without sources.
  Result<Summary> Sum();

 private:
  struct State;
  explicit ObservationMeter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kcc
