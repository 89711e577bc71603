// The metric catalog in plain words, for `kcc metrics` and `kcc explain`.
#pragma once

#include <string>

#include "kcc/metric/metric.h"

namespace kcc::cli {

// "the 99th percentile of kl over the tokens", "the share of tokens whose bit_mismatch is not 0".
std::string MetricWords(const Metric& metric);

// "kl, per token, in nat: KL(train || infer) = …"
std::string QuantityWords(const Quantity& quantity, Side side);

// "full logits of both kernels; top-k lists give an interval", "the request fields reward".
std::string EvidenceWords(const Quantity& quantity);

std::string DirectionWords(Direction direction);

// "0.002 nat", "1%" for a share.
std::string AmountWords(double value, const Metric& metric);

}  // namespace kcc::cli
