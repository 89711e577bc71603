// Summary: exact, mergeable statistics of what two traces say about the same requests, per slice.
//
// Merge is associative and commutative, and equal evidence gives equal bytes (file.h). What a judge
// needs is read through SeriesView; nothing here decides anything.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/summary/plan.h"
#include "kcc/summary/slice_stats.h"
#include "kcc/summary/window.h"
#include "kcc/trace/trace.h"

namespace kcc {

// One side of a pair of traces, as far as verdicts and reports need it.
struct SourceSide {
  std::string identity;  // of the trace
  std::string kernel_fingerprint;
  std::string model_digest;
  EvidenceLevel evidence = EvidenceLevel::kNone;
  LogprobSemantics semantics = LogprobSemantics::kRaw;
  TracePath path = TracePath::kPrefill;
  // SHA-256 over all tensor bytes, where the measurement was asked to read them; else empty.
  std::string payload_digest;
  std::map<std::string, std::string> declares;  // what the kernel says of itself

  // clang-tidy 14 takes the comparison's own zero for a pointer.
  auto operator<=>(const SourceSide&) const = default;  // NOLINT(modernize-use-nullptr)
};

// A pair of traces that a summary rests on. `requests` and `manifest` are of the whole pair, not
// of the shard measured: what is missing shows.
struct Source {
  SourceSide train;
  SourceSide infer;
  EvidenceLevel evidence = EvidenceLevel::kNone;  // what both sides can show
  TraceMode mode = TraceMode::kScored;
  SampledBy sampled_by = SampledBy::kDataset;
  std::optional<double> temperature = 1.0;     // of the compared distributions; none: not known
  std::optional<double> sampling_temperature;  // of the tokens; none: not sampled, or not known
  // What infer alone says and train does not, though it decides what is counted: "advantage",
  // "gold", "mask", "ordinal", "prompt_tokens", "replay_group", "started_at_ms". Rising.
  std::vector<std::string> infer_alone;
  // What measured full logits, one of kDeviceBackends; empty: the CPU, whose bits are the same
  // everywhere.
  std::string backend;
  std::string request_set;  // digest of the requests and their tokens; empty: not taken
  int64_t vocab_size = 0;
  uint64_t requests = 0;
  uint64_t tokens = 0;    // pairs that count
  uint64_t manifest = 0;  // sum of the request hashes, modulo 2^64

  auto operator<=>(const Source&) const = default;  // NOLINT(modernize-use-nullptr)
};

// The devices that a summary may name. A file that names another is of a newer kcc, or forged.
inline constexpr std::array<std::string_view, 1> kDeviceBackends = {"cuda"};

struct Summary {
  // Format 1 lacks both temperatures, the digests, what kernels declare and whose word slices rest
  // on; a clause that rests on such a fact is never satisfied by it (docs/summary.md).
  static constexpr int kFormat = 2;

  explicit Summary(Plan its_plan);

  int format = kFormat;  // of the oldest file that went into it

  Plan plan;
  std::vector<SliceStats> slices;  // by index of plan.slices()
  std::vector<WindowFill> fills;   // WindowFills of the plan
  std::vector<uint64_t> requests;  // hashes of the ids of the requests measured, rising
  std::vector<Source> sources;     // rising, distinct; evidence from memory is one per kind
  // Largest |advantage| of a token that counts; negative: none was recorded.
  double advantage_abs_max = -1;
  // Percentiles (slice, series, ppm) that are known exactly because the evidence was at hand. Not
  // stored, and gone after a merge.
  std::map<std::tuple<size_t, size_t, int>, double> exact_quantiles;

  const SliceStats* FindSlice(std::string_view name) const;
  // True if every request of every source was measured, and none besides.
  bool Complete() const;
  // Requests that the sources hold and the summary lacks.
  uint64_t RequestsMissing() const;

  // Folds every window that has become complete. Fails where one has more requests than it has
  // room for: two requests of one ordinal.
  Result<> FoldWindows();
};

// What measured it: "" for the CPU alone, "cuda", and "cpu,cuda" where sources differ.
std::string BackendsOf(const Summary& summary);

// The rank of the type-1 quantile, at least 1 (docs/math.md C.1). Precondition: n > 0.
uint64_t QuantileRank(uint64_t n, int percentile_ppm);

// The union of two measurements. Fails on different plans and on requests measured twice.
Result<Summary> Merge(const Summary& a, const Summary& b);
// Adds `from` to `into`; on failure `into` is unusable.
Result<> MergeInto(const Summary& from, Summary* into);

// A number known up to an interval.
struct CountRange {
  uint64_t lo = 0;
  uint64_t hi = 0;

  bool exact() const { return lo == hi; }
  bool operator==(const CountRange&) const = default;
};

// One quantity on one slice, read at the end of the evidence intervals that is asked for.
class SeriesView {
 public:
  using End = SeriesStats::End;
  SeriesView(const Summary& summary, size_t slice, size_t series);

  uint64_t count() const { return stats_.count(); }
  uint64_t missing() const { return stats_.missing; }
  bool exact() const { return stats_.exact(); }  // no evidence intervals

  // Of the stream of one end. Precondition of all but Above and Below: count() > 0.
  double Mean(End end) const { return stream(end).tally.Mean(); }
  double Min(End end) const { return stream(end).min; }
  double Max(End end) const { return stream(end).max; }
  double Rate(End end) const;  // share of non-zero values
  // Unbiased; 0 for a single value; infinite values make it infinite.
  double Variance(End end) const;
  // The sign of mean - threshold (Tally::CompareMean).
  int CompareMean(End end, double threshold) const;
  // Values strictly above (below) the threshold: exact where the plan counts it or a bucket's edge
  // decides, else the two counts that the histogram allows.
  CountRange Above(End end, double threshold) const;
  CountRange Below(End end, double threshold) const;
  bool Counted(double threshold) const;  // the plan has it
  // The bucket that holds the type-1 quantile, narrowed by the extremes.
  Interval Quantile(End end, int percentile_ppm) const;

  const Moments& stream(End end) const {
    return exact() ? stats_.point : end == End::kLow ? low_ : high_;
  }
  const ClusterStats* clusters() const { return clusters_; }  // null for request quantities
  const std::vector<WorstValue>& worst() const { return stats_.worst.values(); }

 private:
  CountRange Beyond(const Moments& moments, double threshold, bool above) const;

  const Plan& plan_;
  const SeriesStats& stats_;
  const ClusterStats* clusters_;
  size_t series_;
  Moments low_;  // the two streams merged, where there are intervals
  Moments high_;
};

// Whether the summary is of several pairs of traces and the metric is not theirs together: of a
// span of time (throughput), since they may have run at one time or far apart, or a ratio of two
// sides' largest values, which may come from different pairs.
bool JoinsPairs(const Summary& summary, const Metric& metric);

// A population metric of a slice.
PopulationValue SlicePopulation(const Summary& summary, size_t slice, const Metric& metric,
                                const std::vector<std::string>& fields = {});

// The windows of a soft clause on a slice. Open windows are counted apart: for an evaluation set
// they are all the evidence there will be, for traffic they are still filling.
struct WindowCounts {
  uint64_t windows = 0;
  uint64_t undefined = 0;
  uint64_t incomplete = 0;
  uint64_t unplaced = 0;
  Beyond beyond;  // of the threshold asked for
};
struct WindowOutcome {
  WindowCounts folded;
  WindowCounts open;
  // Windows by requests: of the open ones, those between the first and the last window there is.
  // They will not fill by what came before or is still to come: requests are missing from them.
  uint64_t gaps = 0;
};
// The two ends of the metric over all windows, folded and open.
struct WindowValues {
  Histogram lows;
  Histogram highs;
};
// Nothing if the plan lacks the window, the slice or the threshold.
std::optional<WindowOutcome> SliceWindows(const Summary& summary, size_t slice,
                                          const Metric& metric, const Window& window,
                                          double threshold,
                                          const std::vector<std::string>& fields = {});
std::optional<WindowValues> SliceWindowValues(const Summary& summary, size_t slice,
                                              const Metric& metric, const Window& window,
                                              const std::vector<std::string>& fields = {});

}  // namespace kcc
