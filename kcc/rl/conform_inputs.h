// The arrays of a golden case (conform.h), checked against one another before anything reads them:
// behind these shapes the dialects index without looking.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/format/json.h"
#include "kcc/rl/batch.h"
#include "kcc/rl/dialect.h"

namespace kcc {

// A number, a truth value, or one of "NaN", "Infinity", "-Infinity"; none otherwise.
std::optional<double> ReadGoldenNumber(json::element element);

// A list of rows, or a list of numbers: then each is a row of its own.
struct GoldenRows {
  std::vector<int64_t> offsets = {0};
  std::vector<double> values;
  bool nested = false;
};
Result<GoldenRows> ReadGoldenRows(json::element element, std::string_view name);

class GoldenInputs {
 public:
  // Views; they live as long as the inputs.
  RlBatch Batch() const;
  DialectExtras Extras() const;

 private:
  friend Result<GoldenInputs> ReadGoldenInputs(json::object inputs);
  const GoldenRows* Find(std::string_view name) const;
  RlArray Array(std::string_view name) const;
  Result<> CheckShapes() const;

  std::map<std::string, GoldenRows, std::less<>> arrays_;
};

// Fails for an array that is missing, unknown, or of another shape than the log-probs ask for.
Result<GoldenInputs> ReadGoldenInputs(json::object inputs);

}  // namespace kcc
