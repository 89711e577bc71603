#include "kcc/trace/pairing.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <utility>

#include "kcc/base/check.h"
#include "kcc/metric/metric.h"
#include "kcc/predicate/fields.h"
#include "kcc/trace/evidence_check.h"
#include "kcc/trace/pairing_checks.h"
#include "kcc/trace/row_index.h"

namespace kcc {
namespace {

std::vector<int32_t> RowsById(const std::vector<Request>& requests) {
  std::vector<int32_t> order(requests.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return requests[static_cast<size_t>(a)].id < requests[static_cast<size_t>(b)].id;
  });
  return order;
}

// Where the prompt ends decides which tokens are judged, so the sides may not disagree, and infer
// is believed only where train says nothing (prompt_by_infer then records it).
Result<int32_t> PromptTokens(const Request& train, const Request& infer) {
  const auto a = train.Number("prompt_tokens");
  const auto b = infer.Number("prompt_tokens");
  if (a && b && *a != *b) return PromptLengthError(train.id, *a, *b);
  return static_cast<int32_t>(a ? *a : b.value_or(0));
}

}  // namespace

constexpr double kClaimMax = 1e15;  // beyond it a number of tokens is no number of tokens

// Two traces pair where they hold the same requests and, request by request, the same positions
// with the same tokens. Rows may lie in any order in either trace. Example: positions 5 7 6 in the
// one and 7 6 5 in the other pair, since both are visited as 5 6 7 (RowIndex).
//
// Pairs request by request; the only writer of a PairedTraces.
class PairBuilder {
 public:
  explicit PairBuilder(PairedTraces* pair)
      : pair_(*pair),
        train_cursor_(IndexCursor(pair->train_)),
        infer_cursor_(IndexCursor(pair->infer_)) {}

  Result<> PairRequests() {
    const auto& train = pair_.train_.requests();
    const auto& infer = pair_.infer_.requests();
    const std::vector<int32_t> train_order = RowsById(train);
    const std::vector<int32_t> infer_order = RowsById(infer);
    // Sorted by id on both sides: from here on the i-th of one is the i-th of the other.
    KCC_TRY_VOID(CheckSameRequests(train, train_order, infer, infer_order));
    for (size_t i = 0; i < train_order.size(); ++i) {
      PairedRequest request;
      request.train_row = train_order[i];
      request.infer_row = infer_order[i];
      const Request& a = train[static_cast<size_t>(request.train_row)];
      request.id = a.id;
      if (pair_.mode() == TraceMode::kScored) {
        KCC_TRY(request.prompt_tokens,
                PromptTokens(a, infer[static_cast<size_t>(request.infer_row)]));
      }
      pair_.requests_.push_back(request);
    }
    return {};
  }

  // Token pairs are of scored traces alone; generated ones have other tokens on either side.
  Result<> PairTokens() {
    KCC_TRY(const RowIndex train, RowIndex::Build(pair_.train_));
    KCC_TRY(const RowIndex infer, RowIndex::Build(pair_.infer_));
    masks_compared_ = pair_.train_.has_mask() && pair_.infer_.has_mask();
    // In the train trace's order, so that a large trace is read once from front to back.
    for (const int32_t i : pair_.Order()) {
      KCC_TRY_VOID(PairOne(train, infer, &pair_.requests_[static_cast<size_t>(i)]));
    }
    return {};
  }

  // What each side of generated traces shows of its own answers. Where they begin is train's word.
  Result<> CountOwnRows() {
    for (const Side side : {Side::kTrain, Side::kInfer}) {
      const bool of_train = side == Side::kTrain;
      const TraceReader& reader = of_train ? pair_.train_ : pair_.infer_;
      if (reader.token_count() == 0) continue;
      std::vector<int64_t> counts(reader.requests().size());
      std::vector<double> prompts(reader.requests().size());
      const auto row_of = [&](const PairedRequest& request) {
        return static_cast<size_t>(of_train ? request.train_row : request.infer_row);
      };
      for (const PairedRequest& request : pair_.requests_) {
        const Request& train = pair_.train_.requests()[static_cast<size_t>(request.train_row)];
        const Request& infer = pair_.infer_.requests()[static_cast<size_t>(request.infer_row)];
        const auto asked = train.Number("prompt_tokens");
        prompts[row_of(request)] = asked ? *asked : infer.Number("prompt_tokens").value_or(0);
      }
      TokenCursor& cursor = of_train ? train_cursor_ : infer_cursor_;
      for (int64_t row = 0; row < reader.token_count(); ++row) {
        KCC_TRY(const TokenEvidence* token, cursor.At(row));
        const auto request = static_cast<size_t>(token->request);
        if (token->position >= prompts[request]) ++counts[request];
      }
      for (PairedRequest& request : pair_.requests_) {
        request.own_rows[static_cast<size_t>(side)] = counts[row_of(request)];
      }
    }
    return {};
  }

 private:
  Result<> PairOne(const RowIndex& train, const RowIndex& infer, PairedRequest* request) {
    const int64_t train_count = train.count(request->train_row);
    const int64_t infer_count = infer.count(request->infer_row);
    listed_train_.clear();
    listed_infer_.clear();
    // Every row pairs, those that will not count included: evidence that differs where nobody looks
    // is still evidence of another run.
    for (int64_t i = 0; i < std::max(train_count, infer_count); ++i) {
      if (i >= train_count || i >= infer_count) return Diagnose(train, infer, *request);
      const int64_t train_row = train.Row(request->train_row, i);
      const int64_t infer_row = infer.Row(request->infer_row, i);
      KCC_TRY(const TokenEvidence* a, train_cursor_.At(train_row));
      KCC_TRY(const TokenEvidence* b, infer_cursor_.At(infer_row));
      if (a->position != b->position || a->token != b->token) {
        return Diagnose(train, infer, *request);
      }
      if (i > 0 && a->position == last_position_) return Diagnose(train, infer, *request);
      last_position_ = a->position;
      if (masks_compared_ && a->masked != b->masked) {
        return BrokenEvidenceError("request '" + std::string(request->id) + "', position " +
                                   std::to_string(a->position) + ": the mask is " +
                                   (a->masked ? "0 in the train and 1 in the infer trace"
                                              : "1 in the train and 0 in the infer trace") +
                                   "; give both the same mask or leave it out of one");
      }
      if (a->position >= request->prompt_tokens) {
        ++request->output_rows;
      } else if (!TrainSaysPrompt(*request)) {
        pair_.prompt_by_infer_ = true;
      }
      // Where one side alone has a mask, it speaks for both.
      if (a->masked || b->masked || a->position < request->prompt_tokens) continue;
      listed_train_.push_back(train_row);
      listed_infer_.push_back(infer_row);
    }
    request->rows_missing = RowsMissing(*request);
    Store(request);
    return {};
  }

  bool TrainSaysPrompt(const PairedRequest& request) const {
    const Request& train = pair_.train_.requests()[static_cast<size_t>(request.train_row)];
    return train.Number("prompt_tokens").has_value();
  }

  // Rows that were taken out on both sides would not be missed otherwise.
  int64_t RowsMissing(const PairedRequest& request) const {
    // Without rows the claims are all there is, and no token is judged.
    if (pair_.evidence_ == EvidenceLevel::kNone && request.output_rows == 0) return 0;
    int64_t missing = 0;
    for (const Request* side : {&pair_.train_.requests()[static_cast<size_t>(request.train_row)],
                                &pair_.infer_.requests()[static_cast<size_t>(request.infer_row)]}) {
      const double claimed = side->Number("output_tokens").value_or(0);
      if (!(claimed <= kClaimMax)) continue;
      missing = std::max(missing, static_cast<int64_t>(claimed) - request.output_rows);
    }
    return missing;
  }

  void Store(PairedRequest* request) {
    request->tokens = static_cast<int64_t>(listed_train_.size());
    pair_.token_count_ += request->tokens;
    if (listed_train_.empty()) return;
    request->train_first = listed_train_.front();
    request->infer_first = listed_infer_.front();
    // Lists cost 8 bytes a token on each side; most requests need none, since their pairs follow
    // row by row from the first.
    const auto follows = [](const std::vector<int64_t>& rows) {
      return rows.back() - rows.front() + 1 == static_cast<int64_t>(rows.size()) &&
             std::is_sorted(rows.begin(), rows.end());
    };
    if (follows(listed_train_) && follows(listed_infer_)) return;
    request->listed = static_cast<int64_t>(pair_.train_rows_.size());
    pair_.train_rows_.insert(pair_.train_rows_.end(), listed_train_.begin(), listed_train_.end());
    pair_.infer_rows_.insert(pair_.infer_rows_.end(), listed_infer_.begin(), listed_infer_.end());
  }

  // Reads the beginning of both sequences again to say what went wrong.
  Result<> Diagnose(const RowIndex& train, const RowIndex& infer, const PairedRequest& request) {
    PairingProblem problem;
    problem.request = request.id;
    problem.train_count = train.count(request.train_row);
    problem.infer_count = infer.count(request.infer_row);
    problem.vocab_size = pair_.vocab_size();
    problem.prompt_tokens = request.prompt_tokens;
    const auto load = [&](const RowIndex& index, int32_t row, TokenCursor* cursor,
                          std::vector<PositionToken>* out) -> Result<> {
      const int64_t count = std::min(index.count(row), kDiagnosedTokensMax);
      for (int64_t i = 0; i < count; ++i) {
        KCC_TRY(const TokenEvidence* token, cursor->At(index.Row(row, i)));
        out->push_back({token->position, token->token});
      }
      return {};
    };
    KCC_TRY_VOID(load(train, request.train_row, &train_cursor_, &problem.train));
    KCC_TRY_VOID(load(infer, request.infer_row, &infer_cursor_, &problem.infer));
    return DiagnosePairing(problem);
  }

  PairedTraces& pair_;
  TokenCursor train_cursor_;
  TokenCursor infer_cursor_;
  bool masks_compared_ = false;
  int32_t last_position_ = -1;
  std::vector<int64_t> listed_train_;
  std::vector<int64_t> listed_infer_;
};

PairedTraces::PairedTraces(TraceReader train, TraceReader infer)
    : train_(std::move(train)), infer_(std::move(infer)) {}

Result<PairedTraces> PairedTraces::Make(TraceReader train, TraceReader infer,
                                        const PairingOptions& options) {
  // What the traces say about themselves is compared before a row is read.
  KCC_TRY(const Comparison comparison, CheckComparable(train.info(), infer.info(), options));
  PairedTraces pair(std::move(train), std::move(infer));
  pair.evidence_ = comparison.evidence;
  pair.temperature_ = comparison.temperature;
  pair.logit_divisor_ = comparison.logit_divisor;
  pair.sampling_temperature_ = comparison.sampling_temperature;
  pair.sampling_altered_ = comparison.sampling_altered;
  pair.ignores_train_logprob_ = comparison.ignores_train_logprob;
  pair.ignores_infer_logprob_ = comparison.ignores_infer_logprob;
  PairBuilder builder(&pair);
  const Place place{pair.train_.directory() + " and " + pair.infer_.directory()};
  auto paired = builder.PairRequests();
  if (paired.has_value() && pair.mode() == TraceMode::kScored) paired = builder.PairTokens();
  if (paired.has_value() && pair.mode() == TraceMode::kGenerated) paired = builder.CountOwnRows();
  if (!paired.has_value()) return std::move(paired.error()).At(place);
  return pair;
}

const Request& PairedTraces::train_request(int32_t i) const {
  const auto row = requests_[static_cast<size_t>(i)].train_row;
  return train_.requests()[static_cast<size_t>(row)];
}

const Request& PairedTraces::infer_request(int32_t i) const {
  const auto row = requests_[static_cast<size_t>(i)].infer_row;
  return infer_.requests()[static_cast<size_t>(row)];
}

FieldValue PairedTraces::Field(int32_t i, std::string_view field) const {
  const bool outcome = OriginOf(field) == FieldOrigin::kOutcome;
  const Request& first = outcome ? infer_request(i) : train_request(i);
  // What a kernel's run gave is infer's to say, what it was asked is train's.
  const FieldValue value = first.Field(field);
  if (!std::holds_alternative<std::monostate>(value)) return value;
  return (outcome ? train_request(i) : infer_request(i)).Field(field);
}

std::vector<int32_t> PairedTraces::Order(const Shard& shard) const {
  KCC_CHECK(shard.count >= 1 && shard.index >= 1 && shard.index <= shard.count);
  // A request weighs its tokens and one, so that generated traces are split as well.
  const int64_t total = token_count_ + static_cast<int64_t>(requests_.size());
  // Part i is [edge(i - 1), edge(i)) of the weight before a request: every request falls into
  // exactly one part, since the edges of neighbours are the same number.
  const auto edge = [&](int64_t part) {
    return static_cast<int64_t>(static_cast<__int128>(total) * part / shard.count);
  };
  std::vector<int32_t> order;
  int64_t before = 0;
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (before >= edge(shard.index - 1) && before < edge(shard.index)) {
      order.push_back(static_cast<int32_t>(i));
    }
    before += requests_[i].tokens + 1;
  }
  const auto place = [&](int32_t i) {
    const PairedRequest& request = requests_[static_cast<size_t>(i)];
    return std::pair(request.train_first, request.train_row);
  };
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return place(a) < place(b); });
  return order;
}

Result<Shard> ParseShard(std::string_view text) {
  const auto wrong = [&] {
    return InvalidError("'" + std::string(text) +
                        "' is not a shard; write i/n with i from 1 to n, such as 2/7");
  };
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return wrong();
  Shard shard;
  const auto read = [](std::string_view digits, int32_t* value) {
    const auto [end, failure] =
        std::from_chars(digits.data(), digits.data() + digits.size(), *value);
    return failure == std::errc() && end == digits.data() + digits.size();
  };
  if (!read(text.substr(0, slash), &shard.index) || !read(text.substr(slash + 1), &shard.count) ||
      shard.index < 1 || shard.count < shard.index || shard.count > 1'000'000) {
    return wrong();
  }
  return shard;
}

PairCursor::PairCursor(const PairedTraces& pair, TokenCursor::Options options)
    : pair_(&pair), train_(pair.train_, options), infer_(pair.infer_, options) {
  for (const TokenFile& file : pair.train_.files()) {
    train_labels_ = train_labels_ || file.gold.has_value();
    train_advantages_ = train_advantages_ || file.advantage.has_value();
  }
}

void PairCursor::Seek(int32_t request) {
  KCC_CHECK(request >= 0 && static_cast<size_t>(request) < pair_->requests_.size());
  request_ = request;
  next_ = 0;
}

Result<bool> PairCursor::Next() {
  const PairedRequest& request = pair_->requests_[static_cast<size_t>(request_)];
  // Tokens that do not count were left out when the pair was made.
  if (next_ >= request.tokens) return false;
  int64_t train_row = request.train_first + next_;
  int64_t infer_row = request.infer_first + next_;
  if (request.listed >= 0) {
    const auto at = static_cast<size_t>(request.listed + next_);
    train_row = pair_->train_rows_[at];
    infer_row = pair_->infer_rows_[at];
  }
  // Before loading: a row that fails is not asked for again.
  ++next_;
  KCC_TRY_VOID(
      Load(pair_->train_, &train_, train_row, pair_->ignores_train_logprob_, &train_token_));
  KCC_TRY_VOID(
      Load(pair_->infer_, &infer_, infer_row, pair_->ignores_infer_logprob_, &infer_token_));
  // Not left to whoever reads them: a label that infer gives itself must not reach a verdict.
  if (train_labels_) infer_token_.gold = -1;
  if (train_advantages_) infer_token_.advantage = std::numeric_limits<float>::quiet_NaN();
  return true;
}

Result<> PairCursor::Load(const TraceReader& reader, TokenCursor* cursor, int64_t row,
                          bool ignores_logprob, TokenEvidence* out) {
  KCC_TRY(const TokenEvidence* token, cursor->At(row));
  *out = *token;
  auto checked = CheckEvidenceScalars(EvidenceLimits(reader.info()), *out);
  if (!checked.has_value()) {
    return BrokenEvidenceError(
        "request '" + reader.requests()[static_cast<size_t>(out->request)].id + "', position " +
            std::to_string(out->position) + ": " + checked.error().message(),
        Place{reader.directory() + "/" + reader.RowPlace(row)});
  }
  if (ignores_logprob) out->logprob = std::numeric_limits<double>::quiet_NaN();
  return {};
}

}  // namespace kcc
