#include "kcc/gateway/sse_tap.h"

#include <cstring>

namespace kcc {
namespace {

constexpr std::string_view kMark = "\xEF\xBB\xBF";

size_t FindLineEnd(std::string_view text, size_t from) {
  const auto* lf = static_cast<const char*>(
      from < text.size() ? std::memchr(text.data() + from, '\n', text.size() - from) : nullptr);
  const size_t end = lf == nullptr ? text.size() : static_cast<size_t>(lf - text.data());
  const auto* cr = static_cast<const char*>(
      from < end ? std::memchr(text.data() + from, '\r', end - from) : nullptr);
  return cr == nullptr ? end : static_cast<size_t>(cr - text.data());
}

// The value of a line "data: value"; null data() where it is another line.
std::string_view DataOf(std::string_view line) {
  if (!line.starts_with("data")) return {};
  std::string_view value = line.substr(4);
  if (value.empty()) return value;
  if (value.front() != ':') return {};
  value.remove_prefix(1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  return value;
}

}  // namespace

// Places are counted from what has not been given out.
void SseTap::Rebase() {
  line_ -= done_, scanned_ -= done_, data_begin_ -= done_, data_end_ -= done_;
  done_ = 0;
}

// The common case has nothing waiting, and nothing is copied.
void SseTap::Begin(std::string_view bytes) {
  if (own_) {
    waiting_.erase(0, done_);
    Rebase();
  }
  own_ = !waiting_.empty();
  if (own_) waiting_.append(bytes);
  text_ = own_ ? std::string_view(waiting_) : bytes;
}

// Keeps what is not complete before the caller's bytes are gone.
std::string_view SseTap::End() {
  const std::string_view given = text_.substr(0, done_);
  if (!own_) {
    waiting_.assign(text_.substr(done_));
    Rebase();
  }
  return given;
}

// True: the line is the last of its unit.
bool SseTap::TakeLine(std::string_view line) {
  if (at_start_) {
    at_start_ = false;
    if (line.starts_with(kMark)) line.remove_prefix(kMark.size());
  }
  if (line.empty()) return true;
  // A comment between events waits for nothing: it may be there to keep a connection alive.
  if (line.front() == ':') return !fields_;
  fields_ = true;
  if (const std::string_view value = DataOf(line); value.data() != nullptr) {
    data_begin_ = static_cast<size_t>(value.data() - text_.data());
    data_end_ = data_begin_ + value.size();
    ++data_lines_;
  }
  return false;
}

bool SseTap::NextUnit(SseUnit* unit) {
  for (;;) {
    if (after_cr_ && line_ < text_.size()) {
      after_cr_ = false;
      if (text_[line_] == '\n') {
        const bool alone = done_ == line_;
        scanned_ = ++line_;
        if (alone) {
          *unit = {};
          unit->raw = text_.substr(done_, 1);
          unit->line_feed = true;
          unit->too_long = overlong_;
          done_ = line_;
          return true;
        }
      }
    }
    const size_t end = FindLineEnd(text_, scanned_);
    if (end == text_.size()) {
      scanned_ = end;
      if (end - done_ <= limit_ && !overlong_) return false;
      if (end == done_) return false;
      // Too long to wait for its end, or the next part of such a one. Of an unfinished line one
      // byte stays, so that its end is not taken for a blank line.
      overlong_ = true;
      const size_t keep = end > line_ ? 1 : 0;
      if (end - keep == done_) return false;
      *unit = MakeUnit(end - keep);
      line_ = end - keep, scanned_ = end;
      return true;
    }
    const std::string_view line = text_.substr(line_, end - line_);
    size_t next = end + 1;
    if (text_[end] == '\r') {
      if (next < text_.size()) {
        next += text_[next] == '\n' ? 1 : 0;
      } else {
        after_cr_ = true;
      }
    }
    const bool last = TakeLine(line);
    line_ = scanned_ = next;
    if (!last) continue;
    *unit = MakeUnit(next);
    if (line.empty() || !fields_) {
      fields_ = false;
      data_lines_ = 0;
      if (line.empty()) overlong_ = false;
    }
    return true;
  }
}

SseUnit SseTap::MakeUnit(size_t end) {
  SseUnit unit;
  unit.raw = text_.substr(done_, end - done_);
  unit.too_long = overlong_ || unit.raw.size() > limit_;  // however it was cut into pieces
  unit.event = data_lines_ > 0 && !unit.too_long;
  unit.simple = unit.event && data_lines_ == 1;
  if (unit.simple) {
    unit.data = text_.substr(data_begin_, data_end_ - data_begin_);
  } else if (unit.event) {
    unit.data = JoinedData(unit.raw);
  }
  done_ = end;
  return unit;
}

std::string_view SseTap::JoinedData(std::string_view raw) {
  joined_.clear();
  bool first = true;
  for (size_t at = 0; at < raw.size();) {
    const size_t end = FindLineEnd(raw, at);
    if (const std::string_view value = DataOf(raw.substr(at, end - at)); value.data() != nullptr) {
      if (!first) joined_ += '\n';
      first = false;
      joined_ += value;
    }
    at = end + 1;
  }
  return joined_;
}

SseUnit SseTap::Rest() {
  Begin({});
  if (!overlong_ && line_ < text_.size()) TakeLine(text_.substr(line_));
  SseUnit unit = MakeUnit(text_.size());
  line_ = scanned_ = done_;
  data_lines_ = 0;
  return unit;
}

}  // namespace kcc
