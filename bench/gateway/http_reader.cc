#include "bench/gateway/http_reader.h"

#include <algorithm>
#include <charconv>

namespace kcc::bench {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

}  // namespace

std::string_view HeaderOf(std::string_view head, std::string_view lower_name) {
  for (size_t at = head.find("\r\n"); at != std::string_view::npos; at = head.find("\r\n", at)) {
    at += 2;
    const std::string_view line = head.substr(at, head.find("\r\n", at) - at);
    if (line.size() <= lower_name.size() || line[lower_name.size()] != ':') continue;
    const bool same = std::equal(lower_name.begin(), lower_name.end(), line.begin(),
                                 [](char mine, char theirs) { return mine == Lower(theirs); });
    if (!same) continue;
    std::string_view value = line.substr(lower_name.size() + 1);
    while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    return value;
  }
  return {};
}

int HttpReader::status() const {
  if (head_.size() < 12) return 0;
  int status = 0;
  std::from_chars(head_.data() + 9, head_.data() + 12, status);
  return status;
}

void HttpReader::Reset() {
  state_ = State::kHead;
  failed_ = false;
  head_.clear();
  line_.clear();
  body_.clear();
  left_ = 0;
}

void HttpReader::OnHead() {
  const std::string_view length = HeaderOf(head_, "content-length");
  if (!length.empty()) {
    const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), left_);
    failed_ = error != std::errc();
    state_ = left_ > 0 ? State::kLength : State::kDone;
  } else if (HeaderOf(head_, "transfer-encoding") == "chunked") {
    state_ = State::kChunkSize;
  } else {
    state_ = State::kDone;
  }
}

// The end of the head may be split between two pieces, so that it is looked for in what was kept.
size_t HttpReader::TakeHead(std::string_view bytes) {
  const size_t before = head_.size();
  const size_t from = before < 3 ? 0 : before - 3;
  head_.append(bytes);
  const size_t end = head_.find("\r\n\r\n", from);
  if (end == std::string::npos) {
    failed_ = head_.size() > 64 << 10;
    return bytes.size();
  }
  head_.resize(end + 2);  // the last line keeps its end
  OnHead();
  return end + 4 - before;
}

void HttpReader::OnLine() {
  if (state_ == State::kChunkSize) {
    size_t size = 0;
    const auto [end, error] = std::from_chars(line_.data(), line_.data() + line_.size(), size, 16);
    failed_ = error != std::errc();
    left_ = size;
    state_ = size == 0 ? State::kLast : State::kChunk;
  } else if (state_ == State::kChunkEnd) {
    state_ = State::kChunkSize;
  } else {
    state_ = State::kDone;
  }
}

size_t HttpReader::TakeLine(std::string_view bytes) {
  const size_t end = bytes.find('\n');
  if (end == std::string_view::npos) {
    line_.append(bytes);
    failed_ = line_.size() > 100;
    return bytes.size();
  }
  line_.append(bytes.substr(0, end));
  if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  OnLine();
  line_.clear();
  return end + 1;
}

size_t HttpReader::Feed(std::string_view bytes) {
  size_t taken = 0;
  while (taken < bytes.size() && !done() && !failed_) {
    const std::string_view rest = bytes.substr(taken);
    if (state_ == State::kHead) {
      taken += TakeHead(rest);
    } else if (state_ == State::kLength || state_ == State::kChunk) {
      const size_t part = std::min(left_, rest.size());
      body_.append(rest.substr(0, part));
      left_ -= part;
      taken += part;
      if (left_ == 0) state_ = state_ == State::kLength ? State::kDone : State::kChunkEnd;
    } else {
      taken += TakeLine(rest);
    }
  }
  return taken;
}

}  // namespace kcc::bench
