#include "kcc/monitorlog/json_place.h"

#include <algorithm>

namespace kcc {
namespace {

// A parser that keeps nothing but its place. A function that returns false leaves it at the first
// byte that is not JSON.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  size_t at() const { return at_; }
  void MoveTo(size_t at) { at_ = at; }
  bool Blank() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
    return true;
  }
  bool Is(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool Take(char c) {
    if (!Is(c)) return false;
    ++at_;
    return true;
  }

  // A string with its quotes; `inside` is what stands between them, escapes as they are.
  bool String(std::string_view* inside) {
    if (!Take('"')) return false;
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (static_cast<unsigned char>(text_[at_]) < ' ') return false;
      at_ += text_[at_] == '\\' ? 2 : 1;
    }
    at_ = std::min(at_, text_.size());
    *inside = text_.substr(begin, at_ - begin);
    return Take('"');
  }

  bool Scalar() {
    const auto of_scalar = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == 'E' || c == '+' || c == '-' ||
             c == '.';
    };
    const size_t begin = at_;
    while (at_ < text_.size() && of_scalar(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    const bool number = !word.empty() && (word[0] == '-' || (word[0] >= '0' && word[0] <= '9'));
    if (number || word == "true" || word == "false" || word == "null") return true;
    at_ = begin;
    return false;
  }

  // A whole value. Brackets are counted and not called for, so that depth costs no stack.
  bool Value() {
    std::string open;  // closers that are waited for
    while (true) {
      Blank();
      if (Is('{') || Is('[')) {
        open.push_back(Is('{') ? '}' : ']');
        ++at_;
        Blank();
        if (!Is(open.back())) {
          if (!BeforeValue(open)) return false;
          continue;
        }
      } else {
        std::string_view inside;
        if (Is('"') ? !String(&inside) : !Scalar()) return false;
      }
      Blank();
      while (!open.empty() && Is(open.back())) {
        ++at_;
        open.pop_back();
        Blank();
      }
      if (open.empty()) return true;
      if (!Take(',') || !Blank() || !BeforeValue(open)) return false;
    }
  }

  bool Key(std::string_view* key) { return String(key) && Blank() && Take(':') && Blank(); }

 private:
  bool BeforeValue(const std::string& open) {
    std::string_view key;
    return open.back() == ']' || Key(&key);
  }

  std::string_view text_;
  size_t at_ = 0;
};

int Column(size_t at) { return static_cast<int>(std::min<size_t>(at, 1 << 30)) + 1; }

// Goes to the member or the element; `key_at` becomes the place of the member's key. The last of
// members with one key is taken.
bool Step(Scanner& scanner, const JsonStep& step, size_t* key_at) {
  const size_t begin = scanner.at();
  if (!scanner.Take(step.of_list ? '[' : '{')) return false;
  size_t found = 0;
  for (size_t i = 0;; ++i) {
    scanner.Blank();
    const size_t at = scanner.at();
    std::string_view key;
    if (!step.of_list && !scanner.Key(&key)) break;
    if (step.of_list ? i == step.index : key == step.key) {
      found = scanner.at();
      *key_at = at;
      if (step.of_list) break;
    }
    if (!scanner.Value() || !scanner.Take(',')) break;
  }
  scanner.MoveTo(found == 0 ? begin : found);
  return found != 0;
}

int Find(std::string_view text, std::span<const JsonStep> steps, bool of_key) {
  Scanner scanner(text);
  scanner.Blank();
  size_t key_at = scanner.at();
  for (const JsonStep& step : steps) {
    if (!Step(scanner, step, &key_at)) return Column(scanner.at());
  }
  return Column(of_key ? key_at : scanner.at());
}

}  // namespace

int ColumnOfValue(std::string_view text, std::span<const JsonStep> steps) {
  return Find(text, steps, false);
}

int ColumnOfKey(std::string_view text, std::span<const JsonStep> steps) {
  return Find(text, steps, true);
}

int ColumnOfFault(std::string_view text) {
  Scanner scanner(text);
  if (scanner.Value()) scanner.Blank();
  return Column(scanner.at());
}

}  // namespace kcc
