// Finds texts that end an answer, in text that arrives in pieces. What may be the beginning of such
// a text is held back until it is certain, so that no part of it is ever given out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kcc {

class StopText {
 public:
  // With `keep` the text that ends the answer is given out, too.
  StopText(std::vector<std::string> stops, bool keep) : stops_(std::move(stops)), keep_(keep) {}

  // What may be given out. After a stop was found, nothing more is.
  std::string Push(std::string_view piece);
  // What was held back, at the end of the answer.
  std::string Finish();
  // The text that ended the answer.
  const std::optional<std::string>& found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  bool keep_;
  std::string held_;
  std::optional<std::string> found_;
};

}  // namespace kcc
