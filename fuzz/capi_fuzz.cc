// The C interface under hostile calls: sizes, strides, dtypes, offsets, slices and JSON taken from
// the input, arrays exactly as large as the call claims. Every call must return; none may touch
// memory that the caller did not give.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "fuzz/bytes.h"
#include "fuzz/memory_file.h"
#include "include/kcc.h"
#include "kcc/rl/dialect.h"

using kcc::Bytes;

namespace {

// A promise of the interface does not hold.
[[noreturn]] void Broken() {
  std::fprintf(stderr, "last error: %s\n", kcc_error());
  __builtin_trap();
}

size_t ElementBytes(kcc_dtype dtype) {
  switch (dtype) {
    case KCC_F64:
    case KCC_I64:
      return 8;
    case KCC_F16:
    case KCC_BF16:
      return 2;
    case KCC_U8:
    case KCC_F8_E4M3:
    case KCC_F8_E5M2:
      return 1;
    default:
      return 4;  // also of dtypes that do not exist, which must be refused unread
  }
}

// Memory of exactly so many elements, so that asan sees the first read beyond.
class Memory {
 public:
  const void* Fill(Bytes& bytes, int64_t elements, kcc_dtype dtype) {
    const size_t size = ElementBytes(dtype);
    const size_t count = static_cast<size_t>(std::max<int64_t>(0, elements));
    blocks_.emplace_back(count * size);
    std::vector<uint8_t>& block = blocks_.back();
    for (size_t i = 0; i < count; ++i) {
      const float number = bytes.Number();
      const auto wide = static_cast<double>(number);
      const auto whole =
          static_cast<int64_t>(std::isfinite(number) ? std::clamp(wide, -1e9, 1e9) : 1);
      if (dtype == KCC_F64) {
        std::memcpy(&block[i * size], &wide, size);
      } else if (dtype == KCC_F32) {
        std::memcpy(&block[i * size], &number, size);
      } else {
        std::memcpy(&block[i * size], &whole, size);
      }
    }
    block.reserve(1);  // a valid address even for no element
    return block.data();
  }

 private:
  std::vector<std::vector<uint8_t>> blocks_;
};

struct Batch {
  kcc_rl_batch call{};
  Memory memory;
  std::vector<int64_t> offsets;
  std::vector<int32_t> slice_of_row;
  std::vector<const char*> names = {"a", "b", "", nullptr};
  size_t elements = 0;  // that outputs must have
};

// Where the call is coherent, arrays have what it may read and no more.
void FillBatch(Bytes& bytes, Batch* to) {
  kcc_rl_batch& batch = to->call;
  batch.struct_size = bytes.Odds(32) ? 8 : sizeof batch;
  batch.rows = bytes.Small(7) - 1;
  batch.columns = bytes.Small(20) - 1;
  const int64_t rows = std::max<int64_t>(0, batch.rows);
  const int64_t columns = std::max<int64_t>(0, batch.columns);
  int64_t packed = 0;
  if (bytes.Odds(4)) {
    to->offsets.push_back(bytes.Odds(16) ? 1 : 0);
    for (int64_t r = 0; r < rows; ++r) {
      to->offsets.push_back(to->offsets.back() + bytes.Small(20) - (bytes.Odds(16) ? 1 : 0));
    }
    packed = *std::max_element(to->offsets.begin(), to->offsets.end());
    batch.offsets = to->offsets.data();
  }
  const auto array = [&](bool present, bool per_row) {
    kcc_array made{};
    made.dtype = static_cast<kcc_dtype>(bytes.Odds(4) ? bytes.Small(10) : bytes.Small(2));
    if (bytes.Odds(4)) made.row_stride = bytes.Small(24) - 1;
    if (!present) return made;
    const int64_t width = per_row ? 1 : columns;
    const int64_t stride = std::max(width, made.row_stride);
    const int64_t padded = rows == 0 ? 0 : (rows - 1) * stride + width;
    made.data =
        to->memory.Fill(bytes, per_row || batch.offsets == nullptr ? padded : packed, made.dtype);
    return made;
  };
  batch.train = array(!bytes.Odds(16), false);
  batch.rollout = array(!bytes.Odds(16), false);
  batch.old_logprobs = array(bytes.Odds(3), false);
  batch.mask = array(bytes.Odds(2), false);
  batch.advantage_per_row = static_cast<int>(bytes.Small(2));
  batch.advantages = array(bytes.Odds(2), batch.advantage_per_row != 0);
  if (bytes.Odds(2)) {
    for (int64_t r = 0; r < rows; ++r) {
      to->slice_of_row.push_back(static_cast<int32_t>(bytes.Small(5)) - 1);
    }
    batch.slice_of_row = to->slice_of_row.data();
    if (!bytes.Odds(8)) batch.slice_names = to->names.data();
    batch.slice_count = static_cast<int32_t>(bytes.Small(6)) - 1;
    batch.slice_count = std::min(batch.slice_count, 4);
  }
  to->elements = static_cast<size_t>(batch.offsets == nullptr ? rows * columns : packed);
}

void UseSummary(kcc_rl_summary* summary, const std::string& text) {
  kcc_text out{};
  kcc_rl_summary* again = nullptr;
  if (kcc_rl_summary_encode(summary, &out) == KCC_OK) {
    // What was encoded is read back to the same bytes.
    if (kcc_rl_summary_decode(out.data, out.size, &again) != KCC_OK) Broken();
    kcc_text bytes{};
    kcc_rl_summary_encode(again, &bytes);
    if (bytes.size != out.size || std::memcmp(bytes.data, out.data, out.size) != 0) {
      Broken();
    }
    kcc_text_free(&bytes);
  }
  kcc_text_free(&out);
  kcc_rl_summary_merge(summary, again);
  kcc_rl_summary_merge(summary, summary);
  kcc_rl_summary_free(again);
  if (kcc_rl_summary_figures(summary, 0.95, &out) == KCC_OK) kcc_text_free(&out);
  if (kcc_rl_summary_judge(summary, text.c_str(), 0.9, &out) == KCC_OK) kcc_text_free(&out);
}

// Adding and correcting in one visit and one after the other must agree, in outcome and bytes.
void Step(const Batch& batch, const std::string& text, int threads, bool outputs) {
  kcc_rl_summary* stepped = nullptr;
  kcc_rl_summary* added = nullptr;
  kcc_rl_summary_new(&stepped);
  kcc_rl_summary_new(&added);
  std::vector<float> weights(batch.elements), other(batch.elements);
  std::vector<uint8_t> kept(batch.elements), other_kept(batch.elements);
  kcc_text figures{}, other_figures{};
  float* weights_at = outputs ? weights.data() : nullptr;
  uint8_t* kept_at = outputs ? kept.data() : nullptr;
  const kcc_status one = kcc_rl_step(stepped, &batch.call, text.c_str(), threads, weights_at,
                                     kept_at, outputs ? &figures : nullptr);
  const kcc_status two =
      kcc_rl_correct(&batch.call, text.c_str(), 1, other.data(), other_kept.data(), &other_figures);
  if (one != two) Broken();
  if (one == KCC_OK && outputs) {
    if (!weights.empty() &&
        std::memcmp(weights.data(), other.data(), weights.size() * sizeof(float)) != 0) {
      Broken();
    }
    if (kept != other_kept || figures.size != other_figures.size) Broken();
  }
  if (one == KCC_OK) {
    if (kcc_rl_summary_add(added, &batch.call, 1) != KCC_OK) Broken();
    kcc_text a{}, b{};
    kcc_rl_summary_encode(stepped, &a);
    kcc_rl_summary_encode(added, &b);
    if (a.size != b.size || std::memcmp(a.data, b.data, a.size) != 0) Broken();
    kcc_text_free(&a);
    kcc_text_free(&b);
    UseSummary(stepped, "{\"token.k3\": 1}");
  }
  kcc_text_free(&figures);
  kcc_text_free(&other_figures);
  kcc_rl_summary_free(stepped);
  kcc_rl_summary_free(added);
}

void Diagnose(const Batch& batch, const std::string& text) {
  kcc_rl_summary* summary = nullptr;
  kcc_rl_summary* other = nullptr;
  kcc_rl_summary_new(&summary);
  kcc_rl_summary_add(summary, &batch.call, 2);
  UseSummary(summary, text);
  if (kcc_rl_summary_decode(text.data(), text.size(), &other) == KCC_OK) {
    kcc_rl_summary_merge(summary, other);
    UseSummary(other, "{}");
  }
  kcc_rl_summary_free(other);
  kcc_rl_summary_free(summary);
}

void RunDialect(const Batch& batch, uint8_t which, const std::string& text) {
  const auto dialects = kcc::Dialects();
  const size_t at = which % (dialects.size() + 1);  // the last is nobody's
  const std::string dialect(at < dialects.size() ? dialects[at]->id : "nobody");
  const size_t end = text.find('\n');
  const std::string function = text.substr(0, end);
  const std::string options = end == std::string::npos ? "" : text.substr(end + 1);
  kcc_rl_dialect* result = nullptr;
  kcc_text out{};
  kcc_rl_dialect_run(dialect.c_str(), function.empty() ? nullptr : function.c_str(), &batch.call,
                     options.empty() ? nullptr : options.c_str(), &result);
  if (result == nullptr) return;
  if (kcc_rl_dialect_metrics(result, &out) == KCC_OK) kcc_text_free(&out);
  for (const char* name : {"weights", "mask", "no such"}) {
    const double* values = nullptr;
    const int64_t* offsets = nullptr;
    int64_t rows = 0;
    if (kcc_rl_dialect_array(result, name, &values, &offsets, &rows) != KCC_OK) continue;
    volatile double last = 0;
    for (int64_t i = 0; i < offsets[rows]; ++i) last = values[i];
    (void)last;
  }
  kcc_rl_dialect_free(result);
}

// Arrays of the contract half: log-probs or logits, requests from the input.
// The two parts must give what the one call gave: the same bytes, or a failure of the same kind.
void CheckTwoParts(const kcc_arrays& arrays, const kcc_contract* contract, kcc_status measured,
                   const kcc_summary* whole) {
  kcc_measurement* measurement = nullptr;
  kcc_summary* parts = nullptr;
  kcc_status status = kcc_measure_begin(&arrays, contract, 1, &measurement);
  if (status == KCC_OK) status = kcc_measure_finish(measurement, &parts);
  if (status != measured) Broken();
  if (status == KCC_OK) {
    kcc_text a{};
    kcc_text b{};
    if (kcc_summary_encode(whole, &a) != KCC_OK || kcc_summary_encode(parts, &b) != KCC_OK) {
      Broken();
    }
    if (std::string_view(a.data, a.size) != std::string_view(b.data, b.size)) Broken();
    kcc_text_free(&a);
    kcc_text_free(&b);
  }
  kcc_summary_free(parts);
  kcc_measurement_free(measurement);
}

// What the caller of a measurement holds: the arrays and the memory they point to.
struct MeasureInput {
  kcc_arrays arrays{};
  Memory memory;
  std::vector<int64_t> first, counts;
  std::vector<int32_t> positions, tokens;
  std::vector<uint8_t> mask;
  std::vector<float> advantages;
  std::string jsonl;
};

// The evidence of both sides: logits or log-probs, rarely of a wrong shape or missing.
void FillEvidence(Bytes& bytes, MeasureInput* input) {
  kcc_arrays& arrays = input->arrays;
  const int64_t rows = std::max<int64_t>(0, arrays.rows);
  const int64_t vocab = std::max<int64_t>(0, arrays.vocab_size);
  const bool logits = bytes.Odds(2);
  for (kcc_array* each : {&arrays.train_logits, &arrays.infer_logits, &arrays.train_logprobs,
                          &arrays.infer_logprobs}) {
    each->dtype = static_cast<kcc_dtype>(bytes.Odds(4) ? bytes.Small(10) : 0);
    const bool is_logits = each == &arrays.train_logits || each == &arrays.infer_logits;
    if (is_logits != logits || bytes.Odds(16)) continue;
    if (is_logits && bytes.Odds(4)) each->row_stride = bytes.Small(48) - 1;
    const int64_t stride = std::max(vocab, each->row_stride);
    const int64_t elements = !is_logits ? rows : rows == 0 ? 0 : (rows - 1) * stride + vocab;
    each->data = input->memory.Fill(bytes, elements, each->dtype);
  }
}

// The rows of each request and what is said of each row.
void FillRows(Bytes& bytes, MeasureInput* input) {
  kcc_arrays& arrays = input->arrays;
  arrays.requests = bytes.Small(4);
  for (int64_t r = 0; r < arrays.requests; ++r) {
    input->first.push_back(bytes.Small(14) - 1);
    input->counts.push_back(bytes.Small(8) - 1);
  }
  arrays.first_rows = input->first.data();
  arrays.row_counts = input->counts.data();
  for (int64_t i = 0; i < std::max<int64_t>(0, arrays.rows); ++i) {
    input->positions.push_back(static_cast<int32_t>(bytes.Small(16)) - 1);
    input->tokens.push_back(static_cast<int32_t>(bytes.Small(48)) - 1);
    input->mask.push_back(bytes.Odds(4) ? 0 : 1);
    input->advantages.push_back(bytes.Number());
  }
  if (bytes.Odds(4)) arrays.positions = input->positions.data();
  if (bytes.Odds(2)) arrays.tokens = input->tokens.data();
  if (bytes.Odds(2)) arrays.mask = input->mask.data();
  if (bytes.Odds(4)) arrays.advantages = input->advantages.data();
}

void FillRequests(Bytes& bytes, MeasureInput* input) {
  input->jsonl = bytes.Rest();
  if (input->jsonl.empty()) {
    for (int64_t r = 0; r < input->arrays.requests; ++r) {
      input->jsonl += "{\"id\": \"" + std::to_string(r) + "\"}\n";
    }
  }
  input->arrays.requests_jsonl = input->jsonl.data();
  input->arrays.requests_jsonl_size = input->jsonl.size();
}

void JudgeAndMerge(const kcc_contract* contract, kcc_summary* summary) {
  kcc_text out{};
  if (kcc_judge(contract, summary, nullptr, nullptr, "json", &out) != KCC_OK) Broken();
  kcc_text_free(&out);
  kcc_summary_merge(summary, summary);
  if (kcc_summary_encode(summary, &out) == KCC_OK) {
    kcc_summary* again = nullptr;
    if (kcc_summary_decode(out.data, out.size, &again) != KCC_OK) Broken();
    kcc_summary_free(again);
  }
  kcc_text_free(&out);
}

void Measure(Bytes& bytes) {
  MeasureInput input;
  kcc_arrays& arrays = input.arrays;
  arrays.struct_size = sizeof arrays;
  arrays.rows = bytes.Small(12) - 1;
  arrays.vocab_size = bytes.Small(40) - 1;
  FillEvidence(bytes, &input);
  arrays.temperature = bytes.Odds(8) ? static_cast<double>(bytes.Number()) : 1.0;
  FillRows(bytes, &input);
  arrays.clauses_only = static_cast<int>(bytes.Small(2));
  FillRequests(bytes, &input);
  static const char kContract[] =
      "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: f, version: 1.0.0}\nspec:\n"
      "  numerical:\n    - {id: N-1, metric: mean_abs_log_ratio, atMost: 0.02, level: L3}\n"
      "    - {id: N-2, metric: mean_kl, atMost: 0.02, level: L3}\n";
  kcc_contract* contract = nullptr;
  if (kcc_contract_parse(kContract, sizeof kContract - 1, nullptr, &contract) != KCC_OK) {
    Broken();
  }
  kcc_summary* summary = nullptr;
  const kcc_status measured = kcc_measure_arrays(&arrays, contract, 2, &summary);
  CheckTwoParts(arrays, contract, measured, summary);
  if (measured == KCC_OK) JudgeAndMerge(contract, summary);
  kcc_summary_free(summary);
  kcc_contract_free(contract);
}

// A dump file of each format, from memory; its batch goes through the rest.
void ReadDump(uint8_t which, const std::string& text) {
  static const char* const kSuffixes[] = {".jsonl", ".npz", ".npy", ".safetensors", ".pt"};
  const kcc::MemoryFile file(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  // The suffix tells the format, so a link gives the file in memory one.
  static const std::string kLink = "/tmp/kcc-capi-fuzz-" + std::to_string(::getpid());
  const std::string link = kLink + kSuffixes[which % 5];
  ::unlink(link.c_str());
  if (::symlink(file.path().c_str(), link.c_str()) != 0) return;
  const char* paths[] = {link.c_str()};
  kcc_rl_dump* dump = nullptr;
  const kcc_status status = kcc_rl_dump_read(paths, 1, nullptr, &dump);
  ::unlink(link.c_str());
  if (status != KCC_OK) return;
  Batch batch;
  batch.call.struct_size = sizeof batch.call;
  if (kcc_rl_dump_batch(dump, &batch.call) != KCC_OK) Broken();
  batch.elements =
      static_cast<size_t>(batch.call.offsets != nullptr ? batch.call.offsets[batch.call.rows]
                                                        : batch.call.rows * batch.call.columns);
  Step(batch, "{\"weight\": {\"mode\": \"truncate\", \"high\": 2}}", 1, true);
  kcc_rl_dump_free(dump);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  const uint8_t which = bytes.Byte();
  const uint8_t more = bytes.Byte();
  if (which % 8 == 6) {
    Measure(bytes);
    return 0;
  }
  if (which % 8 == 7) {
    ReadDump(more, bytes.Rest());
    return 0;
  }
  Batch batch;
  FillBatch(bytes, &batch);
  const std::string text = bytes.Rest();
  kcc_text out{};
  switch (which % 8) {
    case 0:
      Diagnose(batch, text);
      break;
    case 1:
    case 2:
      Step(batch, text, more % 4, more % 8 != 7);
      break;
    case 3:
      if (kcc_rl_lint(&batch.call, &out) == KCC_OK) kcc_text_free(&out);
      if (kcc_rl_lint_correction(&batch.call, text.c_str(), 1, &out) == KCC_OK) {
        kcc_text_free(&out);
      }
      break;
    case 4:
      if (kcc_rl_replay(&batch.call, 1, more % 4 == 0 ? "html" : "json", &out) == KCC_OK) {
        kcc_text_free(&out);
      }
      if (kcc_bound(text.c_str(), &out) == KCC_OK) kcc_text_free(&out);
      if (kcc_contract_check(text.data(), text.size(), nullptr, &out) == KCC_OK) {
        kcc_text_free(&out);
      }
      break;
    default:
      RunDialect(batch, more, text);
  }
  return 0;
}
