#include "kcc/serve/chat_template.h"

#include <map>
#include <variant>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/serve/chat_template_node.h"

namespace kcc {
namespace {

using Node = ChatTemplate::Node;
using Kind = Node::Kind;

constexpr size_t kTextBytesMax = size_t{16} << 20;
// Of all loops together: loops within loops that print nothing would else go on for hours.
constexpr int kTurnsMax = 20'000;
constexpr std::string_view kPlain =
    "{% for message in messages %}{{ message.role }}: {{ message.content }}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";

struct Loop {
  bool first = false;
  bool last = false;
};
// What a name or an expression is. Messages are seen, never copied.
using Value = std::variant<std::monostate,  // not defined
                           std::nullptr_t, bool, int, std::string, const ChatMessage*,
                           std::span<const ChatMessage>, Loop>;

bool Truth(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* number = std::get_if<int>(&value)) return *number != 0;
  if (const auto* text = std::get_if<std::string>(&value)) return !text->empty();
  if (const auto* list = std::get_if<std::span<const ChatMessage>>(&value)) return !list->empty();
  return std::holds_alternative<const ChatMessage*>(value);
}

bool Same(const Value& a, const Value& b) {
  if (a.index() != b.index()) return false;
  if (const auto* text = std::get_if<std::string>(&a)) return *text == std::get<std::string>(b);
  if (const auto* flag = std::get_if<bool>(&a)) return *flag == std::get<bool>(b);
  if (const auto* number = std::get_if<int>(&a)) return *number == std::get<int>(b);
  return std::holds_alternative<std::nullptr_t>(a);
}

std::string Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1));
}

class Renderer {
 public:
  Result<> Run(const Node& node) {
    switch (node.kind) {
      case Kind::kText:
        return Print(node.text);
      case Kind::kPrint: {
        KCC_TRY(const Value value, Evaluate(node.children[0]));
        if (const auto* number = std::get_if<int>(&value)) return Print(std::to_string(*number));
        const auto* text = std::get_if<std::string>(&value);
        if (text == nullptr) return InvalidError("chat_template: prints what is not a text");
        return Print(*text);
      }
      case Kind::kFor:
        return RunFor(node);
      case Kind::kIf: {
        KCC_TRY(const Value value, Evaluate(node.children[0]));
        return Run(node.children[Truth(value) ? 1 : 2]);
      }
      case Kind::kSet: {
        KCC_TRY(names_[node.text], Evaluate(node.children[0]));
        return {};
      }
      default:
        for (const Node& child : node.children) KCC_TRY_VOID(Run(child));
        return {};
    }
  }

  void Define(const std::string& name, Value value) { names_[name] = std::move(value); }
  std::string Take() { return std::move(text_); }

 private:
  Result<> Print(std::string_view text) {
    if (text.size() > kTextBytesMax - text_.size()) {
      return InvalidError("chat_template: the conversation is too long");
    }
    text_ += text;
    return {};
  }

  // Names that the loop binds are those of before again after it, as in Jinja.
  Result<> RunFor(const Node& node) {
    KCC_TRY(const Value value, Evaluate(node.children[0]));
    const auto* list = std::get_if<std::span<const ChatMessage>>(&value);
    if (list == nullptr) return InvalidError("chat_template: a loop over what is not a list");
    const auto before = names_;
    for (size_t i = 0; i < list->size(); ++i) {
      if (++turns_ > kTurnsMax) return InvalidError("chat_template: its loops take too long");
      names_[node.text] = &(*list)[i];
      names_["loop"] = Loop{i == 0, i + 1 == list->size()};
      KCC_TRY_VOID(Run(node.children[1]));
    }
    names_ = before;
    return {};
  }

  static Result<Value> MemberOf(const Value& of, const Value& key) {
    const auto* name = std::get_if<std::string>(&key);
    if (const auto* message = std::get_if<const ChatMessage*>(&of); message && name) {
      if (*name == "role") return Value((*message)->role);
      if (*name == "content") return Value((*message)->content);
      return Value();
    }
    if (const auto* loop = std::get_if<Loop>(&of); loop && name) {
      if (*name == "first") return Value(loop->first);
      if (*name == "last") return Value(loop->last);
      return InvalidError("chat_template: loop." + *name + " is not known");
    }
    const auto* list = std::get_if<std::span<const ChatMessage>>(&of);
    const auto* number = std::get_if<int>(&key);
    if (list != nullptr && number != nullptr) {
      const auto size = static_cast<int64_t>(list->size());
      const int64_t at = *number < 0 ? size + *number : *number;
      if (at < 0 || at >= size) return Value();
      return Value(&(*list)[static_cast<size_t>(at)]);
    }
    return InvalidError("chat_template: asks for a part of what has none");
  }

  Result<Value> Binary(const Node& node) {
    KCC_TRY(const Value left, Evaluate(node.children[0]));
    if (node.kind == Kind::kAnd && !Truth(left)) return left;
    if (node.kind == Kind::kOr && Truth(left)) return left;
    KCC_TRY(const Value right, Evaluate(node.children[1]));
    const auto* a = std::get_if<std::string>(&left);
    const auto* b = std::get_if<std::string>(&right);
    switch (node.kind) {
      case Kind::kAdd:
        if (a == nullptr || b == nullptr) {
          return InvalidError("chat_template: + joins what is not a text");
        }
        if (a->size() + b->size() > kTextBytesMax) {
          return InvalidError("chat_template: the conversation is too long");
        }
        return Value(*a + *b);
      case Kind::kEqual:
        return Value(Same(left, right));
      case Kind::kNotEqual:
        return Value(!Same(left, right));
      case Kind::kIn: {
        if (a != nullptr && b != nullptr) return Value(b->find(*a) != std::string::npos);
        const auto* message = std::get_if<const ChatMessage*>(&right);
        if (a != nullptr && message != nullptr) return Value(*a == "role" || *a == "content");
        return InvalidError("chat_template: `in` looks into what is not a text");
      }
      case Kind::kMember:
        return MemberOf(left, right);
      default:
        return right;  // kAnd, kOr
    }
  }

  Result<Value> Evaluate(const Node& node) {
    switch (node.kind) {
      case Kind::kLiteral:
        return Value(node.text);
      case Kind::kNumber:
        return Value(node.number);
      case Kind::kTrue:
        return Value(true);
      case Kind::kFalse:
        return Value(false);
      case Kind::kNone:
        return Value(nullptr);
      case Kind::kName: {
        const auto found = names_.find(node.text);
        return found == names_.end() ? Value() : found->second;
      }
      case Kind::kNot: {
        KCC_TRY(const Value value, Evaluate(node.children[0]));
        return Value(!Truth(value));
      }
      case Kind::kDefined: {
        KCC_TRY(const Value value, Evaluate(node.children[0]));
        return Value(!std::holds_alternative<std::monostate>(value));
      }
      case Kind::kTrim: {
        KCC_TRY(const Value value, Evaluate(node.children[0]));
        const auto* text = std::get_if<std::string>(&value);
        if (text == nullptr) return InvalidError("chat_template: trims what is not a text");
        return Value(Trimmed(*text));
      }
      case Kind::kRaise: {
        KCC_TRY(const Value value, Evaluate(node.children[0]));
        const auto* text = std::get_if<std::string>(&value);
        return InvalidError(text == nullptr ? "the chat template refuses these messages" : *text);
      }
      default:
        return Binary(node);
    }
  }

  std::map<std::string, Value> names_;
  std::string text_;
  int turns_ = 0;
};

}  // namespace

Result<ChatTemplate> ChatTemplate::Parse(std::string_view text, const std::string& file) {
  KCC_TRY(Node root, ParseChatTemplate(text, file));
  return ChatTemplate(std::make_shared<const Node>(std::move(root)));
}

ChatTemplate ChatTemplate::Plain() {
  Result<ChatTemplate> made = Parse(kPlain, "");
  KCC_CHECK(made.has_value());
  return *made;
}

Result<std::string> ChatTemplate::Render(std::span<const ChatMessage> messages,
                                         const ChatContext& context) const {
  Renderer renderer;
  renderer.Define("messages", messages);
  renderer.Define("bos_token", context.bos_token);
  renderer.Define("eos_token", context.eos_token);
  renderer.Define("add_generation_prompt", context.add_generation_prompt);
  KCC_TRY_VOID(renderer.Run(*root_));
  return renderer.Take();
}

}  // namespace kcc
