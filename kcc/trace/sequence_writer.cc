// SequenceWriter: from imported sequences to a trace. The first sequence decides what the trace
// holds; each later one must say the same, or it is an error that names both.

#include <algorithm>
#include <cmath>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/trace/alignment_check.h"
#include "kcc/trace/import_responses.h"
#include "kcc/trace/requests.h"
#include "kcc/trace/writer.h"

namespace kcc {
namespace {

constexpr int64_t kPositionMax = (int64_t{1} << 31) - 1;

// How many alternatives every token of the sequence has that has a log-prob at all.
int32_t CommonTopK(const ImportedSequence& sequence) {
  std::optional<size_t> k;
  for (const ImportedToken& token : sequence.tokens) {
    if (!token.counts || (std::isnan(token.logprob) && token.top.empty())) continue;
    k = std::min(k.value_or(size_t{1} << 20), token.top.size());
  }
  return static_cast<int32_t>(k.value_or(0));
}

// None: nobody said it. Raw log-probs are at 1 whatever the tokens were sampled at.
Result<std::optional<double>> TemperatureOf(const ImportedSequence& sequence,
                                            const ImportOptions& options) {
  const auto& recorded = sequence.temperature;
  // Greedy decoding, asked for as 0, divides nothing: the distributions are at 1.
  const bool greedy = recorded == 0.0;
  if (greedy && options.temperature.value_or(1) == 1) return recorded;
  if (options.temperature && recorded && *options.temperature != *recorded) {
    return BrokenEvidenceError("the request was made at temperature " + ShortestNumber(*recorded) +
                               ", but the import was told " + ShortestNumber(*options.temperature));
  }
  if (options.temperature) return options.temperature;
  if (recorded || sequence.semantics == LogprobSemantics::kRaw) return recorded;
  return InvalidError("these log-probs are " + std::string(Name(sequence.semantics)) +
                      " and the response does not say at which temperature; give --temperature");
}

}  // namespace

struct SequenceWriter::State {
  std::string output;
  ImportOptions options;
  std::optional<TraceWriter> writer;
  ImportReport report;
  // Decided by the first sequence.
  std::string first_id;
  bool prompt = false;
  LogprobSemantics semantics = LogprobSemantics::kRaw;
  std::optional<double> temperature;
  bool altered = false;
  std::string fingerprint;  // of its response
  std::string declared;     // by the trace
  int32_t top_k = 0;
  int64_t logits_width = 0;  // 0: no logits
  std::optional<AlignmentCheck> alignment;

  Result<> Start(const std::string& id, const ImportedSequence& sequence,
                 std::optional<double> at_temperature);
  Result<> CheckSame(const ImportedSequence& sequence, std::optional<double> at_temperature) const;
  Result<> AddToken(int32_t row, const ImportedToken& token);
  std::string Other(std::string_view mine, std::string_view first) const {
    return "this response is " + std::string(mine) + ", that of '" + first_id + "' was " +
           std::string(first);
  }
};

Result<> SequenceWriter::State::Start(const std::string& id, const ImportedSequence& sequence,
                                      std::optional<double> at_temperature) {
  first_id = id;
  prompt = sequence.prompt;
  semantics = sequence.semantics;
  temperature = at_temperature;
  altered = sequence.altered;
  fingerprint = sequence.fingerprint;
  top_k = CommonTopK(sequence);
  if (options.top_k > 0) top_k = std::min(top_k, options.top_k);
  if (options.vocab_size < 1) {
    return InvalidError("responses do not say how large the vocabulary is; give --vocab-size");
  }
  TraceInfo info;
  info.kernel_fingerprint = options.fingerprint.empty() ? fingerprint : options.fingerprint;
  if (info.kernel_fingerprint.empty()) {
    return InvalidError("the responses carry no fingerprint of the kernel; give --fingerprint");
  }
  declared = info.kernel_fingerprint;
  info.model_digest = options.model_digest;
  info.vocab_size = options.vocab_size;
  logits_width =
      sequence.tokens.empty() ? 0 : static_cast<int64_t>(sequence.tokens[0].logits.size());
  if (logits_width > 0 && logits_width < options.vocab_size) {
    return InvalidError("a row of logits has " + std::to_string(logits_width) +
                        " entries, the vocabulary " + std::to_string(options.vocab_size));
  }
  if (logits_width > 0) alignment.emplace(options.vocab_size, semantics == LogprobSemantics::kRaw);
  info.evidence = logits_width > 0 ? EvidenceLevel::kLogits
                  : top_k > 0      ? EvidenceLevel::kTopK
                                   : EvidenceLevel::kSampledToken;
  info.semantics = options.semantics.value_or(semantics);
  info.path = options.path.value_or(prompt ? TracePath::kPrefill : TracePath::kDecode);
  info.mode = options.mode.value_or(TraceMode::kScored);
  info.sampled_by = options.sampled_by.value_or(prompt ? SampledBy::kDataset : SampledBy::kInfer);
  info.sampling_altered = altered && info.sampled_by != SampledBy::kDataset;
  SetTemperatures(temperature, &info);
  const bool sampled = info.mode == TraceMode::kGenerated || info.sampled_by != SampledBy::kDataset;
  if (sampled && !info.sampling_temperature) {
    report.warnings.push_back(
        "Nothing says at which temperature the tokens were sampled, so nothing is estimated from "
        "them; keep the request bodies beside the responses, or give --temperature.");
  }
  TraceWriter::Options writer_options;
  writer_options.replace = options.replace;
  writer_options.top_k = top_k;
  writer_options.logits_width = logits_width;
  writer_options.logprob = true;
  writer_options.mask = true;
  writer_options.advantage =
      std::any_of(sequence.tokens.begin(), sequence.tokens.end(),
                  [](const ImportedToken& token) { return !std::isnan(token.advantage); });
  KCC_TRY(writer, TraceWriter::Create(output, std::move(info), writer_options));
  return {};
}

Result<> SequenceWriter::State::CheckSame(const ImportedSequence& sequence,
                                          std::optional<double> at_temperature) const {
  const auto kind = [](bool about_prompt) {
    return about_prompt ? "about prompt tokens (prefill)" : "about output tokens (decode)";
  };
  if (sequence.prompt != prompt) {
    return BrokenEvidenceError("mixed evidence: " + Other(kind(sequence.prompt), kind(prompt)) +
                               "; import them as two traces");
  }
  if (sequence.semantics != semantics) {
    return BrokenEvidenceError(
        "mixed semantics: " + Other(Name(sequence.semantics), Name(semantics)) +
        "; import them as two traces");
  }
  if (at_temperature != temperature) {
    const auto at = [](std::optional<double> t) {
      return t ? "at " + ShortestNumber(*t) : std::string("at a temperature that nobody says");
    };
    return BrokenEvidenceError("mixed temperatures: " + Other(at(at_temperature), at(temperature)) +
                               "; import them as two traces");
  }
  if (sequence.altered != altered) {
    const auto kind = [](bool less) {
      return less ? "sampled with top-k, top-p or penalties" : "sampled from all tokens";
    };
    return BrokenEvidenceError("mixed sampling: " + Other(kind(sequence.altered), kind(altered)) +
                               "; import them as two traces");
  }
  if (options.fingerprint.empty() && sequence.fingerprint != fingerprint) {
    return BrokenEvidenceError(
        "mixed kernels: " +
        Other("from '" + sequence.fingerprint + "'", "from '" + fingerprint + "'") +
        "; import each kernel's responses apart");
  }
  return {};
}

Result<> SequenceWriter::State::AddToken(int32_t row, const ImportedToken& imported) {
  const std::string where = "position " + std::to_string(imported.position) + ": ";
  TokenEvidence token;
  token.request = row;
  if (imported.position < 0 || imported.position > kPositionMax) {
    return BrokenEvidenceError(where + "the position is out of range");
  }
  token.position = static_cast<int32_t>(imported.position);
  if (imported.token < 0 || imported.token >= options.vocab_size) {
    return BrokenEvidenceError(where + "the token id " + std::to_string(imported.token) +
                               " is outside the vocabulary of " +
                               std::to_string(options.vocab_size));
  }
  token.token = static_cast<int32_t>(imported.token);
  token.advantage = imported.advantage;
  token.masked = !imported.counts;
  token.logprob = static_cast<float>(imported.logprob);
  if (static_cast<int64_t>(imported.logits.size()) != logits_width) {
    return BrokenEvidenceError(where + "the row of logits has " +
                               std::to_string(imported.logits.size()) + " entries, others have " +
                               std::to_string(logits_width));
  }
  if (logits_width > 0) token.logits = imported.logits.data();
  if (std::isnan(imported.logprob) && imported.counts && logits_width == 0) {
    if (!options.mask_missing) {
      return BrokenEvidenceError(
          where +
          "there is no log-prob: it is null, NaN or a stand-in such as -9999.0 (vLLM, "
          "TensorRT-LLM) or -3.4e38 (SGLang, llama.cpp) for a missing or -inf value. Record it "
          "again, or import with --mask-missing so that such tokens do not count");
    }
    token.masked = true;
    ++report.logprobs_missing;
  }
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  for (const TopEntry& entry : imported.top) {
    if (static_cast<int32_t>(ids.size()) == top_k) break;
    ids.push_back(entry.id);
    logprobs.push_back(static_cast<float>(entry.logprob));
  }
  token.top_ids = ids.data();
  token.top_logprobs = logprobs.data();
  token.top_k = static_cast<int32_t>(ids.size());
  auto added = writer->AddToken(token);
  if (!added.has_value()) {
    return Error(added.error().code(), where + added.error().message(), added.error().place());
  }
  if (alignment) alignment->Add(token);
  ++report.tokens;
  return {};
}

SequenceWriter::SequenceWriter(std::string output, const ImportOptions& options)
    : state_(std::make_unique<State>()) {
  state_->output = std::move(output);
  state_->options = options;
}
SequenceWriter::~SequenceWriter() = default;

std::vector<std::string>* SequenceWriter::warnings() { return &state_->report.warnings; }

Result<> SequenceWriter::Add(const std::string& id, ImportedSequence sequence) {
  State& state = *state_;
  for (ImportedToken& token : sequence.tokens) SortTop(&token.top);
  KCC_TRY(const std::optional<double> temperature, TemperatureOf(sequence, state.options));
  if (!state.writer) {
    KCC_TRY_VOID(state.Start(id, sequence, temperature));
  } else {
    KCC_TRY_VOID(state.CheckSame(sequence, temperature));
  }
  Request request;
  request.id = id;
  request.fields = std::move(sequence.fields);
  if (sequence.prompt_tokens) {
    request.fields.insert_or_assign("prompt_tokens", static_cast<double>(*sequence.prompt_tokens));
  }
  if (!request.fields.contains("output_tokens")) {
    const int64_t prompt_tokens = sequence.prompt_tokens.value_or(0);
    request.fields["output_tokens"] = static_cast<double>(
        std::count_if(sequence.tokens.begin(), sequence.tokens.end(),
                      [&](const ImportedToken& token) { return token.position >= prompt_tokens; }));
  }
  FillFingerprint(state.declared, &request);
  KCC_TRY(const int32_t row, state.writer->AddRequest(request));
  ++state.report.requests;
  for (const ImportedToken& token : sequence.tokens) {
    auto added = state.AddToken(row, token);
    if (!added.has_value()) {
      return Error(added.error().code(), "request '" + id + "', " + added.error().message(),
                   added.error().place());
    }
  }
  return {};
}

Result<ImportReport> SequenceWriter::Finish() {
  if (!state_->writer) return BrokenEvidenceError("the input holds no response");
  if (state_->alignment) KCC_TRY_VOID(state_->alignment->Check());
  KCC_TRY_VOID(state_->writer->Finish());
  return std::move(state_->report);
}

}  // namespace kcc
