#include "kcc/kernel/server_trace.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "kcc/trace/alignment_check.h"
#include "kcc/trace/requests.h"
#include "kcc/trace/writer.h"

namespace kcc {
namespace {

// The rows of one trace; keeps the lists a row points to.
class Rows {
 public:
  Rows(const ServerTrace& trace, TraceWriter* writer) : trace_(trace), writer_(writer) {
    if (trace.info.evidence == EvidenceLevel::kLogits) {
      alignment_.emplace(trace.info.vocab_size, /*compare_logprobs=*/false);
    }
  }

  Result<> Add(int32_t request, ImportedToken token) {
    SortTop(&token.top);
    TokenEvidence row;
    row.request = request;
    row.position = static_cast<int32_t>(token.position);
    row.token = static_cast<int32_t>(token.token);
    row.logprob = static_cast<float>(token.logprob);
    if (alignment_) {
      if (static_cast<int64_t>(token.logits.size()) != trace_.info.vocab_size) {
        return BrokenEvidenceError("a row has " + std::to_string(token.logits.size()) +
                                   " logits, the vocabulary " +
                                   std::to_string(trace_.info.vocab_size) + " entries");
      }
      row.logits = token.logits.data();
    } else if (std::isnan(token.logprob)) {
      if (!trace_.mask_missing) {
        return BrokenEvidenceError(
            "there is no log-prob: null, NaN or a stand-in such as -9999.0 (vLLM, TensorRT-LLM) or "
            "-3.4e38 (SGLang, llama.cpp) for a missing or -inf value; with mask_missing=true such "
            "tokens do not count");
      }
      row.masked = true;
    }
    ids_.clear();
    logprobs_.clear();
    for (const TopEntry& entry : token.top) {
      if (static_cast<int32_t>(ids_.size()) == trace_.top) break;
      ids_.push_back(entry.id);
      logprobs_.push_back(static_cast<float>(entry.logprob));
    }
    row.top_ids = ids_.data();
    row.top_logprobs = logprobs_.data();
    row.top_k = static_cast<int32_t>(ids_.size());
    KCC_TRY_VOID(writer_->AddToken(row));
    if (alignment_) alignment_->Add(row);
    return {};
  }

  Result<> Finish() {
    if (alignment_) KCC_TRY_VOID(alignment_->Check());
    return writer_->Finish();
  }

 private:
  const ServerTrace& trace_;
  TraceWriter* writer_;
  std::optional<AlignmentCheck> alignment_;
  std::vector<int32_t> ids_;
  std::vector<float> logprobs_;
};

}  // namespace

TraceInfo GeneratedTraceInfo(const KernelInfo& kernel, LogprobSemantics semantics,
                             const Sampling& sampling, bool lists) {
  TraceInfo info = TraceInfoOf(kernel);
  info.mode = TraceMode::kGenerated;
  info.path = TracePath::kDecode;
  info.semantics = semantics;
  info.evidence = lists ? EvidenceLevel::kTopK : EvidenceLevel::kSampledToken;
  info.sampled_by = SampledBy::kInfer;
  SetSampling(sampling, &info);
  return info;
}

Result<> WriteServerTrace(const ServerTrace& trace, std::span<const KernelRequest> batch,
                          std::span<const ScoreAnswer> answers, const std::string& directory) {
  TraceWriter::Options columns;
  columns.top_k = trace.top;
  columns.logprob = trace.info.evidence != EvidenceLevel::kLogits;
  columns.mask = trace.mask_missing;
  columns.scratch = true;
  KCC_TRY(TraceWriter writer, TraceWriter::Create(directory, trace.info, columns));
  Rows rows(trace, &writer);
  for (size_t i = 0; i < batch.size(); ++i) {
    Request request = AnsweredLine(batch[i]);
    // Where answers name a build it has been checked, but a build is less than a fingerprint: two
    // replicas of one build may serve other weights or settings.
    FillFingerprint(trace.info.kernel_fingerprint, &request);
    request.fields.insert_or_assign("prompt_tokens", static_cast<double>(batch[i].prompt_tokens));
    request.fields.insert_or_assign("output_tokens", static_cast<double>(answers[i].tokens.size()));
    if (trace.kv_cache_mb) request.fields.insert_or_assign("kv_cache_mb", *trace.kv_cache_mb);
    if (trace.info.mode == TraceMode::kGenerated) {
      const ScoreAnswer& answer = answers[i];
      request.fields.insert_or_assign("started_at_ms", static_cast<double>(answer.started_at_ms));
      request.fields.insert_or_assign("failed", answer.failed);
      if (answer.timed_out) request.fields.insert_or_assign("timed_out", true);
      if (!answer.failed) request.fields.insert_or_assign("latency_ms", answer.seconds * 1e3);
    }
    KCC_TRY(const int32_t row, writer.AddRequest(request));
    for (const ImportedToken& token : answers[i].tokens) {
      auto added = rows.Add(row, token);
      if (!added.has_value()) {
        return Error(added.error().code(),
                     "request '" + batch[i].request.id + "', position " +
                         std::to_string(token.position) + ": " + added.error().message(),
                     added.error().place());
      }
    }
  }
  return rows.Finish();
}

}  // namespace kcc
