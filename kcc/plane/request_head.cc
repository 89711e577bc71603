#include "kcc/plane/request_head.h"

#include <algorithm>

#include "kcc/plane/http_text.h"

namespace kcc {
namespace {

constexpr size_t kMethodBytesMax = 32;
constexpr size_t kLengthDigitsMax = 18;  // of Content-Length; no 64 bits are left then

HeadFault Bad(std::string why) { return {400, std::move(why)}; }

// What has been said about framing so far.
struct Said {
  int hosts = 0;
  bool length = false;
  bool coding = false;
  bool close = false;
  bool keep_alive = false;
};

std::optional<HeadFault> ReadRequestLine(std::string_view line, RequestHead* head) {
  const size_t first = line.find(' ');
  const size_t second = first == line.npos ? first : line.find(' ', first + 1);
  if (second == line.npos) return Bad("the request line is not METHOD TARGET VERSION");
  head->method = line.substr(0, first);
  head->target = line.substr(first + 1, second - first - 1);
  const std::string_view version = line.substr(second + 1);
  if (!IsTokenText(head->method) || head->method.size() > kMethodBytesMax) {
    return Bad("the method is not a word");
  }
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (version.size() != 8 || !version.starts_with("HTTP/") || !is_digit(version[5]) ||
      version[6] != '.' || !is_digit(version[7])) {
    return Bad("the request line does not end with an HTTP version");
  }
  // What follows may be meant for the other end of a tunnel.
  if (head->method == "CONNECT") return HeadFault{501, "this is no proxy"};
  if (version[5] != '1') return HeadFault{505, "only HTTP/1.1 and HTTP/1.0 are spoken here"};
  head->http11 = version[7] != '0';
  if (head->method == "OPTIONS" && head->target == "*") return std::nullopt;
  const auto target = SplitTarget(head->target);
  if (!target) {
    return Bad("the target must be a path or a whole URL, of ASCII without blanks");
  }
  head->target = target->path;
  return std::nullopt;
}

std::optional<HeadFault> ReadLength(std::string_view value, Said* said, RequestHead* head) {
  if (said->length) return Bad("Content-Length is given twice");
  said->length = true;
  if (value.empty() || value.size() > kLengthDigitsMax ||
      !std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return Bad("Content-Length is not a number");
  }
  for (const char c : value) head->length = head->length * 10 + static_cast<uint64_t>(c - '0');
  return std::nullopt;
}

std::optional<HeadFault> ReadFraming(std::string_view name, std::string_view value, Said* said,
                                     RequestHead* head) {
  if (EqualsIgnoringCase(name, "host")) {
    ++said->hosts;
  } else if (EqualsIgnoringCase(name, "content-length")) {
    return ReadLength(value, said, head);
  } else if (EqualsIgnoringCase(name, "transfer-encoding")) {
    if (said->coding || !EqualsIgnoringCase(value, "chunked")) {
      return Bad("Transfer-Encoding must be a single \"chunked\"");
    }
    said->coding = head->chunked = true;
  } else if (EqualsIgnoringCase(name, "connection")) {
    for (std::string_view list = value; !list.empty();) {
      const std::string_view item = NextListItem(&list);
      said->close |= EqualsIgnoringCase(item, "close");
      said->keep_alive |= EqualsIgnoringCase(item, "keep-alive");
    }
  } else if (EqualsIgnoringCase(name, "expect")) {
    if (!EqualsIgnoringCase(value, "100-continue")) {
      return HeadFault{417, "Expect must be \"100-continue\""};
    }
    head->expects_continue = true;
  } else if (EqualsIgnoringCase(name, "authorization") && head->authorization.empty()) {
    head->authorization = value;
  }
  return std::nullopt;
}

// Takes out what a Connection field names, as every proxy must.
void DropNamed(std::vector<HeaderField>* all) {
  std::vector<std::string_view> named;
  for (const HeaderField& field : *all) {
    if (!EqualsIgnoringCase(field.name, "connection")) continue;
    for (std::string_view list = field.value; !list.empty();) {
      const std::string_view item = NextListItem(&list);
      if (!item.empty()) named.push_back(item);
    }
  }
  std::erase_if(*all, [&](const HeaderField& field) {
    return IsConnectionField(field.name) ||
           std::any_of(named.begin(), named.end(),
                       [&](std::string_view name) { return EqualsIgnoringCase(name, field.name); });
  });
}

std::optional<HeadFault> CheckFraming(const Said& said, RequestHead* head) {
  if (said.hosts > 1 || (said.hosts == 0 && head->http11)) {
    return Bad("there must be one Host field");
  }
  if (said.coding && said.length)
    return Bad("Content-Length and Transfer-Encoding exclude each other");
  if (said.coding && !head->http11) return Bad("Transfer-Encoding is not part of HTTP/1.0");
  head->keep_alive = !said.close && (head->http11 || said.keep_alive);
  head->expects_continue &= head->http11;
  return std::nullopt;
}

}  // namespace

std::optional<RequestTarget> SplitTarget(std::string_view target) {
  if (std::any_of(target.begin(), target.end(), [](char c) { return c <= 0x20 || c == 0x7F; })) {
    return std::nullopt;
  }
  if (target.starts_with('/')) return RequestTarget{target, {}};
  const size_t scheme = target.find("://");
  if (scheme == target.npos || (!EqualsIgnoringCase(target.substr(0, scheme), "http") &&
                                !EqualsIgnoringCase(target.substr(0, scheme), "https"))) {
    return std::nullopt;
  }
  target.remove_prefix(scheme + 3);
  const size_t end = std::min(target.find_first_of("/?#"), target.size());
  const std::string_view authority = target.substr(0, end);
  target.remove_prefix(end);
  // A name before the host is for people to be misled by; a fragment is never sent.
  if (authority.empty() || authority.find('@') != authority.npos ||
      target.find('#') != target.npos) {
    return std::nullopt;
  }
  return RequestTarget{target.empty() ? "/" : target, authority};
}

HeadScan ScanHead(std::string_view bytes, size_t from) {
  // The three bytes before may belong to the end of a line, or of the head.
  const size_t start = from > 3 ? from - 3 : 0;
  for (size_t at = start; (at = bytes.find('\n', at)) != bytes.npos; ++at) {
    if (at == 0 || bytes[at - 1] != '\r') return {0, Bad("a line ends with LF alone")};
    if (at >= 3 && bytes[at - 2] == '\n') return {at + 1, std::nullopt};
  }
  // Of a head that may never end, such as the beginning of TLS. Behind a head that does, a body may
  // hold anything.
  if (bytes.find('\0', start) != bytes.npos) return {0, Bad("a NUL in the head")};
  return {};
}

std::optional<HeadFault> ReadRequestHead(std::string_view bytes, RequestHead* head) {
  std::vector<HeaderField> fields = std::move(head->fields);  // keeps its memory
  fields.clear();
  *head = {};
  size_t eol = bytes.find("\r\n");
  if (eol == bytes.npos) return Bad("the request line does not end");
  if (auto fault = ReadRequestLine(bytes.substr(0, eol), head)) return fault;
  Said said;
  for (;;) {
    const size_t start = eol + 2;
    eol = bytes.find("\r\n", start);
    if (eol == bytes.npos) return Bad("the head does not end");
    const std::string_view line = bytes.substr(start, eol - start);
    if (line.empty()) break;
    if (fields.size() == kHeaderFieldsMax) return HeadFault{431, "more than 100 header fields"};
    if (line.front() == ' ' || line.front() == '\t') return Bad("a header line is folded");
    const size_t colon = line.find(':');
    if (colon == line.npos || !IsTokenText(line.substr(0, colon))) {
      return Bad("a header line is not NAME: VALUE");
    }
    const HeaderField field{line.substr(0, colon), TrimBlanks(line.substr(colon + 1))};
    if (!IsFieldValue(field.value)) return Bad("a control character in a header");
    if (auto fault = ReadFraming(field.name, field.value, &said, head)) return fault;
    fields.push_back(field);
  }
  if (auto fault = CheckFraming(said, head)) return fault;
  DropNamed(&fields);
  head->fields = std::move(fields);
  return std::nullopt;
}

}  // namespace kcc
