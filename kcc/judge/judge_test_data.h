// For tests and error rates of the judge: evidence in memory, pushed through the real accumulator.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/contract/contract.h"
#include "kcc/metric/token_slots.h"
#include "kcc/summary/accumulator.h"

namespace kcc::testing {

struct JudgedToken {
  TokenDrift drift;
  int32_t gold = -1;
  std::vector<double> own;  // of the user's own metrics, by place in the plan

  JudgedToken& Set(std::string_view quantity, double value) {
    drift.Set(TokenSlot(quantity), value);
    return *this;
  }
  JudgedToken& Set(std::string_view quantity, double lo, double hi) {
    drift.SetInterval(TokenSlot(quantity), lo, hi);
    return *this;
  }
};

struct JudgedRequest {
  Request train;
  Request infer;
  std::vector<JudgedToken> tokens;
  std::optional<OutputComparison> outputs;  // what both sides generated

  JudgedRequest& Both(const std::string& field, RequestValue value) {
    train.fields[field] = value;
    infer.fields[field] = std::move(value);
    return *this;
  }
};

// Requests are numbered from 0; a token's position is its place in the request. A slice holds
// everything, the tokens from position 3 on ("token.position >= 3"), the requests whose field
// "kept" is true ("kept == true"), those that a side rewarded ("reward >= 1"), or a part that
// depends on its predicate and the request alone.
struct Evidence {
  std::vector<JudgedRequest> requests;
  bool sampled_only = false;  // token values of estimable quantities become estimates
  size_t unmeasured = 0;      // the last ones: known to the source, absent from the summary
  std::function<void(Source*)> change_source;

  JudgedRequest& Add() {
    JudgedRequest& request = requests.emplace_back();
    request.train.id = request.infer.id = "request-" + std::to_string(requests.size() - 1);
    return request;
  }
};

inline bool InSlice(const PlanSlice& slice, const JudgedRequest& request, int64_t position) {
  if (slice.where.empty()) return true;
  if (slice.where == "token.position >= 3") return position >= 3;
  if (slice.where == "kept == true") return request.infer.Flag("kept").value_or(false);
  if (slice.where == "reward >= 1") {
    const Request& side = slice.outcomes == Side::kTrain ? request.train : request.infer;
    return side.Number("reward").value_or(0) >= 1;
  }
  const std::string place = slice.reads_token ? "#" + std::to_string(position) : "";
  return HashText(slice.where + request.infer.id + place) % 3 != 0;
}

inline void Feed(const Plan& plan, const JudgedRequest& request, bool sampled_only,
                 Accumulator* accumulator) {
  const std::vector<PlanSlice>& slices = plan.slices();
  SliceBits bits(slices.size());
  for (size_t i = 0; i < slices.size(); ++i) {
    if (!slices[i].reads_token && InSlice(slices[i], request, -1)) bits.Set(i);
  }
  RequestPair pair{request.infer.id, &request.train, &request.infer, "train", "infer"};
  if (request.outputs) pair.outputs = &*request.outputs;
  accumulator->BeginRequest(pair, bits);
  for (size_t t = 0; t < request.tokens.size(); ++t) {
    const auto position = static_cast<int32_t>(t);
    SliceBits token_bits = bits;
    for (size_t i = 0; i < slices.size(); ++i) {
      if (slices[i].reads_token && InSlice(slices[i], request, position)) token_bits.Set(i);
    }
    TokenDrift drift = request.tokens[t].drift;
    SampleEstimates estimates;
    if (sampled_only) {
      for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
        if (!EstimableSlots()[slot] || !drift.known[slot]) continue;
        estimates.value[slot] = drift.lo[slot];
        estimates.known.set(slot);
        drift.known.reset(slot);
      }
    }
    const Result<> added =
        accumulator->AddToken({position, 0, request.tokens[t].gold}, drift, token_bits,
                              sampled_only ? &estimates : nullptr, request.tokens[t].own);
    KCC_CHECK(added.has_value());
  }
  accumulator->EndRequest();
}

inline Summary Measure(const Plan& plan, const Evidence& evidence) {
  Accumulator accumulator(plan, {});
  Source source;
  source.sampled_by = SampledBy::kInfer;
  const size_t measured = evidence.requests.size() - evidence.unmeasured;
  for (size_t i = 0; i < evidence.requests.size(); ++i) {
    const JudgedRequest& request = evidence.requests[i];
    ++source.requests;
    source.tokens += request.tokens.size();
    source.manifest += HashText(request.infer.id);
    if (i < measured) Feed(plan, request, evidence.sampled_only, &accumulator);
  }
  if (evidence.change_source) evidence.change_source(&source);
  Result<Summary> summary = accumulator.Finish();
  KCC_CHECK(summary.has_value());
  summary->sources = {source};
  return *std::move(summary);
}

inline Summary Measure(const Contract& contract, const Evidence& evidence) {
  Summary summary = Measure(Plan::FromContract(contract), evidence);
  // The kernels are what the contract binds, unless a test says otherwise.
  Source& source = summary.sources[0];
  if (source.train.declares.empty()) source.train.declares = contract.train;
  if (source.infer.declares.empty()) source.infer.declares = contract.infer;
  if (source.request_set.empty()) source.request_set = contract.request_set;
  return summary;
}

}  // namespace kcc::testing
