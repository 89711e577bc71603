// The bytes of a stream of server-sent events: its head, an event, a piece of a chunked body.
#pragma once

#include <string>
#include <string_view>

namespace kcc {

// `chunked`: HTTP/1.1. Without, the stream ends with its connection.
std::string StreamHeadText(bool chunked, bool keep_alive);
std::string EventText(std::string_view data);
std::string ChunkText(std::string_view bytes);

}  // namespace kcc
