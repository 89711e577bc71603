#include "kcc/trace/slices.h"

#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <variant>

namespace kcc {
namespace {

// Nothing is copied: the predicate sees the requests and the evidence where they are.
class PairFields final : public FieldSource {
 public:
  PairFields(const Request& train_request, const Request& infer_request, const TokenEvidence* train,
             const TokenEvidence* infer)
      : train_request_(train_request),
        infer_request_(infer_request),
        train_(train),
        infer_(infer) {}

  FieldValue RequestField(std::string_view name) const override {
    const FieldValue value = infer_request_.Field(name);
    if (!std::holds_alternative<std::monostate>(value)) return value;
    return train_request_.Field(name);
  }

  FieldValue TokenField(std::string_view name) const override {
    if (infer_ == nullptr) return std::monostate();
    if (name == "position") return static_cast<double>(infer_->position);
    if (name == "token") return static_cast<double>(infer_->token);
    if (name == "gold") return Present(infer_->gold >= 0 ? infer_->gold : train_->gold);
    if (name == "advantage") return Present(infer_->advantage, train_->advantage);
    if (name == "logprob") return Present(infer_->logprob, train_->logprob);
    return std::monostate();
  }

 private:
  static FieldValue Present(int32_t id) {
    if (id < 0) return std::monostate();
    return static_cast<double>(id);
  }
  static FieldValue Present(float first, float second) {
    const float value = std::isnan(first) ? second : first;
    if (std::isnan(value)) return std::monostate();
    return static_cast<double>(value);
  }

  const Request& train_request_;
  const Request& infer_request_;
  const TokenEvidence* train_;
  const TokenEvidence* infer_;
};

}  // namespace

Result<SliceEvaluator> SliceEvaluator::Make(std::vector<Slice> slices) {
  SliceEvaluator evaluator;
  std::set<std::string> names;
  for (size_t i = 0; i < slices.size(); ++i) {
    if (!names.insert(slices[i].name).second) {
      return InvalidError("the slice '" + slices[i].name + "' stands twice");
    }
    const bool per_token = slices[i].where && slices[i].where->reads_token();
    (per_token ? evaluator.token_slices_ : evaluator.request_slices_).push_back(i);
  }
  evaluator.slices_ = std::move(slices);
  return evaluator;
}

bool SliceEvaluator::reads_token(size_t slice) const {
  return slices_[slice].where && slices_[slice].where->reads_token();
}

void SliceEvaluator::ForRequest(const Request& train, const Request& infer, SliceBits* bits) const {
  *bits = SliceBits(slices_.size());
  const PairFields fields(train, infer, nullptr, nullptr);
  for (const size_t slice : request_slices_) {
    if (!slices_[slice].where || slices_[slice].where->Evaluate(fields)) bits->Set(slice);
  }
}

void SliceEvaluator::ForToken(const Request& train_request, const Request& infer_request,
                              const TokenEvidence& train, const TokenEvidence& infer,
                              SliceBits* bits) const {
  const PairFields fields(train_request, infer_request, &train, &infer);
  for (const size_t slice : token_slices_) {
    if (slices_[slice].where->Evaluate(fields)) bits->Set(slice);
  }
}

}  // namespace kcc
