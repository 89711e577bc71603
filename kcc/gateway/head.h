// What the core of the gateway and its planes say to each other about HTTP, without an HTTP
// library: heads as name and value, bodies as bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kcc {

struct HeaderField {
  std::string_view name;
  std::string_view value;
};

// A request as a client sent it; the views live as long as the call that takes it.
struct AskHead {
  std::string_view method;  // "POST"
  std::string_view target;  // "/v1/chat/completions?x=1"
  std::span<const HeaderField> headers;
  std::string_view client;  // the client's address, without the port
};

using HeaderList = std::vector<std::pair<std::string, std::string>>;

// The value of the first field of this name, whatever its case; nothing where there is none.
std::optional<std::string_view> FindHeader(std::span<const HeaderField> headers,
                                           std::string_view name);

// A request for a kernel. The plane adds Host, Content-Length, Connection and the kernel's key.
struct UpstreamAsk {
  size_t kernel = 0;  // of GatewayPool::kernels
  std::string method;
  std::string target;
  HeaderList headers;
  std::string body;
};

// The head of an answer. The plane adds Connection and, where there is no length, chunked coding.
struct AnswerHeader {
  int status = 200;
  HeaderList headers;
  std::optional<uint64_t> length;  // of the body; none: it ends when the exchange says so
};

// A whole answer of the gateway's own.
struct GatewayAnswer {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  HeaderList headers = {};

  bool operator==(const GatewayAnswer&) const = default;
};

}  // namespace kcc
