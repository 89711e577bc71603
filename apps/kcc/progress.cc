#include "apps/kcc/progress.h"

#include <algorithm>
#include <cmath>
#include <iomanip>

#include "kcc/base/strings.h"

namespace kcc::cli {
namespace {

std::string Duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

}  // namespace

void Progress::Show(int64_t done, int64_t total, int64_t bytes) {
  constexpr double kBetweenDraws = 0.1;
  const double now = clock_.MonotonicSeconds();
  // Ten times a second at most: a terminal over a slow line must not slow the work down.
  if (!console_.terminal_err || total <= 0 || now - drawn_s_ < kBetweenDraws) return;
  drawn_s_ = now;
  const double elapsed = now - start_s_;
  std::string line = std::to_string(100 * done / total) + "%  " + std::to_string(done) + " of " +
                     std::to_string(total) + " " + std::string(unit_);
  if (elapsed > 0 && bytes > 0) {
    line += "  " + ReadableNumber(static_cast<double>(bytes) / elapsed / 1e9) + " GB/s";
  } else if (elapsed > 0 && done > 0) {
    line += "  " + ReadableNumber(static_cast<double>(done) / elapsed) + " " + std::string(unit_) +
            "/s";
  }
  if (done > 0) {
    const double rest = elapsed * static_cast<double>(total - done) / static_cast<double>(done);
    line += "  " + Duration(rest) + " left";
  }
  Draw(std::move(line));
}

void Progress::Wait(std::string_view what) {
  if (console_.terminal_err) Draw(std::string(what) + " ...");
}

void Progress::Begin(int64_t total) {
  start_s_ = clock_.MonotonicSeconds();
  drawn_s_ = -1;
  Show(0, total, 0);
}

// ASCII alone, so that bytes are columns.
void Progress::Draw(std::string line) {
  const auto widest = static_cast<size_t>(std::max(console_.width_err - 1, 1));
  line.resize(std::min(line.size(), widest));
  const size_t columns = line.size();
  if (columns < drawn_columns_) line.append(drawn_columns_ - columns, ' ');
  drawn_columns_ = columns;
  console_.progress << '\r' << line << std::flush;
}

void Progress::Clear() {
  if (drawn_columns_ == 0) return;
  // Without a text of its own: the destructor comes here where memory is out, too.
  console_.progress << '\r' << std::setw(static_cast<int>(drawn_columns_)) << "" << '\r'
                    << std::flush;
  drawn_columns_ = 0;
}

}  // namespace kcc::cli
