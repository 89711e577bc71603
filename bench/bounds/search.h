// Looking for counterexamples: random cases, then ascent on actual/bound from the best of several
// starts, one or all parameters at a time with adaptive steps.
//
// A Case is a set of parameters with everything derived from them:
//   static Case Sample(Random&);                      Case Perturbed(Random&, double step) const;
//   std::string Describe() const;
//   Real MeasuringError() const;                      bool Everyday() const;
// The actual value is computed in long double without cancellation, to MeasuringError, a fraction
// of the margin with which the bounds round outward; nothing else is forgiven, so that a bound that
// forgets to round is found out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/bounds/random.h"

namespace kcc::bench {

using Real = long double;

struct Comparison {
  Real actual = 0;
  double bound = 0;
};

template <class Case>
struct Claim {
  std::string name;
  std::string statement;
  bool tight;  // claimed sharp: everyday cases must reach 0.99 of it
  Real (*actual)(const Case&);
  double (*bound)(const Case&);
  // In place of both, where a claim is one of many of a kind.
  std::function<Comparison(const Case&)> compare = {};
};

struct SearchOptions {
  int64_t random_cases = 1'000'000;
  int64_t ascents = 10'000;
  int ascent_steps = 120;
  uint64_t seed = 1;
  double scale = 1.0;          // multiplies every bound: below 1, tight ones must be refuted
  bool until_refuted = false;  // a claim is searched up to its first violation
};

struct Finding {
  std::string name;
  std::string statement;
  bool tight = false;
  int64_t random_cases = 0;
  int64_t ascents = 0;
  int64_t violations = 0;
  double best_random = 0;
  double best = 0;           // over both phases
  double best_everyday = 0;  // of cases where no bound saturates; what a claim of tightness needs
  std::string best_at;
  std::string violation_at;
};

// FNV-1a: a claim's ascents do not depend on which others are searched beside it.
inline uint64_t NameSeed(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char ch : name) hash = (hash ^ static_cast<unsigned char>(ch)) * 0x100000001b3u;
  return hash;
}

inline double Ratio(Real actual, double bound) {
  if (actual <= 0) return 0;
  return bound == 0 ? HUGE_VAL : static_cast<double>(actual / static_cast<Real>(bound));
}

template <class Case>
void Judge(const Claim<Case>& claim, const Case& c, double scale, Finding& finding, double& ratio) {
  const Comparison compared =
      claim.compare ? claim.compare(c) : Comparison{claim.actual(c), claim.bound(c)};
  const Real actual = compared.actual * (1 - c.MeasuringError());
  const double bound = scale * compared.bound;
  ratio = Ratio(actual, bound);
  const bool violated = !(actual <= static_cast<Real>(bound));  // NaN counts
  if (violated) {
    if (finding.violations++ == 0) finding.violation_at = c.Describe();
  }
  if (c.Everyday()) finding.best_everyday = std::fmax(finding.best_everyday, ratio);
  if (ratio > finding.best) {
    finding.best = ratio;
    finding.best_at = c.Describe();
  }
}

// One ascent: the best of a few random starts, then accepted perturbations.
template <class Case>
void Ascend(const Claim<Case>& claim, const SearchOptions& options, Random& random,
            Finding& finding) {
  Case current = Case::Sample(random);
  double value = 0;
  Judge(claim, current, options.scale, finding, value);
  for (int start = 0; start < 3; ++start) {
    Case other = Case::Sample(random);
    double other_value = 0;
    Judge(claim, other, options.scale, finding, other_value);
    if (other_value > value) {
      current = std::move(other);
      value = other_value;
    }
  }
  double step = 1.0;
  for (int i = 0; i < options.ascent_steps; ++i) {
    Case next = current.Perturbed(random, step);
    double next_value = 0;
    Judge(claim, next, options.scale, finding, next_value);
    const bool better = next_value > value;
    step = better ? std::fmin(step * 1.6, 4.0) : std::fmax(step * 0.93, 1e-6);
    if (better) {
      current = std::move(next);
      value = next_value;
    }
  }
}

// All claims see the same random cases; each then gets its own ascents.
template <class Case>
std::vector<Finding> Search(const std::vector<Claim<Case>>& claims, const SearchOptions& options) {
  std::vector<Finding> findings(claims.size());
  for (size_t i = 0; i < claims.size(); ++i) {
    findings[i].name = claims[i].name;
    findings[i].statement = claims[i].statement;
    findings[i].tight = claims[i].tight;
  }
  const auto is_settled = [&](const Finding& f) {
    return options.until_refuted && f.violations > 0;
  };
  Random random(options.seed);
  for (int64_t n = 0; n < options.random_cases; ++n) {
    if (std::all_of(findings.begin(), findings.end(), is_settled)) break;
    const Case c = Case::Sample(random);
    for (size_t i = 0; i < claims.size(); ++i) {
      if (is_settled(findings[i])) continue;
      double ratio = 0;
      Judge(claims[i], c, options.scale, findings[i], ratio);
    }
  }
  for (size_t i = 0; i < claims.size(); ++i) {
    findings[i].random_cases = options.random_cases;
    findings[i].best_random = findings[i].best;
    Random own(options.seed ^ NameSeed(claims[i].name));
    for (int64_t n = 0; n < options.ascents && !is_settled(findings[i]); ++n) {
      Ascend(claims[i], options, own, findings[i]);
    }
    findings[i].ascents = options.ascents;
  }
  return findings;
}

}  // namespace kcc::bench
