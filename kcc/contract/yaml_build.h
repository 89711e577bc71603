// What the writers of all kinds of documents build a YamlValue from. Internal to contract/.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kcc/base/strings.h"
#include "kcc/contract/policy.h"
#include "kcc/contract/yaml_writer.h"

namespace kcc {

inline constexpr bool kBlock = true;

inline YamlValue Number(double value) { return YamlValue::Token(ShortestNumber(value)); }
inline YamlValue Time(int64_t ms) { return YamlValue::Token(DurationText(ms)); }
inline YamlValue Integer(int64_t value) { return YamlValue::Token(std::to_string(value)); }

// "1%" where that is short and reads back as the same number.
inline YamlValue Ratio(double value) {
  constexpr size_t kShort = 5;
  const std::string percent = ShortestNumber(value * 100);
  // The reader shifts the decimal exponent; so does this.
  if (percent.size() > kShort || ParseNumber(percent + "e-2") != value) return Number(value);
  return YamlValue::Token(percent + "%");
}

inline YamlValue TextMap(const std::map<std::string, std::string>& map) {
  YamlValue value = YamlValue::Map();
  for (const auto& [key, text] : map) value.Add(key, YamlValue::Text(text));
  return value;
}

inline YamlValue TextList(const std::vector<std::string>& texts) {
  YamlValue value = YamlValue::List();
  for (const std::string& text : texts) value.Add(YamlValue::Text(text));
  return value;
}

inline void AddIfAny(std::string key, YamlValue value, YamlValue* map) {
  if (value.entries.empty() && value.items.empty()) return;
  map->Add(std::move(key), std::move(value));
}

inline void AddText(std::string key, const std::string& text, YamlValue* map) {
  if (!text.empty()) map->Add(std::move(key), YamlValue::Text(text));
}

}  // namespace kcc
