#include "kcc/trace/pairing_checks.h"

#include <algorithm>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

std::string Quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

// At temperature 1 scaling changes nothing.
LogprobSemantics Effective(const TraceInfo& info) {
  if (info.semantics == LogprobSemantics::kTemperatureScaled && info.temperature == 1.0) {
    return LogprobSemantics::kRaw;
  }
  return info.semantics;
}

bool RawLogits(const TraceInfo& info) {
  return info.evidence == EvidenceLevel::kLogits && Effective(info) == LogprobSemantics::kRaw;
}

Error SemanticsError(const TraceInfo& train, const TraceInfo& infer) {
  return BrokenEvidenceError(
      "the train trace's log-probs are " + std::string(Name(train.semantics)) +
      " and the infer trace's are " + std::string(Name(infer.semantics)) + " (temperature " +
      ShortestNumber(infer.temperature) +
      "): numbers of mixed semantics cannot be compared. Record both raw (vLLM --logprobs-mode "
      "raw_logprobs, SGLang SGLANG_RETURN_ORIGINAL_LOGPROB=1), or record full logits on one side");
}

Result<double> CommonTemperature(const TraceInfo& train, const TraceInfo& infer,
                                 const PairingOptions& options) {
  if (options.temperature) {
    if (!RawLogits(train) || !RawLogits(infer)) {
      return InvalidError(
          "a temperature can be chosen only where both traces hold raw full logits; log-probs "
          "cannot be moved to another temperature");
    }
    return *options.temperature;
  }
  if (train.temperature != infer.temperature) {
    return BrokenEvidenceError("the train trace was recorded at temperature " +
                               ShortestNumber(train.temperature) + ", the infer trace at " +
                               ShortestNumber(infer.temperature) +
                               ": record both at one temperature, or with full logits choose the "
                               "temperature to compare at");
  }
  return train.temperature;
}

// What the tokens were sampled at is a fact about the tokens: where both sides state it, they state
// the same. Generated traces have tokens each of its own, and must still be of one temperature.
Result<std::optional<double>> CommonSampling(const TraceInfo& train, const TraceInfo& infer) {
  const std::optional<double>& a = train.sampling_temperature;
  const std::optional<double>& b = infer.sampling_temperature;
  const bool generated = train.mode == TraceMode::kGenerated;
  if (!generated && train.sampled_by == SampledBy::kDataset) return std::optional<double>();
  if (a && b && *a != *b) {
    const auto text = [](double t) { return t == 0 ? "0 (greedily)" : ShortestNumber(t); };
    return BrokenEvidenceError("the train trace says its tokens were sampled at temperature " +
                               text(*a) + ", the infer trace at " + text(*b) +
                               (generated ? ": answers of two temperatures are not comparable"
                                          : ": the tokens are the same, so it must be"));
  }
  if (generated) return a && b ? a : std::optional<double>();
  return a ? a : b;
}

// Whether the tokens were drawn from less, or from other, than the whole distribution. Where nobody
// says so (format 1 cannot), they count as if they were.
bool SamplingAltered(const TraceInfo& train, const TraceInfo& infer) {
  // Processed log-probs are of what was left to draw from.
  if (train.semantics == LogprobSemantics::kProcessed &&
      infer.semantics == LogprobSemantics::kProcessed) {
    return false;
  }
  if (train.sampling_altered || infer.sampling_altered) return true;
  return !train.StatesSampling() && !infer.StatesSampling();
}

// Which position the two sequences first disagree at, as an index.
size_t FirstDifference(const PairingProblem& problem) {
  const size_t common = std::min(problem.train.size(), problem.infer.size());
  for (size_t i = 0; i < common; ++i) {
    if (!(problem.train[i] == problem.infer[i])) return i;
  }
  return common;
}

const PositionToken* FindRepeat(const std::vector<PositionToken>& rows) {
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].position == rows[i - 1].position) return &rows[i];
  }
  return nullptr;
}

// Both sides hold the same tokens, `by` positions apart.
bool PositionsShifted(const PairingProblem& problem, int32_t by) {
  const size_t common = std::min(problem.train.size(), problem.infer.size());
  if (common == 0 || problem.train_count != problem.infer_count) return false;
  for (size_t i = 0; i < common; ++i) {
    if (problem.infer[i].position != problem.train[i].position + by ||
        problem.infer[i].token != problem.train[i].token) {
      return false;
    }
  }
  return true;
}

// The infer side holds at a position the token that the train side holds `by` later. Single
// matches happen by chance, so most of at least three must agree.
bool TokensShifted(const PairingProblem& problem, int32_t by) {
  size_t compared = 0;
  size_t equal = 0;
  for (size_t i = 0, j = 0; i < problem.infer.size() && j < problem.train.size();) {
    const int32_t wanted = problem.infer[i].position + by;
    if (problem.train[j].position < wanted) {
      ++j;
    } else if (problem.train[j].position > wanted) {
      ++i;
    } else {
      ++compared;
      equal += problem.train[j].token == problem.infer[i].token;
      ++i;
      ++j;
    }
  }
  return compared >= 3 && equal * 10 >= compared * 9;
}

// The share of positions, from the first difference on, where tokens are equal after all.
double EqualShareAfter(const PairingProblem& problem, size_t first) {
  const size_t common = std::min(problem.train.size(), problem.infer.size());
  size_t equal = 0;
  for (size_t i = first; i < common; ++i) equal += problem.train[i] == problem.infer[i];
  return common > first ? static_cast<double>(equal) / static_cast<double>(common - first) : 0;
}

std::string Describe(const std::vector<PositionToken>& rows, size_t i) {
  if (i >= rows.size()) return "has no further token";
  return "has token " + std::to_string(rows[i].token) + " at position " +
         std::to_string(rows[i].position);
}

std::string LikelyCause(const PairingProblem& problem, size_t first) {
  for (const int32_t by : {1, -1}) {
    if (PositionsShifted(problem, by)) {
      return std::string("the infer trace's positions are shifted by one (") +
             (by > 0 ? "one later" : "one earlier") +
             "): one side counts from 1, or counts a beginning-of-sequence token that the other "
             "leaves out";
    }
  }
  for (const int32_t by : {1, -1}) {
    if (TokensShifted(problem, by)) {
      return "the tokens are shifted by one: a log-prob stands at the token " +
             std::string(by > 0 ? "before" : "after") +
             " the one it belongs to on one side (logits at index t predict token t + 1)";
    }
  }
  if (first >= problem.train.size() || first >= problem.infer.size()) {
    return "one side is shorter: the " +
           std::string(problem.train_count < problem.infer_count ? "train" : "infer") +
           " trace has " + std::to_string(std::min(problem.train_count, problem.infer_count)) +
           " tokens of " + std::to_string(std::max(problem.train_count, problem.infer_count)) +
           " (truncated output, a dropped last token, or max_tokens)";
  }
  if (problem.train[first].position != problem.infer[first].position) {
    return "a row is missing on the " +
           std::string(problem.train[first].position < problem.infer[first].position ? "infer"
                                                                                     : "train") +
           " side";
  }
  const auto outside = [&](const std::vector<PositionToken>& rows) {
    return std::any_of(rows.begin(), rows.end(), [&](const PositionToken& row) {
      return row.token < 0 || row.token >= problem.vocab_size;
    });
  };
  if (outside(problem.train) || outside(problem.infer)) {
    return "token ids lie outside the vocabulary of " + std::to_string(problem.vocab_size) +
           ": another tokeniser";
  }
  const double equal_after = EqualShareAfter(problem, first);
  if (first == 0 && equal_after < 0.5) {
    return problem.train.front().position < problem.prompt_tokens
               ? "the prompts differ from their first token on: another tokeniser or another "
                 "prompt template"
               : "the tokens differ from the first position on: another tokeniser, or each side "
                 "wrote its own continuation (then both are mode 'generated')";
  }
  if (problem.train[first].position < problem.prompt_tokens) {
    return "the prompts differ: another prompt template";
  }
  return equal_after > 0.5
             ? "single tokens differ: text was tokenised again on one side (compare token ids, "
               "never text)"
             : "the continuations part here: each side wrote its own (then both are mode "
               "'generated'), or one was tokenised again from text";
}

}  // namespace

Result<Comparison> CheckComparable(const TraceInfo& train, const TraceInfo& infer,
                                   const PairingOptions& options) {
  if (train.mode != infer.mode) {
    return BrokenEvidenceError("the train trace is " + std::string(Name(train.mode)) +
                               " and the infer trace is " + std::string(Name(infer.mode)) +
                               ": both must score the same tokens, or both write their own");
  }
  if (train.vocab_size != infer.vocab_size) {
    return BrokenEvidenceError(
        "the vocabularies have " + std::to_string(train.vocab_size) + " and " +
        std::to_string(infer.vocab_size) +
        " entries. If one counts padding, set vocabSize to the tokeniser's size in both "
        "(logits may be wider); else these are different tokenisers");
  }
  if (!options.ignore_model_digest && !train.model_digest.empty() && !infer.model_digest.empty() &&
      train.model_digest != infer.model_digest) {
    return BrokenEvidenceError("the traces are of different weights (" + train.model_digest +
                               " and " + infer.model_digest +
                               "): a contract is about one model in two kernels");
  }
  Comparison comparison;
  comparison.evidence = std::max(train.evidence, infer.evidence);  // the enum falls in strength
  KCC_TRY(comparison.sampling_temperature, CommonSampling(train, infer));
  comparison.sampling_altered = SamplingAltered(train, infer);
  if (train.mode == TraceMode::kGenerated) {
    const bool greedy = comparison.sampling_temperature == 0.0;  // of distributions at 1
    comparison.temperature = greedy ? 1.0 : comparison.sampling_temperature;
    return comparison;
  }
  if (comparison.evidence == EvidenceLevel::kNone) return comparison;
  if (train.sampled_by != infer.sampled_by) {
    return BrokenEvidenceError("the train trace says its tokens were sampled by '" +
                               std::string(Name(train.sampled_by)) + "', the infer trace by '" +
                               std::string(Name(infer.sampled_by)) +
                               "': the tokens are the same, so sampledBy must be");
  }
  const LogprobSemantics a = Effective(train);
  const LogprobSemantics b = Effective(infer);
  const bool scales_logits = RawLogits(train) && RawLogits(infer);
  // Raw log-probs are at 1, and raw logits beside them are read so.
  if (a == b && a == LogprobSemantics::kRaw && !scales_logits && !options.temperature) {
    return comparison;
  }
  // Full raw logits can be scaled to meet log-probs that were; nothing else can be moved.
  const bool scales_train = RawLogits(train) && b == LogprobSemantics::kTemperatureScaled;
  const bool scales_infer = RawLogits(infer) && a == LogprobSemantics::kTemperatureScaled;
  if (a != b && ((!scales_train && !scales_infer) || train.evidence == infer.evidence)) {
    return SemanticsError(train, infer);
  }
  KCC_TRY(const double temperature, CommonTemperature(train, infer, options));
  comparison.temperature = temperature;
  if (a == b) {
    if (scales_logits) comparison.logit_divisor = temperature;
    comparison.ignores_train_logprob = comparison.ignores_infer_logprob =
        scales_logits && temperature != 1.0;
    return comparison;
  }
  comparison.logit_divisor = temperature;
  comparison.ignores_train_logprob = scales_train;
  comparison.ignores_infer_logprob = scales_infer;
  return comparison;
}

Result<> CheckSameRequests(const std::vector<Request>& train,
                           const std::vector<int32_t>& train_order,
                           const std::vector<Request>& infer,
                           const std::vector<int32_t>& infer_order) {
  int64_t train_alone = 0;
  int64_t infer_alone = 0;
  const std::string* first = nullptr;
  bool first_in_train = false;
  const auto note = [&](const std::string& id, bool in_train) {
    ++(in_train ? train_alone : infer_alone);
    if (first == nullptr) {
      first = &id;
      first_in_train = in_train;
    }
  };
  size_t i = 0;
  size_t j = 0;
  while (true) {
    const std::string* a =
        i < train_order.size() ? &train[static_cast<size_t>(train_order[i])].id : nullptr;
    const std::string* b =
        j < infer_order.size() ? &infer[static_cast<size_t>(infer_order[j])].id : nullptr;
    if (a == nullptr && b == nullptr) break;
    if (a != nullptr && b != nullptr && *a == *b) {
      ++i;
      ++j;
    } else if (b == nullptr || (a != nullptr && *a < *b)) {
      note(*a, true);
      ++i;
    } else {
      note(*b, false);
      ++j;
    }
  }
  if (first == nullptr) return {};
  if (train_alone == static_cast<int64_t>(train.size())) {
    return BrokenEvidenceError("no request id is in both traces (the first ones are " +
                               Quoted(train[static_cast<size_t>(train_order[0])].id) + " and " +
                               Quoted(infer[static_cast<size_t>(infer_order[0])].id) +
                               "): give the same request the same id on both sides");
  }
  return BrokenEvidenceError(
      "request " + Quoted(*first) + " is in the " + (first_in_train ? "train" : "infer") +
      " trace only (" + std::to_string(train_alone) + " only in train, " +
      std::to_string(infer_alone) +
      " only in infer): record what is missing, or take the request out of both traces");
}

Error PromptLengthError(const std::string& request, double train, double infer) {
  return BrokenEvidenceError("request " + Quoted(request) + ": prompt_tokens is " +
                             ShortestNumber(train) + " in the train and " + ShortestNumber(infer) +
                             " in the infer trace: another prompt template, or a "
                             "beginning-of-sequence token that one side does not count");
}

Error DiagnosePairing(const PairingProblem& problem) {
  const std::string request = "request " + Quoted(problem.request);
  for (const bool in_train : {true, false}) {
    const PositionToken* repeat = FindRepeat(in_train ? problem.train : problem.infer);
    if (repeat != nullptr) {
      return BrokenEvidenceError(request + ": position " + std::to_string(repeat->position) +
                                 " stands twice in the " + (in_train ? "train" : "infer") +
                                 " trace: a row was written twice, or two requests share an id");
    }
  }
  const size_t first = FirstDifference(problem);
  return BrokenEvidenceError(request + ": the train trace " + Describe(problem.train, first) +
                             ", the infer trace " + Describe(problem.infer, first) +
                             ". Likely cause: " + LikelyCause(problem, first));
}

}  // namespace kcc
