#include "kcc/rescore/token_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "kcc/base/check.h"
#include "kcc/measure/token_meter.h"
#include "kcc/summary/plan.h"
#include "kcc/trace/import_responses.h"

namespace kcc {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
// What servers write for -inf lies below: -9999 (vLLM), -3.4e38 (SGLang, llama.cpp).
constexpr double kLeastLogprob = -9000;

EvidenceLevel LevelOf(const ScoredToken& token) {
  if (!token.logits.empty()) return EvidenceLevel::kLogits;
  if (!token.top.empty()) return EvidenceLevel::kTopK;
  return std::isnan(token.logprob) ? EvidenceLevel::kNone : EvidenceLevel::kSampledToken;
}

// One side's evidence about a token, with the lists in the form that meters read.
struct SideEvidence {
  TokenEvidence evidence;
  std::vector<int32_t> ids;
  std::vector<float> logprobs;

  void Set(const ScoredToken& token, int32_t position) {
    ids.clear();
    logprobs.clear();
    for (const auto& [id, logprob] : token.top) {
      ids.push_back(id);
      logprobs.push_back(static_cast<float>(logprob));
    }
    evidence = TokenEvidence();
    evidence.position = position;
    evidence.token = token.id;
    // As traces hold it, so that lists and log-probs are rounded alike.
    evidence.logprob = static_cast<double>(static_cast<float>(token.logprob));
    if (!token.logits.empty()) evidence.logits = token.logits.data();
    evidence.top_ids = ids.data();
    evidence.top_logprobs = logprobs.data();
    evidence.top_k = static_cast<int32_t>(ids.size());
  }
};

// Meters by what the two sides hold; tokens of one answer may differ in it.
class Meters {
 public:
  Meters(const RowsAsk& ask, const SlotSet& wanted) : ask_(ask), wanted_(wanted) {}

  TokenMeter& Of(EvidenceLevel train, EvidenceLevel infer) {
    std::unique_ptr<TokenMeter>& meter = meters_[{train, infer}];
    if (meter == nullptr) {
      MeterSettings settings;
      settings.evidence = std::max(train, infer);  // levels are in order of what they show
      settings.full_side = FullSide(train, infer);
      settings.vocab_size = ask_.vocab_size;
      settings.temperature = ask_.temperature;
      settings.logit_divisor = ask_.temperature;
      meter = std::make_unique<TokenMeter>(settings, wanted_);
    }
    return *meter;
  }

 private:
  const RowsAsk& ask_;
  const SlotSet& wanted_;
  std::map<std::pair<EvidenceLevel, EvidenceLevel>, std::unique_ptr<TokenMeter>> meters_;
};

void AddBest(const ScoredToken& token, size_t side, ObservedTokens* tokens) {
  const bool listed = !token.top.empty();
  tokens->argmax[side].push_back(listed ? token.top[0].first : -1);
  tokens->confidence[side].push_back(listed ? std::exp(std::min(0.0, token.top[0].second))
                                            : kMissing);
}

// A row of another length than the vocabulary is of another model; what lies behind its end is
// nobody's word. Empty: it is none.
std::string WrongRow(const ScoredToken& token, int64_t vocab_size) {
  if (token.logits.empty() || std::cmp_equal(token.logits.size(), vocab_size)) return "";
  return "a row has " + std::to_string(token.logits.size()) + " logits, the vocabulary " +
         std::to_string(vocab_size) + " entries";
}

bool AllEqual(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

}  // namespace

std::vector<ScoredToken> TokensAsServed(std::span<const ServedToken> served, int32_t top) {
  std::vector<ScoredToken> tokens;
  tokens.reserve(served.size());
  for (const ServedToken& from : served) {
    ScoredToken& token = tokens.emplace_back();
    token.id = from.id;
    token.logprob = from.logprob < kLeastLogprob ? kMissing : from.logprob;
    std::vector<TopEntry> list;
    for (const auto& [id, logprob] : from.top) list.push_back({id, logprob});
    SortTop(&list);
    if (!list.empty() && list.back().id == from.id) list.pop_back();
    for (const TopEntry& entry : list) {
      if (static_cast<int32_t>(token.top.size()) == top) break;
      token.top.emplace_back(entry.id, entry.logprob);
    }
  }
  return tokens;
}

RowMaker::RowMaker(const Contract& contract)
    : wanted_(Plan::FromContract(contract, Plan::Breadth::kClauses).slots()) {}

Rows RowMaker::Make(const RowsAsk& ask) const {
  KCC_CHECK(ask.train.size() == ask.infer.size());
  Rows rows;
  ObservedTokens& tokens = rows.tokens;
  std::vector<TokenColumn> columns;
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    if (wanted_[slot]) columns.push_back({slot, {}, {}});
  }
  Meters meters(ask, wanted_);
  SideEvidence train, infer;
  TokenReading reading;
  for (size_t i = 0; i < ask.train.size(); ++i) {
    const auto position = static_cast<int32_t>(static_cast<size_t>(ask.prompt_tokens) + i);
    const std::string wrong_train = WrongRow(ask.train[i], ask.vocab_size);
    const std::string wrong_infer = WrongRow(ask.infer[i], ask.vocab_size);
    if (!wrong_train.empty() || !wrong_infer.empty()) {
      (wrong_train.empty() ? rows.broken_infer : rows.broken_train) =
          "at position " + std::to_string(position) + ": " +
          (wrong_train.empty() ? wrong_infer : wrong_train);
      return rows;
    }
    train.Set(ask.train[i], position);
    infer.Set(ask.infer[i], position);
    const EvidenceLevel train_level = LevelOf(ask.train[i]);
    const EvidenceLevel infer_level = LevelOf(ask.infer[i]);
    TokenMeter& meter = meters.Of(train_level, infer_level);
    const auto read = meter.Read(train.evidence, infer.evidence, &reading);
    if (!read.has_value()) {
      // Whose numbers they are shows when train is held against itself.
      TokenReading alone;
      const auto own =
          meters.Of(train_level, train_level).Read(train.evidence, train.evidence, &alone);
      (own.has_value() ? rows.broken_infer : rows.broken_train) =
          "at position " + std::to_string(position) + ": " + read.error().message();
      return rows;
    }
    tokens.position.push_back(position);
    tokens.token.push_back(ask.infer[i].id);
    tokens.logprob[static_cast<size_t>(Side::kTrain)].push_back(train.evidence.logprob);
    tokens.logprob[static_cast<size_t>(Side::kInfer)].push_back(infer.evidence.logprob);
    AddBest(ask.train[i], static_cast<size_t>(Side::kTrain), &tokens);
    AddBest(ask.infer[i], static_cast<size_t>(Side::kInfer), &tokens);
    for (TokenColumn& column : columns) {
      const bool known = reading.drift.known[column.slot];
      column.lo.push_back(known ? reading.drift.lo[column.slot] : kMissing);
      column.hi.push_back(known ? reading.drift.hi[column.slot] : kMissing);
    }
  }
  for (TokenColumn& column : columns) {
    if (AllEqual(column.lo, column.hi)) column.hi.clear();
    if (!column.lo.empty()) tokens.columns.push_back(std::move(column));
  }
  return rows;
}

}  // namespace kcc
