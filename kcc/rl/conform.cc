#include "kcc/rl/conform.h"

#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "kcc/base/strings.h"
#include "kcc/format/json.h"
#include "kcc/rl/conform_inputs.h"
#include "kcc/rl/dialect.h"

namespace kcc {
namespace {

constexpr double kFloatMax = 3.4e38;

struct Tolerance {
  double rel = 1e-5, abs = 1e-6;
  bool overflow = false;
};

bool Near(double got, double want, const Tolerance& tolerance, std::optional<double> float64) {
  if (std::isnan(want) || std::isinf(want)) {
    if (std::isnan(want) ? std::isnan(got) : got == want) return true;
    if (!tolerance.overflow) return false;
    if (std::fabs(got) > kFloatMax) return true;
    return float64.has_value() && std::fabs(got - *float64) <= 1e-5 * std::fabs(*float64) + 1e-6;
  }
  return std::fabs(got - want) <= tolerance.rel * std::fabs(want) + tolerance.abs;
}

// Masks and counts are not rounded.
bool IsExact(std::string_view name, bool array) {
  if (array) return name.ends_with("mask");
  return name == "num_masked_seqs" || name == "num_valid_samples" ||
         name == "unclipped_behave_tokens";
}

class CaseChecker {
 public:
  CaseChecker(std::string dialect, std::string name, ConformReport* report)
      : dialect_(std::move(dialect)), name_(std::move(name)), report_(report) {}

  void Miss(std::string what, std::string expected, std::string got) {
    report_->misses.push_back(
        {dialect_, name_, std::move(what), std::move(expected), std::move(got)});
  }

  void Compare(const std::string& what, double want, double got, const Tolerance& tolerance,
               std::optional<double> float64) {
    ++report_->values;
    if (!Near(got, want, tolerance, float64)) {
      Miss(what, ShortestNumber(want), ShortestNumber(got));
    }
  }

  Result<> Array(std::string_view name, json::element expected, const Tolerance& tolerance,
                 const DialectResult& result) {
    KCC_TRY(const GoldenRows want, ReadGoldenRows(expected, name));
    const DialectArray* got = result.Array(name);
    if (got == nullptr || got->offsets != want.offsets) {
      Miss(std::string(name),
           std::to_string(want.values.size()) + " values in " +
               std::to_string(want.offsets.size() - 1) + " rows",
           got == nullptr ? "no such array" : "another shape");
      return {};
    }
    for (size_t r = 0; r + 1 < want.offsets.size(); ++r) {
      for (int64_t i = want.offsets[r]; i < want.offsets[r + 1]; ++i) {
        const auto at = static_cast<size_t>(i);
        Compare(std::string(name) + "[" + std::to_string(r) + "][" +
                    std::to_string(i - want.offsets[r]) + "]",
                want.values[at], got->values[at], tolerance, std::nullopt);
      }
    }
    return {};
  }

 private:
  std::string dialect_, name_;
  ConformReport* report_;
};

Tolerance ToleranceOf(std::optional<json::element> table, std::string_view name, bool array) {
  Tolerance tolerance;
  if (IsExact(name, array)) tolerance = {0, 0, false};
  json::object all;
  if (!table.has_value() || table->get(all) != simdjson::SUCCESS) return tolerance;
  const auto entry = JsonMember(all, name);
  json::object fields;
  if (!entry.has_value() || entry->get(fields) != simdjson::SUCCESS) return tolerance;
  if (const auto rel = JsonMember(fields, "rel")) tolerance.rel = JsonNumber(*rel).value_or(0);
  if (const auto abs = JsonMember(fields, "abs")) tolerance.abs = JsonNumber(*abs).value_or(0);
  tolerance.overflow = JsonMember(fields, "overflow").has_value();
  return tolerance;
}

// Scalars by name, empty if there are none.
std::map<std::string, double, std::less<>> Scalars(std::optional<json::element> element) {
  std::map<std::string, double, std::less<>> out;
  json::object object;
  if (!element.has_value() || element->get(object) != simdjson::SUCCESS) return out;
  for (const auto [key, value] : object) {
    if (const auto number = ReadGoldenNumber(value)) out.emplace(std::string(key), *number);
  }
  return out;
}

Result<> CheckValues(json::object fields, json::object expected, const DialectResult& result,
                     const ConformOptions& options, CaseChecker* checker) {
  const auto tolerances = JsonMember(fields, "tolerance");
  const auto exact = Scalars(JsonMember(fields, "expected_float64"));
  for (const auto [key, value] : expected) {
    const auto number = ReadGoldenNumber(value);
    const Tolerance tolerance = ToleranceOf(tolerances, key, !number.has_value());
    if (!number.has_value()) {
      KCC_TRY_VOID(checker->Array(key, value, tolerance, result));
      continue;
    }
    const auto got = result.Metric(key);
    if (!got.has_value()) {
      checker->Miss(std::string(key), ShortestNumber(*number), "no such metric");
      continue;
    }
    const auto in_double = exact.find(key);
    const bool known = in_double != exact.end();
    checker->Compare(std::string(key), *number, *got, tolerance,
                     known ? std::optional(in_double->second) : std::nullopt);
    if (options.float64 && known && !tolerance.overflow) {
      checker->Compare(std::string(key) + " in float64", in_double->second, *got,
                       {1e-7, 1e-9, false}, std::nullopt);
    }
  }
  for (const auto& [name, value] : result.metrics) {
    if (!JsonMember(expected, name).has_value()) {
      checker->Miss(name, "no such metric", ShortestNumber(value));
    }
  }
  return {};
}

Result<> RunCase(json::element element, std::string_view dialect, const ConformOptions& options,
                 ConformReport* report) {
  json::object fields;
  if (element.get(fields) != simdjson::SUCCESS) return InvalidError("a case must be an object");
  const std::string name(JsonText(JsonMember(fields, "name")));
  const std::string_view framework = JsonText(JsonMember(fields, "framework"));
  const std::string used(framework.empty() ? dialect : framework);
  json::object inputs, expected;
  const auto config = JsonMember(fields, "config");
  const auto given = JsonMember(fields, "inputs");
  const auto wanted = JsonMember(fields, "expected");
  if (name.empty() || !config || !given || !wanted || given->get(inputs) != simdjson::SUCCESS ||
      wanted->get(expected) != simdjson::SUCCESS) {
    return InvalidError("case \"" + name + "\" lacks name, inputs, config or expected");
  }
  const auto arrays = ReadGoldenInputs(inputs);
  if (!arrays.has_value()) {
    return InvalidError("case \"" + name + "\": " + arrays.error().message());
  }
  const auto result = RunDialect(used, JsonText(JsonMember(fields, "function")), arrays->Batch(),
                                 arrays->Extras(), simdjson::minify(*config));
  CaseChecker checker(used, name, report);
  if (JsonMember(expected, "error").has_value()) {
    if (result.has_value()) {
      checker.Miss("refusal", "an error", "a result");
    } else {
      ++report->refused;
    }
    return {};
  }
  if (!result.has_value()) {
    checker.Miss("refusal", "a result", result.error().Format());
    return {};
  }
  return CheckValues(fields, expected, *result, options, &checker);
}

}  // namespace

Result<ConformReport> RunConform(std::string_view text, std::string_view dialect,
                                 const ConformOptions& options) {
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, text));
  const auto cases = JsonList(root);
  if (!cases.has_value()) return InvalidError("a golden file must be a list of cases");
  ConformReport report;
  for (const json::element element : *cases) {
    const size_t before = report.misses.size();
    KCC_TRY_VOID(RunCase(element, dialect, options, &report));
    ++report.cases;
    report.cases_missed += report.misses.size() > before;
  }
  return report;
}

}  // namespace kcc
