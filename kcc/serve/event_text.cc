#include "kcc/serve/event_text.h"

#include <charconv>

namespace kcc {

std::string StreamHeadText(bool chunked, bool keep_alive) {
  std::string head =
      chunked ? "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" : "HTTP/1.0 200 OK\r\n";
  head += "Content-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n";
  return head + (keep_alive ? "\r\n" : "Connection: close\r\n\r\n");
}

std::string EventText(std::string_view data) { return "data: " + std::string(data) + "\n\n"; }

std::string ChunkText(std::string_view bytes) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof digits, bytes.size(), 16).ptr;
  std::string chunk(digits, end);
  return chunk.append("\r\n").append(bytes).append("\r\n");
}

}  // namespace kcc
