// Writing YAML for people: a small tree, printed in flow style where a line holds it and in block
// style where it does not. Every text reads back as itself, whatever it contains, and as a text in
// any YAML 1.1 or 1.2 reader. Internal to contract/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kcc {

// The text as a scalar of one line, valid in flow and block context: plain where no reader can
// take it for anything else, quoted otherwise.
std::string YamlScalar(std::string_view text);
// The same, always in quotes.
std::string YamlQuoted(std::string_view text);

struct YamlEntry;

struct YamlValue {
  enum class Kind { kToken, kText, kList, kMap };
  Kind kind = Kind::kToken;
  bool block = false;  // never in flow style, however short
  std::string text;    // kToken: as it stands (numbers, words of the language); kText: any text
  std::vector<YamlValue> items;
  std::vector<YamlEntry> entries;

  static YamlValue Token(std::string_view token);
  static YamlValue Text(std::string_view text);
  static YamlValue List(bool block = false);
  static YamlValue Map(bool block = false);

  YamlValue& Add(std::string key, YamlValue value);  // to a map; returns the map
  YamlValue& Add(YamlValue item);                    // to a list; returns the list
};

struct YamlEntry {
  std::string key;  // any text
  YamlValue value;
};

// The map as a document, ending in a newline.
std::string WriteYaml(const YamlValue& map);

}  // namespace kcc
