// Server-sent events, taken apart as they come: any chunking, lines that end with LF, CRLF or CR,
// comments, data over several lines. Bytes come out in the order in which they went in, in units
// that are never torn: an event up to its blank line, or what stands between events. So a stream
// can be ended or rewritten between any two units.
//
// What is not complete yet waits, up to a limit; a longer event goes out in parts as it comes,
// unread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kcc {

struct SseUnit {
  std::string_view raw;   // all of its bytes
  std::string_view data;  // of an event; of several lines, joined by LF
  bool event = false;     // it has data
  bool simple = false;    // the data is one line, a part of `raw`
  bool too_long = false;  // an event beyond the limit, or a part of it: the data is not told
  // The second byte of the CRLF that ended the unit before, which came later.
  bool line_feed = false;
};

class SseTap {
 public:
  explicit SseTap(size_t event_bytes_max) : limit_(event_bytes_max) {}

  // Calls `take(const SseUnit&)` for each unit that is complete. Returns the bytes of all of them:
  // a view of `bytes` where nothing had waited. Views live until the next call.
  template <class Take>
  std::string_view Feed(std::string_view bytes, Take&& take);
  // At the end of the stream: what never became complete, read as if its blank line were there.
  SseUnit Rest();

  // What was given out last ends between two events.
  bool between_events() const { return !overlong_; }

 private:
  // Looks for the next complete unit of text_ from done_ on; false: there is none yet.
  bool NextUnit(SseUnit* unit);
  bool TakeLine(std::string_view line);
  void Begin(std::string_view bytes);
  std::string_view End();
  void Rebase();
  SseUnit MakeUnit(size_t end);
  std::string_view JoinedData(std::string_view raw);

  const size_t limit_;
  std::string waiting_;  // what is not complete, when the next bytes come
  std::string joined_;
  std::string_view text_;  // what is being read: `waiting_`, or the caller's bytes
  bool own_ = false;       // `waiting_`
  size_t done_ = 0;        // of text_: given out
  size_t line_ = 0;        // where the line begins that is being read
  size_t scanned_ = 0;     // up to where no end of that line was found
  size_t data_begin_ = 0, data_end_ = 0;
  size_t data_lines_ = 0;
  bool fields_ = false;    // the event has a line that is no comment
  bool after_cr_ = false;  // a LF that comes next belongs to the line before
  bool at_start_ = true;   // of the stream, where a byte order mark may be
  bool overlong_ = false;
};

template <class Take>
std::string_view SseTap::Feed(std::string_view bytes, Take&& take) {
  Begin(bytes);
  SseUnit unit;
  while (NextUnit(&unit)) take(static_cast<const SseUnit&>(unit));
  return End();
}

}  // namespace kcc
