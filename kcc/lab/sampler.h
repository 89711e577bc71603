// Sampling a token from logits: temperature, top-k, top-p, and a number that depends on the
// request's seed and the position alone, so that a preempted or rescheduled request draws the same.
#pragma once

#include <cstdint>
#include <span>

#include "kcc/kernel/kernel.h"

namespace kcc {

// Uniform in [0, 1).
double UniformAt(uint64_t seed, uint64_t position);

// Temperature 0 takes the largest logit, the lowest id among equals. top_k keeps the k largest,
// top_p then the fewest whose mass reaches it.
int32_t SampleToken(std::span<const float> logits, const Sampling& sampling, uint64_t seed,
                    uint64_t position);

}  // namespace kcc
