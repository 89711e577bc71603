// Every bound compared with evidence: token by token, what was measured against what the measured
// drift allows. The bounds are theorems and the quantities are computed to 1e-9 or better, so a
// violation is a fault: of kcc, or of log-probs that are none (lists that do not sum to 1).
//
// Means of samples (rewards, importance weights) estimate what their bounds are about and may
// exceed them by chance: those rows are shown and decide nothing.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/bounds/chain.h"
#include "kcc/drift/token_drift.h"
#include "kcc/trace/pairing.h"

namespace kcc {

// A token where a bound came closest.
struct BoundWitness {
  std::string request;
  int32_t position = -1;
  double measured = 0;
  double bound = 0;
};

struct CheckedBound {
  std::string_view quantity;   // what is bounded, by its catalog name
  std::string_view statement;  // "tv <= tanh(s/4)"
  bool decides = true;         // false: a textbook form for comparison, or a mean of samples
  int64_t compared = 0;        // tokens whose evidence says both sides
  int64_t violations = 0;
  double ratio_max = 0;   // measured/bound where it came closest: 1 is attained
  double ratio_mean = 0;  // over the tokens whose bound is not 0
  std::optional<BoundWitness> closest;
};

class BoundChecker {
 public:
  explicit BoundChecker(double temperature);

  void Add(const TokenDrift& drift, std::string_view request, int32_t position);
  std::vector<CheckedBound> Rows() const;

  // The slots that Add reads.
  static SlotSet Slots();

 private:
  struct Sum {
    double ratios = 0;
    int64_t count = 0;
  };
  double temperature_;
  std::vector<CheckedBound> rows_;
  std::vector<Sum> sums_;
};

struct BoundCheck {
  std::vector<CheckedBound> rows;  // in the order of the chain
  int64_t requests = 0;
  int64_t tokens = 0;

  int64_t compared() const;
  // The first row that evidence violates; null: none.
  const CheckedBound* violated() const;
};

// Reads every counted token pair once, in order. `progress` may be empty; it is told the tokens
// read so far.
Result<BoundCheck> CheckBounds(const PairedTraces& pair, const BoundAssumptions& assumptions,
                               const std::function<void(int64_t tokens)>& progress = {});

}  // namespace kcc
