// Reading the JSON of statements and envelopes: members by name, each at most once, with errors
// that say which is missing or wrong. Included by .cc files alone, like format/json.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kcc/format/json.h"

namespace kcc {

// The first problem is kept, with its path; every read after it gives a default, so that a reader
// is straight-line code that looks once, at its end.
class JsonFields {
 public:
  JsonFields(json::element element, std::string path, std::string* problem)
      : element_(element), path_(std::move(path)), problem_(problem) {}

  void Fail(std::string_view what) const;
  bool failed() const { return !problem_->empty(); }
  const std::string& path() const { return path_; }

  bool Has(std::string_view key) const;       // there and not null
  JsonFields At(std::string_view key) const;  // fails if it is missing or stands twice
  std::string Text() const;
  // A text of the object, or "" where it is missing.
  std::string TextOr(std::string_view key) const;
  bool Bool() const;
  int64_t Count() const;  // an integer of at least 0
  // A number, or "inf", "-inf", "nan" as JsonWriter writes them; null is NaN.
  double Number() const;
  std::vector<JsonFields> Items() const;
  std::vector<std::pair<std::string, JsonFields>> Members() const;  // fails on a repeated key
  // {"sha256": "…"} as "sha256:…"; fails if there is no such entry.
  std::string Sha256() const;
  // A time of timestamp.h, in milliseconds.
  int64_t Time() const;

 private:
  json::element element_;
  std::string path_;
  std::string* problem_;
};

}  // namespace kcc
