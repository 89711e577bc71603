#include "kcc/contract/mapping_reader.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/contract/values.h"

namespace kcc {
namespace {

std::string QuotedShort(std::string_view text) {
  constexpr size_t kShown = 80;
  std::string shown(text.substr(0, kShown));
  if (text.size() > kShown) {
    while (!shown.empty() && (static_cast<uint8_t>(shown.back()) & 0xC0) == 0x80) shown.pop_back();
    if (!shown.empty() && static_cast<uint8_t>(shown.back()) >= 0xC0) shown.pop_back();
    shown += "...";
  }
  return "'" + shown + "'";
}

std::string_view KindName(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kScalar:
      return "a scalar";
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMapping:
      break;
  }
  return "a mapping";
}

std::string RangeText(const KeyRow& row) {
  const bool low = std::isfinite(row.min);
  const bool high = std::isfinite(row.max);
  std::string text;
  if (low) text = (row.min_open ? "above " : "at least ") + ShortestNumber(row.min);
  if (low && high) text += " and ";
  if (high) text += (row.max_open ? "below " : "at most ") + ShortestNumber(row.max);
  return text;
}

std::string ChoiceHint(std::string_view text, std::span<const std::string_view> words) {
  if (const auto nearest = NearestWord(text, words)) {
    return "did you mean '" + std::string(*nearest) + "'?";
  }
  return "write " + JoinWords(words, "or");
}

}  // namespace

bool CheckPlain(const YamlNode& scalar, std::string_view wanted, Problems* problems) {
  if (!scalar.quoted || !ParseNumber(scalar.text)) return true;
  problems->Error(scalar, "quoted-number",
                  "the quotes make this a text, and " + std::string(wanted) + " is wanted",
                  "drop the quotes");
  return false;
}

MappingReader::MappingReader(const YamlDocument& document, const YamlNode& node,
                             const MappingTable& table, Problems* problems)
    : document_(document), node_(node), table_(table), problems_(*problems) {
  if (is_mapping()) {
    Fill();
    ReportMissing();
  } else {
    problems_.Error(
        node_, "wrong-type",
        std::string(table_.name) + " must be a mapping, not " + std::string(KindName(node_)),
        "write its keys as 'key: value'");
  }
}

void MappingReader::Fill() {
  // Repetitions of unknown keys are found too, in a set so that a long mapping stays linear.
  std::set<std::string_view> unknown;
  for (size_t i = 0; i < document_.size(node_) && !problems_.full(); ++i) {
    const YamlNode& key = document_.key(node_, i);
    if (key.kind != YamlNode::Kind::kScalar) {
      problems_.Error(key, "bad-key", "a key must be a text, not " + std::string(KindName(key)));
      continue;
    }
    const auto row = std::find_if(table_.keys.begin(), table_.keys.end(),
                                  [&](const KeyRow& each) { return each.name == key.text; });
    if (row == table_.keys.end()) {
      if (unknown.insert(key.text).second) {
        ReportUnknown(key);
      } else {
        problems_.Error(key, "duplicate-key", "key " + QuotedShort(key.text) + " is given twice");
      }
      continue;
    }
    Entry& entry = entries_[static_cast<size_t>(row - table_.keys.begin())];
    if (entry.key != nullptr) {
      problems_.Error(key, "duplicate-key", "key " + QuotedShort(key.text) + " is given twice",
                      "the first one is on line " +
                          std::to_string(problems_.MarkOf(*entry.key).line) + "; keep one");
      continue;
    }
    const YamlNode& value = document_.value(node_, i);
    entry = {&key, &value};
    if (value.kind == YamlNode::Kind::kNull) {
      problems_.Error(key, "empty-value", "key " + QuotedShort(key.text) + " has no value",
                      value.text.empty()
                          ? "give it " + std::string(Describe(row->type)) + ", or remove the key"
                          : "quote it if the text '" + std::string(value.text) +
                                "' is meant, or remove the key");
      entry.value = nullptr;
    }
  }
}

void MappingReader::ReportUnknown(const YamlNode& key) const {
  std::vector<std::string_view> names;
  for (const KeyRow& row : table_.keys) names.push_back(row.name);
  std::string hint = "keys here are " + JoinWords(names);
  if (const auto nearest = NearestWord(key.text, names)) {
    hint = "did you mean '" + std::string(*nearest) + "'?";
  } else if (key.text == "<<") {
    hint = "merge keys are no part of the contract language; write the keys out";
  } else if (key.text == "threshold") {
    hint = "write atMost or atLeast";
  }
  problems_.Error(key, "unknown-key",
                  "unknown key " + QuotedShort(key.text) + " in " + std::string(table_.name),
                  std::move(hint));
}

void MappingReader::ReportMissing() const {
  for (size_t i = 0; i < table_.keys.size(); ++i) {
    const KeyRow& row = table_.keys[i];
    if (!row.required || entries_[i].key != nullptr) continue;
    std::string hint = "add '" + std::string(row.name) + ": ";
    hint += row.words.empty() ? "...'" : JoinWords(row.words, "or") + "'";
    problems_.Error(node_, "missing-key",
                    std::string(table_.name) + " has no key '" + std::string(row.name) + "'",
                    hint + " (" + std::string(row.doc) + ")");
  }
}

size_t MappingReader::IndexOf(std::string_view key) const {
  return static_cast<size_t>(&KeyOf(table_, key) - table_.keys.data());
}

const YamlNode* MappingReader::Value(std::string_view key) const {
  return entries_[IndexOf(key)].value;
}
const YamlNode* MappingReader::Key(std::string_view key) const {
  return entries_[IndexOf(key)].key;
}

const YamlNode* MappingReader::Scalar(const KeyRow& row, const YamlNode* value) const {
  if (value == nullptr || value->kind == YamlNode::Kind::kScalar) return value;
  problems_.Error(*value, "wrong-type",
                  std::string(row.name) + " must be " + std::string(Describe(row.type)) + ", not " +
                      std::string(KindName(*value)));
  return nullptr;
}

bool MappingReader::InRange(const KeyRow& row, double value, const YamlNode& at) const {
  const bool low = row.min_open ? value > row.min : value >= row.min;
  const bool high = row.max_open ? value < row.max : value <= row.max;
  if (low && high) return true;
  std::string hint = "it must be " + RangeText(row);
  if (row.type == ValueType::kRatio && value > 1 && value <= 100 && !at.text.ends_with('%')) {
    hint += "; " + std::string(at.text) + "% is written with its sign";
  }
  problems_.Error(at, "out-of-range",
                  std::string(row.name) + " " + QuotedShort(at.text) + " is out of range",
                  std::move(hint));
  return false;
}

std::optional<std::string> MappingReader::Text(std::string_view key) const {
  const KeyRow& row = KeyOf(table_, key);
  const YamlNode* value = Scalar(row, Value(key));
  if (value == nullptr) return {};
  const bool fits = row.type == ValueType::kIdentifier ? IsIdentifier(value->text)
                    : row.type == ValueType::kName     ? IsName(value->text)
                    : row.type == ValueType::kVersion  ? IsVersion(value->text)
                    : row.type == ValueType::kDate     ? IsDate(value->text)
                                                       : true;
  if (!fits && row.type == ValueType::kDate) {
    problems_.Error(*value, "bad-date",
                    std::string(row.name) + " " + QuotedShort(value->text) + " is not a day",
                    "write year, month and day, as in 2027-06-30");
    return {};
  }
  if (!fits) {
    problems_.Error(*value, row.type == ValueType::kVersion ? "bad-version" : "bad-name",
                    std::string(row.name) + " " + QuotedShort(value->text) + " is not " +
                        std::string(Describe(row.type)),
                    row.type == ValueType::kVersion
                        ? "three numbers without leading zeros, e.g. 1.0.0"
                        : "start with a letter or a digit; at most 128 characters");
    return {};
  }
  return std::string(value->text);
}

std::optional<double> MappingReader::Number(std::string_view key) const {
  const KeyRow& row = KeyOf(table_, key);
  const YamlNode* value = Scalar(row, Value(key));
  if (value == nullptr || !CheckPlain(*value, Describe(row.type), &problems_)) return {};
  return NumberAt(row, *value);
}

std::optional<double> MappingReader::NumberAt(const KeyRow& row, const YamlNode& value) const {
  const Result<double> number =
      row.type == ValueType::kRatio ? ReadRatio(value.text) : ReadNumber(value.text);
  if (!number.has_value()) {
    problems_.Error(value, "bad-number", std::string(row.name) + ": " + number.error().message());
    return {};
  }
  if (!InRange(row, *number, value)) return {};
  return *number + 0.0;  // -0 is 0: one value, one digest
}

std::vector<MappingReader::NumberItem> MappingReader::NumberList(std::string_view key) const {
  const KeyRow& row = KeyOf(table_, key);
  const YamlNode* list = Sequence(key);
  if (list == nullptr) return {};
  if (document_.size(*list) == 0) ReportEmpty(key, *list);
  std::vector<NumberItem> items;
  for (size_t i = 0; i < document_.size(*list) && !problems_.full(); ++i) {
    const YamlNode& item = document_.item(*list, i);
    if (item.kind != YamlNode::Kind::kScalar) {
      problems_.Error(item, "wrong-type",
                      std::string(key) + " must hold numbers, not " + std::string(KindName(item)));
    } else if (CheckPlain(item, Describe(ValueType::kNumber), &problems_)) {
      if (const auto number = NumberAt(row, item)) items.push_back({*number, &item});
    }
  }
  return items;
}

std::optional<int64_t> MappingReader::Integer(std::string_view key) const {
  const std::optional<double> number = Number(key);
  if (!number) return {};
  if (std::floor(*number) != *number) {
    problems_.Error(
        *Value(key), "bad-number",
        std::string(key) + " " + QuotedShort(Value(key)->text) + " is not a whole number");
    return {};
  }
  return static_cast<int64_t>(*number);
}

std::optional<bool> MappingReader::Boolean(std::string_view key) const {
  const KeyRow& row = KeyOf(table_, key);
  const YamlNode* value = Scalar(row, Value(key));
  if (value == nullptr) return {};
  if (!value->quoted && value->text == "true") return true;
  if (!value->quoted && value->text == "false") return false;
  problems_.Error(*value, "bad-boolean",
                  std::string(row.name) + " " + QuotedShort(value->text) + " is not true or false",
                  "write true or false, without quotes; yes, no, on and off are texts");
  return {};
}

std::optional<int64_t> MappingReader::Duration(std::string_view key) const {
  return ReadAs(key, ReadDuration, "bad-duration");
}

std::optional<size_t> MappingReader::WordAt(const KeyRow& row, const YamlNode& value) const {
  const auto found = std::find(row.words.begin(), row.words.end(), value.text);
  if (found != row.words.end()) return static_cast<size_t>(found - row.words.begin());
  problems_.Error(value, "unknown-word",
                  "unknown " + std::string(row.name) + " " + QuotedShort(value.text),
                  ChoiceHint(value.text, row.words));
  return {};
}

std::optional<size_t> MappingReader::Word(std::string_view key) const {
  const KeyRow& row = KeyOf(table_, key);
  const YamlNode* value = Scalar(row, Value(key));
  if (value == nullptr) return {};
  return WordAt(row, *value);
}

const YamlNode* MappingReader::Sequence(std::string_view key) const {
  const YamlNode* value = Value(key);
  if (value == nullptr || value->kind == YamlNode::Kind::kSequence) return value;
  problems_.Error(*value, "wrong-type",
                  std::string(key) + " must be " + std::string(Describe(KeyOf(table_, key).type)) +
                      ", not " + std::string(KindName(*value)),
                  value->kind == YamlNode::Kind::kScalar && value->text.size() < 64
                      ? "write [" + std::string(value->text) + "]"
                      : "start every item with '- '");
  return nullptr;
}

void MappingReader::ReportEmpty(std::string_view key, const YamlNode& list) const {
  problems_.Error(list, "empty-list", std::string(key) + " is an empty list",
                  "name at least one, or remove the key");
}

std::optional<std::vector<size_t>> MappingReader::WordList(std::string_view key) const {
  const KeyRow& row = KeyOf(table_, key);
  const YamlNode* list = Sequence(key);
  if (list == nullptr) return {};
  std::vector<size_t> words;
  for (const YamlNode* item : IdentifierList(key)) {
    if (const auto word = WordAt(row, *item)) words.push_back(*word);
  }
  if (words.empty()) return {};
  return words;
}

std::vector<const YamlNode*> MappingReader::IdentifierList(std::string_view key) const {
  const YamlNode* list = Sequence(key);
  if (list == nullptr) return {};
  const size_t size = document_.size(*list);
  if (size == 0) ReportEmpty(key, *list);
  std::vector<const YamlNode*> items;
  std::set<std::string_view> seen;
  items.reserve(size);
  for (size_t i = 0; i < size && !problems_.full(); ++i) {
    const YamlNode& item = document_.item(*list, i);
    if (item.kind != YamlNode::Kind::kScalar || !IsIdentifier(item.text)) {
      problems_.Error(
          item, "bad-name",
          item.kind == YamlNode::Kind::kScalar
              ? QuotedShort(item.text) + " is not " + std::string(Describe(ValueType::kIdentifier))
              : std::string(key) + " must hold names, not " + std::string(KindName(item)));
    } else if (!seen.insert(item.text).second) {
      problems_.Error(item, "duplicate-item",
                      std::string(key) + " names " + QuotedShort(item.text) + " twice", "keep one");
    } else {
      items.push_back(&item);
    }
  }
  return items;
}

std::vector<const YamlNode*> MappingReader::TextList(std::string_view key) const {
  const YamlNode* list = Sequence(key);
  if (list == nullptr) return {};
  const size_t size = document_.size(*list);
  if (size == 0) ReportEmpty(key, *list);
  std::vector<const YamlNode*> items;
  std::set<std::string_view> seen;
  for (size_t i = 0; i < size && !problems_.full(); ++i) {
    const YamlNode& item = document_.item(*list, i);
    if (item.kind != YamlNode::Kind::kScalar || item.text.empty()) {
      problems_.Error(item, "wrong-type",
                      std::string(key) + " must hold texts, not " +
                          (item.kind == YamlNode::Kind::kScalar ? "an empty one"
                                                                : std::string(KindName(item))));
    } else if (!seen.insert(item.text).second) {
      problems_.Error(item, "duplicate-item",
                      std::string(key) + " names " + QuotedShort(item.text) + " twice", "keep one");
    } else {
      items.push_back(&item);
    }
  }
  return items;
}

std::map<std::string, std::string> MappingReader::TextMap(std::string_view key) const {
  const KeyRow& row = KeyOf(table_, key);
  const YamlNode* value = Value(key);
  std::map<std::string, std::string> texts;
  if (value == nullptr) return texts;
  if (value->kind != YamlNode::Kind::kMapping) {
    problems_.Error(
        *value, "wrong-type",
        std::string(key) + " must be a mapping of scalars, not " + std::string(KindName(*value)));
    return texts;
  }
  for (size_t i = 0; i < document_.size(*value) && !problems_.full(); ++i) {
    const YamlNode& name = document_.key(*value, i);
    const YamlNode& text = document_.value(*value, i);
    if (name.kind != YamlNode::Kind::kScalar || name.text.empty()) {
      problems_.Error(name, "bad-key", "a key must be a text, not " + std::string(KindName(name)));
    } else if (text.kind == YamlNode::Kind::kNull) {
      problems_.Error(name, "empty-value", "key " + QuotedShort(name.text) + " has no value",
                      "give it a text, or remove the key");
    } else if (text.kind != YamlNode::Kind::kScalar) {
      problems_.Error(text, "wrong-type",
                      std::string(key) + "." + std::string(name.text.substr(0, 64)) +
                          " must be a scalar, not " + std::string(KindName(text)));
    } else if (row.type == ValueType::kBinding && name.text == "digest" && !IsSha256(text.text)) {
      problems_.Error(text, "bad-digest", QuotedShort(text.text) + " is not a digest",
                      "write sha256: and 64 lower-case hexadecimal digits");
    } else if (!texts.emplace(name.text, text.text).second) {
      problems_.Error(name, "duplicate-key", "key " + QuotedShort(name.text) + " is given twice",
                      "keep one");
    }
  }
  return texts;
}

std::optional<MappingReader> MappingReader::Mapping(std::string_view key) const {
  const YamlNode* value = Value(key);
  if (value == nullptr) return {};
  return MappingReader(document_, *value, TableOf(KeyOf(table_, key).child), &problems_);
}

std::vector<const YamlNode*> MappingReader::Items(std::string_view key) const {
  const YamlNode* list = Sequence(key);
  if (list == nullptr) return {};
  std::vector<const YamlNode*> items;
  items.reserve(document_.size(*list));
  for (size_t i = 0; i < document_.size(*list); ++i) items.push_back(&document_.item(*list, i));
  return items;
}

}  // namespace kcc
