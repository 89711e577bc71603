#include "kcc/trace/slices.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <variant>

#include "kcc/base/strings.h"
#include "kcc/predicate/fields.h"

namespace kcc {
namespace {

constexpr std::string_view kOutputTokens = "output_tokens";

bool Known(const FieldValue& value) { return !std::holds_alternative<std::monostate>(value); }

FieldValue FirstKnown(const FieldValue& first, const FieldValue& second) {
  return Known(first) ? first : second;
}

FieldValue ValueIn(const Request* request, std::string_view name) {
  return request == nullptr ? FieldValue() : request->Field(name);
}

FieldValue NumberOf(double value) {
  if (std::isnan(value)) return std::monostate();
  return value;
}

// What pairing does not make the same on both sides.
FieldValue TokenValue(const TokenEvidence& token, std::string_view name) {
  if (name == "gold") return token.gold < 0 ? FieldValue() : static_cast<double>(token.gold);
  if (name == "advantage") return NumberOf(static_cast<double>(token.advantage));
  if (name == "logprob") return NumberOf(token.logprob);
  return std::monostate();
}

// Which requests are long, or short, is then not known, whichever side's answers are asked for.
bool LengthUnknown(const RequestSides& sides) {
  return sides.length_unknown[0] || sides.length_unknown[1];
}

// Nothing is copied: the predicate sees the requests and the evidence where they are.
class PairFields final : public FieldSource {
 public:
  PairFields(const RequestSides& sides, Side outcomes, const TokenEvidence* train,
             const TokenEvidence* infer)
      : sides_(sides), outcomes_(outcomes), train_(train), infer_(infer) {}

  FieldValue RequestField(std::string_view name) const override {
    if (name == kOutputTokens && LengthUnknown(sides_)) return std::monostate();
    if (name == kOutputTokens && sides_.output_rows >= 0) {
      return static_cast<double>(sides_.output_rows);
    }
    const bool outcome = OriginOf(name) == FieldOrigin::kOutcome;
    if (outcome && outcomes_ == Side::kInfer) {
      return FirstKnown(ValueIn(sides_.infer, name), ValueIn(sides_.train, name));
    }
    const FieldValue asked = outcome ? FieldValue() : ValueIn(sides_.asked, name);
    if (Known(asked)) return asked;
    return FirstKnown(ValueIn(sides_.train, name), ValueIn(sides_.infer, name));
  }

  FieldValue TokenField(std::string_view name) const override {
    if (infer_ == nullptr) return std::monostate();
    if (name == "position") return static_cast<double>(infer_->position);  // paired, so both sides'
    if (name == "token") {  // -1: not known, as of arrays that came without tokens
      return infer_->token < 0 ? FieldValue() : static_cast<double>(infer_->token);
    }
    const bool infer_first = name == "logprob" && outcomes_ == Side::kInfer;
    const FieldValue of_train = TokenValue(*train_, name);
    const FieldValue of_infer = TokenValue(*infer_, name);
    return infer_first ? FirstKnown(of_infer, of_train) : FirstKnown(of_train, of_infer);
  }

 private:
  const RequestSides& sides_;
  const Side outcomes_;
  const TokenEvidence* train_;
  const TokenEvidence* infer_;
};

// The order of a list of labels means nothing.
bool Agree(const FieldValue& a, const FieldValue& b) {
  using List = const std::vector<std::string>*;
  const List* first = std::get_if<List>(&a);
  const List* second = std::get_if<List>(&b);
  if (first == nullptr || second == nullptr || *first == nullptr || *second == nullptr) {
    return a == b;
  }
  std::vector<std::string> x = **first;
  std::vector<std::string> y = **second;
  std::sort(x.begin(), x.end());
  std::sort(y.begin(), y.end());
  return x == y;
}

std::string TextOf(const FieldValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return ShortestNumber(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* text = std::get_if<std::string_view>(&value))
    return "'" + std::string(*text) + "'";
  using List = const std::vector<std::string>*;
  const List* list = std::get_if<List>(&value);
  if (list == nullptr || *list == nullptr) return "nothing";
  std::string text = "[";
  for (const std::string& item : **list) text += (text.size() > 1 ? ", " : "") + item;
  return text + "]";
}

// One who knows a field's value, in words.
struct Witness {
  FieldValue value;
  std::string_view name;
};

Error Disagreement(const Request& request, std::string_view field, const Witness& a,
                   const Witness& b) {
  return BrokenEvidenceError("request '" + request.id + "': " + std::string(field) + " is " +
                             TextOf(a.value) + " " + std::string(a.name) + " and " +
                             TextOf(b.value) + " " + std::string(b.name) +
                             ". The field is the request's own and decides a slice, so all must "
                             "say the same");
}

}  // namespace

Result<SliceEvaluator> SliceEvaluator::Make(std::vector<Slice> slices, std::vector<Side> outcomes) {
  SliceEvaluator evaluator;
  std::set<std::string> names;
  outcomes.resize(slices.size(), Side::kInfer);
  const auto use = [](std::vector<FieldUse>* uses, const std::string& field, size_t slice) {
    const auto found = std::find_if(uses->begin(), uses->end(),
                                    [&](const FieldUse& row) { return row.name == field; });
    if (found != uses->end()) {
      found->slices.push_back(slice);
    } else {
      uses->push_back({field, OriginOf(field), {slice}});
    }
  };
  for (size_t i = 0; i < slices.size(); ++i) {
    if (!names.insert(slices[i].name).second) {
      return InvalidError("the slice '" + slices[i].name + "' stands twice");
    }
    const bool per_token = slices[i].where && slices[i].where->reads_token();
    (per_token ? evaluator.token_slices_ : evaluator.request_slices_).push_back(i);
    if (!slices[i].where) continue;
    for (const std::string& field : slices[i].where->Fields()) {
      if (!field.starts_with(kTokenFieldPrefix)) {
        use(&evaluator.request_fields_, field, i);
      } else if (OriginOf(field) == FieldOrigin::kOutcome) {
        use(&evaluator.token_fields_, field, i);
      }
    }
  }
  evaluator.slices_ = std::move(slices);
  evaluator.outcomes_ = std::move(outcomes);
  return evaluator;
}

bool SliceEvaluator::reads_token(size_t slice) const {
  return slices_[slice].where && slices_[slice].where->reads_token();
}

void SliceEvaluator::NoteOneSided(const FieldUse& use, bool vouched, bool infer_states,
                                  std::vector<Unvouched>* unvouched) const {
  if (vouched == infer_states) return;
  const bool lent = use.origin == FieldOrigin::kOutcome && vouched;
  const Unvouched::Why why = lent ? Unvouched::Why::kLent : Unvouched::Why::kInferAlone;
  if (vouched && !lent) return;
  for (const size_t slice : use.slices) {
    if (lent && outcomes_[slice] == Side::kTrain) continue;  // asks for train's own
    unvouched->push_back({slice, use.name, why});
  }
}

Result<> SliceEvaluator::CheckFields(const RequestSides& sides,
                                     std::vector<Unvouched>* unvouched) const {
  for (const FieldUse& use : request_fields_) {
    if (use.name == kOutputTokens && LengthUnknown(sides)) {
      for (const size_t slice : use.slices) {
        if (unvouched == nullptr) continue;
        unvouched->push_back({slice, use.name, Unvouched::Why::kRowsMissing});
      }
      continue;
    }
    if (use.name == kOutputTokens && sides.output_rows >= 0) continue;
    const bool outcome = use.origin == FieldOrigin::kOutcome;
    const Witness witnesses[] = {
        {outcome ? FieldValue() : ValueIn(sides.asked, use.name), "in the requests asked"},
        {ValueIn(sides.train, use.name), "in the train trace"},
        {ValueIn(sides.infer, use.name), "in the infer trace"}};
    const auto& [asked, train, infer] = witnesses;
    for (const auto& [a, b] : {std::pair(&asked, &train), {&asked, &infer}, {&train, &infer}}) {
      if (outcome || !Known(a->value) || !Known(b->value) || Agree(a->value, b->value)) continue;
      return Disagreement(*sides.infer, use.name, *a, *b);
    }
    if (unvouched == nullptr) continue;
    const bool vouched = Known(asked.value) || Known(train.value);
    if (!vouched && !Known(infer.value)) {
      for (const size_t slice : use.slices) {
        unvouched->push_back({slice, use.name, Unvouched::Why::kAbsent});
      }
    }
    NoteOneSided(use, vouched, Known(infer.value), unvouched);
  }
  return {};
}

Result<> SliceEvaluator::ForRequest(const RequestSides& sides, SliceBits* bits,
                                    std::vector<Unvouched>* unvouched) const {
  *bits = SliceBits(slices_.size());
  if (unvouched != nullptr) unvouched->clear();
  if (!request_fields_.empty()) KCC_TRY_VOID(CheckFields(sides, unvouched));
  for (const size_t slice : request_slices_) {
    const PairFields fields(sides, outcomes_[slice], nullptr, nullptr);
    if (!slices_[slice].where || slices_[slice].where->Evaluate(fields)) bits->Set(slice);
  }
  return {};
}

void SliceEvaluator::ForToken(const RequestSides& sides, const TokenEvidence& train,
                              const TokenEvidence& infer, SliceBits* bits,
                              std::vector<Unvouched>* unvouched) const {
  for (const size_t slice : token_slices_) {
    const PairFields fields(sides, outcomes_[slice], &train, &infer);
    if (slices_[slice].where->Evaluate(fields)) bits->Set(slice);
  }
  if (unvouched == nullptr) return;
  for (const FieldUse& use : token_fields_) {
    const std::string_view name = std::string_view(use.name).substr(kTokenFieldPrefix.size());
    NoteOneSided(use, Known(TokenValue(train, name)), Known(TokenValue(infer, name)), unvouched);
  }
}

}  // namespace kcc
