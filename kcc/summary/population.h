// What a population quantity needs of the requests: integer counts and exact sums, by side, with
// what was not recorded counted as missing.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/metric/metric.h"
#include "kcc/numeric/exact_sum.h"
#include "kcc/summary/archive.h"
#include "kcc/summary/calibration.h"
#include "kcc/summary/moments.h"
#include "kcc/summary/replay_gap.h"
#include "kcc/trace/outputs.h"
#include "kcc/trace/trace.h"

namespace kcc {

struct FlagCounts {
  uint64_t yes = 0;
  uint64_t no = 0;
  uint64_t missing = 0;

  uint64_t known() const { return yes + no; }
  void Add(std::optional<bool> flag);
  bool operator==(const FlagCounts&) const = default;
};

// The same flag on both sides of a request.
struct PairedFlagCounts {
  uint64_t both = 0;
  uint64_t infer_only = 0;
  uint64_t train_only = 0;
  uint64_t neither = 0;
  uint64_t missing = 0;  // on either side

  uint64_t known() const { return both + infer_only + train_only + neither; }
  bool operator==(const PairedFlagCounts&) const = default;
};

// Whether requests carry every field that a coverage clause lists, and which they lack.
struct CoverageCounts : FlagCounts {
  // By field, how many requests lack it, and of how many of the `no` this was noted. In memory
  // alone: what was read from a file knows that fields are lacking, not which.
  std::vector<uint64_t> lacking;
  uint64_t noted = 0;
};

// Requests that repeat one another: what the first one signed (the one with the smallest id), and
// how often each signature came. Texts are kept as 64-bit hashes.
struct ReplayGroup {
  std::string first_request;
  std::map<uint64_t, uint64_t> signatures;  // hash -> requests
  uint64_t first_signature = 0;

  bool operator==(const ReplayGroup&) const = default;
};

struct SidePopulation {
  // Throughput: over requests with all three fields.
  uint64_t timed = 0;
  uint64_t untimed = 0;
  ExactSum output_tokens;
  double first_start_ms = std::numeric_limits<double>::infinity();
  double last_end_ms = -std::numeric_limits<double>::infinity();
  // Largest recorded value; -inf if none was.
  double peak_memory_mb = -std::numeric_limits<double>::infinity();
  double kv_cache_mb = -std::numeric_limits<double>::infinity();
  uint64_t peak_memory_missing = 0;
  uint64_t kv_cache_missing = 0;
  FlagCounts failed;
  FlagCounts fingerprint;                  // yes: the request's equals the trace's
  FlagCounts conforming;                   // only where the plan keeps events
  std::vector<CoverageCounts> coverage;    // one per field set of the plan
  uint64_t replay_missing = 0;             // no replay_group or no replay_signature
  std::map<uint64_t, ReplayGroup> replay;  // by hash of replay_group
  ReplaySpreads spreads;                   // only where the plan keeps repeats
};

// Whether what was logged about a request keeps to the published schema, by Side; none: nothing was
// logged.
struct EventFlags {
  std::array<std::optional<bool>, 2> conforms;
};

// A request as both traces recorded it.
struct RequestPair {
  std::string_view id;
  const Request* train = nullptr;
  const Request* infer = nullptr;
  std::string_view train_fingerprint;  // as the traces declare
  std::string_view infer_fingerprint;
  const Request* asked = nullptr;  // what was asked of both; null: not known
  int64_t output_rows = -1;        // paired rows of its output; -1: each side wrote its own
  int64_t rows_missing = 0;        // that the request should have, by what it claims
  std::array<int64_t, 2> own_rows = {-1, -1};  // by Side, of generated traces (pairing.h)
  const OutputComparison* outputs = nullptr;   // of generated traces, where it was asked for
  const ReplayRows* rows = nullptr;            // where the plan keeps repeats
  const EventFlags* events = nullptr;          // where it keeps events

  std::string_view Declared(Side which) const {
    return which == Side::kTrain ? train_fingerprint : infer_fingerprint;
  }
  // Whether both sides are one record, as those that come with arrays. It is of infer's run: of
  // train's nothing is known then, nor how the two compare, and it must not count as alike.
  bool one_record() const { return train == infer; }
  // What the side recorded of its own run; nothing, of train, where there is one record.
  const Request& side(Side which) const;
  // The build that the kernel's own declaration puts the request down to, where the request does
  // not name the kernel that answered it: filled in by kcc, or declared with the arrays. Empty:
  // none.
  std::string_view FilledFingerprint(Side which) const;
  // How many tokens a side's answer has, where the side says so at all: where both score the same
  // tokens, as many as there are rows, whatever it says. None: not recorded, or not known.
  std::optional<double> OutputTokens(Side which) const;
  // Whether rows of the side's answer are missing, by what is claimed: its length is then not
  // known.
  bool LengthUnknown(Side which) const;
};

// Of a request whose sides' records are what was logged (trace/request_schema.h). A record without
// a field says nothing, and silence conforms to no schema.
EventFlags EventsOf(const RequestPair& request);

struct PopulationStats {
  uint64_t requests = 0;
  PairedFlagCounts refused;
  PairedFlagCounts parsed;
  FlagCounts signatures;  // yes: both sides signed alike
  uint64_t rewarded = 0;  // requests with a reward on both sides
  uint64_t reward_missing = 0;
  ExactSum reward_gap;  // sum of infer - train
  ExactProductSum reward_gap_squares;
  std::array<SidePopulation, 2> sides;  // indexed by Side

  void Add(const RequestPair& request, std::span<const std::vector<std::string>> field_sets);
  void Merge(const PopulationStats& other);
  // `repeats`, `events`: whether the plan keeps them.
  void Visit(Archive& archive, size_t field_sets, bool repeats, bool events);
};

// A population metric's value: lo == hi unless the evidence leaves an interval.
struct PopulationValue {
  Interval value;
  uint64_t count = 0;    // tokens or requests it rests on; 0: undefined
  uint64_t missing = 0;  // tokens or requests that should have counted
};

// What the quantity is computed from, of a slice or of a window. `field_set` is the index in the
// plan of the fields a trace_field_coverage clause lists.
struct PopulationEvidence {
  const PopulationStats* population = nullptr;
  const Calibration* calibration = nullptr;
  const SeriesStats* top1_overlap = nullptr;
};
// Precondition: a population quantity.
PopulationValue ComputePopulation(const Metric& metric, const PopulationEvidence& evidence,
                                  size_t field_set = 0);

// The first 8 bytes of SHA-256, as a number.
uint64_t HashText(std::string_view text);

}  // namespace kcc
