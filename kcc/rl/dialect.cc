// The list of dialects, and the way from a name to its code.
#include "kcc/rl/dialect.h"

#include <vector>

#include "kcc/base/strings.h"
#include "kcc/rl/dialect_list.h"

namespace kcc {
namespace {

#define KCC_DIALECT_ROW(dialect) &dialect,
constexpr const Dialect* kDialects[] = {KCC_RL_DIALECTS(KCC_DIALECT_ROW)};
#undef KCC_DIALECT_ROW

std::string Plain(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != '-' && c != '_') out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
  }
  return out;
}

bool IsAlias(const Dialect& dialect, const std::string& plain) {
  if (Plain(dialect.id) == plain) return true;
  for (const std::string_view alias : DialectWords(dialect.aliases)) {
    if (Plain(alias) == plain) return true;
  }
  return false;
}

Result<std::string_view> FunctionOf(const Dialect& dialect, std::string_view function) {
  if (function.empty()) return dialect.functions.front().name;
  std::vector<std::string_view> names;
  for (const DialectFunction& known : dialect.functions) {
    if (known.name == function) return known.name;
    names.push_back(known.name);
  }
  return InvalidError(std::string(dialect.title) + " has no function \"" + std::string(function) +
                      "\" here; known are " + JoinWords(names));
}

}  // namespace

std::span<const Dialect* const> Dialects() { return kDialects; }

std::vector<std::string_view> DialectWords(std::string_view column) {
  std::vector<std::string_view> words;
  while (!column.empty()) {
    const size_t end = column.find(' ');
    words.push_back(column.substr(0, end));
    column = end == std::string_view::npos ? "" : column.substr(end + 1);
  }
  return words;
}

Result<const Dialect*> FindDialect(std::string_view name) {
  const std::string plain = Plain(name);
  std::vector<std::string_view> ids;
  for (const Dialect* dialect : kDialects) {
    if (IsAlias(*dialect, plain)) return dialect;
    ids.push_back(dialect->id);
  }
  const auto nearest = NearestWord(name, ids);
  return InvalidError("no dialect is called \"" + std::string(name) + "\"; " +
                      (nearest ? "did you mean \"" + std::string(*nearest) + "\"?"
                               : "known are " + JoinWords(ids)));
}

std::optional<double> DialectResult::Metric(std::string_view name) const {
  for (const auto& [known, value] : metrics) {
    if (known == name) return value;
  }
  return std::nullopt;
}

const DialectArray* DialectResult::Array(std::string_view name) const {
  for (const DialectArray& array : arrays) {
    if (array.name == name) return &array;
  }
  return nullptr;
}

Result<DialectResult> RunDialect(std::string_view dialect, std::string_view function,
                                 const RlBatch& batch, const DialectExtras& extras,
                                 std::string_view options_json) {
  KCC_TRY(const Dialect* found, FindDialect(dialect));
  KCC_TRY(const std::string_view called, FunctionOf(*found, function));
  KCC_TRY(const OptionValue options, ParseOptions(options_json));
  KCC_TRY(const DialectInput in, LoadDialectInput(batch, extras));
  return found->run(in, called, options);
}

Result<DialectTranslation> TranslateDialect(std::string_view dialect, std::string_view function,
                                            std::string_view options_json) {
  KCC_TRY(const Dialect* found, FindDialect(dialect));
  KCC_TRY(const std::string_view called, FunctionOf(*found, function));
  KCC_TRY(const OptionValue options, ParseOptions(options_json));
  return found->translate(called, options);
}

}  // namespace kcc
