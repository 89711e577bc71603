// Everything a summary knows about one slice. Additive part by part; cells of an accumulator and
// slices of a summary are the same thing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/summary/bets.h"
#include "kcc/summary/calibration.h"
#include "kcc/summary/cluster.h"
#include "kcc/summary/moments.h"
#include "kcc/summary/plan.h"
#include "kcc/summary/population.h"
#include "kcc/summary/window.h"

namespace kcc {

// The key in SliceStats::unvouched of an outcome that infer does not state and train lends; no
// field has such a name. And back: the field, or none if the key is a field itself.
std::string LentOutcome(const std::string& field);
std::optional<std::string> OutcomeLent(std::string_view key);
// Likewise of a field that no record of the request has.
std::string AbsentField(const std::string& field);
bool IsAbsentField(std::string_view key);

// Likewise the key of requests whose length decides and is not known, since rows are missing.
inline constexpr std::string_view kLengthUnknown = "output_tokens@rows";

struct SliceStats {
  // kTokens: a cell that only tokens are added to, which needs less memory.
  enum class Kind : uint8_t { kWhole, kTokens };
  explicit SliceStats(const Plan& plan, Kind kind = Kind::kWhole);

  uint64_t tokens = 0;
  // By field: requests, or tokens, that are in the slice or not by infer's word alone; by
  // LentOutcome(field), by train's outcome because infer states none; by AbsentField(field),
  // requests that do not have it at all.
  std::map<std::string, uint64_t> unvouched;
  std::vector<SeriesStats> series;     // by series
  std::vector<ClusterStats> clusters;  // by token series; none in a cell of tokens
  Calibration calibration;
  // By the train side's margin: the tokens whose most likely token differs, and those whose five
  // most likely ones do. All tokens by margin: the histogram of the series train_margin.
  Histogram top1_disagreeing;
  Histogram top5_disagreeing;
  PopulationStats population;
  std::vector<WindowTally>
      windows;                 // by window of the plan; empty where it does not name the slice
  std::vector<BetSums> tests;  // by test of the plan; likewise

  void Merge(const Plan& plan, const SliceStats& other);
  // Gives every histogram an index of its own.
  void UnshareIndices();
  void Visit(Archive& archive, const Plan& plan, const std::vector<size_t>& series_on_file);
};

}  // namespace kcc
