// The experiments that show what the tests of this folder keep and what their naive rivals break:
// correlated tokens, continuous peeking, change detection. Shared by error_rates_test.cc (fewer
// runs) and bench/stats_error_rates.cc (the tables of docs/statistics.md).
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kcc/stats/betting.h"
#include "kcc/stats/binomial.h"
#include "kcc/stats/change.h"
#include "kcc/stats/mean_bounds.h"
#include "kcc/stats/simulation.h"
#include "kcc/stats/token_ratio.h"

namespace kcc {

// How often a test called the clause satisfied and how often violated.
struct Calls {
  int64_t runs = 0;
  int64_t satisfied = 0;
  int64_t violated = 0;

  void Count(bool is_satisfied, bool is_violated) {
    ++runs;
    satisfied += is_satisfied ? 1 : 0;
    violated += is_violated ? 1 : 0;
  }
  void Count(RateDecision decision) {
    Count(decision == RateDecision::kCertified, decision == RateDecision::kRefuted);
  }
  double SatisfiedShare() const {
    return static_cast<double>(satisfied) / static_cast<double>(runs);
  }
  double ViolatedShare() const { return static_cast<double>(violated) / static_cast<double>(runs); }
};

// alpha plus three standard errors of a share observed in `runs` runs.
inline double ErrorBound(double alpha, int64_t runs) {
  return alpha + 3 * std::sqrt(alpha * (1 - alpha) / static_cast<double>(runs));
}

struct ClusterExperiment {
  RequestModel truth;
  double rate_clause = 0.05;  // threshold of the token-rate and the mean clause
  double any_clause = 0.5;    // threshold of "share of requests with a bad token"
  int64_t requests = 400;
  int64_t runs = 2000;
  uint64_t seed = 1;
  double alpha = 0.05;
};

struct ClusterCalls {
  Calls token_exact;     // Clopper-Pearson over tokens: ignores the correlation
  Calls token_ratio;     // ratio e-test over requests
  Calls request_exact;   // Clopper-Pearson over requests, "has a bad token"
  Calls mean_betting;    // betting on each request's share of bad tokens
  Calls mean_bernstein;  // Maurer-Pontil on the same
};

inline void RunOnce(const ClusterExperiment& e, const BettingPlan& plan, RandomStream& random,
                    ClusterCalls& calls) {
  Exceedance tokens;
  Exceedance requests;
  BettingSums ratio;
  BettingSums share;
  std::vector<double> shares;
  for (int64_t i = 0; i < e.requests; ++i) {
    const SimulatedRequest r = SimulateRequest(e.truth, random);
    tokens.exceeding += r.bad;
    tokens.count += r.tokens;
    requests.exceeding += r.bad > 0 ? 1 : 0;
    ++requests.count;
    ratio.Add(plan, *RatioObservation(static_cast<double>(r.bad), static_cast<double>(r.tokens),
                                      static_cast<double>(e.truth.tokens_max), e.rate_clause));
    shares.push_back(static_cast<double>(r.bad) / static_cast<double>(r.tokens));
    share.Add(plan, *ToUnitValue(shares.back()));
  }
  const auto count = [&](Calls& to, LogEValues e_values) {
    to.Count(Rejects(e_values.pass, e.alpha), Rejects(e_values.fail, e.alpha));
  };
  calls.token_exact.Count(DecideRate(tokens, e.rate_clause, e.alpha));
  calls.request_exact.Count(DecideRate(requests, e.any_clause, e.alpha));
  const Reading once{.once_at = e.alpha};  // as the size of the sample is fixed
  count(calls.token_ratio, Evaluate(plan, ratio, once));
  count(calls.mean_betting, Evaluate(plan, share, once));
  const SampleMoments moments = MomentsOf(shares);
  calls.mean_bernstein.Count(MeanUpperMaurerPontil(moments, e.alpha) <= e.rate_clause,
                             MeanLowerMaurerPontil(moments, e.alpha) > e.rate_clause);
}

inline ClusterCalls RunClusters(const ClusterExperiment& e) {
  const BettingPlan plan = *MakeBettingPlan(e.rate_clause);
  RandomStream random(e.seed);
  ClusterCalls calls;
  for (int64_t run = 0; run < e.runs; ++run) RunOnce(e, plan, random, calls);
  return calls;
}

// Looks at every observation of a 0/1 stream whose rate sits exactly at the threshold; counts the
// runs in which a test ever called it. The tests are monotone in the successes, so each is a pair
// of critical values per look.
struct CriticalValues {
  std::vector<int64_t> pass;  // satisfied iff successes <= pass[n]
  std::vector<int64_t> fail;  // violated iff successes >= fail[n]
};

template <class PassTest, class FailTest>
CriticalValues TabulateCriticalValues(int64_t looks, PassTest passes, FailTest fails) {
  CriticalValues table{.pass = {-1}, .fail = {1}};
  for (int64_t n = 1; n <= looks; ++n) {
    int64_t pass = table.pass.back();  // neither can fall by more than the table shows
    while (pass + 1 <= n && passes(pass + 1, n)) ++pass;
    table.pass.push_back(pass);
    int64_t fail = table.fail.back();
    while (fail <= n && !fails(fail, n)) ++fail;
    table.fail.push_back(fail);
  }
  return table;
}

inline Calls PeekAtBernoulli(const CriticalValues& table, double rate, int64_t runs,
                             uint64_t seed) {
  RandomStream random(seed);
  Calls calls;
  for (int64_t run = 0; run < runs; ++run) {
    int64_t successes = 0;
    bool satisfied = false;
    bool violated = false;
    for (size_t n = 1; n < table.pass.size(); ++n) {
      successes += random.Bernoulli(rate) ? 1 : 0;
      satisfied |= successes <= table.pass[n];
      violated |= successes >= table.fail[n];
    }
    calls.Count(satisfied, violated);
  }
  return calls;
}

inline CriticalValues BettingCriticalValues(int64_t looks, double threshold, double alpha) {
  const BettingPlan plan = *MakeBettingPlan(threshold);
  return TabulateCriticalValues(
      looks,
      [&](int64_t s, int64_t n) { return Rejects(EvaluateBernoulli(plan, s, n).pass, alpha); },
      [&](int64_t s, int64_t n) { return Rejects(EvaluateBernoulli(plan, s, n).fail, alpha); });
}

inline CriticalValues ExactCriticalValues(int64_t looks, double threshold, double alpha) {
  return TabulateCriticalValues(
      looks,
      [&](int64_t s, int64_t n) {
        return CertifiesRate({s, n}, threshold, alpha);
      },
      [&](int64_t s, int64_t n) {
        return RefutesRate({s, n}, threshold, alpha);
      });
}

// The one-sided z-test of the score kind, from the 30th observation on; z = 1.645 for 5%.
inline CriticalValues ZCriticalValues(int64_t looks, double threshold, double z) {
  const auto score = [=](int64_t s, int64_t n) {
    const double count = static_cast<double>(n);
    return (static_cast<double>(s) - count * threshold) /
           std::sqrt(count * threshold * (1 - threshold));
  };
  return TabulateCriticalValues(
      looks, [&](int64_t s, int64_t n) { return n >= 30 && score(s, n) <= -z; },
      [&](int64_t s, int64_t n) { return n >= 30 && score(s, n) >= z; });
}

// The same peeking at real values, uniform on [0, 2 m].
inline Calls PeekAtMeans(double threshold, int64_t looks, int64_t runs, double alpha,
                         uint64_t seed) {
  const BettingPlan plan = *MakeBettingPlan(threshold);
  RandomStream random(seed);
  Calls calls;
  for (int64_t run = 0; run < runs; ++run) {
    BettingSums sums;
    bool satisfied = false;
    bool violated = false;
    for (int64_t n = 0; n < looks; ++n) {
      sums.Add(plan, *ToUnitValue(2 * threshold * random.Uniform()));
      const LogEValues e = Evaluate(plan, sums);
      satisfied |= Rejects(e.pass, alpha);
      violated |= Rejects(e.fail, alpha);
    }
    calls.Count(satisfied, violated);
  }
  return calls;
}

struct AlarmTimes {
  double mean = 0;
  double standard_error = 0;
  double share_by_100 = 0;
};

// Observations until the first alarm of a 0/1 stream with the given rate.
inline AlarmTimes MeasureAlarms(DetectorKind kind, double threshold, double alarm_level,
                                double rate, int64_t runs, uint64_t seed) {
  RandomStream random(seed);
  std::vector<double> times;
  int64_t early = 0;
  for (int64_t run = 0; run < runs; ++run) {
    ChangeDetector detector = *ChangeDetector::Make(kind, threshold, alarm_level);
    int64_t n = 1;
    while (!detector.Observe(*ToUnitValue(random.Bernoulli(rate) ? 1 : 0))) ++n;
    times.push_back(static_cast<double>(n));
    early += n <= 100 ? 1 : 0;
  }
  const SampleMoments moments = MomentsOf(times);
  const double count = static_cast<double>(runs);
  return {.mean = moments.mean,
          .standard_error = std::sqrt(moments.variance / count),
          .share_by_100 = static_cast<double>(early) / count};
}

}  // namespace kcc
