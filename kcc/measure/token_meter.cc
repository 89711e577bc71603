#include "kcc/measure/token_meter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kcc/base/dtype.h"
#include "kcc/drift/row_check.h"
#include "kcc/drift/top_k.h"
#include "kcc/metric/token_slots.h"
#include "kcc/numeric/double_math.h"

namespace kcc {

namespace {

TopList ListOf(const TokenEvidence& token) {
  const auto k = static_cast<size_t>(token.top_k);
  return {{token.top_ids, k}, {token.top_logprobs, k}};
}

}  // namespace

std::optional<Side> FullSide(EvidenceLevel train, EvidenceLevel infer) {
  if (train == EvidenceLevel::kLogits && infer == EvidenceLevel::kTopK) return Side::kTrain;
  if (infer == EvidenceLevel::kLogits && train == EvidenceLevel::kTopK) return Side::kInfer;
  return std::nullopt;
}

MeterSettings MeterSettings::Of(const PairedTraces& pair) {
  MeterSettings settings;
  settings.evidence = pair.evidence();
  settings.full_side = FullSide(pair.train().info().evidence, pair.infer().info().evidence);
  settings.vocab_size = pair.vocab_size();
  settings.temperature = pair.temperature().value_or(1.0);  // none: there are no token pairs
  settings.logit_divisor = pair.logit_divisor();
  settings.sampled_by = pair.infer().info().sampled_by;
  settings.sampling_temperature = pair.sampling_temperature();
  settings.sampling_altered = pair.sampling_altered();
  return settings;
}

TokenMeter::TokenMeter(const MeterSettings& settings, const SlotSet& wanted, Target target)
    : settings_(settings), wanted_(wanted), target_(target) {
  // One sample estimates a mean over the distribution it was drawn from and over no other.
  estimates_ = settings.evidence == EvidenceLevel::kSampledToken &&
               settings.sampled_by == SampledBy::kInfer && !settings.sampling_altered &&
               settings.sampling_temperature == settings.temperature;
  logit_scale_ = settings.temperature / settings.logit_divisor;
}

Result<> TokenMeter::Read(const TokenEvidence& train, const TokenEvidence& infer,
                          TokenReading* reading) {
  KCC_TRY_VOID(Begin(train, infer, reading));
  Finish();
  return CheckRow(reading->drift);
}

Result<> TokenMeter::Begin(const TokenEvidence& train, const TokenEvidence& infer,
                           TokenReading* reading) {
  // The reading is cleared here and not by the caller: it is one of two that are used in turn, and
  // a slot left over from two tokens ago would pass for this one's.
  reading->drift = TokenDrift();
  reading->estimates.reset();
  reading->gold = train.gold >= 0 ? train.gold : infer.gold;
  switch (settings_.evidence) {
    case EvidenceLevel::kLogits:
      return ReadLogits(train, infer, &reading->drift);
    case EvidenceLevel::kTopK:
      return ReadTopK(train, infer, reading);
    case EvidenceLevel::kSampledToken:
      return ReadSampled(train, infer, reading);
    case EvidenceLevel::kNone:
      break;
  }
  return {};
}

Result<> TokenMeter::ReadLogits(const TokenEvidence& train, const TokenEvidence& infer,
                                TokenDrift* drift) {
  RowPair row;
  row.train = train.logits;
  row.infer = infer.logits;
  row.train_dtype = train.logits_dtype;
  row.infer_dtype = infer.logits_dtype;
  row.vocab = static_cast<size_t>(settings_.vocab_size);
  row.temperature = settings_.logit_divisor;
  row.token = infer.token;
  // Rows of a trace lie one after the other, so the next pair is most likely where this one ends. A
  // hint to fetch, never read: past the last row it does no harm.
  RowPair next = row;
  next.train = static_cast<const char*>(row.train) + row.vocab * DTypeBits(row.train_dtype) / 8;
  next.infer = static_cast<const char*>(row.infer) + row.vocab * DTypeBits(row.infer_dtype) / 8;
  KCC_TRY_VOID(BeginRowSimd(row, wanted_, target_, &scratch_, drift, &next));
  // Does not touch tv, which is written later (see Begin).
  if (logit_scale_ != 1) Unscale(drift);
  return {};
}

// Logits that were recorded scaled: distances in logits are those of the logits themselves.
void TokenMeter::Unscale(TokenDrift* drift) const {
  // Found once: this is asked for every token.
  static const std::vector<size_t> in_logits = [] {
    std::vector<size_t> made;
    for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
      if (SlotQuantity(slot).unscaled) made.push_back(slot);
    }
    return made;
  }();
  for (const size_t slot : in_logits) {
    if (!drift->known[slot]) continue;
    drift->lo[slot] *= logit_scale_;
    drift->hi[slot] *= logit_scale_;
  }
}

void TokenMeter::Finish() { FinishRowSimd(&scratch_); }

Result<> TokenMeter::Take(const Result<TokenDrift>& measured, const TokenEvidence& train,
                          const TokenEvidence& infer, TokenReading* reading) {
  Finish();
  if (!measured) return measured.error();
  reading->drift = *measured;
  reading->estimates.reset();
  reading->gold = train.gold >= 0 ? train.gold : infer.gold;
  if (logit_scale_ != 1) Unscale(&reading->drift);
  return {};
}

Result<> TokenMeter::ReadTopK(const TokenEvidence& train, const TokenEvidence& infer,
                              TokenReading* reading) {
  // A top-k level is the weaker of the two sides: one of them may hold more.
  if (settings_.full_side == Side::kTrain) {
    return ReadRowAndList(Side::kTrain, train, infer, reading);
  }
  if (settings_.full_side == Side::kInfer) {
    return ReadRowAndList(Side::kInfer, infer, train, reading);
  }
  TopListPair lists;
  lists.train = ListOf(train);
  lists.infer = ListOf(infer);
  lists.vocab = static_cast<size_t>(settings_.vocab_size);
  lists.temperature = settings_.temperature;
  lists.token = infer.token;
  lists.train_logprob = train.logprob;
  lists.infer_logprob = infer.logprob;
  return MeasureTopK(lists, wanted_, &reading->drift);
}

Result<> TokenMeter::ReadRowAndList(Side full, const TokenEvidence& row, const TokenEvidence& list,
                                    TokenReading* reading) {
  RowAndList pair;
  pair.logits = row.logits;
  pair.dtype = row.logits_dtype;
  pair.full = full;
  pair.list = ListOf(list);
  pair.vocab = static_cast<size_t>(settings_.vocab_size);
  pair.temperature = settings_.temperature;
  pair.logit_divisor = settings_.logit_divisor;
  pair.token = list.token;
  pair.list_logprob = list.logprob;
  return row_and_list_.Measure(pair, wanted_, &reading->drift);
}

Result<double> SampledLogprob(const TokenEvidence& token, int64_t vocab_size, double temperature,
                              std::string_view side) {
  if (token.logits == nullptr) return token.logprob;
  if (token.token < 0 || token.token >= vocab_size) {
    return BrokenEvidenceError("token " + std::to_string(token.token) +
                               " is not in the vocabulary of " + std::to_string(vocab_size));
  }
  const auto logit_at = [&](int64_t i) {
    return double{LoadLogit(token.logits, token.logits_dtype, static_cast<size_t>(i))};
  };
  // Less the largest, so that the exponentials cannot overflow; the log-prob is the same.
  double top = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < vocab_size; ++i) {
    const double logit = logit_at(i);
    if (std::isnan(logit) || logit == std::numeric_limits<double>::infinity()) {
      return BrokenEvidenceError(std::string(side) + " logit " + std::to_string(i) + " is " +
                                 (std::isnan(logit) ? "NaN" : "+inf"));
    }
    top = std::max(top, logit);
  }
  if (std::isinf(top)) return BrokenEvidenceError(std::string(side) + " has no finite logit");
  double sum = 0;
  for (int64_t i = 0; i < vocab_size; ++i) sum += Exp((logit_at(i) - top) / temperature);
  return (logit_at(token.token) - top) / temperature - Log(sum);
}

// A side with full logits faces one without.
Result<double> TokenMeter::LogprobOf(const TokenEvidence& token, std::string_view side) const {
  return SampledLogprob(token, settings_.vocab_size, settings_.logit_divisor, side);
}

Result<> TokenMeter::ReadSampled(const TokenEvidence& train, const TokenEvidence& infer,
                                 TokenReading* reading) {
  KCC_TRY(const double train_logprob, LogprobOf(train, "train"));
  KCC_TRY(const double infer_logprob, LogprobOf(infer, "infer"));
  // Top-k lists need not hold the sampled token: what is not recorded is missing.
  if (std::isnan(train_logprob) || std::isnan(infer_logprob)) return {};
  return PublishSampled(train_logprob, infer_logprob, reading);
}

Result<> TokenMeter::PublishSampled(double train_logprob, double infer_logprob,
                                    TokenReading* reading) {
  KCC_TRY(const SampledToken sampled, SampledTokenFromLogprobs(train_logprob, infer_logprob));
  PublishSampledToken(sampled, wanted_, &reading->drift);
  if (estimates_) reading->estimates = EstimateFromSample(sampled, wanted_);
  return {};
}

}  // namespace kcc
