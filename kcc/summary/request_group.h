// The tokens of one request that share a slice: what they amount to as one unit. Used at the end
// of each request, then emptied and used again.
#pragma once

#include <cstdint>
#include <vector>

#include "kcc/summary/plan.h"
#include "kcc/summary/slice_stats.h"

namespace kcc {

// A token with a gold label: each side's confidence in its most likely token.
struct LabelledToken {
  double confidence[2] = {0, 0};  // indexed by Side
  bool correct[2] = {false, false};
};

struct ValueInterval {
  double lo = 0;
  double hi = 0;
};

// What the end of a request needs of its tokens, decided once per plan.
struct GroupNeeds {
  explicit GroupNeeds(const Plan& plan);

  std::vector<int> values_index;  // by token series: place in GroupTokens::values, or -1. As long
                                  // as all arrays by token series of the plan.
  size_t values_count = 0;
  bool labels = false;  // a window or test reads calibration
};

// The tokens of a request that lie in the same cell.
struct GroupTokens {
  explicit GroupTokens(const GroupNeeds& needs);

  uint64_t tokens = 0;
  std::vector<Tally> point;  // by token series
  std::vector<Tally> low;    // ends of interval values; sized on first use
  std::vector<Tally> high;
  std::vector<uint64_t> missing;                   // by token series
  std::vector<std::vector<ValueInterval>> values;  // of the series that windows read
  std::vector<LabelledToken> labelled;
  uint64_t unlabelled = 0;

  void Clear();
  void Merge(const GroupTokens& other);
  bool has_intervals(size_t series) const { return !low.empty() && low[series].count != 0; }
};

// Turns one group of a request into request-level statistics.
class GroupRecorder {
 public:
  explicit GroupRecorder(const Plan& plan);

  const GroupNeeds& needs() const { return needs_; }

  // Adds the group to `into`. `windows` and `tests` are the plan's rows to serve. Request fields
  // count only for groups that are whole requests.
  void Record(const RequestPair& request, const GroupTokens& group, bool whole_request,
              const std::vector<size_t>& windows, const std::vector<size_t>& tests,
              SliceStats* into) const;
  // The group as a window of one request, for others to merge.
  WindowState MakeState(const RequestPair& request, const GroupTokens& group,
                        const PlanWindow& window) const;

 private:
  void RecordClusters(const GroupTokens& group, SliceStats* into) const;
  void RecordRequestSeries(const RequestPair& request, const GroupTokens& group, size_t series,
                           SeriesStats* into) const;
  void RecordWindow(const RequestPair& request, const GroupTokens& group, size_t window,
                    SliceStats* into) const;
  // The group's values of a series, counted against the thresholds of another (an estimate against
  // those of what it estimates).
  void AddValues(const GroupTokens& group, size_t series, size_t counted_as,
                 SeriesStats* into) const;
  // Their counts and sums alone.
  static void TakeTallies(const GroupTokens& group, size_t series, SeriesStats* into);
  void RecordTest(const RequestPair& request, const GroupTokens& group, size_t test,
                  SliceStats* into) const;

  const Plan& plan_;
  GroupNeeds needs_;
  std::vector<BettingPlan> bets_;       // by test
  std::vector<size_t> request_series_;  // that the plan keeps
};

// The series a mean of the quantity is taken from: its own where the tokens have it, else the
// Monte-Carlo estimate where they have that.
size_t SeriesForMean(const Plan& plan, const Metric& metric, const GroupTokens& group);

// A series' tally over the group at one end: exact values and that end of the others.
Tally GroupTally(const GroupTokens& group, size_t series, SeriesStats::End end);

// A request quantity: summed over the group's tokens, or recorded in the request's fields.
struct RequestQuantity {
  std::optional<ValueInterval> value;
  bool defined = true;  // false: the quantity does not exist for the request
};
RequestQuantity TakeRequestQuantity(const Plan& plan, const RequestPair& request,
                                    const GroupTokens& group, size_t series);

// A request quantity recorded in the request's fields; none if missing. `defined` is false where
// the quantity does not exist for the request (the pace of a single token). A request that timed
// out took for ever, whatever latency stands beside it.
struct FieldQuantity {
  std::optional<double> value;
  bool defined = true;
};
FieldQuantity RecordedQuantity(const Quantity& quantity, const RequestPair& pair, Side side);

}  // namespace kcc
