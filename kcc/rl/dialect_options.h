// A framework's options as it writes them: JSON objects read key by key, with the framework's
// defaults for what is missing. The first mistake is kept; Finish() reports it, or an unknown key.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

struct OptionValue {
  enum class Kind { kNull, kBool, kNumber, kText, kList, kObject };
  Kind kind = Kind::kNull;
  bool truth = false;
  double number = 0;
  std::string text;
  std::vector<OptionValue> items;
  std::map<std::string, OptionValue, std::less<>> fields;
};

// An empty text is an empty object.
Result<OptionValue> ParseOptions(std::string_view json);

class OptionReader {
 public:
  explicit OptionReader(const OptionValue& object) : object_(object) {}

  bool Has(std::string_view key);  // there and not null
  double Number(std::string_view key, double otherwise);
  std::optional<double> MaybeNumber(std::string_view key,
                                    std::optional<double> otherwise = std::nullopt);
  bool Bool(std::string_view key, bool otherwise);
  std::string Text(std::string_view key, std::string_view otherwise);
  std::optional<std::string> MaybeText(std::string_view key);
  // One of a few words.
  std::string Word(std::string_view key, std::string_view otherwise,
                   std::initializer_list<std::string_view> allowed);
  std::optional<std::string> MaybeWord(std::string_view key,
                                       std::initializer_list<std::string_view> allowed);
  const OptionValue* Value(std::string_view key);  // null if missing or null
  void Fail(std::string message);
  Result<> Finish();

 private:
  const OptionValue* Find(std::string_view key);

  const OptionValue& object_;
  std::vector<std::string> known_;
  std::string problem_;
};

}  // namespace kcc
