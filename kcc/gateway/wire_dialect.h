// What differs between servers on the way through: which fields make an answer auditable, and how
// an answer looks that was not asked for them. Rows in wire_dialect.cc.
//
// Only fields of a row are ever added to a request: a server may refuse a whole request for one
// that it does not know.
#pragma once

#include <span>
#include <string_view>

#include "kcc/gateway/pool.h"

namespace kcc {

struct WireField {
  std::string_view name;
  std::string_view value;  // JSON; "K": how many alternatives the pool asks for
};

// How a server writes a member that nobody asked for.
enum class Unasked : uint8_t { kNull, kAbsent };

struct WireRoute {
  // A group is added as a whole, and only where the client asked for nothing of it: then the answer
  // is as the client wants it, and tells what it tells.
  std::span<const WireField> ids = {};
  std::span<const WireField> logprobs = {};
  // What a client asks for log-probs with, when the fields of `logprobs` are not all.
  std::span<const std::string_view> also_logprobs = {};
  bool ids_in_stream = true;
  bool logprobs_in_stream = true;
  bool logprobs_with_tools_in_stream = true;
  Unasked logprobs_unasked = Unasked::kNull;
  Unasked ids_unasked = Unasked::kNull;
  // Ids of the prompt come as an event of their own, which is not there otherwise.
  bool prompt_event = false;
};

struct WireDialect {
  std::string_view name;
  WireRoute chat = {};
  WireRoute completions = {};
  // Texts of tokens are "token_id:N" if return_tokens_as_token_ids was asked for.
  bool token_id_texts = false;

  const WireRoute& Route(bool is_chat) const { return is_chat ? chat : completions; }
};

}  // namespace kcc
