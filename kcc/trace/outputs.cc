#include "kcc/trace/outputs.h"

#include <algorithm>
#include <utility>

#include "kcc/base/check.h"
#include "kcc/trace/row_index.h"

namespace kcc {
namespace {

bool BrokeOff(const Request& request) {
  return request.Flag("failed").value_or(false) || request.Flag("timed_out").value_or(false);
}

// The output of one request on one side: its tokens at positions prompt, prompt + 1, ...
class Output {
 public:
  // Rows before `prompt` are no output; they are kept, to see whether the sides have the same.
  static Result<Output> Of(const RowIndex& index, int32_t request, int64_t prompt,
                           TokenCursor* cursor) {
    Output output;
    for (int64_t i = 0; i < index.count(request); ++i) {
      KCC_TRY(const TokenEvidence* token, cursor->At(index.Row(request, i)));
      if (token->position < prompt) {
        output.before_.emplace_back(token->position, token->token);
        continue;
      }
      // What comes after a gap, or twice, is no continuation of what came before.
      output.whole_ = token->position == prompt + static_cast<int64_t>(output.tokens_.size());
      if (!output.whole_) break;
      output.tokens_.push_back(token->token);
    }
    return output;
  }

  const std::vector<int32_t>& tokens() const { return tokens_; }
  // Whether this side has rows before its output that train's do not show alike: tokens that it
  // wrote or was asked, and that the comparison would not see.
  bool Hides(const Output& train) const { return !before_.empty() && before_ != train.before_; }
  // That there are no more tokens than these. No rows at all are an output only if the side says
  // so; a request that was given up ended nowhere.
  bool Ends(const Request& request) const {
    if (BrokeOff(request)) return false;
    const auto claimed = request.Number("output_tokens");
    if (!claimed) return whole_ && !tokens_.empty();
    return whole_ && *claimed == static_cast<double>(tokens_.size());
  }

 private:
  bool whole_ = true;
  std::vector<std::pair<int32_t, int32_t>> before_;  // position, token
  std::vector<int32_t> tokens_;
};

OutputComparison Compare(const Output& train, bool train_ends, const Output& infer,
                         bool infer_ends) {
  const std::vector<int32_t>& a = train.tokens();
  const std::vector<int32_t>& b = infer.tokens();
  const auto [at, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  OutputComparison result;
  result.common = at - a.begin();
  const bool a_over = at == a.end();
  const bool b_over = other == b.end();
  if (!a_over && !b_over) {
    result.known = true;
  } else if (a_over && b_over) {
    result.known = result.same = train_ends && infer_ends;
  } else {
    result.known = a_over ? train_ends : infer_ends;  // it ends where the other goes on
  }
  return result;
}

}  // namespace

Result<std::vector<OutputComparison>> CompareOutputs(const PairedTraces& pair) {
  KCC_CHECK(pair.mode() == TraceMode::kGenerated);
  KCC_TRY(const RowIndex train_index, RowIndex::Build(pair.train()));
  KCC_TRY(const RowIndex infer_index, RowIndex::Build(pair.infer()));
  TokenCursor train_cursor = IndexCursor(pair.train());
  TokenCursor infer_cursor = IndexCursor(pair.infer());
  std::vector<OutputComparison> results(pair.requests().size());
  for (const int32_t i : pair.Order()) {
    const PairedRequest& paired = pair.requests()[static_cast<size_t>(i)];
    const Request& train = pair.train_request(i);
    const Request& infer = pair.infer_request(i);
    const auto prompt = train.Number("prompt_tokens");
    const auto other = infer.Number("prompt_tokens");
    // Where infer alone says it, or says otherwise, its word would choose the tokens compared.
    if (other && prompt != other) continue;
    const auto first = static_cast<int64_t>(prompt.value_or(0));
    KCC_TRY(const Output a, Output::Of(train_index, paired.train_row, first, &train_cursor));
    KCC_TRY(const Output b, Output::Of(infer_index, paired.infer_row, first, &infer_cursor));
    if (b.Hides(a)) continue;
    // Two that were given up after the same tokens did not write the same.
    results[static_cast<size_t>(i)] = Compare(a, a.Ends(train), b, b.Ends(infer));
  }
  return results;
}

}  // namespace kcc
