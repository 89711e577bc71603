// Bounds on the gap that others have published, so that a number can be said to be small: what
// frameworks assert in their tests, ask of a merge, or call healthy. They are of their authors'
// models and batches, and no verdict of kcc is made of them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/rl/diagnostics.h"

namespace kcc {

struct PublishedBound {
  std::string_view source;  // "NeMo-RL"
  std::string_view metric;  // of NamedMetrics; compared by its absolute value
  double threshold = 0;     // at most
  std::string_view basis;   // where it is published, and about what
};
std::span<const PublishedBound> PublishedBounds();  // the strictest of a metric first

struct PublishedComparison {
  const PublishedBound* bound = nullptr;
  double value = 0;
  bool inside = false;  // false too where there is no number
};
std::vector<PublishedComparison> CompareWithPublished(const RlMetrics& metrics);

// "k3 0.00019: inside NeMo-RL's 0.001." Of everything, with the slice that is worst where it is
// beyond a bound that everything keeps. The metrics are of everything, then by slice.
std::string DiagnosisSentence(std::span<const RlMetrics> metrics);

}  // namespace kcc
