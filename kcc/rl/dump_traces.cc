// Dumps from a pair of kcc traces: the sampled tokens' log-probs as recorded, or from full logits
// at the pair's temperature.
#include <cmath>
#include <map>
#include <numeric>

#include "kcc/base/strings.h"
#include "kcc/measure/pair_walk.h"
#include "kcc/measure/trace_source.h"
#include "kcc/rl/dump_formats.h"
#include "kcc/trace/pairing.h"

namespace kcc {
namespace {

std::string FieldText(const FieldValue& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return std::string(*text);
  if (const auto* number = std::get_if<double>(&value)) return ShortestNumber(*number);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  return "none";
}

// The sampled tokens' log-probs, request after request.
class DumpVisitor final : public PairVisitor {
 public:
  DumpVisitor(const PairedTraces& pair, const RlDumpOptions& options)
      : pair_(pair), options_(options) {}

  Result<> BeginRequest(size_t index, const RequestPair&, const SliceBits&) override {
    if (options_.slice_by.empty()) return {};
    slice_of_.push_back(FieldText(pair_.Field(static_cast<int32_t>(index), options_.slice_by)));
    slices_.emplace(slice_of_.back(), 0);
    return {};
  }

  Result<> Read(const TokenEvidence& train, const TokenEvidence& infer) override {
    KCC_TRY(const double of_train, Logprob(train, "train"));
    KCC_TRY(const double of_infer, Logprob(infer, "infer"));
    train_.push_back(of_train);
    infer_.push_back(of_infer);
    const float advantage = std::isnan(train.advantage) ? infer.advantage : train.advantage;
    advantage_known_ = advantage_known_ && !std::isnan(advantage);
    advantages_.push_back(static_cast<double>(advantage));
    return {};
  }

  // Rows are read as they lie in the traces; no quantity of a pair is asked for.
  Result<> Add(const MeasuredToken&) override { return {}; }

  Result<> EndRequest() override {
    offsets_.push_back(static_cast<int64_t>(train_.size()));
    return {};
  }

  void Finish(RlDump* dump) {
    const auto count = static_cast<int64_t>(train_.size());
    dump->offsets = std::move(offsets_);
    dump->arrays.push_back({"train", {count}, std::move(train_)});
    dump->arrays.push_back({"rollout", {count}, std::move(infer_)});
    // Advantages of some tokens alone would be taken for those of all.
    if (advantage_known_ && count > 0) {
      dump->arrays.push_back({"advantages", {count}, std::move(advantages_)});
    }
    // Numbered in the order of their names, not of the requests: the same slices have the same
    // numbers however the traces are ordered.
    for (auto& [name, number] : slices_) {
      number = static_cast<int32_t>(dump->slice_names.size());
      dump->slice_names.push_back(name);
    }
    for (const std::string& name : slice_of_) dump->slice_of_row.push_back(slices_[name]);
  }

 private:
  Result<double> Logprob(const TokenEvidence& token, std::string_view side) const {
    KCC_TRY(const double logprob,
            SampledLogprob(token, pair_.vocab_size(), pair_.logit_divisor(), side));
    if (!std::isnan(logprob)) return logprob;
    return BrokenEvidenceError("there is no " + std::string(side) +
                               " log-prob; kcc rl needs the sampled token's log-prob, or full "
                               "logits, on both sides");
  }

  const PairedTraces& pair_;
  const RlDumpOptions& options_;
  std::vector<double> train_, infer_, advantages_;
  std::vector<int64_t> offsets_ = {0};
  std::map<std::string, int32_t> slices_;
  std::vector<std::string> slice_of_;  // by request
  bool advantage_known_ = true;
};

}  // namespace

Result<> ReadTraceDump(const std::string& train, const std::string& infer,
                       const RlDumpOptions& options, RlDump* dump) {
  KCC_TRY(TraceReader train_reader, TraceReader::Open(train));
  KCC_TRY(TraceReader infer_reader, TraceReader::Open(infer));
  KCC_TRY(const PairedTraces pair,
          PairedTraces::Make(std::move(train_reader), std::move(infer_reader)));
  if (pair.mode() == TraceMode::kGenerated) {
    return InvalidError(
        "generated traces do not pair token by token; score the sampled tokens with the trainer");
  }
  if (pair.evidence() == EvidenceLevel::kNone) {
    return InvalidError("one of the traces holds no log-probs and no logits; record either");
  }
  DumpVisitor visitor(pair, options);
  PairVisitor* const visitors[] = {&visitor};
  KCC_TRY(const SliceEvaluator no_slices, SliceEvaluator::Make({}));
  std::vector<int32_t> order(pair.requests().size());
  std::iota(order.begin(), order.end(), 0);
  KCC_TRY_VOID(WalkPairs(TraceSource(pair), order, no_slices, {}, visitors));
  visitor.Finish(dump);
  return {};
}

}  // namespace kcc
