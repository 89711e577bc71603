// Reads one mapping of a document against its key table: unknown, repeated and missing keys are
// reported when it is made, wrong values when they are asked for. So a reader of a mapping is the
// list of its keys and nothing else.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/keys.h"
#include "kcc/contract/problems.h"
#include "kcc/contract/yaml_document.h"

namespace kcc {

class MappingReader {
 public:
  // `node` may be anything; if it is not a mapping, that is reported and nothing is found.
  MappingReader(const YamlDocument& document, const YamlNode& node, const MappingTable& table,
                Problems* problems);

  const YamlNode& node() const { return node_; }
  bool is_mapping() const { return node_.kind == YamlNode::Kind::kMapping; }

  // The value as written; none if the key is absent or empty (which is reported).
  const YamlNode* Value(std::string_view key) const;
  const YamlNode* Key(std::string_view key) const;

  // None if absent; none and reported if it is not what the table asks for.
  std::optional<std::string> Text(std::string_view key) const;
  std::optional<double> Number(std::string_view key) const;  // kNumber, kRatio
  std::optional<int64_t> Integer(std::string_view key) const;
  std::optional<bool> Boolean(std::string_view key) const;
  std::optional<int64_t> Duration(std::string_view key) const;  // in milliseconds
  // What `read` makes of the text; its error is reported under `code`.
  template <class T>
  std::optional<T> ReadAs(std::string_view key, Result<T> (*read)(std::string_view),
                          const std::string& code) const {
    const KeyRow& row = KeyOf(table_, key);
    const YamlNode* value = Scalar(row, Value(key));
    if (value == nullptr) return {};
    Result<T> made = read(value->text);
    if (made.has_value()) return std::move(*made);
    problems_.Error(*value, code, std::string(row.name) + ": " + made.error().message());
    return {};
  }
  struct NumberItem {
    double value = 0;
    const YamlNode* at = nullptr;
  };
  std::vector<NumberItem> NumberList(std::string_view key) const;
  // Position in the row's words.
  std::optional<size_t> Word(std::string_view key) const;
  std::optional<std::vector<size_t>> WordList(std::string_view key) const;
  std::vector<const YamlNode*> IdentifierList(std::string_view key) const;
  std::vector<const YamlNode*> TextList(std::string_view key) const;  // kTextList, kSourceList
  std::map<std::string, std::string> TextMap(std::string_view key) const;

  // The nested mapping, if present; the nested mappings of a list.
  std::optional<MappingReader> Mapping(std::string_view key) const;
  std::vector<const YamlNode*> Items(std::string_view key) const;

  // Word that stands in the enum's order in its table.
  template <class Enum>
  std::optional<Enum> EnumWord(std::string_view key) const {
    const std::optional<size_t> index = Word(key);
    return index ? std::optional(static_cast<Enum>(*index)) : std::nullopt;
  }

 private:
  struct Entry {
    const YamlNode* key = nullptr;
    const YamlNode* value = nullptr;
  };
  void Fill();
  void ReportUnknown(const YamlNode& key) const;
  void ReportMissing() const;
  void ReportEmpty(std::string_view key, const YamlNode& list) const;
  size_t IndexOf(std::string_view key) const;
  // A present scalar, else none; reports lists and mappings.
  const YamlNode* Scalar(const KeyRow& row, const YamlNode* value) const;
  const YamlNode* Sequence(std::string_view key) const;
  bool InRange(const KeyRow& row, double value, const YamlNode& at) const;
  std::optional<size_t> WordAt(const KeyRow& row, const YamlNode& value) const;
  std::optional<double> NumberAt(const KeyRow& row, const YamlNode& value) const;

  const YamlDocument& document_;
  const YamlNode& node_;
  const MappingTable& table_;
  Problems& problems_;
  std::array<Entry, kMappingKeysMax> entries_{};
};

// Reports a quoted number where a number is wanted: "0.05" is a text to every YAML reader. With a
// unit ("1%", "400ms") it is a text either way, so quotes do not matter. True if it is well.
bool CheckPlain(const YamlNode& scalar, std::string_view wanted, Problems* problems);

}  // namespace kcc
