#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

#include "kcc/serve/chat_template_node.h"

namespace kcc {
namespace {

using Node = ChatTemplate::Node;
using Kind = Node::Kind;

constexpr int kDepthMax = 64;
constexpr int kLinksMax = 256;  // of one chain: a + b + c has two

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool IsWordStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsWord(char c) { return IsWordStart(c) || std::isdigit(static_cast<unsigned char>(c)) != 0; }

// A recursive descent over the text. After the first fault every function returns at once.
class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Result<Node> Parse() {
    Node root = Body({});
    if (!fault_ && !tag_.empty()) Fail("{% " + tag_ + " %} stands outside of its block");
    if (fault_) return *fault_;
    return root;
  }

 private:
  void Fail(std::string message) {
    if (fault_) return;
    int line = 1;
    for (const char c : text_.substr(0, at_)) line += c == '\n' ? 1 : 0;
    fault_ = InvalidError("chat_template: " + std::move(message), Place{file_, line});
  }
  bool Left(std::string_view mark) const { return text_.substr(at_).starts_with(mark); }

  // --- expressions ---
  void Blanks() {
    while (at_ < text_.size() && IsBlank(text_[at_])) ++at_;
  }
  bool Take(std::string_view mark) {
    Blanks();
    if (!Left(mark)) return false;
    at_ += mark.size();
    return true;
  }
  std::string_view PeekWord() {
    Blanks();
    size_t end = at_;
    if (end < text_.size() && IsWordStart(text_[end])) {
      while (end < text_.size() && IsWord(text_[end])) ++end;
    }
    return text_.substr(at_, end - at_);
  }
  bool TakeWord(std::string_view word) {
    if (PeekWord() != word) return false;
    at_ += word.size();
    return true;
  }
  std::string NeedWord(std::string_view what) {
    std::string word(PeekWord());
    if (word.empty()) Fail("expected " + std::string(what));
    at_ += word.size();
    return word;
  }
  static Node Make(Kind kind, Node left) {
    Node node{.kind = kind};
    node.children.push_back(std::move(left));
    return node;
  }
  // Chains are nested on their left side, so that they need a limit as nesting does.
  void CountLink(int* links) {
    if (++*links > kLinksMax) Fail("an expression is too long");
  }
  static Node Make(Kind kind, Node left, Node right) {
    Node node = Make(kind, std::move(left));
    node.children.push_back(std::move(right));
    return node;
  }

  Node Expression() {
    if (++depth_ > kDepthMax) Fail("nested too deeply");
    Node node = Conjunction();
    int links = 0;
    while (!fault_ && TakeWord("or")) {
      CountLink(&links);
      node = Make(Kind::kOr, std::move(node), Conjunction());
    }
    --depth_;
    return node;
  }
  Node Conjunction() {
    Node node = Negation();
    int links = 0;
    while (!fault_ && TakeWord("and")) {
      CountLink(&links);
      node = Make(Kind::kAnd, std::move(node), Negation());
    }
    return node;
  }
  Node Negation() {
    if (fault_) return {};
    if (!TakeWord("not")) return Comparison();
    if (++depth_ > kDepthMax) Fail("nested too deeply");
    Node node = Make(Kind::kNot, Negation());
    --depth_;
    return node;
  }
  Node Comparison() {
    Node node = Sum();
    if (Take("==")) return Make(Kind::kEqual, std::move(node), Sum());
    if (Take("!=")) return Make(Kind::kNotEqual, std::move(node), Sum());
    if (TakeWord("in")) return Make(Kind::kIn, std::move(node), Sum());
    if (TakeWord("is")) {
      const bool negated = TakeWord("not");
      if (!TakeWord("defined")) Fail("after `is` only `defined` is known");
      Node defined = Make(Kind::kDefined, std::move(node));
      return negated ? Make(Kind::kNot, std::move(defined)) : defined;
    }
    return node;
  }
  Node Sum() {
    Node node = Filtered();
    int links = 0;
    while (!fault_ && (Take("+") || Take("~"))) {
      CountLink(&links);
      node = Make(Kind::kAdd, std::move(node), Filtered());
    }
    return node;
  }
  Node Filtered() {
    Node node = Member();
    int links = 0;
    while (!fault_ && Take("|")) {
      CountLink(&links);
      if (!TakeWord("trim")) Fail("the only filter that is known is `trim`");
      node = Make(Kind::kTrim, std::move(node));
    }
    return node;
  }
  Node Member() {
    Node node = Atom();
    int links = 0;
    while (!fault_) {
      CountLink(&links);
      if (Take("[")) {
        node = Make(Kind::kMember, std::move(node), Expression());
        if (!Take("]")) Fail("expected ]");
      } else if (Take(".")) {
        Node key{.kind = Kind::kLiteral, .text = NeedWord("a name")};
        if (key.text == "strip" && Take("()")) {
          node = Make(Kind::kTrim, std::move(node));
        } else {
          node = Make(Kind::kMember, std::move(node), std::move(key));
        }
      } else {
        break;
      }
    }
    return node;
  }
  Node Text(char quote) {
    Node node{.kind = Kind::kLiteral};
    while (at_ < text_.size() && text_[at_] != quote) {
      char c = text_[at_++];
      if (c == '\\' && at_ < text_.size()) {
        c = text_[at_++];
        c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
      }
      node.text += c;
    }
    if (at_ == text_.size()) {
      Fail("a text does not end");
    } else {
      ++at_;
    }
    return node;
  }
  Node Atom() {
    if (fault_) return {};
    if (Take("(")) {
      Node node = Expression();
      if (!Take(")")) Fail("expected )");
      return node;
    }
    if (Take("'")) return Text('\'');
    if (Take("\"")) return Text('"');
    const std::string word(PeekWord());
    if (word.empty()) return Number();
    at_ += word.size();
    if (word == "true" || word == "True") return {.kind = Kind::kTrue};
    if (word == "false" || word == "False") return {.kind = Kind::kFalse};
    if (word == "none" || word == "None") return {.kind = Kind::kNone};
    if (word == "raise_exception" && Take("(")) {
      Node node = Make(Kind::kRaise, Expression());
      if (!Take(")")) Fail("expected )");
      return node;
    }
    return {.kind = Kind::kName, .text = word};
  }
  Node Number() {
    Node node{.kind = Kind::kNumber};
    const char* begin = text_.data() + at_;
    const auto [end, failed] = std::from_chars(begin, text_.data() + text_.size(), node.number);
    if (failed != std::errc()) Fail("expected a value");
    if (failed == std::errc()) at_ += static_cast<size_t>(end - begin);
    return node;
  }

  // --- statements ---
  // Plain text up to the next mark, with what trimming leaves of it.
  void Plain(Node* body) {
    size_t end = at_;
    while (end < text_.size() &&
           !(text_[end] == '{' && end + 1 < text_.size() &&
             std::string_view("{%#").find(text_[end + 1]) != std::string_view::npos)) {
      ++end;
    }
    std::string plain(text_.substr(at_, end - at_));
    if (trim_next_) plain.erase(0, std::min(plain.size(), plain.find_first_not_of(" \t\r\n")));
    if (drop_newline_ && plain.starts_with('\n')) plain.erase(0, 1);
    trim_next_ = drop_newline_ = false;
    const bool block = end + 1 < text_.size() && text_[end + 1] != '{';
    const bool strip = end + 2 < text_.size() && text_[end + 2] == '-';
    if (strip) {
      while (!plain.empty() && IsBlank(plain.back())) plain.pop_back();
    } else if (block) {
      // Blanks between the start of a line and a block.
      size_t keep = plain.size();
      while (keep > 0 && (plain[keep - 1] == ' ' || plain[keep - 1] == '\t')) --keep;
      if (keep == 0 ? at_ == 0 || text_[at_ - 1] == '\n' : plain[keep - 1] == '\n') {
        plain.resize(keep);
      }
    }
    at_ = end;
    if (!plain.empty()) body->children.push_back({.kind = Kind::kText, .text = std::move(plain)});
  }
  void Close(std::string_view mark) {
    Blanks();
    trim_next_ = Left("-");
    if (trim_next_) ++at_;
    if (!Left(mark)) return Fail("expected " + std::string(mark));
    at_ += mark.size();
    drop_newline_ = mark != "}}";
  }
  // Statements up to a tag that ends or divides a block, which is left in tag_.
  Node Body(std::initializer_list<std::string_view> ends) {
    Node body{.kind = Kind::kSequence};
    if (++depth_ > kDepthMax) Fail("nested too deeply");
    tag_.clear();
    while (!fault_ && at_ < text_.size()) {
      Plain(&body);
      if (at_ >= text_.size()) break;
      const char kind = text_[at_ + 1];
      if (kind == '#') {
        const size_t end = text_.find("#}", at_ + 2);
        if (end == std::string_view::npos) {
          Fail("a comment does not end");
          break;
        }
        trim_next_ = text_[end - 1] == '-';
        drop_newline_ = true;
        at_ = end + 2;
        continue;
      }
      at_ += 2;
      if (Left("-")) ++at_;
      if (kind == '{') {
        body.children.push_back(Make(Kind::kPrint, Expression()));
        Close("}}");
        continue;
      }
      const std::string word = NeedWord("a statement");
      if (word == "for" || word == "if" || word == "set") {
        body.children.push_back(word == "for" ? For() : word == "if" ? If() : Set());
        tag_.clear();
        continue;
      }
      tag_ = word;
      bool known = false;
      for (const std::string_view end : ends) known = known || end == word;
      if (!known) Fail("{% " + word + " %} is not known here");
      break;
    }
    if (!fault_ && tag_.empty() && ends.size() > 0) Fail("a block does not end");
    --depth_;
    return body;
  }
  Node For() {
    Node node{.kind = Kind::kFor, .text = NeedWord("a name")};
    if (!TakeWord("in")) Fail("expected `in`");
    node.children.push_back(Expression());
    Close("%}");
    node.children.push_back(Body({"endfor"}));
    Close("%}");
    return node;
  }
  Node If() {
    Node node{.kind = Kind::kIf};
    node.children.push_back(Expression());
    Close("%}");
    node.children.push_back(Body({"elif", "else", "endif"}));
    const std::string tag = tag_;
    if (tag == "elif") {
      if (++depth_ > kDepthMax) Fail("nested too deeply");
      node.children.push_back(fault_ ? Node() : If());
      --depth_;
      return node;
    }
    Close("%}");
    if (tag == "else") {
      node.children.push_back(Body({"endif"}));
      Close("%}");
    } else {
      node.children.push_back({.kind = Kind::kSequence});
    }
    return node;
  }
  Node Set() {
    Node node{.kind = Kind::kSet, .text = NeedWord("a name")};
    if (!Take("=")) Fail("expected =");
    node.children.push_back(Expression());
    Close("%}");
    return node;
  }

  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0;
  int depth_ = 0;
  bool trim_next_ = false;     // a mark ended in -
  bool drop_newline_ = false;  // a block ended
  std::string tag_;
  std::optional<Error> fault_;
};

}  // namespace

Result<ChatTemplate::Node> ParseChatTemplate(std::string_view text, const std::string& file) {
  return Parser(text, file).Parse();
}

}  // namespace kcc
