#include "kcc/summary/measure_arrays.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "kcc/summary/accumulator.h"
#include "kcc/summary/plan_slices.h"
#include "kcc/summary/token_meter.h"

namespace kcc {
namespace {

bool HoldsLogits(const ArrayPair& pair) { return pair.train.logits != nullptr; }

Result<> CheckSide(const ArraySide& side, const std::string& name, const ArrayPair& pair) {
  if ((side.logits == nullptr) == (side.logprobs == nullptr)) {
    return InvalidError(name + ": give either logits or log-probs");
  }
  if (side.logits == nullptr) {
    if (side.logprobs_dtype == DType::kF32 || side.logprobs_dtype == DType::kF64) return {};
    return InvalidError(name + ": log-probs must be F32 or F64, these are " +
                        std::string(DTypeName(side.logprobs_dtype)));
  }
  if (pair.vocab_size < 1 || pair.vocab_size > kVocabSizeMax) {
    return InvalidError("vocab_size must be from 1 to " + std::to_string(kVocabSizeMax));
  }
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

Result<> Check(const ArrayPair& pair) {
  KCC_TRY_VOID(CheckSide(pair.train, "train", pair));
  KCC_TRY_VOID(CheckSide(pair.infer, "infer", pair));
  if ((pair.train.logits == nullptr) != (pair.infer.logits == nullptr)) {
    return InvalidError("both sides must hold logits or both log-probs");
  }
  if (!(pair.temperature > 0) || pair.temperature > std::numeric_limits<double>::max()) {
    return InvalidError("temperature must be positive and finite");
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
    if (first >= 0 && count >= 0 && count <= std::numeric_limits<int32_t>::max() &&
        first <= std::numeric_limits<int64_t>::max() / 8 - count && inside(pair.positions.size()) &&
        inside(pair.tokens.size()) && inside(pair.mask.size()) && inside(pair.advantages.size())) {
      continue;
    }
    return InvalidError("request '" + pair.requests[r].id + "': rows " + std::to_string(first) +
                        " to " + std::to_string(first) + " + " + std::to_string(count) +
                        " are not all in the arrays");
  }
  return {};
}

TokenEvidence EvidenceAt(const ArraySide& side, const ArrayPair& pair, int64_t row) {
  TokenEvidence token;
  const auto at = static_cast<size_t>(row);
  if (!pair.tokens.empty()) token.token = pair.tokens[at];
  if (!pair.advantages.empty()) token.advantage = pair.advantages[at];
  if (side.logits != nullptr) {
    const int64_t stride = side.logits_stride == 0 ? pair.vocab_size : side.logits_stride;
    const size_t bytes = DTypeBits(side.logits_dtype) / 8;
    token.logits =
        static_cast<const std::byte*>(side.logits) + static_cast<size_t>(row * stride) * bytes;
    token.logits_dtype = side.logits_dtype;
  }
  return token;
}

double LogprobAt(const ArraySide& side, int64_t row) {
  const auto at = static_cast<size_t>(row);
  if (side.logprobs_dtype == DType::kF64) return static_cast<const double*>(side.logprobs)[at];
  return static_cast<const float*>(side.logprobs)[at];
}

class RequestMeter {
 public:
  RequestMeter(const ArrayPair& pair, const Plan& plan, const SliceEvaluator& slices,
               const MeterSettings& settings, Target target)
      : pair_(pair),
        slices_(slices),
        accumulator_(plan, {}),
        meter_(settings, plan.slots(), target) {}

  Result<> Measure(size_t r) {
    const Request& request = pair_.requests[r];
    slices_.ForRequest(request, request, &bits_);
    accumulator_.BeginRequest(
        {request.id, &request, &request, pair_.train.fingerprint, pair_.infer.fingerprint}, bits_);
    for (int64_t i = 0; i < pair_.row_counts[r]; ++i) {
      const int64_t row = pair_.first_rows[r] + i;
      if (!pair_.mask.empty() && pair_.mask[static_cast<size_t>(row)] == 0) continue;
      const int32_t position = pair_.positions.empty() ? static_cast<int32_t>(i)
                                                       : pair_.positions[static_cast<size_t>(row)];
      Result<> added = AddRow(request, row, position);
      if (added) continue;
      return Error(added.error().code(), "request '" + request.id + "', position " +
                                             std::to_string(position) + " (row " +
                                             std::to_string(row) + "): " + added.error().message());
    }
    accumulator_.EndRequest();
    return {};
  }

  Result<Summary> Finish() { return accumulator_.Finish(); }

 private:
  Result<> AddRow(const Request& request, int64_t row, int32_t position) {
    TokenEvidence train = EvidenceAt(pair_.train, pair_, row);
    TokenEvidence infer = EvidenceAt(pair_.infer, pair_, row);
    train.position = infer.position = position;
    if (HoldsLogits(pair_) && infer.token >= pair_.vocab_size) {
      return BrokenEvidenceError("token " + std::to_string(infer.token) +
                                 " is outside the vocabulary of " +
                                 std::to_string(pair_.vocab_size));
    }
    if (HoldsLogits(pair_)) {
      KCC_TRY_VOID(meter_.Read(train, infer, &reading_));
    } else {
      KCC_TRY_VOID(
          meter_.ReadLogprobs(LogprobAt(pair_.train, row), LogprobAt(pair_.infer, row), &reading_));
    }
    token_bits_ = bits_;
    if (slices_.any_reads_token()) {
      slices_.ForToken(request, request, train, infer, &token_bits_);
    }
    return accumulator_.AddToken({position, infer.token, -1}, reading_.drift, token_bits_,
                                 reading_.estimates ? &*reading_.estimates : nullptr);
  }

  const ArrayPair& pair_;
  const SliceEvaluator& slices_;
  Accumulator accumulator_;
  TokenMeter meter_;
  TokenReading reading_;
  SliceBits bits_;
  SliceBits token_bits_;
};

// A run of requests for each thread, about equal in rows.
std::vector<size_t> SplitRequests(const ArrayPair& pair, size_t threads) {
  int64_t rows = 0;
  for (const int64_t count : pair.row_counts) rows += count + 1;
  std::vector<size_t> edges = {0};
  int64_t before = 0;
  for (size_t r = 0; r < pair.requests.size(); ++r) {
    before += pair.row_counts[r] + 1;
    const auto part = static_cast<int64_t>(edges.size());
    if (before * static_cast<int64_t>(threads) >= rows * part) edges.push_back(r + 1);
  }
  edges.resize(threads + 1, pair.requests.size());
  return edges;
}

Source Describe(const ArrayPair& pair) {
  Source source;
  const auto side = [&](const ArraySide& from) {
    SourceSide to;
    to.kernel_fingerprint = from.fingerprint;
    to.evidence = HoldsLogits(pair) ? EvidenceLevel::kLogits : EvidenceLevel::kSampledToken;
    return to;
  };
  source.train = side(pair.train);
  source.infer = side(pair.infer);
  source.evidence = source.train.evidence;
  source.sampled_by = pair.sampled_by;
  source.temperature = HoldsLogits(pair) ? pair.temperature : 1.0;
  source.vocab_size = pair.vocab_size;
  source.requests = pair.requests.size();
  for (size_t r = 0; r < pair.requests.size(); ++r) {
    source.manifest += HashText(pair.requests[r].id);
    for (int64_t i = 0; i < pair.row_counts[r]; ++i) {
      const auto row = static_cast<size_t>(pair.first_rows[r] + i);
      if (pair.mask.empty() || pair.mask[row] != 0) ++source.tokens;
    }
  }
  return source;
}

}  // namespace

Result<Summary> MeasureArrays(const ArrayPair& pair, const Plan& plan,
                              const MeasureOptions& options) {
  if (options.threads < 1) return InvalidError("threads: at least 1");
  KCC_TRY_VOID(Check(pair));
  KCC_TRY(const SliceEvaluator slices, MakeSliceEvaluator(plan));
  const MeterSettings settings{
      HoldsLogits(pair) ? EvidenceLevel::kLogits : EvidenceLevel::kSampledToken, pair.vocab_size,
      pair.temperature, pair.sampled_by};
  const size_t threads = std::clamp<size_t>(static_cast<size_t>(options.threads), 1,
                                            std::max<size_t>(1, pair.requests.size()));
  const std::vector<size_t> edges = SplitRequests(pair, threads);
  std::vector<std::optional<Result<Summary>>> parts(threads);
  const auto measure = [&](size_t t) {
    RequestMeter meter(pair, plan, slices, settings, options.target.value_or(BestTarget()));
    for (size_t r = edges[t]; r < edges[t + 1]; ++r) {
      Result<> done = meter.Measure(r);
      if (!done) {
        parts[t].emplace(std::move(done.error()));
        return;
      }
    }
    parts[t].emplace(meter.Finish());
  };
  std::vector<std::thread> others;
  for (size_t t = 1; t < threads; ++t) others.emplace_back(measure, t);
  measure(0);
  for (std::thread& other : others) other.join();
  // The first part that failed holds the first broken token.
  KCC_TRY(Summary summary, std::move(*parts[0]));
  for (size_t t = 1; t < threads; ++t) {
    if (!*parts[t]) return parts[t]->error();
    KCC_TRY_VOID(MergeInto(**parts[t], &summary));
  }
  summary.sources = {Describe(pair)};
  return summary;
}

}  // namespace kcc
