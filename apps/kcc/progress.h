// A line of progress on a terminal: what is done, how fast, how long it will still take. Silent
// where there is no terminal to draw on.
#pragma once

#include <cstdint>
#include <mutex>
#include <ostream>
#include <string>
#include <string_view>

#include "kcc/base/clock.h"

namespace kcc::cli {

class Progress {
 public:
  // `unit`: what is counted, in the plural.
  Progress(std::ostream& err, bool terminal, const Clock& clock, std::string_view unit = "tokens")
      : err_(err),
        terminal_(terminal),
        clock_(clock),
        unit_(unit),
        start_s_(clock.MonotonicSeconds()) {}
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // May be called often; draws at most ten times a second. `bytes` 0: no speed is shown.
  void Show(int64_t done, int64_t total, int64_t bytes);
  void Clear();

 private:
  std::ostream& err_;
  bool terminal_;
  const Clock& clock_;
  std::string_view unit_;
  double start_s_;
  double drawn_s_ = -1;
  size_t drawn_columns_ = 0;
};

}  // namespace kcc::cli
