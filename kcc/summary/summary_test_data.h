// For tests: evidence in memory, without traces. Requests with made-up tokens are pushed through an
// Accumulator; a naive judge of the same evidence can sort all values.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kcc/metric/token_slots.h"
#include "kcc/summary/accumulator.h"
#include "kcc/summary/series.h"

namespace kcc::testing {

struct FakeToken {
  int32_t position = 0;
  int32_t token = 0;
  int32_t gold = -1;
  TokenDrift drift;
};

struct FakeRequest {
  Request train;
  Request infer;
  std::vector<FakeToken> tokens;

  explicit FakeRequest(const std::string& id) { train.id = infer.id = id; }
  FakeRequest& Both(const std::string& field, RequestValue value) {
    train.fields[field] = value;
    infer.fields[field] = std::move(value);
    return *this;
  }
};

// Slices of TestContract(): `all`; `even` (request level: field "even" is true); `late` (token
// level: position >= 3).
inline Slice MakeSlice(const std::string& name, const std::string& where) {
  Slice slice;
  slice.name = name;
  if (!where.empty()) slice.where = *Predicate::Parse(where);
  return slice;
}

inline Clause MakeClause(const std::string& metric, BoundKind bound, double threshold,
                         std::vector<std::string> slices = {"all"}) {
  Clause clause;
  clause.id = metric + std::to_string(threshold);
  clause.metric = *ParseMetric(metric);
  clause.bound = bound;
  clause.threshold = threshold;
  clause.slices = std::move(slices);
  return clause;
}

inline Clause SoftClause(const std::string& metric, BoundKind bound, double threshold,
                         Window window, std::vector<std::string> slices = {"all"}) {
  Clause clause = MakeClause(metric, bound, threshold, std::move(slices));
  clause.exceedance = 0.1;
  clause.window = window;
  return clause;
}

inline Contract TestContract() {
  const auto at_most = BoundKind::kAtMost;
  const Window by_three{Window::Kind::kRequests, 3};
  const Window by_second{Window::Kind::kTime, 1000};
  Contract contract;
  contract.name = "test";
  contract.slices = {MakeSlice("all", ""), MakeSlice("even", "even == true"),
                     MakeSlice("late", "token.position >= 3")};
  contract.assumptions.tokens_max = 64;
  contract.assumptions.reward_max = 1;
  contract.clauses = {
      MakeClause("p99_kl", at_most, 0.5, {"all", "late"}),
      MakeClause("p50_kl", at_most, 0.25, {"all", "even"}),
      MakeClause("mean_tv", at_most, 0.4, {"all", "even", "late"}),
      MakeClause("p05_top1_overlap", BoundKind::kAtLeast, 0.5),
      MakeClause("rate_bit_mismatch", at_most, 0.5),
      MakeClause("p95_latency_ms", at_most, 120),
      MakeClause("reward_drift", at_most, 0.5),
      MakeClause("brier_gap", at_most, 0.2),
      MakeClause("flip_rate", at_most, 0.3),
      SoftClause("mean_kl", at_most, 0.3, {}, {"all", "late"}),
      SoftClause("p90_kl", at_most, 0.5, by_three, {"all", "even", "late"}),
      SoftClause("max_latency_ms", at_most, 130, by_second),
      SoftClause("refusal_rate_gap", at_most, 0.3, by_three, {"all", "even"}),
      SoftClause("flip_rate", at_most, 0.4, by_three),
      SoftClause("ece_gap", at_most, 0.2, by_second),
  };
  Clause coverage = MakeClause("trace_field_coverage", BoundKind::kAtLeast, 1);
  coverage.fields = {"seed", "replay_signature"};
  contract.clauses.push_back(coverage);
  return contract;
}

inline bool InSlice(const PlanSlice& slice, const FakeRequest& request, const FakeToken* token) {
  if (slice.name == "all") return true;
  if (slice.name == "even") return request.infer.Flag("even").value_or(false);
  return token != nullptr && token->position >= 3;
}

inline void Feed(const Plan& plan, const FakeRequest& request, Accumulator* accumulator) {
  const size_t count = plan.slices().size();
  SliceBits bits(count);
  for (size_t i = 0; i < count; ++i) {
    const PlanSlice& slice = plan.slices()[i];
    if (!slice.reads_token && InSlice(slice, request, nullptr)) bits.Set(i);
  }
  RequestPair pair{request.infer.id, &request.train, &request.infer, "train-fp", "infer-fp"};
  accumulator->BeginRequest(pair, bits);
  for (const FakeToken& token : request.tokens) {
    SliceBits token_bits = bits;
    for (size_t i = 0; i < count; ++i) {
      const PlanSlice& slice = plan.slices()[i];
      if (slice.reads_token && InSlice(slice, request, &token)) token_bits.Set(i);
    }
    const Result<> added =
        accumulator->AddToken({token.position, token.token, token.gold}, token.drift, token_bits);
    ASSERT_TRUE(added.has_value()) << added.error().Format();
  }
  accumulator->EndRequest();
}

inline Summary Accumulate(const Plan& plan, const std::vector<FakeRequest>& requests,
                          size_t cells_max = 128) {
  Accumulator accumulator(plan, {cells_max});
  for (const FakeRequest& request : requests) Feed(plan, request, &accumulator);
  Result<Summary> summary = accumulator.Finish();
  EXPECT_TRUE(summary.has_value());
  Source source;
  source.requests = requests.size();
  for (const uint64_t hash : summary->requests) source.manifest += hash;
  source.train.identity = "train";
  source.infer.identity = "infer";
  return *std::move(summary);
}

// Deterministic pseudo-random evidence: every kind of field and value, some of it missing.
class FakeEvidence {
 public:
  explicit FakeEvidence(uint64_t seed) : state_(seed * 2 + 1) {}

  std::vector<FakeRequest> Requests(int count, bool intervals = false) {
    std::vector<FakeRequest> requests;
    for (int i = 0; i < count; ++i) requests.push_back(MakeRequest(i, intervals));
    return requests;
  }

  uint64_t Next(uint64_t bound) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % bound;
  }
  double Unit() { return static_cast<double>(Next(1 << 20)) / (1 << 20); }

 private:
  FakeRequest MakeRequest(int i, bool intervals) {
    FakeRequest request("request-" + std::to_string(i));
    request.Both("even", i % 2 == 0);
    if (Next(8) != 0) request.Both("ordinal", static_cast<double>(i));
    request.Both("started_at_ms", 1e12 + 300.0 * i);
    request.infer.fields["latency_ms"] = 100 + 10 * static_cast<double>(Next(5));
    request.train.fields["latency_ms"] = 90.0;
    if (Next(5) == 0) {
      request.infer.fields.erase("latency_ms");
      if (Next(2) == 0) request.infer.fields["timed_out"] = true;
    }
    request.Both("output_tokens", static_cast<double>(1 + Next(9)));
    request.infer.fields["refused"] = Next(3) == 0;
    request.train.fields["refused"] = Next(3) == 0;
    if (Next(4) != 0) request.infer.fields["reward"] = Unit() * 2 - 1;
    request.train.fields["reward"] = Unit() * 2 - 1;
    request.infer.fields["replay_group"] = "group-" + std::to_string(Next(3));
    request.infer.fields["replay_signature"] = "signature-" + std::to_string(Next(2));
    request.train.fields["replay_signature"] = std::string("signature-0");
    request.infer.fields["kernel_fingerprint"] =
        std::string(Next(4) == 0 ? "other-fp" : "infer-fp");
    if (Next(2) == 0) request.infer.fields["seed"] = 7.0;
    const uint64_t tokens = Next(8);
    for (uint64_t t = 0; t < tokens; ++t) {
      request.tokens.push_back(MakeToken(static_cast<int32_t>(t), intervals));
    }
    return request;
  }

  FakeToken MakeToken(int32_t position, bool intervals) {
    FakeToken token;
    token.position = position;
    token.token = static_cast<int32_t>(Next(50));
    token.gold = Next(5) == 0 ? -1 : static_cast<int32_t>(Next(3));
    TokenDrift& drift = token.drift;
    for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
      const Quantity& quantity = SlotQuantity(slot);
      const double value =
          quantity.max == 1 ? std::floor(Unit() * 5) / 4 : std::floor(Unit() * 16) / 16;
      drift.Set(slot, quantity.min < 0 ? value - 0.25 : value);
      if (intervals && Next(3) == 0 && quantity.id != "top1_overlap") {
        drift.SetInterval(slot, value / 2, value);
      }
    }
    if (Next(20) == 0) drift.known.reset(TokenSlot("kl"));
    if (Next(20) == 0) drift.Set(TokenSlot("kl"), std::numeric_limits<double>::infinity());
    drift.Set(TokenSlot("top1_overlap"), Next(3) == 0 ? 0 : 1);
    for (size_t side = 0; side < 2; ++side) {
      drift.argmax[side] = static_cast<int32_t>(Next(3));
      drift.confidence[side] = Unit();
    }
    return token;
  }

  uint64_t state_;
};

}  // namespace kcc::testing
