// The tree of a chat template. Internal: chat_template_parser.cc makes it, chat_template.cc renders
// it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/serve/chat_template.h"

namespace kcc {

struct ChatTemplate::Node {
  enum class Kind : uint8_t {
    // Statements.
    kSequence,  // children in order
    kText,      // `text`
    kPrint,     // {{ children[0] }}
    kFor,       // `text` in children[0]: children[1]
    kIf,        // children[0] then children[1], else children[2]
    kSet,       // `text` = children[0]
    // Expressions.
    kLiteral,  // `text`
    kNumber,   // `number`
    kTrue,
    kFalse,
    kNone,
    kName,    // `text`
    kMember,  // children[0][children[1]]
    kAdd,     // two children each
    kEqual,
    kNotEqual,
    kIn,
    kAnd,
    kOr,
    kNot,      // one child
    kTrim,     // one child
    kDefined,  // one child
    kRaise,    // raise_exception(children[0])
  };
  Kind kind = Kind::kSequence;
  std::string text = {};
  int number = 0;
  std::vector<Node> children = {};
};

Result<ChatTemplate::Node> ParseChatTemplate(std::string_view text, const std::string& file);

}  // namespace kcc
