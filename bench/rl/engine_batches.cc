#include "bench/rl/engine_batches.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "kcc/base/dtype.h"
#include "kcc/trace/reader.h"

namespace kcc::bench {
namespace {

using Row = std::vector<double>;

Row LogSoftmax(std::span<const float> logits, double temperature) {
  Row out(logits.begin(), logits.end());
  const double peak = *std::max_element(out.begin(), out.end()) / temperature;
  double sum = 0;
  for (double& z : out) {
    z /= temperature;
    sum += std::exp(z - peak);
  }
  const double norm = peak + std::log(sum);
  for (double& z : out) z -= norm;
  return out;
}

void Renormalise(Row* logprobs) {
  double mass = 0;
  for (const double x : *logprobs) mass += std::exp(x);
  for (double& x : *logprobs) x -= std::log(mass);
}

// Leaves the most likely tokens: at most k, the fewest that reach mass p, none less likely than
// `share` of the first; the others get -inf.
Row Cut(const Row& logprobs, double p, size_t k, double share) {
  std::vector<size_t> order(logprobs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logprobs[a] > logprobs[b]; });
  Row out(logprobs.size(), -INFINITY);
  double mass = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const double x = logprobs[order[i]];
    if (i >= k || (i > 0 && mass >= p) || x < logprobs[order[0]] + std::log(share)) break;
    out[order[i]] = x;
    mass += std::exp(x);
  }
  Renormalise(&out);
  return out;
}

Row CutOf(const Row& logprobs, const EngineFault& fault) {
  switch (fault.change) {
    case EngineChange::kTopK:
      return Cut(logprobs, 2, static_cast<size_t>(fault.strength), 1e-300);
    case EngineChange::kMinP:
      return Cut(logprobs, 2, logprobs.size(), fault.strength);
    default:
      return Cut(logprobs, fault.strength, logprobs.size(), 1e-300);
  }
}

// As Hugging Face: logits of tokens that were written before are divided by it, or multiplied.
std::vector<float> Penalise(std::span<const float> logits, std::span<const int32_t> written,
                            double penalty) {
  std::vector<float> out(logits.begin(), logits.end());
  for (const int32_t token : written) {
    const auto at = static_cast<size_t>(token);
    const double z = static_cast<double>(logits[at]);
    out[at] = static_cast<float>(z > 0 ? z / penalty : z * penalty);
  }
  return out;
}

// What the sampler draws from and what the two sides report, at one position.
struct Reported {
  Row sampled, rollout, train;
};

Reported Report(const EngineFault& fault, std::span<const float> rollout,
                std::span<const float> train, std::span<const int32_t> written) {
  const double at = fault.strength;
  switch (fault.change) {
    case EngineChange::kClean:
    case EngineChange::kCleanBf16: {
      Row own = LogSoftmax(rollout, at);
      return {own, own, LogSoftmax(train, at)};
    }
    case EngineChange::kCutBothRaw: {
      Row raw = LogSoftmax(rollout, 1);
      return {CutOf(raw, fault), raw, LogSoftmax(train, 1)};
    }
    case EngineChange::kRolloutTemperature: {
      Row own = LogSoftmax(rollout, at);
      return {own, own, LogSoftmax(train, 1)};
    }
    case EngineChange::kTrainTemperature: {
      Row own = LogSoftmax(rollout, 1);
      return {own, own, LogSoftmax(train, at)};
    }
    case EngineChange::kRawTemperature:
      return {LogSoftmax(rollout, at), LogSoftmax(rollout, 1), LogSoftmax(train, at)};
    case EngineChange::kTopP:
    case EngineChange::kTopK:
    case EngineChange::kMinP: {
      Row own = CutOf(LogSoftmax(rollout, 1), fault);
      return {own, own, LogSoftmax(train, 1)};
    }
    case EngineChange::kRawTopP: {
      Row raw = LogSoftmax(rollout, 1);
      Row own = CutOf(raw, fault), masked = LogSoftmax(train, 1);
      for (size_t v = 0; v < own.size(); ++v) {
        if (std::isinf(own[v])) masked[v] = -INFINITY;  // the engine's mask in the trainer
      }
      Renormalise(&masked);
      return {own, raw, masked};
    }
    case EngineChange::kPenalty: {
      Row own = LogSoftmax(Penalise(rollout, written, at), 1);
      return {own, own, LogSoftmax(train, 1)};
    }
    default: {  // spoilt after the draw
      Row own = LogSoftmax(rollout, 1);
      return {own, own, LogSoftmax(train, 1)};
    }
  }
}

double Uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

using Values = std::vector<double>;

// What happens to a finished row; `other` is a row of the same length from elsewhere in the pool.
void SpoilRow(const EngineFault& fault, std::mt19937_64& random, const Values& other, Values* train,
              Values* rollout) {
  const size_t count = train->size();
  switch (fault.change) {
    case EngineChange::kShift:
      if (fault.strength > 0) {
        std::rotate(rollout->begin(), rollout->begin() + 1, rollout->end());
      } else {
        std::rotate(rollout->rbegin(), rollout->rbegin() + 1, rollout->rend());
      }
      return;
    case EngineChange::kTokenization: {
      if (Uniform(random) > fault.strength) return;
      const auto from =
          static_cast<size_t>((0.1 + 0.6 * Uniform(random)) * static_cast<double>(count));
      for (size_t i = from; i < count; ++i) (*train)[i] = other[i];
      return;
    }
    case EngineChange::kStaleArrays:
      if (Uniform(random) <= fault.strength) *rollout = other;
      return;
    case EngineChange::kSentinel:
      for (double& x : *rollout) {
        if (Uniform(random) < fault.strength) x = -20;
      }
      return;
    default:
      return;
  }
}

Result<> ReadLogits(const std::string& directory, bool with_rows, EnginePool* pool,
                    std::vector<float>* to) {
  KCC_TRY(const TraceReader reader, TraceReader::Open(directory));
  pool->vocab = static_cast<size_t>(reader.info().vocab_size);
  TokenCursor cursor(reader);
  int32_t request = -1;
  for (;;) {
    KCC_TRY(const TokenEvidence* token, cursor.Next());
    if (token == nullptr) break;
    if (with_rows && token->request != request) {
      if (request >= 0) pool->row_begin.push_back(pool->tokens.size());
      request = token->request;
    }
    if (with_rows) pool->tokens.push_back(token->token);
    const size_t at = to->size();
    to->resize(at + pool->vocab);
    if (token->logits_dtype == DType::kF32) {
      std::memcpy(&(*to)[at], token->logits, 4 * pool->vocab);
      continue;
    }
    for (size_t v = 0; v < pool->vocab; ++v) {
      uint16_t bits;
      std::memcpy(&bits, static_cast<const std::byte*>(token->logits) + 2 * v, 2);
      (*to)[at + v] = token->logits_dtype == DType::kF16 ? F16ToFloat(bits) : BF16ToFloat(bits);
    }
  }
  if (with_rows) pool->row_begin.push_back(pool->tokens.size());
  return {};
}

}  // namespace

Result<EnginePool> ReadEnginePool(const std::string& rollout, const std::string& train) {
  EnginePool pool;
  KCC_TRY_VOID(ReadLogits(rollout, true, &pool, &pool.rollout));
  KCC_TRY_VOID(ReadLogits(train, false, &pool, &pool.train));
  if (pool.rollout.size() != pool.train.size()) {
    return InvalidError(rollout + " and " + train + " are of other tokens");
  }
  return pool;
}

std::vector<EngineFault> EngineFaults() {
  using C = EngineChange;
  using F = RlFault;
  return {
      {F::kNone, C::kClean, 1, "clean"},
      {F::kNone, C::kClean, 0.7, "clean, both at 0.7"},
      {F::kNone, C::kClean, 1.3, "clean, both at 1.3"},
      {F::kNone, C::kCleanBf16, 1, "clean, log-probs in bfloat16"},
      {F::kNone, C::kCutBothRaw, 0.8, "top-p 0.8, both raw"},
      {F::kTemperature, C::kRolloutTemperature, 0.7, "engine at 0.7"},
      {F::kTemperature, C::kRolloutTemperature, 0.9, "engine at 0.9"},
      {F::kTemperature, C::kRolloutTemperature, 1.3, "engine at 1.3"},
      {F::kTemperature, C::kTrainTemperature, 0.7, "trainer at 0.7"},
      {F::kRawVsProcessed, C::kRawTemperature, 0.7, "raw at 0.7"},
      {F::kRawVsProcessed, C::kRawTemperature, 1.3, "raw at 1.3"},
      {F::kRawVsProcessed, C::kRawTopP, 0.8, "raw at top-p 0.8"},
      {F::kRawVsProcessed, C::kPenalty, 1.2, "repetition penalty 1.2"},
      {F::kKeptMass, C::kTopP, 0.8, "top-p 0.8"},
      {F::kKeptMass, C::kTopP, 0.95, "top-p 0.95"},
      {F::kKeptMass, C::kTopK, 5, "top-k 5"},
      {F::kShift, C::kShift, 1, "one later"},
      {F::kTokenization, C::kTokenization, 0.5, "half of the rows"},
      {F::kStale, C::kStaleArrays, 0.5, "arrays of half of the rows"},
      {F::kStale, C::kStaleWeights, 0.3, "weights"},
      {F::kSentinel, C::kSentinel, 0.02, "-20 at 2 %"},
  };
}

std::vector<EngineFault> HeldOutEngineFaults() {
  using C = EngineChange;
  using F = RlFault;
  return {
      {F::kNone, C::kClean, 1, "clean"},
      {F::kNone, C::kClean, 0.8, "clean, both at 0.8"},
      {F::kNone, C::kClean, 1.2, "clean, both at 1.2"},
      {F::kNone, C::kCleanBf16, 1, "clean, log-probs in bfloat16"},
      {F::kNone, C::kCutBothRaw, 0.9, "top-p 0.9, both raw"},
      {F::kTemperature, C::kRolloutTemperature, 0.6, "engine at 0.6"},
      {F::kTemperature, C::kRolloutTemperature, 0.8, "engine at 0.8"},
      {F::kTemperature, C::kRolloutTemperature, 1.2, "engine at 1.2"},
      {F::kTemperature, C::kRolloutTemperature, 1.5, "engine at 1.5"},
      {F::kTemperature, C::kTrainTemperature, 0.8, "trainer at 0.8"},
      {F::kTemperature, C::kTrainTemperature, 1.25, "trainer at 1.25"},
      {F::kRawVsProcessed, C::kRawTemperature, 0.6, "raw at 0.6"},
      {F::kRawVsProcessed, C::kRawTemperature, 0.8, "raw at 0.8"},
      {F::kRawVsProcessed, C::kRawTemperature, 1.2, "raw at 1.2"},
      {F::kRawVsProcessed, C::kRawTemperature, 1.5, "raw at 1.5"},
      {F::kRawVsProcessed, C::kRawTopP, 0.9, "raw at top-p 0.9"},
      {F::kRawVsProcessed, C::kPenalty, 1.1, "repetition penalty 1.1"},
      {F::kRawVsProcessed, C::kPenalty, 1.3, "repetition penalty 1.3"},
      {F::kKeptMass, C::kTopP, 0.85, "top-p 0.85"},
      {F::kKeptMass, C::kTopP, 0.9, "top-p 0.9"},
      {F::kKeptMass, C::kMinP, 0.1, "min-p 0.1"},
      {F::kKeptMass, C::kTopK, 3, "top-k 3"},
      {F::kKeptMass, C::kTopK, 10, "top-k 10"},
      {F::kShift, C::kShift, -1, "one earlier"},
      {F::kTokenization, C::kTokenization, 0.3, "30 % of the rows"},
      {F::kStale, C::kStaleArrays, 0.7, "arrays of 70 % of the rows"},
      {F::kStale, C::kStaleWeights, 0.2, "weights"},
      {F::kSentinel, C::kSentinel, 0.05, "-20 at 5 %"},
  };
}

std::string EngineFault::prefixes() const {
  const bool tempered = change == EngineChange::kClean ||
                        change == EngineChange::kRolloutTemperature ||
                        change == EngineChange::kRawTemperature;
  const bool cut = change == EngineChange::kTopP || change == EngineChange::kTopK ||
                   change == EngineChange::kMinP || change == EngineChange::kRawTopP ||
                   change == EngineChange::kCutBothRaw;
  if (cut || (tempered && strength < 0.85)) return "0.7";
  return tempered && strength > 1.15 ? "1.3" : "1";
}

EngineSource::EngineSource(const EnginePool& pool, const EngineFault& fault)
    : pool_(pool), fault_(fault) {
  const size_t vocab = pool.vocab;
  cumulative_.resize(pool.rollout.size());
  rollout_.resize(pool.rollout.size());
  train_.resize(pool.rollout.size());
  for (size_t r = 0; r < pool.rows(); ++r) {
    const size_t begin = pool.row_begin[r];
    for (size_t t = begin; t < pool.row_begin[r + 1]; ++t) {
      const Reported reported =
          Report(fault, {&pool.rollout[t * vocab], vocab}, {&pool.train[t * vocab], vocab},
                 {&pool.tokens[begin], t - begin});
      double sum = 0;
      for (size_t v = 0; v < vocab; ++v) {
        sum += std::exp(reported.sampled[v]);
        cumulative_[t * vocab + v] = static_cast<float>(sum);
        rollout_[t * vocab + v] = static_cast<float>(std::min(0.0, reported.rollout[v]));
        train_[t * vocab + v] = static_cast<float>(std::min(0.0, reported.train[v]));
      }
    }
  }
}

SyntheticBatch EngineSource::Draw(int64_t tokens, uint64_t seed) const {
  std::mt19937_64 random(seed);
  std::vector<size_t> order(pool_.rows());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  const auto draw = [&](size_t t) {
    const float* cumulative = &cumulative_[t * pool_.vocab];
    const double u = Uniform(random) * static_cast<double>(cumulative[pool_.vocab - 1]);
    const float* at =
        std::upper_bound(cumulative, cumulative + pool_.vocab - 1, u,
                         [](double x, float c) { return x < static_cast<double>(c); });
    return t * pool_.vocab + static_cast<size_t>(at - cumulative);
  };
  struct Pair {
    Values train, rollout;
    double advantage = 0;
  };
  std::vector<Pair> rows;
  size_t columns = 0, total = 0;
  for (size_t i = 0; i < order.size() && total < static_cast<size_t>(tokens); ++i) {
    const size_t begin = pool_.row_begin[order[i]], end = pool_.row_begin[order[i] + 1];
    // Another row's numbers, from its first token on, and what follows it in the pool.
    const size_t from = pool_.row_begin[order[(i + 1) % order.size()]];
    Pair row;
    row.advantage = 2 * Uniform(random) - 1;
    Values other;
    for (size_t t = begin; t < end; ++t) {
      const size_t y = draw(t);
      double train = static_cast<double>(train_[y]);
      if (fault_.change == EngineChange::kStaleWeights) {
        // The sampled token's logit moved by this much.
        const double move = std::exp(fault_.strength * row.advantage);
        const double p = std::exp(train);
        train = std::log(p * move / (1 - p + p * move));
      }
      row.train.push_back(std::min(0.0, train));
      row.rollout.push_back(static_cast<double>(rollout_[y]));
      const size_t z = draw((from + t - begin) % pool_.tokens.size());
      other.push_back(static_cast<double>(
          fault_.change == EngineChange::kTokenization ? train_[z] : rollout_[z]));
    }
    SpoilRow(fault_, random, other, &row.train, &row.rollout);
    columns = std::max(columns, end - begin);
    total += end - begin;
    rows.push_back(std::move(row));
  }
  SyntheticBatch batch;
  batch.rows = static_cast<int64_t>(rows.size());
  batch.columns = static_cast<int64_t>(columns);
  const auto stored = [&](double x) {
    const auto value = static_cast<float>(x);
    return fault_.change == EngineChange::kCleanBf16 ? BF16ToFloat(FloatToBF16(value)) : value;
  };
  for (const Pair& row : rows) {
    batch.advantages.push_back(row.advantage);
    for (size_t t = 0; t < columns; ++t) {
      const bool inside = t < row.train.size();
      batch.train.push_back(inside ? stored(row.train[t]) : 0);
      batch.rollout.push_back(inside ? stored(row.rollout[t]) : 0);
      batch.mask.push_back(inside);
    }
  }
  return batch;
}

}  // namespace kcc::bench
