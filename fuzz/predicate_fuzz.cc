// Any bytes: parsing them, as a predicate and as arithmetic, ends with a tree or with an error
// inside the text. The canonical form is a fixed point, selects the same requests and has the same
// values.
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/predicate/expression.h"
#include "kcc/predicate/predicate.h"

namespace {

// Every field holds some value of some kind, which depends on its name and on `turn` alone.
class AnyFields : public kcc::FieldSource {
 public:
  explicit AnyFields(size_t turn) : turn_(turn) {}
  kcc::FieldValue RequestField(std::string_view name) const override { return Value(name, 0); }
  kcc::FieldValue TokenField(std::string_view name) const override { return Value(name, 1); }

 private:
  kcc::FieldValue Value(std::string_view name, size_t salt) const {
    static const std::vector<std::string> kTags = {"safety", "a", ""};
    const std::array<kcc::FieldValue, 8> values = {
        std::monostate{},      0.0,   8192.0, std::numeric_limits<double>::quiet_NaN(), true, false,
        std::string_view("a"), &kTags};
    size_t sum = turn_ + salt;
    for (const char c : name) sum = sum * 31 + static_cast<unsigned char>(c);
    return values[sum % values.size()];
  }

  size_t turn_;
};

void CheckError(const kcc::Error& error, size_t size) {
  const kcc::Place& place = error.place();
  KCC_CHECK(!error.message().empty() && place.line == 1 && place.column >= 1);
  KCC_CHECK(static_cast<size_t>(place.column) <= size + 1);
}

void CheckExpression(std::string_view text) {
  const kcc::Result<kcc::Expression> expression = kcc::Expression::Parse(text);
  if (!expression.has_value()) return CheckError(expression.error(), text.size());
  const std::string canonical = expression->Canonical();
  const kcc::Result<kcc::Expression> again = kcc::Expression::Parse(canonical);
  KCC_CHECK(again.has_value());
  KCC_CHECK(again->Canonical() == canonical);
  KCC_CHECK(again->Fields() == expression->Fields());
  for (size_t turn = 0; turn < 8; ++turn) {
    const AnyFields fields(turn);
    const std::optional<double> value = expression->Evaluate(fields);
    KCC_CHECK(!value || std::isfinite(*value));
    KCC_CHECK(again->Evaluate(fields) == value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckExpression(text);
  const kcc::Result<kcc::Predicate> predicate = kcc::Predicate::Parse(text);
  if (!predicate.has_value()) {
    CheckError(predicate.error(), size);
    return 0;
  }
  const std::string canonical = predicate->Canonical();
  const kcc::Result<kcc::Predicate> again = kcc::Predicate::Parse(canonical);
  KCC_CHECK(again.has_value());
  KCC_CHECK(again->Canonical() == canonical);
  KCC_CHECK(again->Fields() == predicate->Fields());
  KCC_CHECK(again->reads_token() == predicate->reads_token());
  for (size_t turn = 0; turn < 8; ++turn) {
    const AnyFields fields(turn);
    KCC_CHECK(again->Evaluate(fields) == predicate->Evaluate(fields));
  }
  return 0;
}
