// Exact percentiles, for who has the evidence at hand: a summary keeps them to a bucket of its
// histogram (2^-7), and while it is being measured the values themselves pass by.
//
// Values are kept for the percentiles that a contract's clauses ask for, 8 bytes each, up to a
// limit; beyond it, and where the evidence is an interval, the bucket stands. Decisions never rest
// on them: those are counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/measure/pair_walk.h"
#include "kcc/summary/summary.h"
#include "kcc/trace/pairing.h"

namespace kcc {

// A series on a slice, by their numbers in the plan.
struct WantedQuantile {
  size_t series = 0;
  size_t slice = 0;
  int percentile_ppm = 0;
};

// What the hard clauses of a contract show, of tokens and of the fields of requests.
std::vector<WantedQuantile> QuantilesOf(const Contract& contract, const Plan& plan);

// Finds them for a summary that was measured from the pair, all of it and nothing else; reads the
// pair once more. Does nothing where the summary holds other values.
Result<> AddExactQuantiles(const PairedTraces& pair, const Contract& contract, int threads,
                           Summary* summary);

// One thread's values.
class QuantileCollector {
 public:
  // `wanted` and the plan must outlive the collector.
  QuantileCollector(std::span<const WantedQuantile> wanted, const Plan& plan);

  bool empty() const { return columns_.empty(); }
  void AddRequest(const RequestPair& request, const SliceBits& bits);
  void AddToken(const MeasuredToken& token);
  void Merge(QuantileCollector&& other);
  // Finds the quantiles and gives them to the summary. The collector is spent.
  void Finish(Summary* summary);

 private:
  // Several percentiles of one series on one slice share its values.
  struct Column {
    size_t series = 0;
    size_t slice = 0;
    bool whole = true;  // false: some value is not known exactly, or there are too many
    std::vector<double> values;
  };
  void Add(double value, Column* column) const;

  std::span<const WantedQuantile> wanted_;
  const Plan* plan_;  // a collector is moved
  std::vector<Column> columns_;
};

}  // namespace kcc
