// A population of requests and its measured report, without error: a few prompts, each with two
// autoregressive laws over continuations that end when they will, all enumerated. From it clauses
// that only just hold, and what `implies` and `kcc bound` then state beside what is true.
//
// Tokens are drawn by infer, or by train where a row allows it. The end of a continuation is a
// token like any other. Rewards, advantages and scores are the worst for the two laws: an advantage
// of a token may depend on its prefix and itself, one of an outcome on the whole continuation.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bounds/search.h"
#include "kcc/bounds/chain.h"
#include "kcc/metric/metric.h"

namespace kcc::bench {

// The quantities that imply anything, in the order of the values below.
inline constexpr std::array<std::string_view, 12> kReportQuantities = {
    "logit_span", "logit_linf", "raw_logit_linf", "logit_l2", "raw_logit_l2", "tv",
    "kl",         "reverse_kl", "abs_log_ratio",  "w_log_w",  "k1",           "k3"};
inline constexpr size_t kFirstSampled = 8;
inline constexpr size_t kFirstMeanOnly = 9;

class ReportCase {
 public:
  static ReportCase Sample(Random& random);
  ReportCase Perturbed(Random& random, double step) const;
  std::string Describe() const;
  Real MeasuringError() const { return 0x1p-62L * (256 + 8 * widest * tokens); }
  // More than one token, and far from saturation.
  bool Everyday() const { return tokens >= 2 && widest * tokens <= 2; }

  struct Prompt {
    double weight = 1;           // relative
    std::vector<double> logits;  // infer's, node-major, V per node
    std::vector<double> delta;   // train's less infer's, scaled
  };
  int vocabulary = 2;
  int tokens = 2;         // of a continuation, at most
  bool ends = true;       // token 0 ends it; else all have the same length
  bool by_depth = false;  // one node for all prefixes of a length
  bool train_draws = false;
  double temperature = 1;
  double offset = 0;  // between the raw logits of both sides
  double cut = 0.9;   // the share of windows that a soft clause's threshold is put at
  Aggregate aggregate = Aggregate::kMean;
  std::vector<Prompt> prompts;

  // Derived. Masses are probabilities times the prompt's share of requests.
  struct Node {
    size_t prompt = 0;
    Real mass = 0;               // that infer reaches it
    Real log_w = 0;              // log P/Q of reaching it
    std::vector<Real> q;         // of infer's next token
    std::vector<Real> x;         // log w of each
    std::array<Real, 8> values;  // of kReportQuantities from full logits
  };
  struct Step {
    size_t node;
    size_t token;
  };
  struct Path {
    size_t prompt = 0;
    Real mass = 0;
    Real log_w = 0;
    std::vector<Step> steps;
  };
  std::vector<Node> nodes;
  std::vector<Path> paths;
  double widest = 0;  // span

  // What was stated and what is true, per row; filled by report_claims.cc where it is asked for.
  struct Row {
    bool of_continuations;
    Real actual;
    double bound;
  };
  mutable std::array<std::optional<std::vector<Row>>, 2 * kReportQuantities.size()> implied;

  Real Drawn(const Node& node) const;  // mass under whoever draws
  Real Drawn(const Path& path) const;
  Real Value(size_t quantity, const Step& step) const;

  // The clause's metric over the whole population, and over one continuation.
  Real Metric(size_t quantity, Aggregate how) const;
  Real MetricOf(const Path& path, size_t quantity, Aggregate how) const;
  // Over continuations: the least value that all but `beyond` of them do not exceed, and the share
  // that exceeds `value`.
  Real WindowQuantile(const std::vector<Real>& values, Real beyond) const;
  Real WindowsBeyond(const std::vector<Real>& values, Real value) const;

  // Of whole continuations; the mean over prompts, or the worst.
  Real SequenceTv(bool every) const;
  Real SequenceKl(bool reverse) const;  // the worst path's sum of kl
  Real TrajectoryBias(AdvantageKind kind, bool every) const;
  Real TokenWeightBias(AdvantageKind kind, bool every) const;

 private:
  void Derive();
  void Grow(size_t prompt, size_t depth, size_t index, const Path& path);
  template <class Term>
  Real OverPrompts(bool every, Term add) const;
};

}  // namespace kcc::bench
