// Which tokens a span clause keeps in place (docs/math.md A.5): sharp, no probability involved.
#pragma once

#include <cstddef>
#include <span>

namespace kcc {

// The argmax is the same in both kernels if z_(1) - z_(2) > span(z - z'), and the top-k set if
// z_(k) - z_(k+1) does; `span` is that of the raw logits (tau times the scaled one). False means
// not known, never different.
bool OrderCertain(double margin, double span);

// At least this share of train's top k stays in infer's top k: #{i : z_i - z_(k+1) > span}/k.
// `descending` holds train's largest logits, at least k + 1 of them unless the vocabulary is
// smaller; with no (k+1)-th logit every token stays.
double TopKOverlapFloor(std::span<const double> descending, size_t k, double span);

}  // namespace kcc
