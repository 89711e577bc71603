// A line of progress on a terminal: what is waited for, then what is done, how fast, and how long
// it will still take. Silent where there is no terminal to draw on. Never wider than the terminal:
// the carriage return of the next drawing reaches the last row of a line alone.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "apps/kcc/console.h"
#include "kcc/base/clock.h"

namespace kcc::cli {

class Progress {
 public:
  // `unit`: what is counted, in the plural.
  Progress(const Console& console, const Clock& clock, std::string_view unit = "tokens")
      : console_(console), clock_(clock), unit_(unit), start_s_(clock.MonotonicSeconds()) {}
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What is waited for: "starting train". The time it takes is not counted as work: speed and rest
  // are reckoned from the next Begin on.
  void Wait(std::string_view what);
  // The work starts now; draws that nothing of it is done.
  void Begin(int64_t total);
  // May be called often; draws at most ten times a second. `bytes` 0: the speed is that of the
  // units.
  void Show(int64_t done, int64_t total, int64_t bytes);
  void Clear();

 private:
  void Draw(std::string line);

  const Console& console_;
  const Clock& clock_;
  std::string_view unit_;
  double start_s_;
  double drawn_s_ = -1;
  size_t drawn_columns_ = 0;
};

}  // namespace kcc::cli
