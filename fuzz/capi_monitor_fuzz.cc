// The online monitor through the C interface under hostile calls: rows, columns, names and records
// from the input, arrays exactly as large as the call claims. One monitor sees all inputs: whatever
// it refuses or folds, what it saves can be restored.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "fuzz/bytes.h"
#include "include/kcc.h"

using kcc::Bytes;

namespace {

[[noreturn]] void Broken() {
  std::fprintf(stderr, "last error: %s\n", kcc_error());
  __builtin_trap();
}

constexpr char kContract[] =
    "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: c, version: 1.0.0}\nspec:\n"
    "  slices: [{name: up, where: token.advantage > 0}]\n  numerical:\n"
    "    - {id: N-1, metric: max_kl, atMost: 1, exceedance: 1%, slices: [all, up], level: L2}\n"
    "    - {id: N-2, metric: mean_abs_log_ratio, atMost: 0.1, level: L1}\n";
constexpr char kPolicy[] =
    "apiVersion: kcc/v1\nkind: MonitorPolicy\nmetadata: {name: p, version: 1.0.0}\nspec:\n"
    "  falseAlarms: 1 per 10^6 requests\n  panic: serve-safest\n"
    "  audit: {sessionFilter: 1KiB}\n"
    "  kernels: [{name: a, role: infer}, {name: b, role: fallback}]\n";

struct Watched {
  kcc_contract* contract = nullptr;
  kcc_monitor* monitor = nullptr;
};

const Watched& TheWatched() {
  static const Watched watched = [] {
    Watched made;
    if (kcc_contract_parse(kContract, sizeof kContract - 1, nullptr, &made.contract) != KCC_OK ||
        kcc_monitor_new(made.contract, kPolicy, sizeof kPolicy - 1, nullptr, nullptr,
                        &made.monitor) != KCC_OK) {
      Broken();
    }
    return made;
  }();
  return watched;
}

// A column of exactly `rows` entries, so that asan sees the first read beyond.
class Columns {
 public:
  explicit Columns(int64_t rows) : rows_(rows < 0 ? 0 : static_cast<size_t>(rows)) {}

  const double* Doubles(Bytes& bytes) {
    std::vector<double>& column = doubles_.emplace_back(rows_);
    for (double& value : column) value = -static_cast<double>(bytes.Number());
    column.reserve(1);
    return column.data();
  }
  const int32_t* Ids(Bytes& bytes) {
    if (bytes.Odds(2)) return nullptr;
    std::vector<int32_t>& column = ids_.emplace_back(rows_);
    for (int32_t& value : column) value = static_cast<int32_t>(bytes.Byte()) - 8;
    column.reserve(1);
    return column.data();
  }

 private:
  size_t rows_;
  std::vector<std::vector<double>> doubles_;
  std::vector<std::vector<int32_t>> ids_;
};

void SaveAndRestore(const Watched& watched) {
  kcc_text saved{}, again{};
  kcc_monitor* restored = nullptr;
  if (kcc_monitor_save(watched.monitor, &saved) != KCC_OK ||
      kcc_monitor_restore(watched.contract, kPolicy, sizeof kPolicy - 1, nullptr, nullptr,
                          saved.data, saved.size, &restored) != KCC_OK ||
      kcc_monitor_save(restored, &again) != KCC_OK ||
      std::string_view(saved.data, saved.size) != std::string_view(again.data, again.size)) {
    Broken();
  }
  kcc_text_free(&saved);
  kcc_text_free(&again);
  kcc_monitor_free(restored);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr const char* kNames[] = {"kl", "abs_log_ratio",    "logprob",
                                    "x",  "train_confidence", nullptr};
  const Watched& watched = TheWatched();
  Bytes bytes(data, size);
  kcc_observation call{};
  call.struct_size = bytes.Odds(16) ? 8 : sizeof call;
  call.time_ms = bytes.Small(100) * 1'000'000;
  call.kernel = bytes.Odds(8) ? "c" : "a";
  call.session = bytes.Odds(2) ? "s" : nullptr;
  call.probe = static_cast<int>(bytes.Small(2));
  call.audited = static_cast<int>(bytes.Small(2));
  call.one_record = static_cast<int>(bytes.Small(2));
  call.rows = bytes.Small(6) - 1;
  call.masked = bytes.Small(4) - 1;
  Columns memory(call.rows);
  call.positions = memory.Ids(bytes);
  call.tokens = memory.Ids(bytes);
  call.gold = memory.Ids(bytes);
  call.infer_argmax = memory.Ids(bytes);
  call.train_argmax = memory.Ids(bytes);
  if (bytes.Odds(2)) call.advantages = memory.Doubles(bytes);
  std::vector<kcc_column> columns;
  for (int64_t i = bytes.Small(4); i > 0; --i) {
    const char* name = kNames[bytes.Small(6)];
    const double* values = memory.Doubles(bytes);
    columns.push_back({name, values, bytes.Odds(4) ? memory.Doubles(bytes) : nullptr});
  }
  call.columns = columns.data();
  call.column_count = static_cast<int64_t>(columns.size());
  const bool saves = bytes.Odds(8);
  const std::string text = bytes.Rest();
  const std::string record = text.starts_with('{') ? text : "{\"id\": \"r\"}";
  call.infer_request = record.c_str();
  kcc_text out{};
  if (kcc_monitor_observe_tokens(watched.monitor, &call, &out) == KCC_OK) kcc_text_free(&out);
  if (kcc_monitor_observe(watched.monitor, text.data(), text.size(), &out) == KCC_OK) {
    kcc_text_free(&out);
  }
  if (saves) SaveAndRestore(watched);
  return 0;
}
