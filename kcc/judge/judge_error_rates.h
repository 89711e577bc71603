// For tests: how often the judge is wrong about traffic. Simulated evaluations with correlated
// tokens are pushed through the real accumulator and judged. Shared by judge_error_rates_test.cc
// (few runs) and bench/judge_error_rates.cc (the table of docs/semantics.md).
//
// Every clause form is put exactly at the truth (or at a stated multiple of it), so that at the
// truth each satisfied and each violated is an error.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "kcc/judge/judge.h"
#include "kcc/judge/judge_test_data.h"
#include "kcc/stats/binomial.h"
#include "kcc/stats/error_rates.h"

namespace kcc {

struct JudgeExperiment {
  RequestModel truth;     // 20 to 60 tokens; a token is bad with probability truth.rate
  double at_most = 0.05;  // the token rate that the clauses allow
  int64_t requests = 200;
  int64_t runs = 2000;
  uint64_t seed = 1;
};

// One clause form and how often it was called. `can_satisfy` is false where no sample can certify.
struct FormCalls {
  std::string form;
  bool can_satisfy = true;
  Calls calls;
};

struct JudgeCalls {
  std::vector<FormCalls> forms;  // each judged alone
  // Those that can be certified as one contract: convergent, and any violated.
  Calls whole;
  Calls naive;  // tokens as units: what ignoring the correlation would have called
};

// The clause forms, each with its limit where the token rate is `at_most`.
inline Contract ErrorRateContract(const JudgeExperiment& e) {
  Contract contract;
  contract.name = "error-rates";
  contract.slices = {{"all", {}, {}}};
  contract.decision.about = Population::kTraffic;
  contract.assumptions.tokens_max = e.truth.tokens_max;
  contract.assumptions.reward_max = 1;
  RequestModel limit = e.truth;
  limit.rate = e.at_most;
  const double any = RateOfAnyBad(limit);
  const auto add = [&](const std::string& metric, double threshold, double exceedance = 0,
                       Window window = {}) {
    Clause clause;
    clause.id = metric;
    clause.metric = *ParseMetric(metric);
    clause.bound = MetricDirection(clause.metric) == Direction::kHigherIsBetter
                       ? BoundKind::kAtLeast
                       : BoundKind::kAtMost;
    clause.threshold = threshold;
    clause.slices = {"all"};
    clause.exceedance = exceedance;
    clause.window = window;
    clause.level = ViolationLevel::kL2;
    clause.stages = {Stage::kOffline};
    contract.clauses.push_back(clause);
  };
  if (e.at_most == 0.05) {
    add("p95_kl", 0.5);
    add("p95_latency_ms", 400);
  }
  add("rate_bit_mismatch", e.at_most);
  add("mean_tv", e.at_most);
  add("mean_top1_overlap", 1 - e.at_most);
  add("mean_kl", 4 * e.at_most);  // a bad token's kl has mean 4, without an upper end
  add("max_kl", 0.5, any);
  add("max_kl", 0.5, 1 - (1 - any) * (1 - any), {Window::Kind::kRequests, 2});
  add("failure_rate", any);
  add("refusal_rate_gap", any / 2);
  add("reward_drift", any / 2);
  return contract;
}

// A request whose bad tokens are bad in every quantity, and whose fields say whether it has any.
inline testing::JudgedRequest MakeSimulatedRequest(const SimulatedRequest& simulated, int64_t at,
                                                   double rate, RandomStream& random) {
  testing::JudgedRequest request;
  request.train.id = request.infer.id = "r" + std::to_string(at);
  for (int64_t t = 0; t < simulated.tokens; ++t) {
    const bool bad = t < simulated.bad;
    // 2 (1 - u)^(-1/2) has mean 4 and no variance.
    const double heavy = bad ? 2 / std::sqrt(1 - random.Uniform()) : 0;
    testing::JudgedToken token;
    token.Set("kl", heavy).Set("tv", bad ? 1 : 0).Set("bit_mismatch", bad ? 1 : 0);
    token.Set("top1_overlap", bad ? 0 : 1);
    request.tokens.push_back(token);
  }
  const bool any = simulated.bad > 0;
  const bool half = any && random.Bernoulli(0.5);
  request.Both("ordinal", static_cast<double>(at)).Both("failed", any);
  request.Both("latency_ms", random.Bernoulli(rate) ? 500.0 : 100.0);
  request.infer.fields["refused"] = half;
  request.train.fields["refused"] = false;
  request.infer.fields["reward"] = half ? 1.0 : 0.0;
  request.train.fields["reward"] = 0.0;
  return request;
}

// The mean of a quantity without an upper end: no sample certifies it.
inline bool MeansWithoutEnd(const Clause& clause) {
  return clause.metric.aggregate == Aggregate::kMean && !std::isfinite(MetricMax(clause.metric));
}

inline JudgeCalls RunJudge(const JudgeExperiment& e) {
  const Contract contract = ErrorRateContract(e);
  const Plan plan = Plan::FromContract(contract);
  std::vector<Contract> alone;
  Contract certifiable = contract;
  std::erase_if(certifiable.clauses, [](const Clause& clause) { return MeansWithoutEnd(clause); });
  JudgeCalls calls;
  for (const Clause& clause : contract.clauses) {
    alone.push_back(contract);
    alone.back().clauses = {clause};
    std::string form = MetricName(clause.metric);
    if (!clause.hard()) form += " by " + WindowText(clause.window);
    calls.forms.push_back({std::move(form), !MeansWithoutEnd(clause), {}});
  }
  RandomStream random(e.seed);
  for (int64_t run = 0; run < e.runs; ++run) {
    testing::Evidence evidence;
    Exceedance tokens;
    for (int64_t i = 0; i < e.requests; ++i) {
      const SimulatedRequest simulated = SimulateRequest(e.truth, random);
      tokens.exceeding += simulated.bad;
      tokens.count += simulated.tokens;
      evidence.requests.push_back(MakeSimulatedRequest(simulated, i, e.truth.rate, random));
    }
    const Summary summary = testing::Measure(plan, evidence);
    for (size_t i = 0; i < alone.size(); ++i) {
      const Verdict verdict = Judge(alone[i], summary).verdict;
      calls.forms[i].calls.Count(verdict == Verdict::kSatisfied, verdict == Verdict::kViolated);
    }
    const Judgement whole = Judge(certifiable, summary);
    calls.whole.Count(whole.convergent, whole.verdict == Verdict::kViolated);
    calls.naive.Count(DecideRate(tokens, e.at_most, 0.05));
  }
  return calls;
}

}  // namespace kcc
