#include "kcc/rl/dump_measure.h"

#include <vector>

#include "kcc/measure/measure_arrays.h"
#include "kcc/rl/dump_rows.h"

namespace kcc {
namespace {

// What MeasureArrays views.
struct DumpArrays {
  std::vector<Request> requests;
  std::vector<int64_t> first_rows, row_counts;
  std::vector<uint8_t> mask;
  std::vector<float> advantages;
  std::vector<int32_t> tokens;  // empty: not known
};

DumpArrays ArraysOf(const RlDump& dump, const RlBatch& batch) {
  DumpArrays made;
  const size_t elements = dump.Find("train")->values.size();
  if (const RlDump::Array* mask = dump.Find("mask")) {
    for (const double value : mask->values) made.mask.push_back(value != 0 ? 1 : 0);
  }
  if (batch.advantages) made.advantages.resize(elements);
  const RlDump::Array* tokens = dump.Find("tokens");
  if (tokens != nullptr && tokens->values.size() == elements) {
    // What is no id is not known; it names the worst tokens in a report and decides nothing.
    for (const double number : tokens->values) made.tokens.push_back(ArrayTokenId(number));
  }
  for (int64_t row = 0; row < batch.rows; ++row) {
    const int64_t first = batch.RowBegin(batch.train, row);
    const int64_t length = OutputLength(dump, batch, row);
    made.first_rows.push_back(first);
    made.row_counts.push_back(length);
    made.requests.push_back(RowRequest(dump, batch, row, length));
    for (int64_t i = 0; i < length && batch.advantages; ++i) {
      const double advantage =
          batch.advantage_per_row ? batch.RowAdvantage(row) : batch.advantages.At(first + i);
      made.advantages[static_cast<size_t>(first + i)] = static_cast<float>(advantage);
    }
  }
  return made;
}

}  // namespace

Result<Summary> MeasureRlDump(const RlDump& dump, const Plan& plan,
                              const RlMeasureOptions& options) {
  KCC_TRY(const RlBatch batch, dump.Batch());
  const DumpArrays arrays = ArraysOf(dump, batch);
  ArrayPair pair;
  pair.train.logprobs = dump.Find("train")->values.data();
  pair.infer.logprobs = dump.Find("rollout")->values.data();
  pair.train.logprobs_dtype = pair.infer.logprobs_dtype = DType::kF64;
  pair.train.fingerprint = options.train_fingerprint;
  pair.infer.fingerprint = options.infer_fingerprint;
  pair.requests = arrays.requests;
  pair.first_rows = arrays.first_rows;
  pair.row_counts = arrays.row_counts;
  pair.mask = arrays.mask;
  pair.advantages = arrays.advantages;
  pair.tokens = arrays.tokens;
  pair.temperature = options.temperature;
  pair.sampling_temperature = options.sampling_temperature;
  MeasureOptions how;
  how.threads = options.threads;
  how.request_set = options.request_set;
  return MeasureArrays(pair, plan, how);
}

}  // namespace kcc
