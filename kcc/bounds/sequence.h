// T tokens: what per-token drift says about whole continuations (docs/math.md A.6).
//
// P, Q are the laws of y_1..y_T under train and infer; a span or TV given per token is a bound at
// every step and prefix, unless the name says mean. W = prod w_t.
#pragma once

#include <cstdint>
#include <span>

namespace kcc {

// (c) sqrt(1 - sech(s/4)^{2T}): Hellinger tensorises, so the guarantee grows with sqrt T. Equals
// tanh(s/4) at T = 1; within 1.25 of the worst product beyond.
double SequenceTvOfSpan(double span, int64_t tokens);
// (c) with one span per step: sqrt(1 - prod sech(s_t/4)^2).
double SequenceTvOfSpans(std::span<const double> spans);
// (c) from the per-sequence quantity a clause can be written on: sqrt(sum s_t^2)/4.
double SequenceTvOfSquaredSpans(double sum_of_squares);

// (a) 1 - (1 - TV)^T: token-by-token maximal coupling. Never below (c) at equal span, but it
// needs a bound on TV only.
double SequenceTvOfTokenTv(double tv, int64_t tokens);
// (b) T times the mean over steps of E_{prefix ~ Q} TV_t: the hybrid argument; prefixes from P
// serve as well. The form that measured evidence can feed.
double SequenceTvOfMeanTokenTv(double mean_tv, int64_t tokens);

// (d) T KL: the chain rule, exact for means over prefixes; KL(Q||P) with prefixes from Q.
double SequenceKlOfTokenKl(double kl, int64_t tokens);
// (d) Renyi divergence of order a: (a/8) sum s_t^2.
double SequenceRenyiOfSquaredSpans(double sum_of_squares, double order);

// (e) P_Q(|log W + sum_t KL(q_t||p_t)| >= u) <= 2 exp(-2 u^2 / sum s_t^2) (Azuma; log w_t has a
// range of width exactly s_t).
double LogWeightTail(double u, double sum_of_squares);

}  // namespace kcc
