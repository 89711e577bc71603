// A streaming JSON writer: keys in the order they are written, numbers in shortest round-trip
// form, so that the same data gives the same bytes. Non-finite numbers become the strings "inf",
// "-inf" and "nan" (JSON has no others, and null would lose them).
//
// It lives in base because every later module prints JSON; reading JSON is the reader's business.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kcc {

class JsonWriter {
 public:
  enum class Style { kCompact, kPretty };
  explicit JsonWriter(Style style = Style::kPretty) : style_(style) {}

  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& Key(std::string_view key);

  JsonWriter& Value(std::string_view text);
  JsonWriter& Value(const char* text) { return Value(std::string_view(text)); }
  JsonWriter& Value(bool value);
  JsonWriter& Value(double value);
  JsonWriter& Value(std::integral auto value) { return Raw(std::to_string(value)); }
  JsonWriter& Null() { return Raw("null"); }
  // Text that is JSON already.
  JsonWriter& Raw(std::string_view json);

  template <class T>
  JsonWriter& Field(std::string_view key, const T& value) {
    return Key(key).Value(value);
  }

  // The finished document, ending in a newline. All objects and arrays must be closed.
  std::string Take();

 private:
  struct Level {
    char closer;
    bool empty = true;
  };
  void BeforeValue();
  void Indent();
  JsonWriter& Begin(char opener, char closer);
  JsonWriter& End(char closer);

  Style style_;
  std::string text_;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

// The text as a JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD.
std::string JsonQuote(std::string_view text);

}  // namespace kcc
