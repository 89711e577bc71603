#include "kcc/measure/measure_arrays.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <string_view>

#include "kcc/measure/pair_source.h"
#include "kcc/trace/evidence_check.h"
#include "kcc/trace/request_set.h"

namespace kcc {
namespace {

constexpr double kClaimMax = 1e15;  // beyond it a number of tokens is no number of tokens

EvidenceLevel EvidenceOf(const ArraySide& side) {
  if (side.logits != nullptr) return EvidenceLevel::kLogits;
  return side.top_ids != nullptr ? EvidenceLevel::kTopK : EvidenceLevel::kSampledToken;
}

EvidenceLevel EvidenceOf(const ArrayPair& pair) {
  return std::max(EvidenceOf(pair.train), EvidenceOf(pair.infer));  // the enum falls in strength
}

double SamplingTemperature(const ArrayPair& pair) {
  return pair.sampling_temperature.value_or(pair.temperature);
}

// Arrays come from a caller's memory: what is checked here is what would be read out of bounds or
// misread. The rows themselves are checked one by one as they are read.
Result<> CheckSide(const ArraySide& side, const std::string& name, const ArrayPair& pair) {
  const bool lists = side.top_ids != nullptr;
  if (lists != (side.top_logprobs != nullptr) || (lists && side.top_k < 1)) {
    return InvalidError(name + ": lists are ids and log-probs, of at least one entry a row");
  }
  const bool something = side.logits != nullptr || side.logprobs != nullptr || lists;
  if (!something || (side.logits != nullptr && (side.logprobs != nullptr || lists))) {
    return InvalidError(name + ": give either logits or log-probs, or top-k lists");
  }
  if (side.logprobs != nullptr && side.logprobs_dtype != DType::kF32 &&
      side.logprobs_dtype != DType::kF64) {
    return InvalidError(name + ": log-probs must be F32 or F64, these are " +
                        std::string(DTypeName(side.logprobs_dtype)));
  }
  if (side.logits == nullptr && !lists) return {};
  if (pair.vocab_size < 1 || pair.vocab_size > kVocabSizeMax) {
    return InvalidError("vocab_size must be from 1 to " + std::to_string(kVocabSizeMax));
  }
  if (lists && side.top_k > kVocabSizeMax) {
    return InvalidError(name + ": lists of more than " + std::to_string(kVocabSizeMax) +
                        " entries");
  }
  if (lists) return {};
  if (side.logits_stride != 0 && side.logits_stride < pair.vocab_size) {
    return InvalidError(name + ": rows of " + std::to_string(side.logits_stride) +
                        " entries cannot hold a vocabulary of " + std::to_string(pair.vocab_size));
  }
  switch (side.logits_dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return {};
    default:
      return InvalidError(name + ": logits must be F32, F16, BF16 or FP8, these are " +
                          std::string(DTypeName(side.logits_dtype)));
  }
}

// Each position of a request once, as in a trace; rows that the mask leaves out included, since
// they keep their places.
Result<> CheckPositions(const ArrayPair& pair, size_t request) {
  if (pair.positions.empty()) return {};
  const auto given = pair.positions.subspan(static_cast<size_t>(pair.first_rows[request]),
                                            static_cast<size_t>(pair.row_counts[request]));
  const auto wrong = [&](int32_t position, const char* why) {
    return BrokenEvidenceError("request '" + pair.requests[request].id + "': position " +
                               std::to_string(position) + why);
  };
  // Nearly always they rise, and then no copy needs to be sorted to find a twin.
  bool rising = true;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] < 0) return wrong(given[i], " is negative");
    rising = rising && (i == 0 || given[i] > given[i - 1]);
  }
  if (rising) return {};
  std::vector<int32_t> sorted(given.begin(), given.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twin = std::adjacent_find(sorted.begin(), sorted.end());
  if (twin != sorted.end()) return wrong(*twin, " stands twice");
  return {};
}

// After this every row that a request names lies within every array that was given, and no request
// or position stands twice. ArrayRows relies on both.
Result<> Check(const ArrayPair& pair) {
  KCC_TRY_VOID(CheckSide(pair.train, "train", pair));
  KCC_TRY_VOID(CheckSide(pair.infer, "infer", pair));
  // A trace may hold more on one side; a caller who has log-probs of the sampled tokens on one side
  // alone is most likely wrong.
  const auto sampled = [](const ArraySide& side) {
    return EvidenceOf(side) == EvidenceLevel::kSampledToken;
  };
  if (sampled(pair.train) != sampled(pair.infer)) {
    return InvalidError(
        "both sides must hold logits or both log-probs; top-k lists face lists or logits");
  }
  if (pair.place && EvidenceOf(pair) != EvidenceLevel::kLogits) {
    return InvalidError(
        "log-probs and lists are taken from the host's memory; a device measures the logits of "
        "both sides");
  }
  // Greedy decoding has no temperature to be positive; 1 stands in for it in the check.
  const bool greedy = pair.sampling_temperature == 0.0;
  for (const double temperature : {pair.temperature, greedy ? 1 : SamplingTemperature(pair)}) {
    if (!(temperature > 0) || temperature > std::numeric_limits<double>::max()) {
      return InvalidError(
          "temperatures must be positive and finite; that of sampling may be 0, for greedy "
          "decoding");
    }
  }
  const size_t requests = pair.requests.size();
  if (pair.first_rows.size() != requests || pair.row_counts.size() != requests) {
    return InvalidError("every request needs its first row and its number of rows");
  }
  for (size_t r = 0; r < requests; ++r) {
    const int64_t first = pair.first_rows[r];
    const int64_t count = pair.row_counts[r];
    const auto inside = [&](size_t rows) {
      return rows == 0 || first + count <= static_cast<int64_t>(rows);
    };
    // Neither the sum nor an offset in bytes may overflow; only then is it compared with sizes.
    if (first >= 0 && count >= 0 && count <= std::numeric_limits<int32_t>::max() &&
        first <= std::numeric_limits<int64_t>::max() / 8 - count && inside(pair.positions.size()) &&
        inside(pair.tokens.size()) && inside(pair.mask.size()) && inside(pair.advantages.size())) {
      KCC_TRY_VOID(CheckPositions(pair, r));
      continue;
    }
    return InvalidError("request '" + pair.requests[r].id + "': rows " + std::to_string(first) +
                        " to " + std::to_string(first) + " + " + std::to_string(count) +
                        " are not all in the arrays");
  }
  std::set<std::string_view> ids;
  for (const Request& request : pair.requests) {
    if (!ids.insert(request.id).second) {
      return InvalidError("the request id '" + request.id + "' stands twice");
    }
  }
  return {};
}

// F32 widens exactly, so a log-prob is the caller's number to the bit.
double LogprobAt(const ArraySide& side, size_t row) {
  if (side.logprobs_dtype == DType::kF64) return static_cast<const double*>(side.logprobs)[row];
  return static_cast<const float*>(side.logprobs)[row];
}

// The rows of one request after another, those that the mask leaves out excepted. With a table its
// logits lie on a device: they are not in the views, what came of them is.
// Nothing is copied: a row's logits stay where the caller has them. Example: first_rows {0, 3},
// row_counts {3, 2} and mask 1 0 1 1 1. Request 0 gives rows 0 and 2, request 1 gives rows 3 and 4;
// without given positions they are 0 and 2, and 0 and 1, since a masked row keeps its place.
class ArrayRows final : public PairRows {
 public:
  ArrayRows(const ArrayPair& pair, const DeviceTable* table) : pair_(pair), table_(table) {
    limits_.vocab_size = pair.vocab_size;
    // Logits can be compared without knowing which token was sampled.
    limits_.token_optional = true;
  }

  void Seek(size_t request) override {
    request_ = request;
    next_ = 0;
  }

  Result<RowPairView> Next() override {
    // Masked rows are passed over before they are loaded: what padding holds is no evidence.
    const int64_t count = pair_.row_counts[request_];
    const int64_t first = pair_.first_rows[request_];
    if (!pair_.mask.empty()) {
      while (next_ < count && pair_.mask[static_cast<size_t>(first + next_)] == 0) ++next_;
    }
    if (next_ >= count) return RowPairView();
    const int64_t i = next_++;
    KCC_TRY_VOID(Load(pair_.train, "train", first + i, i, &train_));
    KCC_TRY_VOID(Load(pair_.infer, "infer", first + i, i, &infer_));
    if (table_ == nullptr) return RowPairView{&train_, &infer_};
    measured_ = table_->Row(first + i);
    return RowPairView{&train_, &infer_, &measured_};
  }

 private:
  Result<> Load(const ArraySide& side, const char* name, int64_t row, int64_t in_request,
                TokenEvidence* to) const {
    const auto at = static_cast<size_t>(row);
    *to = TokenEvidence();
    to->position = pair_.positions.empty() ? static_cast<int32_t>(in_request) : pair_.positions[at];
    if (!pair_.tokens.empty()) to->token = pair_.tokens[at];
    if (!pair_.advantages.empty()) to->advantage = pair_.advantages[at];
    if (side.logprobs != nullptr) to->logprob = LogprobAt(side, at);
    if (side.top_ids != nullptr) LoadList(side, row, to);
    if (side.logits != nullptr && table_ == nullptr) {
      const int64_t stride = side.logits_stride == 0 ? pair_.vocab_size : side.logits_stride;
      const size_t bytes = DTypeBits(side.logits_dtype) / 8;
      to->logits =
          static_cast<const std::byte*>(side.logits) + static_cast<size_t>(row * stride) * bytes;
      to->logits_dtype = side.logits_dtype;
    }
    EvidenceLimits limits = limits_;
    limits.evidence = EvidenceOf(side);
    const Result<> checked = CheckEvidenceScalars(limits, *to);
    if (checked) return {};
    return Error(checked.error().code(), "request '" + pair_.requests[request_].id +
                                             "', position " + std::to_string(to->position) +
                                             " (row " + std::to_string(row) + "), " + name + ": " +
                                             checked.error().message());
  }

  // As in a trace: -1 fills up shorter lists.
  static void LoadList(const ArraySide& side, int64_t row, TokenEvidence* to) {
    const auto first = static_cast<size_t>(row * side.top_k);
    to->top_ids = side.top_ids + first;
    to->top_logprobs = side.top_logprobs + first;
    to->top_k = static_cast<int32_t>(side.top_k);
    while (to->top_k > 0 && to->top_ids[to->top_k - 1] < 0) --to->top_k;
  }

  const ArrayPair& pair_;
  const DeviceTable* const table_;
  EvidenceLimits limits_;  // but for the level, which is each side's
  size_t request_ = 0;
  int64_t next_ = 0;
  TokenEvidence train_;
  TokenEvidence infer_;
  Result<TokenDrift> measured_ = TokenDrift();
};

// One request record speaks for both sides, since a caller has one batch: what differs between
// sides is in the arrays. The caller's memory must outlive the source.
class ArraySource final : public PairSource {
 public:
  ArraySource(const ArrayPair& pair, const DeviceTable* table) : pair_(pair), table_(table) {}

  MeterSettings settings() const override {
    MeterSettings settings;
    settings.evidence = EvidenceOf(pair_);
    settings.full_side = FullSide(EvidenceOf(pair_.train), EvidenceOf(pair_.infer));
    settings.vocab_size = pair_.vocab_size;
    settings.temperature = settings.logit_divisor = pair_.temperature;
    settings.sampled_by = pair_.sampled_by;
    settings.sampling_temperature = SamplingTemperature(pair_);
    return settings;
  }
  size_t requests() const override { return pair_.requests.size(); }
  RequestPair request(size_t i) const override {
    const Request& request = pair_.requests[i];
    RequestPair made{request.id, &request, &request, pair_.train.fingerprint,
                     pair_.infer.fingerprint};
    // Rows that a request claims and the arrays lack are missing evidence, as in a trace. Both
    // sides share one Request here, so that there is one claim.
    const double claimed = request.Number("output_tokens").value_or(0);
    const auto rows = static_cast<double>(pair_.row_counts[i]);
    if (claimed > rows && claimed <= kClaimMax) {
      made.rows_missing = static_cast<int64_t>(claimed - rows);
    }
    made.output_rows = AnswerRows(i, claimed);
    return made;
  }
  int64_t tokens(size_t i) const override { return pair_.row_counts[i]; }
  int64_t bytes_per_token() const override {
    if (table_ != nullptr) return static_cast<int64_t>(sizeof(TokenDrift));
    const auto bytes = [&](const ArraySide& side) {
      if (side.logits == nullptr) return 8 * std::max<int64_t>(1, side.top_k);
      return pair_.vocab_size * static_cast<int64_t>(DTypeBits(side.logits_dtype)) / 8;
    };
    return bytes(pair_.train) + bytes(pair_.infer);
  }
  std::unique_ptr<PairRows> Rows() const override {
    return std::make_unique<ArrayRows>(pair_, table_);
  }
  Error At(size_t request, int32_t position, const Error& why) const override {
    return Error(why.code(), "request '" + pair_.requests[request].id + "', position " +
                                 std::to_string(position) + ": " + why.message());
  }

 private:
  // How many of a request's rows are its answer. Rows that the mask leaves out are padding, or
  // tokens of the answer that do not count, such as a tool's: only the record can tell. What it
  // claims is held to what the arrays can show: at least the rows that count, at most all.
  int64_t AnswerRows(size_t request, double claimed) const {
    const int64_t rows = pair_.row_counts[request];
    if (pair_.mask.empty()) return rows;
    const auto mask = pair_.mask.subspan(static_cast<size_t>(pair_.first_rows[request]),
                                         static_cast<size_t>(rows));
    const int64_t counted = rows - std::count(mask.begin(), mask.end(), uint8_t{0});
    if (!(claimed > static_cast<double>(counted))) return counted;
    return claimed < static_cast<double>(rows) ? static_cast<int64_t>(claimed) : rows;
  }

  const ArrayPair& pair_;
  const DeviceTable* const table_;
};

// The rows that count, and where both tensors are.
std::vector<RowRange> CountedRows(const ArrayPair& pair) {
  std::vector<RowRange> ranges;
  for (size_t r = 0; r < pair.requests.size(); ++r) {
    const int64_t end = pair.first_rows[r] + pair.row_counts[r];
    if (pair.mask.empty()) {
      ranges.push_back({pair.first_rows[r], pair.row_counts[r]});
      continue;
    }
    for (int64_t row = pair.first_rows[r]; row < end; ++row) {
      if (pair.mask[static_cast<size_t>(row)] == 0) continue;
      const int64_t first = row;
      while (row < end && pair.mask[static_cast<size_t>(row)] != 0) ++row;
      ranges.push_back({first, row - first});
    }
  }
  return ranges;
}

DeviceTensors TensorsOf(const ArrayPair& pair) {
  const auto stride = [&](const ArraySide& side) {
    return side.logits_stride == 0 ? pair.vocab_size : side.logits_stride;
  };
  DeviceTensors tensors;
  tensors.all.train = pair.train.logits;
  tensors.all.infer = pair.infer.logits;
  tensors.all.train_dtype = pair.train.logits_dtype;
  tensors.all.infer_dtype = pair.infer.logits_dtype;
  tensors.all.train_stride = stride(pair.train);
  tensors.all.infer_stride = stride(pair.infer);
  tensors.all.vocab = pair.vocab_size;
  tensors.all.temperature = pair.temperature;
  tensors.all.tokens = pair.tokens;
  tensors.place = *pair.place;
  return tensors;
}

Source Describe(const ArrayPair& pair) {
  Source source;
  const auto side = [&](const ArraySide& from) {
    SourceSide to;
    to.kernel_fingerprint = from.fingerprint;
    to.evidence = EvidenceOf(from);
    return to;
  };
  source.train = side(pair.train);
  source.infer = side(pair.infer);
  source.evidence = EvidenceOf(pair);
  source.sampled_by = pair.sampled_by;
  source.temperature = pair.temperature;
  if (pair.sampled_by != SampledBy::kDataset) {
    source.sampling_temperature = SamplingTemperature(pair);
  }
  source.vocab_size = pair.vocab_size;
  source.requests = pair.requests.size();
  for (size_t r = 0; r < pair.requests.size(); ++r) {
    // Hashes add up, so that the order of the requests cannot be seen in the summary.
    source.manifest += HashText(pair.requests[r].id);
    for (int64_t i = 0; i < pair.row_counts[r]; ++i) {
      const auto row = static_cast<size_t>(pair.first_rows[r] + i);
      if (pair.mask.empty() || pair.mask[row] != 0) ++source.tokens;
    }
  }
  return source;
}

RequestSet RequestSetOf(const ArrayPair& pair) {
  RequestSet set;
  for (size_t r = 0; r < pair.requests.size(); ++r) {
    const auto first = static_cast<size_t>(pair.first_rows[r]);
    const auto count = static_cast<size_t>(pair.row_counts[r]);
    std::vector<int32_t> counted(count);
    std::iota(counted.begin(), counted.end(), 0);
    const std::span<const int32_t> positions = pair.positions.empty()
                                                   ? std::span<const int32_t>(counted)
                                                   : pair.positions.subspan(first, count);
    // As for a trace of the same requests, so that binds.requests holds for either.
    const double prompt = pair.requests[r].Number("prompt_tokens").value_or(0);
    set.Add(pair.requests[r].id, static_cast<int32_t>(prompt), positions,
            pair.tokens.subspan(first, count));
  }
  return set;
}

}  // namespace

Result<ArrayMeasurement> ArrayMeasurement::Begin(const ArrayPair& pair, const Plan& plan,
                                                 const MeasureOptions& options) {
  KCC_TRY_VOID(Check(pair));
  ArrayMeasurement measurement(pair, plan, options);
  if (!pair.place) return measurement;
  if (options.device == nullptr) {
    return InvalidError("the logits lie on a device, and no library for it was loaded");
  }
  KCC_TRY(measurement.table_,
          DeviceTable::Begin(*options.device, TensorsOf(pair), CountedRows(pair), plan.slots()));
  return measurement;
}

Result<Summary> ArrayMeasurement::Finish(TokenSink* tokens) {
  if (table_) KCC_TRY_VOID(table_->Wait());
  // In the order of the arrays; the summary does not show it.
  std::vector<int32_t> order(pair_.requests.size());
  std::iota(order.begin(), order.end(), 0);
  const ArraySource source(pair_, table_ ? &*table_ : nullptr);
  MeasureOptions options = options_;
  options.tokens = tokens;
  KCC_TRY(Summary summary, MeasureSource(source, order, plan_, options));
  summary.sources = {Describe(pair_)};
  if (table_) summary.sources[0].backend = options_.device->name();
  if (options_.request_set && !pair_.tokens.empty()) {
    summary.sources[0].request_set = RequestSetOf(pair_).Digest();
  }
  return summary;
}

Result<Summary> MeasureArrays(const ArrayPair& pair, const Plan& plan,
                              const MeasureOptions& options) {
  KCC_TRY(ArrayMeasurement measurement, ArrayMeasurement::Begin(pair, plan, options));
  return measurement.Finish();
}

}  // namespace kcc
