// What the gateway reads of a request's body: where its members are, without a tree. The body stays
// as it was sent, and the scan is a set of views of it.
//
// Two members of one name are refused: a kernel might read the other one than the gateway, which is
// how a request would get past what it says its model is.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/gateway/head.h"
#include "kcc/gateway/json_scan.h"
#include "kcc/gateway/pool.h"

namespace kcc {

inline constexpr size_t kRequestMembersMax = 512;

struct RequestScan {
  std::vector<JsonPart> members;
  size_t close = 0;  // where the object's closing bracket is

  // The value of this member; nothing where there is none.
  std::optional<std::string_view> Find(std::string_view name) const;
  const JsonPart* FindPart(std::string_view name) const;
  // It is there, and neither null nor false: the client asks for it.
  bool Asks(std::string_view name) const;
};

// The error for the client, or nothing. The body outlives the scan.
std::optional<GatewayAnswer> ScanRequest(std::string_view body, RequestScan* scan);

// The value, as JSON, that a request has at this place: of a body the text of the member, of a
// header a JSON string. Nothing where it has none or it is null.
std::optional<std::string> ReadSource(const AskSource& source, const RequestScan& scan,
                                      std::span<const HeaderField> headers);
// The same as a key: of a string what it says, of anything else its JSON.
std::optional<std::string> ReadSessionKey(const AskSource& source, const RequestScan& scan,
                                          std::span<const HeaderField> headers);

// Whether an answer to this request can be scored, by the request alone and so alike for every
// kernel: one prompt of text or ids, whose continuation is drawn token by token. Not: several
// prompts, best_of, beam search, echo, suffix, embeddings, and chats with parts other than text. Of
// n choices the first is scored.
bool IsAuditable(const RequestScan& scan, bool chat);

}  // namespace kcc
