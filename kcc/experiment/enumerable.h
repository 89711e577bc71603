// A policy so small that all of its continuations can be enumerated: softmax tables, one for each
// prefix, of a trainer (law P, whose tables are the parameters) and of a rollout engine (law Q).
// Whatever has an expectation is a sum. gradient_bias.h asks it for the bias of corrections.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kcc {

// A continuation is a number with `length` digits of base `vocabulary`, its first token first; the
// prefixes are numbered by length, then likewise.
struct EnumerableProblem {
  size_t vocabulary = 2;
  size_t length = 1;
  std::vector<double> train, rollout;  // log-probs, [prefix][token]
  std::vector<double> advantages;      // by continuation

  size_t prefixes() const { return train.size() / vocabulary; }
  size_t continuations() const { return advantages.size(); }
  size_t PrefixAt(size_t continuation, size_t t) const;
  size_t TokenAt(size_t continuation, size_t t) const;
};

// Tables of logits, [prefix][token]. Precondition: their sizes are those of vocabulary >= 2 and
// length >= 1, and there are vocabulary^length advantages.
EnumerableProblem EnumerableFromLogits(size_t vocabulary, size_t length,
                                       std::span<const double> train,
                                       std::span<const double> rollout,
                                       std::vector<double> advantages);

// Normal logits of deviation 1.5, to which the rollout engine adds normal errors of deviation
// `gap`. A quarter of the continuations, at random, have reward 1; the advantage is the reward less
// its mean under P.
EnumerableProblem RandomEnumerable(size_t vocabulary, size_t length, double gap, uint64_t seed);

// By continuation: probabilities under a law (train or rollout), and W = P/Q.
std::vector<double> Masses(const EnumerableProblem& problem, const std::vector<double>& law);
std::vector<double> Ratios(const EnumerableProblem& problem);
// log-probs of the tokens of all continuations under a law, [continuation][token].
std::vector<double> TokenLogs(const EnumerableProblem& problem, const std::vector<double>& law);

// |S_t|^2 of a token after a prefix: S_t = grad log p(y_t | y_<t) is e_token - p in the prefix's
// table, and 0 in all others.
double ScoreSquare(const EnumerableProblem& problem, size_t prefix, size_t token);
// sum_y mass(y) v(y) sum_t phi_t(y) S_t(y), [prefix][token]; phi is [continuation][token].
std::vector<double> MeanGradient(const EnumerableProblem& problem, const std::vector<double>& mass,
                                 const std::vector<double>& phi);

// What the two laws are to each other, and the constants of the bounds.
struct EnumerableLaws {
  double tv = 0, kl = 0;          // of continuations; KL(Q || P)
  double mean_abs_log_ratio = 0;  // of a token under Q
  std::vector<double> spans;      // by step, of log w over tokens, the largest of its prefixes
  double advantage_max = 0;       // A
  double score_max = 0;           // G, of a step
  double score_sum_max = 0;       // G_seq, of a continuation
  std::vector<double> gradient;   // grad J, [prefix][token]

  double gradient_length() const;
};
EnumerableLaws LawsOf(const EnumerableProblem& problem);

}  // namespace kcc
