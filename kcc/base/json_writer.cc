#include "kcc/base/json_writer.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "kcc/base/check.h"
#include "kcc/base/strings.h"

namespace kcc {
namespace {

void AppendEscaped(std::string_view text, std::string* out) {
  for (const char c : text) {
    switch (c) {
      case '"':
        *out += "\\\"";
        break;
      case '\\':
        *out += "\\\\";
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\r':
        *out += "\\r";
        break;
      case '\t':
        *out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          std::array<char, 8> code{};
          std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
          *out += code.data();
        } else {
          *out += c;
        }
    }
  }
}

}  // namespace

std::string JsonQuote(std::string_view text) {
  std::string out = "\"";
  size_t bad = 0;
  while (!IsUtf8(text, &bad)) {
    AppendEscaped(text.substr(0, bad), &out);
    // U+FFFD: JSON has no place for bytes that are not UTF-8.
    out += "\xEF\xBF\xBD";
    text.remove_prefix(bad + 1);
  }
  AppendEscaped(text, &out);
  return out += '"';
}

void JsonWriter::Indent() {
  if (style_ == Style::kCompact) return;
  text_ += '\n';
  text_.append(2 * levels_.size(), ' ');
}

// Invariant: text_ is the beginning of one JSON document. levels_ holds the closer of everything
// that is open, and after_key_ is true exactly between a key and its value. A value without a key
// in an object, a closer that does not fit and a document taken before its end are faults of the
// caller and end the program: they would give a file that nobody can read.
void JsonWriter::BeforeValue() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) return;
  KCC_CHECK(levels_.back().closer == ']');
  if (!levels_.back().empty) text_ += ',';
  levels_.back().empty = false;
  Indent();
}

JsonWriter& JsonWriter::Begin(char opener, char closer) {
  BeforeValue();
  text_ += opener;
  levels_.push_back({closer});
  return *this;
}

// An empty container stays on one line: {} and [].
JsonWriter& JsonWriter::End(char closer) {
  KCC_CHECK(!levels_.empty() && levels_.back().closer == closer && !after_key_);
  const bool empty = levels_.back().empty;
  levels_.pop_back();
  if (!empty) Indent();
  text_ += closer;
  return *this;
}

JsonWriter& JsonWriter::BeginObject() { return Begin('{', '}'); }
JsonWriter& JsonWriter::EndObject() { return End('}'); }
JsonWriter& JsonWriter::BeginArray() { return Begin('[', ']'); }
JsonWriter& JsonWriter::EndArray() { return End(']'); }

JsonWriter& JsonWriter::Key(std::string_view key) {
  KCC_CHECK(!levels_.empty() && levels_.back().closer == '}' && !after_key_);
  if (!levels_.back().empty) text_ += ',';
  levels_.back().empty = false;
  Indent();
  text_ += JsonQuote(key);
  text_ += style_ == Style::kCompact ? ":" : ": ";
  after_key_ = true;
  return *this;
}

// Taken as it is: the caller vouches that it is one JSON value.
JsonWriter& JsonWriter::Raw(std::string_view json) {
  BeforeValue();
  text_ += json;
  return *this;
}

JsonWriter& JsonWriter::Value(std::string_view text) { return Raw(JsonQuote(text)); }
JsonWriter& JsonWriter::Value(bool value) { return Raw(value ? "true" : "false"); }
JsonWriter& JsonWriter::Value(double value) {
  // JSON has no infinities and no NaN: they are written as texts, "inf", "-inf" and "nan".
  return std::isfinite(value) ? Raw(ShortestNumber(value)) : Value(ShortestNumber(value));
}

// Ends with a line end, so that a file of it is a text file.
std::string JsonWriter::Take() {
  KCC_CHECK(levels_.empty() && !after_key_);
  text_ += '\n';
  return std::move(text_);
}

}  // namespace kcc
