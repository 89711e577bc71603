#include "kcc/predicate/predicate_lexer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

struct Spelling {
  std::string_view text;
  LexemeKind kind;
};

// Longer spellings before their prefixes.
constexpr std::array kSymbols = {
    Spelling{"==", LexemeKind::kEqual},      Spelling{"!=", LexemeKind::kNotEqual},
    Spelling{"<=", LexemeKind::kLessEqual},  Spelling{">=", LexemeKind::kGreaterEqual},
    Spelling{"<", LexemeKind::kLess},        Spelling{">", LexemeKind::kGreater},
    Spelling{"[", LexemeKind::kOpenBracket}, Spelling{"]", LexemeKind::kCloseBracket},
    Spelling{"(", LexemeKind::kOpenParen},   Spelling{")", LexemeKind::kCloseParen},
    Spelling{",", LexemeKind::kComma},
};

constexpr std::array kArithmeticSymbols = {
    Spelling{"+", LexemeKind::kPlus},      Spelling{"-", LexemeKind::kMinus},
    Spelling{"*", LexemeKind::kTimes},     Spelling{"/", LexemeKind::kDivide},
    Spelling{"(", LexemeKind::kOpenParen}, Spelling{")", LexemeKind::kCloseParen},
    Spelling{",", LexemeKind::kComma},
};

constexpr std::array kWords = {
    Spelling{"and", LexemeKind::kAnd},   Spelling{"or", LexemeKind::kOr},
    Spelling{"not", LexemeKind::kNot},   Spelling{"in", LexemeKind::kIn},
    Spelling{"true", LexemeKind::kTrue}, Spelling{"false", LexemeKind::kFalse},
};

// What other languages write, and what to write here.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kForeignSymbols = {{
    {"&&", "and"},
    {"||", "or"},
    {"<>", "!="},
    {"=", "=="},
    {"!", "not"},
    {"{", "["},
}};

// Not <cctype>, whose answers follow the locale.
bool IsDecimal(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsNamePart(char c) { return IsNameStart(c) || IsDecimal(c) || c == '.'; }
bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string Lower(std::string_view word) {
  std::string lower(word);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// All lexemes at once, with their places, so that the parser can look ahead and every error has a
// column. Example, `tokens >= 10 and not kept`:
//
//     field "tokens"   >=   number 10   and   not   field "kept"   end
//
// Words that are nearly right (AND, &&, =) are refused with the right spelling rather than read as
// names: a predicate that means something else than its author thinks selects other requests.
class Lexer {
 public:
  Lexer(std::string_view text, bool arithmetic) : text_(text), arithmetic_(arithmetic) {}

  Result<std::vector<Lexeme>> Run() {
    std::vector<Lexeme> lexemes;
    while (true) {
      while (at_ < text_.size() && IsBlank(text_[at_])) ++at_;
      if (at_ == text_.size()) break;
      KCC_TRY(Lexeme lexeme, Next());
      lexeme.source = text_.substr(lexeme.offset, at_ - lexeme.offset);
      lexemes.push_back(std::move(lexeme));
    }
    lexemes.push_back({.kind = LexemeKind::kEnd, .offset = at_, .source = {}, .text = {}});
    return lexemes;
  }

 private:
  char Peek(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  bool AtNumber() const {
    const size_t sign = !arithmetic_ && (Peek(0) == '-' || Peek(0) == '+') ? 1 : 0;
    return IsDecimal(Peek(sign)) || (Peek(sign) == '.' && IsDecimal(Peek(sign + 1)));
  }

  Result<Lexeme> Next() {
    if (!arithmetic_ && (text_[at_] == '\'' || text_[at_] == '"')) return Text();
    if (AtNumber()) return Number();
    if (IsNameStart(text_[at_])) return arithmetic_ ? Field() : Word();
    return arithmetic_ ? ArithmeticSymbol() : Symbol();
  }

  Result<Lexeme> Text() {
    const char quote = text_[at_];
    Lexeme lexeme{.kind = LexemeKind::kText, .offset = at_, .source = {}, .text = {}};
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == quote) {
        ++at_;
        return lexeme;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        return PredicateError(at_, "a control character in a text; write \\n, \\r or \\t");
      }
      if (c != '\\') {
        lexeme.text += c;
        continue;
      }
      ++at_;
      constexpr std::string_view kEscapes = "\\'\"nrt";
      constexpr std::string_view kMeanings = "\\'\"\n\r\t";
      const size_t escape = at_ < text_.size() ? kEscapes.find(text_[at_]) : kEscapes.npos;
      if (escape == kEscapes.npos) {
        return PredicateError(at_ - 1, "unknown escape; a text knows \\\\ \\' \\\" \\n \\r \\t");
      }
      lexeme.text += kMeanings[escape];
    }
    return PredicateError(lexeme.offset, std::string("a text without its closing ") + quote);
  }

  Result<Lexeme> Number() {
    Lexeme lexeme{.kind = LexemeKind::kNumber, .offset = at_, .source = {}, .text = {}};
    // Takes in whatever could belong to a number, such as the s of 10s, so that the message quotes
    // all of it; ParseNumber decides.
    ++at_;
    const auto after_exponent = [&] { return text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E'; };
    while (at_ < text_.size() && (IsNamePart(text_[at_]) ||
                                  ((text_[at_] == '-' || text_[at_] == '+') && after_exponent()))) {
      ++at_;
    }
    const std::string_view written = text_.substr(lexeme.offset, at_ - lexeme.offset);
    const std::optional<double> value = ParseNumber(written);
    if (!value) {
      return PredicateError(lexeme.offset, "'" + std::string(written) +
                                               "' is not a number; write it like 8192, 0.5 or "
                                               "1e-3, without a unit" +
                                               (arithmetic_ ? "" : ", or put a text in quotes"));
    }
    lexeme.number = *value == 0 ? 0.0 : *value;  // -0 is 0
    return lexeme;
  }

  Result<Lexeme> Word() {
    Lexeme lexeme{.kind = LexemeKind::kField, .offset = at_, .source = {}, .text = {}};
    while (at_ < text_.size() && IsNamePart(text_[at_])) ++at_;
    const std::string_view word = text_.substr(lexeme.offset, at_ - lexeme.offset);
    const auto* keyword = std::find_if(
        kWords.begin(), kWords.end(), [&](const Spelling& row) { return row.text == Lower(word); });
    if (keyword == kWords.end()) return lexeme;
    if (keyword->text != word) {
      return PredicateError(lexeme.offset, "'" + std::string(word) + "' is written '" +
                                               std::string(keyword->text) + "' here");
    }
    lexeme.kind = keyword->kind;
    return lexeme;
  }

  // Names are all there is: arithmetic has no words of its own.
  Result<Lexeme> Field() {
    Lexeme lexeme{.kind = LexemeKind::kField, .offset = at_, .source = {}, .text = {}};
    while (at_ < text_.size() && IsNamePart(text_[at_])) ++at_;
    return lexeme;
  }

  Result<Lexeme> ArithmeticSymbol() {
    const std::string_view rest = text_.substr(at_);
    const auto* symbol =
        std::find_if(kArithmeticSymbols.begin(), kArithmeticSymbols.end(),
                     [&](const Spelling& row) { return rest.starts_with(row.text); });
    if (symbol == kArithmeticSymbols.end() || rest.starts_with("**")) {
      return Unexpected("there are + - * / and parentheses, abs(), min() and max()");
    }
    Lexeme lexeme{.kind = symbol->kind, .offset = at_, .source = {}, .text = {}};
    at_ += symbol->text.size();
    return lexeme;
  }

  Error Unexpected(const std::string& remedy) const {
    const std::string_view rest = text_.substr(at_);
    size_t length = 1;  // a whole UTF-8 character
    while (length < rest.size() && (static_cast<unsigned char>(rest[length]) & 0xC0) == 0x80) {
      ++length;
    }
    const bool printable = static_cast<unsigned char>(rest[0]) >= 0x20 && rest[0] != 0x7F;
    return PredicateError(
        at_, printable ? "unexpected '" + std::string(rest.substr(0, length)) + "'; " + remedy
                       : std::string("unexpected control character"));
  }

  Result<Lexeme> Symbol() {
    const std::string_view rest = text_.substr(at_);
    const auto starts = [&](std::string_view symbol) { return rest.starts_with(symbol); };
    const auto* foreign = std::find_if(kForeignSymbols.begin(), kForeignSymbols.end(),
                                       [&](const auto& row) { return starts(row.first); });
    const auto* symbol = std::find_if(kSymbols.begin(), kSymbols.end(),
                                      [&](const Spelling& row) { return starts(row.text); });
    // "==" starts with the foreign "=", "<>" with our "<": the longer spelling is meant.
    const size_t foreign_size = foreign == kForeignSymbols.end() ? 0 : foreign->first.size();
    const size_t symbol_size = symbol == kSymbols.end() ? 0 : symbol->text.size();
    if (symbol_size > foreign_size) {
      Lexeme lexeme{.kind = symbol->kind, .offset = at_, .source = {}, .text = {}};
      at_ += symbol_size;
      return lexeme;
    }
    if (foreign_size > 0) {
      return PredicateError(at_, "'" + std::string(foreign->first) + "' is written '" +
                                     std::string(foreign->second) + "' here");
    }
    return Unexpected("a text is put in quotes");
  }

  std::string_view text_;
  bool arithmetic_;
  size_t at_ = 0;
};

}  // namespace

Error PredicateError(size_t offset, std::string message) {
  return InvalidError(std::move(message),
                      {.file = {}, .line = 1, .column = static_cast<int>(offset) + 1});
}

namespace {

Result<std::vector<Lexeme>> Lex(std::string_view text, bool arithmetic) {
  size_t bad = 0;
  if (!IsUtf8(text, &bad)) return PredicateError(bad, "this byte is not UTF-8");
  return Lexer(text, arithmetic).Run();
}

}  // namespace

Result<std::vector<Lexeme>> LexPredicate(std::string_view text) { return Lex(text, false); }
Result<std::vector<Lexeme>> LexArithmetic(std::string_view text) { return Lex(text, true); }

}  // namespace kcc
