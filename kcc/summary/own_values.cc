#include "kcc/summary/own_values.h"

#include <cmath>
#include <limits>

#include "kcc/metric/own_metric.h"
#include "kcc/predicate/fields.h"
#include "kcc/summary/recorded.h"

namespace kcc {
namespace {

constexpr std::string_view kOutputTokens = "output_tokens";

// A field that a side measured. What is a number and no evidence (recorded.h) is absent.
FieldValue MeasuredField(const Request& request, std::string_view name) {
  const FieldValue value = request.Field(name);
  const bool number = std::holds_alternative<double>(value);
  return number && !PossibleNumber(request, name) ? FieldValue() : value;
}

// Of the table's request fields: the request's own, which neither side may choose. A field that is
// not in the table is a measurement of the side that recorded it.
bool IsTheRequests(std::string_view name) {
  const PredicateField* field = FindPredicateField(name);
  return field != nullptr && field->origin == FieldOrigin::kRequest;
}

FieldValue NumberOf(std::optional<double> value) {
  return value ? FieldValue(*value) : FieldValue();
}

class MetricFields final : public FieldSource {
 public:
  MetricFields(const RequestPair& pair, Side side, const TokenEvidence* train,
               const TokenEvidence* infer)
      : pair_(pair), side_(side), train_(train), infer_(infer) {}

  FieldValue RequestField(std::string_view name) const override {
    if (name == kOutputTokens) return NumberOf(pair_.OutputTokens(side_));
    if (!IsTheRequests(name)) return MeasuredField(pair_.side(side_), name);
    if (pair_.asked != nullptr) {
      const FieldValue asked = pair_.asked->Field(name);
      if (!std::holds_alternative<std::monostate>(asked)) return asked;
    }
    return pair_.train->Field(name);
  }

  FieldValue TokenField(std::string_view name) const override {
    if (name == "position") return static_cast<double>(infer_->position);  // paired, so both sides'
    if (name == "token") {  // -1: not known, as of arrays that came without tokens
      return infer_->token < 0 ? FieldValue() : static_cast<double>(infer_->token);
    }
    if (name == "logprob") {
      return static_cast<double>((side_ == Side::kTrain ? train_ : infer_)->logprob);
    }
    if (name == "gold") {
      const int32_t gold = train_->gold >= 0 ? train_->gold : infer_->gold;
      return gold < 0 ? FieldValue() : static_cast<double>(gold);
    }
    if (name == "advantage") {
      const bool of_train = !std::isnan(train_->advantage);
      return static_cast<double>((of_train ? train_ : infer_)->advantage);
    }
    return std::monostate();
  }

 private:
  const RequestPair& pair_;
  const Side side_;
  const TokenEvidence* train_;
  const TokenEvidence* infer_;
};

}  // namespace

std::optional<double> OwnRequestValue(const Quantity& quantity, const RequestPair& pair,
                                      Side side) {
  // A time that was given up is no value, whatever its fields say. It is infinite only where that
  // is the worst there is, so that it can never help.
  if (quantity.unit == Unit::kMs && TimedOut(pair.side(side))) {
    if (!std::isinf(quantity.max) || quantity.direction != Direction::kLowerIsBetter) return {};
    return std::numeric_limits<double>::infinity();
  }
  return quantity.own->from.Evaluate(MetricFields(pair, side, nullptr, nullptr));
}

std::optional<double> OwnTokenValue(const Quantity& quantity, const RequestPair& pair, Side side,
                                    const TokenEvidence& train, const TokenEvidence& infer) {
  return quantity.own->from.Evaluate(MetricFields(pair, side, &train, &infer));
}

}  // namespace kcc
