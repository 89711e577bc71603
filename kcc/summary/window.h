// Windows of soft clauses: the metric is taken in each window of a slice, and what counts is the
// share of windows beyond the threshold.
//
// A window of one request is complete at once. A window of N requests (ordinal / N) is complete
// when N requests of any slice have been seen; until then its statistics travel in the summary. A
// time window (started_at_ms) is never known to be complete and always travels. Folding a complete
// window is a function of the window alone, so neither order nor sharding can show.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kcc/summary/plan.h"
#include "kcc/summary/population.h"

namespace kcc {

// What a population quantity needs of one window.
struct PopulationWindow {
  PopulationStats population;
  Calibration calibration;
};

// One window of a slice, before the metric is taken.
struct WindowState {
  uint64_t requests = 0;
  SeriesStats series;                        // the metric's values; top1_overlap for flip_rate
  std::vector<PopulationWindow> population;  // one for a population quantity, else none

  void Merge(const WindowState& other, const PlanWindow& window);
  void Visit(Archive& archive, const Plan& plan, const PlanWindow& window);
};

// Where the window's metric lies, as sure as the evidence is.
struct Beyond {
  uint64_t above_sure = 0;  // windows surely above the threshold
  uint64_t above_possible = 0;
  uint64_t below_sure = 0;
  uint64_t below_possible = 0;

  bool operator==(const Beyond&) const = default;
};

struct WindowValue {
  bool defined = false;        // false: the window holds no value
  bool complete = false;       // false: some values of the window are missing
  Interval value;              // percentiles: edges of histogram buckets
  std::vector<Beyond> beyond;  // 0 or 1 each, per threshold of the window: decided exactly
};
WindowValue TakeMetric(const Plan& plan, const PlanWindow& window, const WindowState& state);

// Where a token metric of some values lies, by their counts and sums alone: of the values at their
// lower ends and, where some are intervals, of those at their upper ends (null: all are exact).
// Precondition: there is a value, infinities of both signs do not meet in a mean, and the plan
// counts the threshold of a percentile.
Beyond CompareTallies(const Plan& plan, const Metric& metric, const Tally& lower,
                      const Tally* upper, double threshold);

// The windows of one PlanWindow on one slice.
struct WindowTally {
  uint64_t windows = 0;        // folded, with a value
  uint64_t undefined = 0;      // folded, without one
  uint64_t incomplete = 0;     // folded, some values missing
  uint64_t unplaced = 0;       // requests without the field that places them in a window
  std::vector<Beyond> beyond;  // per threshold, over folded windows
  Histogram lows;              // the value's lower and upper end, over folded windows
  Histogram highs;
  std::map<int64_t, WindowState> open;

  bool empty() const { return windows + undefined + incomplete + unplaced == 0 && open.empty(); }
  void Fold(const WindowValue& value);
  void Merge(const WindowTally& other, const PlanWindow& window);
  void Visit(Archive& archive, const Plan& plan, const PlanWindow& window);
};

// A set of window numbers as disjoint runs, in order.
class WindowSet {
 public:
  bool Contains(int64_t index) const;
  void AddRun(int64_t first, int64_t last);  // precondition: none of it is in it
  const std::vector<std::pair<int64_t, int64_t>>& runs() const { return runs_; }
  bool operator==(const WindowSet&) const = default;
  void Visit(Archive& archive);

 private:
  std::vector<std::pair<int64_t, int64_t>> runs_;  // first, last; never adjacent
};

// How many requests each window of `size` requests, placed one way, has seen in all slices
// together.
struct WindowFill {
  int64_t size = 1;
  Placement placement = Placement::kTrain;
  std::map<int64_t, uint64_t> open;
  WindowSet complete;

  // The first and the last window that holds a request; none: no window does.
  std::optional<std::pair<int64_t, int64_t>> Ends() const;
  void Visit(Archive& archive);
};

// The window a request falls into; none if it lacks the field. Precondition: not kRequest.
std::optional<int64_t> WindowIndex(const Window& window, Placement placement,
                                   const RequestPair& request);

// An empty fill for each distinct size and placement of the plan's windows by requests, rising.
std::vector<WindowFill> WindowFills(const Plan& plan);

}  // namespace kcc
