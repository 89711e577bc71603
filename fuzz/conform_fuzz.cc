// Any text as a golden file of `kcc rl conform`; the first byte chooses the dialect. It is refused
// with words, or every case was run: nothing is read outside the arrays of a case.
#include <cstdint>
#include <string_view>

#include "kcc/base/check.h"
#include "kcc/rl/conform.h"
#include "kcc/rl/dialect.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const auto dialects = kcc::Dialects();
  const std::string_view dialect = dialects[data[0] % dialects.size()]->id;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto report = kcc::RunConform(text, dialect, {.float64 = (data[0] & 0x80) != 0});
  if (!report) {
    KCC_CHECK(!report.error().message().empty());
    return 0;
  }
  KCC_CHECK(report->cases_missed <= report->cases && report->refused <= report->cases);
  return 0;
}
