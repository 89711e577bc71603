// The head of a client's request, read from its raw bytes and more strictly than HTTP asks for:
// what two programs in a row could read in two ways is refused, so that no request can be hidden in
// another (docs/gateway.md, "What a hostile client hears").
//
// 400:
// - a line that ends with LF alone, or is folded; a CR, a NUL or another control character in it
// - a name that is no token, or has a blank before its colon
// - no Host (HTTP/1.1), or two
// - two Content-Lengths, or one that is not all digits; Content-Length beside Transfer-Encoding
// - any Transfer-Encoding but a single "chunked", and that in HTTP/1.0
// - a target that is neither a path nor an http or https URL, nor the "*" of OPTIONS
//
// 417: Expect with anything but "100-continue". 431: more than 100 fields. 501: CONNECT. 505:
// another major version than 1; of that, 1.2 and later are read as HTTP/1.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/gateway/head.h"

namespace kcc {

inline constexpr size_t kHeaderFieldsMax = 100;

struct HeadFault {
  int status = 400;
  std::string why;

  bool operator==(const HeadFault&) const = default;
};

// A target as its path and query, and whom it was meant for where it is a whole URL ("absolute
// form", RFC 9112 section 3.2.2): that stands in place of the Host field. Every server must take
// one; nothing is ever opened to whom it names.
struct RequestTarget {
  std::string_view path;       // "/" where the URL has none
  std::string_view authority;  // empty: the target is a path
};
std::optional<RequestTarget> SplitTarget(std::string_view target);

// Views of the bytes that were read.
struct RequestHead {
  std::string_view method;
  std::string_view target;  // path and query
  bool http11 = true;
  bool keep_alive = true;
  bool chunked = false;
  bool expects_continue = false;
  uint64_t length = 0;  // of the body, where it is not chunked
  std::string_view authorization;
  // Without those that speak of this connection and this message alone: Host, Content-Length,
  // Connection and what it names, Transfer-Encoding ...
  std::vector<HeaderField> fields;
};

// How far `bytes`, the beginning of a request, are a head. `end`: one past its blank line; 0: more
// is needed. Bytes before `from` were looked at before.
struct HeadScan {
  size_t end = 0;
  std::optional<HeadFault> fault;
};
HeadScan ScanHead(std::string_view bytes, size_t from);

// `bytes`: a whole head with its blank line.
std::optional<HeadFault> ReadRequestHead(std::string_view bytes, RequestHead* head);

}  // namespace kcc
