// The plan: what a measurement keeps exact counters for. Made from a contract, or by default the
// slice `all` and the histograms alone. It is stored in the summary; only summaries of one plan
// merge, and a contract can be judged exactly from any summary whose plan covers its own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/drift/token_drift.h"
#include "kcc/metric/metric.h"
#include "kcc/stats/betting.h"
#include "kcc/summary/moments.h"

namespace kcc {

struct PlanSlice {
  std::string name;
  std::string where;         // canonical predicate; empty: everything
  bool reads_token = false;  // derived from `where`
  // Whose outcomes `where` reads. A slice that reads any stands twice, the second time by train's
  // and under the name of OutcomeTwin: a clause must hold on both.
  Side outcomes = Side::kInfer;

  bool operator==(const PlanSlice&) const = default;
};

// The name of the slice as train's outcomes select it; no contract can name it.
std::string OutcomeTwin(std::string_view slice);

// Which side's ordinal or start places a request in a window.
enum class Placement : uint8_t {
  kInfer,           // what infer's own run took: its time, its throughput, its memory
  kTrain,           // everything else; infer's word would let it choose what counts together
  kTrainElseInfer,  // the same where the contract believes infer's word alone
};

// A metric taken in each window of some slices, with the thresholds it is compared to.
struct PlanWindow {
  Metric metric;
  Window window;
  std::vector<std::string> fields;  // trace_field_coverage only, sorted
  std::vector<double> thresholds;   // sorted, distinct
  std::vector<std::string> slices;  // sorted
  bool trusts_infer = false;        // the contract believes infer's ordinal or start alone
  // Of a summary of before: infer's word placed requests, though the metric is not of kInfer's
  // kind.
  bool by_infer = false;

  bool operator==(const PlanWindow&) const = default;
};

Placement PlacementOf(const PlanWindow& window);
// Whether an earlier kcc placed requests by infer's word where PlacementOf does not.
bool WasPlacedByInfer(const PlanWindow& window);

// A clause about traffic that is tested by bets over requests (bets.h). Gap quantities need two,
// one for each sign of the gap.
struct PlanTest {
  Metric metric;
  BoundKind bound = BoundKind::kAtMost;
  double threshold = 0;
  bool negative = false;  // gap quantities: of train - infer
  double tokens_max = 1;  // 1 where the request itself is the value
  double range_min = 0;   // the values' declared range
  double range_max = 1;
  // Values above range_max count as range_max: the mean can be shown to exceed the threshold, and
  // never to stay below it (docs/math.md B.4).
  bool truncated = false;
  // A reward is 0 or range_max, so that counts decide: exact tests need no bets.
  bool two_valued = false;
  BetGrid grid = BetGrid::kFine;    // of the sums that are kept
  std::vector<std::string> slices;  // sorted

  bool operator==(const PlanTest&) const = default;
};

// The mean that the clause is about, scaled to [0, 1] and turned so that larger is worse; the
// clause says it is at most this.
double TestMean(const PlanTest& test);

// The tests over requests that a hard clause needs about traffic: none where counts of requests
// suffice or where nothing can be tested, two for a gap, one per cap for the mean of a quantity
// without an upper end.
std::vector<PlanTest> TestsOf(const Clause& clause, const Assumptions& assumptions);

// A metric of the user's own, of one side, that a plan keeps.
struct OwnSeries {
  const Quantity* quantity = nullptr;
  Side side = Side::kInfer;
  std::string name;  // "queue_ms", "train_queue_ms"
};

// Whether the log-probs of repeated requests are kept (replay_gap.h), and what repeats what.
enum class Repeats : uint8_t {
  kNone,
  kByGroup,    // requests of one replay_group
  kByReplica,  // and of one replica, which the contract believes infer about
};

class Plan {
 public:
  static Plan Default();
  // kClauses: of the token quantities only those that a clause names. For who measures every step
  // of a training run and wants the verdicts alone.
  enum class Breadth : uint8_t { kAll, kClauses };
  static Plan FromContract(const Contract& contract, Breadth breadth = Breadth::kAll);
  // What `contract` needs, and what each of `also` needs as far as it does not contradict it: where
  // two define a metric of one name differently, place windows by different sides or tell repeats
  // apart differently, the first counts, and the judge says so of the others. A slice of one name
  // and another predicate gets a name that no contract can have. Verdicts on `contract` are those
  // of its own plan.
  static Plan FromContracts(const Contract& contract, std::span<const Contract> also);
  // Reads CanonicalJson() back.
  static Result<Plan> Parse(std::string_view json);

  const std::vector<PlanSlice>& slices() const { return slices_; }  // by name
  const std::vector<PlanWindow>& windows() const { return windows_; }
  const std::vector<PlanTest>& tests() const { return tests_; }
  const std::vector<std::vector<std::string>>& field_sets() const { return field_sets_; }

  Repeats repeats() const { return repeats_; }
  // Whether it is kept which records keep to the published schema.
  bool events() const { return events_; }

  // Series are numbered by plan: first the built-in ones (series.h), then those of metrics of the
  // user's own that a clause asks for, of tokens before of requests, by name.
  size_t series_count() const { return thresholds_.size(); }
  std::span<const OwnSeries> own_series() const { return own_; }
  std::span<const OwnSeries> own_token_series() const { return std::span(own_).first(own_tokens_); }
  // Of an own series: its number, by its place in own_series().
  static size_t OwnSeriesNumber(size_t place);
  // How long an array by token series is. With own token series it has places for the request
  // series in between, which stay empty.
  size_t token_series_end() const;
  bool IsToken(size_t series) const;
  const Quantity& quantity(size_t series) const;
  Side side(size_t series) const;
  const std::string& name(size_t series) const;
  // None where the plan does not keep it: a metric of one's own that no clause of the plan names,
  // or one of that name with another definition.
  std::optional<size_t> FindSeries(const Quantity& quantity, Side side) const;
  std::optional<size_t> FindSeries(std::string_view name) const;
  // Precondition: a built-in token or request quantity, or one that the plan keeps.
  size_t SeriesOf(const Quantity& quantity, Side side) const;
  // The metrics of the user's own that it keeps, by name.
  std::vector<const Quantity*> own_rows() const;

  // Sorted and distinct, of one series.
  Thresholds thresholds(size_t series) const { return thresholds_[series]; }
  // The token slots to compute: all that are always computed (not with Breadth::kClauses), and
  // those asked for.
  const SlotSet& slots() const { return slots_; }

  // Whether a summary of the plan has the series: what is computed on demand only where it was
  // asked for, so that a new quantity changes no summary that does without it.
  bool Keeps(size_t series) const;

  // The slice by what it means: one of the same name and another predicate is another slice. Of two
  // that mean the same, the one of the same name. `outcomes`: as whose outcomes select it.
  std::optional<size_t> FindSlice(const Slice& slice, Side outcomes) const;
  // -1 where the plan lacks it.
  int FindSlice(std::string_view name) const;
  int FindThreshold(size_t series, double threshold) const;
  int FindWindow(const Metric& metric, const Window& window,
                 const std::vector<std::string>& sorted_fields = {}) const;
  int FindTest(const PlanTest& test) const;  // slices and grid are not compared
  int FindFieldSet(const std::vector<std::string>& sorted_fields) const;

  // Sorted keys, shortest numbers: the same plan has the same bytes.
  std::string CanonicalJson() const;
  std::string Digest() const;  // SHA-256 of CanonicalJson()

  // Success if everything `other` counts is counted here too; else names the first thing that is
  // not.
  Result<> Covers(const Plan& other) const;

  bool operator==(const Plan& other) const { return CanonicalJson() == other.CanonicalJson(); }

 private:
  explicit Plan(Breadth breadth = Breadth::kAll);
  void AddSlice(PlanSlice slice);
  void AddSlicesOf(const Contract& contract);
  // What its clauses ask for, once each.
  static std::vector<OwnSeries> OwnSeriesOf(const Contract& contract);
  void AddThreshold(size_t series, double threshold);
  void AddClause(const Clause& clause, const Contract& contract);
  void AddWindow(const Clause& clause, bool trusts_infer);
  void AddTwins(std::vector<std::string>* slices) const;
  void AddTest(PlanTest test);
  void AddSourceSlots(const Quantity& quantity, Side side);
  void AddFieldSet(std::vector<std::string> fields);
  void SetOwn(std::vector<OwnSeries> own);
  void Canonicalise();

  std::vector<PlanSlice> slices_;
  std::vector<std::vector<double>> thresholds_;  // by series
  std::vector<PlanWindow> windows_;
  std::vector<PlanTest> tests_;
  std::vector<std::vector<std::string>> field_sets_;
  SlotSet slots_;
  std::vector<size_t> requests_on_demand_;  // built-in series that were asked for, sorted
  std::vector<OwnSeries> own_;
  size_t own_tokens_ = 0;  // the first so many are of tokens
  Breadth breadth_ = Breadth::kAll;
  Repeats repeats_ = Repeats::kNone;
  bool events_ = false;

  friend class PlanReader;
};

}  // namespace kcc
