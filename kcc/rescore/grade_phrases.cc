// `phrases: [...]`: whether the answer holds one of them, whatever their case and whichever
// apostrophe it is written with.
#include <algorithm>

#include "kcc/rescore/grade.h"

namespace kcc {
namespace {

// ASCII letters in lower case; the typographic apostrophes U+2018 and U+2019 as the plain one; runs
// of blanks as one.
std::string Folded(std::string_view text) {
  std::string folded;
  folded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (text.substr(i).starts_with("\xE2\x80\x98") || text.substr(i).starts_with("\xE2\x80\x99")) {
      folded += '\'';
      i += 2;
    } else if (c == ' ' || (c >= '\t' && c <= '\r')) {
      if (folded.empty() || folded.back() != ' ') folded += ' ';
    } else if (c >= 'A' && c <= 'Z') {
      folded += static_cast<char>(c - 'A' + 'a');
    } else {
      folded += text[i];
    }
  }
  return folded;
}

class PhrasesGrader final : public Grader {
 public:
  explicit PhrasesGrader(std::vector<std::string> phrases) : phrases_(std::move(phrases)) {}

  std::optional<RequestValue> Grade(const GradeAsk& ask, std::string*) override {
    const std::string text = Folded(ask.text);
    return RequestValue(std::any_of(phrases_.begin(), phrases_.end(), [&](const auto& phrase) {
      return text.find(phrase) != std::string::npos;
    }));
  }

 private:
  const std::vector<std::string> phrases_;
};

}  // namespace

Result<std::unique_ptr<Grader>> MakePhrasesGrader(const GradeHook& hook) {
  std::vector<std::string> phrases;
  for (const std::string& phrase : hook.phrases) {
    phrases.push_back(Folded(phrase));
    if (phrases.back().empty() || phrases.back() == " ") {
      return InvalidError("an empty phrase is in every answer");
    }
  }
  if (phrases.empty()) return InvalidError("'" + hook.field + "' has no phrases to look for");
  return std::unique_ptr<Grader>(std::make_unique<PhrasesGrader>(std::move(phrases)));
}

}  // namespace kcc
