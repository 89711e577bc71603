#include "kcc/trace/alignment_check.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kcc/base/dtype.h"
#include "kcc/base/strings.h"

namespace kcc {
namespace {

constexpr int64_t kRowsMax = 256;
// Random rows of 64 tokens differ by half a nat in the mean; a text and its shift by five and more.
constexpr int64_t kTextRowsMin = 64;
constexpr double kTextMargin = 2.5;
constexpr double kTextLikely = -4.0;
constexpr int64_t kGapRowsMin = 8;
constexpr double kGapLarge = 0.5;
// A token of probability 0 must not decide the mean alone.
constexpr double kLogprobFloor = -30;

std::vector<float> LogSoftmaxOf(const TokenEvidence& token, int64_t vocab_size) {
  std::vector<float> row(static_cast<size_t>(vocab_size));
  for (size_t i = 0; i < row.size(); ++i) row[i] = LoadLogit(token.logits, token.logits_dtype, i);
  const double top = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float logit : row) sum += std::exp(static_cast<double>(logit) - top);
  const double shift = top + std::log(sum);
  for (float& logit : row) logit = static_cast<float>(static_cast<double>(logit) - shift);
  return row;
}

double At(const std::vector<float>& logprobs, int32_t token) {
  return std::max(static_cast<double>(logprobs[static_cast<size_t>(token)]), kLogprobFloor);
}

}  // namespace

void AlignmentCheck::Add(const TokenEvidence& token) {
  if (rows_ >= kRowsMax || token.logits == nullptr || token.token < 0 ||
      token.token >= vocab_size_) {
    return;
  }
  ++rows_;
  Row row;
  row.request = token.request;
  row.position = token.position;
  row.token = token.token;
  row.logprob = std::max<double>(token.logprob, kLogprobFloor);  // NaN stays NaN
  if (std::isnan(token.logprob)) row.logprob = token.logprob;
  row.logprobs = LogSoftmaxOf(token, vocab_size_);
  const bool has_logprob = compare_logprobs_ && !std::isnan(token.logprob);
  own_.Add(At(row.logprobs, row.token));
  if (has_logprob) gap_own_.Add(std::fabs(row.logprob - At(row.logprobs, row.token)));
  if (last_.request == row.request && last_.position + 1 == row.position) {
    from_before_.Add(At(last_.logprobs, row.token));
    from_after_.Add(At(row.logprobs, last_.token));
    if (has_logprob) {
      gap_from_before_.Add(std::fabs(row.logprob - At(last_.logprobs, row.token)));
      gap_from_after_.Add(std::fabs(last_.logprob - At(row.logprobs, last_.token)));
    }
  }
  last_ = std::move(row);
}

Result<> AlignmentCheck::Check() const {
  constexpr const char* kBefore =
      ": the logits at index t predict token t + 1. Import with --next-token-logits, or pair "
      "logits[:-1] with token[1:]";
  constexpr const char* kAfter = ": each row of logits stands one token too late";
  if (gap_own_.count >= kGapRowsMin && gap_own_.value() > kGapLarge) {
    if (gap_from_before_.value() * 10 < gap_own_.value()) {
      return BrokenEvidenceError("the logits are shifted by one against the log-probs" +
                                 std::string(kBefore));
    }
    if (gap_from_after_.value() * 10 < gap_own_.value()) {
      return BrokenEvidenceError("the logits are shifted by one against the log-probs" +
                                 std::string(kAfter));
    }
    return BrokenEvidenceError(
        "the log-probs do not come from these logits (they differ by " +
        ShortestNumber(std::round(gap_own_.value() * 100) / 100) +
        " in the mean): mixed semantics, such as log-probs at a temperature or after top-p beside "
        "raw logits; leave the log-probs out or say their semantics");
  }
  if (from_before_.count < kTextRowsMin) return {};
  for (const bool before : {true, false}) {
    const double other = before ? from_before_.value() : from_after_.value();
    if (other > own_.value() + kTextMargin && other > kTextLikely) {
      return BrokenEvidenceError(
          "the tokens are shifted by one against the logits (a token's mean "
          "log-prob is " +
          ShortestNumber(std::round(own_.value() * 100) / 100) + " in its own row and " +
          ShortestNumber(std::round(other * 100) / 100) + " in the row " +
          (before ? "before" : "after") + ")" + (before ? kBefore : kAfter));
    }
  }
  return {};
}

}  // namespace kcc
