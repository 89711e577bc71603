// A chat template: the part of Jinja that templates of small models are written in.
//
//   {{ expression }}   {% for NAME in expression %} … {% endfor %}   {# comment #}
//   {% if expression %} … {% elif expression %} … {% else %} … {% endif %}   {% set NAME =
//   expression %} expression: 'text', NAME, a['key'], a.key, a[0], a[-1], + , == , != , in, and,
//   or, not, ( … ),
//               true, false, none, integers, `| trim`, `is defined`, `loop.first`, `loop.last`
//   `{%-`, `-%}`, `{{-` and `-}}` take the blanks beside them away.
//
// A template that uses more is refused when it is read, with the place, so that no conversation is
// rendered differently from what the model was trained with. Blanks follow Hugging Face's setting:
// a newline right after a block is dropped, and so are blanks between a line's start and a block.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kcc/base/result.h"

namespace kcc {

struct ChatMessage {
  std::string role;
  std::string content;
};

struct ChatContext {
  std::string bos_token;
  std::string eos_token;
  bool add_generation_prompt = true;
};

class ChatTemplate {
 public:
  struct Node;

  // `file` is for messages.
  static Result<ChatTemplate> Parse(std::string_view text, const std::string& file);
  // For a model without a template: each message as "role: content" on a line of its own, then
  // "assistant:".
  static ChatTemplate Plain();

  // Fails where the template says so (raise_exception), or where it asks for a value that is not
  // there. The text is at most 16 MiB.
  Result<std::string> Render(std::span<const ChatMessage> messages,
                             const ChatContext& context) const;

 private:
  explicit ChatTemplate(std::shared_ptr<const Node> root) : root_(std::move(root)) {}
  // Shared because templates are copied with the model they belong to and never change.
  std::shared_ptr<const Node> root_;
};

}  // namespace kcc
