// HTTP/1.1 messages of the two benchmark programs as they come from a connection: a head, and a
// body by its length or in chunks. Only what nginx, kcc and the programs themselves write: no
// continuation lines, no trailers, no body that ends with the connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kcc::bench {

class HttpReader {
 public:
  // Takes bytes up to the end of one message; how many it took. The body is appended to `body`.
  size_t Feed(std::string_view bytes);
  void Reset();

  bool headed() const { return state_ != State::kHead; }
  bool done() const { return state_ == State::kDone; }
  bool failed() const { return failed_; }
  const std::string& head() const { return head_; }
  std::string& body() { return body_; }
  int status() const;  // of a response

 private:
  enum class State : uint8_t { kHead, kLength, kChunkSize, kChunk, kChunkEnd, kLast, kDone };
  size_t TakeHead(std::string_view bytes);
  size_t TakeLine(std::string_view bytes);
  void OnHead();
  void OnLine();

  State state_ = State::kHead;
  bool failed_ = false;
  std::string head_;
  std::string line_;
  std::string body_;
  size_t left_ = 0;  // of the body, or of the chunk
};

// The value of a header of the head, whose names are compared without case; empty: there is none.
std::string_view HeaderOf(std::string_view head, std::string_view lower_name);

}  // namespace kcc::bench
