#include "kcc/lab/lab_kernel.h"

#include <algorithm>

#include "kcc/kernel/exec_protocol.h"
#include "kcc/lab/logprob.h"
#include "kcc/trace/writer.h"

namespace kcc {
namespace {

// What identifies the build of a kernel: every switch that can change a bit.
// Two kernels with the same fingerprint give the same bits, and a switch that cannot change one is
// left out, so that a trace made with 8 threads binds to a contract that was written with 2. What
// shapes the steps counts only where the batch decides how sums are split.
std::string Fingerprint(const LabModel& model, const LabSwitches& switches) {
  std::string text = "kcc-lab/1 model=" + model.digest.substr(0, 23);
  for (const auto& [name, value] : SwitchTexts(switches)) {
    if (CanChangeBits(*FindSwitch(name), switches)) text += " " + name + "=" + value;
  }
  return text;
}

// Rows of one request until all of them are there: requests finish in any order.
struct RequestRows {
  std::vector<std::byte> logits;
  std::vector<float> logprobs;
  std::vector<int32_t> tokens;
  std::vector<size_t> positions;
};

void StoreLogits(std::span<const float> logits, DType dtype, std::vector<std::byte>* to) {
  if (dtype == DType::kF32) {
    const auto bytes = std::as_bytes(logits);
    to->insert(to->end(), bytes.begin(), bytes.end());
    return;
  }
  for (const float logit : logits) {
    const uint16_t bits = FloatToBF16(logit);  // exact: rounded by the engine
    to->push_back(static_cast<std::byte>(bits & 0xff));
    to->push_back(static_cast<std::byte>(bits >> 8));
  }
}

Result<> WriteRows(const RequestRows& rows, const std::vector<int32_t>& gold, DType dtype,
                   int32_t request, TraceWriter* writer) {
  const size_t row_bytes = rows.tokens.empty() ? 0 : rows.logits.size() / rows.tokens.size();
  for (size_t t = 0; t < rows.tokens.size(); ++t) {
    TokenEvidence token;
    token.request = request;
    token.position = static_cast<int32_t>(rows.positions[t]);
    token.token = rows.tokens[t];
    token.logits = &rows.logits[t * row_bytes];
    token.logits_dtype = dtype;
    token.logprob = rows.logprobs[t];
    if (!gold.empty()) token.gold = gold[t];
    KCC_TRY_VOID(writer->AddToken(token));
  }
  return {};
}

// What is recorded never changes a bit of what is computed.
LabSwitches EngineSwitches(LabSwitches switches, bool audit_points) {
  if (audit_points) switches.audit = AuditLevel::kEverything;
  return switches;
}

double Megabytes(size_t bytes) { return static_cast<double>(bytes) / 1e6; }

}  // namespace

// Names of kernels and switches are checked by ResolveSwitches, which knows them.
Result<LabUri> ParseLabUri(std::string_view text) {
  KCC_TRY(const KernelUri uri, ParseKernelUri(text));
  if (uri.scheme != "lab") {
    return InvalidError("'" + uri.text +
                        "' is not a kernel of the lab; write lab:NAME?option=value");
  }
  LabUri parsed;
  parsed.kernel = uri.rest;
  for (const KernelUri::Option& option : uri.options) {
    if (option.name == "model") {
      if (option.value.empty()) return InvalidError("'" + uri.text + "' names no model: model=DIR");
      parsed.model = option.value;
    } else {
      parsed.options.emplace_back(option.name, option.value);
    }
  }
  return parsed;
}

Result<std::string> LabUri::ModelDirectory(const ShippedModel& shipped) const {
  if (!model.empty()) return model;
  if (shipped) return shipped();
  return std::string(kLabModelDirectory);
}

KernelInfo LabKernelInfo(const LabModel& model, const LabSwitches& switches) {
  KernelInfo info;
  info.fingerprint = Fingerprint(model, switches);
  info.model_digest = model.digest;
  info.vocab_size = static_cast<int64_t>(model.config.vocab);
  info.path = switches.path;
  info.generates = true;
  info.audits = switches.audit != AuditLevel::kOff;
  info.declares = {{"engine", "kcc-lab"}};
  const NamedValues texts = SwitchTexts(switches);
  for (size_t i = 0; i < texts.size(); ++i) {
    const SwitchInfo& one = SwitchTable()[i];
    // So that a trace has the bytes that it had before the switch was there.
    if (one.bits == SwitchBits::kUnlessFirst && !CanChangeBits(one, switches)) continue;
    info.options.push_back({texts[i].first, texts[i].second, std::string(Name(one.source))});
  }
  return info;
}

LabKernel::LabKernel(LabModel model, const LabSwitches& switches, const Clock* clock,
                     bool audit_points)
    : model_(std::move(model)),
      switches_(switches),
      audit_points_(audit_points && switches.audit != AuditLevel::kOff),
      clock_(clock == nullptr ? TheSystemClock() : *clock),
      engine_(model_, EngineSwitches(switches_, audit_points_), clock_),
      info_(LabKernelInfo(model_, switches_)) {}

Result<std::unique_ptr<LabKernel>> LabKernel::Make(const Checkpoint& checkpoint,
                                                   const LabSwitches& switches, const Clock* clock,
                                                   bool audit_points) {
  KCC_TRY_VOID(CheckSwitches(switches));
  KCC_TRY(LabModel model, LabModel::Make(checkpoint, switches));
  return std::unique_ptr<LabKernel>(new LabKernel(std::move(model), switches, clock, audit_points));
}

Result<std::unique_ptr<LabKernel>> LabKernel::Open(const LabUri& uri, const ShippedModel& shipped,
                                                   const Clock* clock, bool audit_points) {
  KCC_TRY(const LabSwitches switches, ResolveSwitches(uri.kernel, uri.options));
  KCC_TRY(const std::string model, uri.ModelDirectory(shipped));
  KCC_TRY(const Checkpoint checkpoint, ReadCheckpoint(model));
  return Make(checkpoint, switches, clock, audit_points);
}

Result<> LabKernel::Score(std::span<const KernelRequest> batch, const std::string& directory) {
  return WriteTrace(batch, directory, nullptr);
}

Result<> LabKernel::Generate(std::span<const KernelRequest> batch, const Sampling& sampling,
                             const std::string& directory) {
  return WriteTrace(batch, directory, &sampling);
}

// Score and Generate write the same trace but for its mode. Rows of a request arrive in order of
// position and those of different requests in any order, so each request's are held until the batch
// is done: a trace then has its rows request by request, whatever the scheduler did.
Result<> LabKernel::WriteTrace(std::span<const KernelRequest> batch, const std::string& directory,
                               const Sampling* sampling) {
  TraceInfo info;
  info.kernel_fingerprint = info_.fingerprint;
  info.model_digest = info_.model_digest;
  info.vocab_size = info_.vocab_size;
  info.evidence = EvidenceLevel::kLogits;
  // Continuations are decoded token by token, whatever the switch says about scoring.
  info.path = sampling == nullptr ? switches_.path : TracePath::kDecode;
  info.mode = sampling == nullptr ? TraceMode::kScored : TraceMode::kGenerated;
  if (sampling != nullptr) {
    info.sampled_by = SampledBy::kInfer;
    SetSampling(*sampling, &info);
  }
  info.declares = DeclaredBy(info_);
  TraceWriter::Options options;
  options.logits_dtype = switches_.logits;
  options.logprob = true;
  options.scratch = true;
  // Labels are of the tokens asked about; a continuation of the kernel's own has none.
  options.gold = sampling == nullptr &&
                 std::any_of(batch.begin(), batch.end(),
                             [](const KernelRequest& request) { return !request.gold.empty(); });
  KCC_TRY(TraceWriter writer, TraceWriter::Create(directory, info, options));

  // Of the whole batch, which whoever asks keeps to a size that fits.
  std::vector<RequestRows> rows(batch.size());
  const auto sink = [&](size_t request, size_t position, int32_t token,
                        std::span<const float> logits) -> Result<> {
    RequestRows& into = rows[request];
    into.positions.push_back(position);
    into.tokens.push_back(token);
    into.logprobs.push_back(RowLogprobs(logits).Of(token));
    StoreLogits(logits, switches_.logits, &into.logits);
    return {};
  };
  const int64_t started_at_ms = clock_.NowMs();
  Result<std::vector<RequestOutcome>> outcomes =
      sampling == nullptr ? engine_.Score(batch, sink) : engine_.Generate(batch, *sampling, sink);
  if (!outcomes.has_value()) return std::move(outcomes.error());
  for (size_t i = 0; i < batch.size(); ++i) {
    KCC_TRY(const int32_t row,
            writer.AddRequest(Describe(batch[i], (*outcomes)[i], rows[i].tokens.size(), sampling,
                                       started_at_ms)));
    KCC_TRY_VOID(WriteRows(rows[i], options.gold ? batch[i].gold : std::vector<int32_t>(),
                           switches_.logits, row, &writer));
    rows[i] = {};
  }
  return writer.Finish();
}

// The request's line: what it was asked with, and what the engine has to say about it.
Request LabKernel::Describe(const KernelRequest& asked, const RequestOutcome& outcome,
                            size_t output_tokens, const Sampling* sampling,
                            int64_t started_at_ms) const {
  Request request = AnsweredLine(asked);
  request.fields["prompt_tokens"] = static_cast<double>(asked.prompt_tokens);
  request.fields["output_tokens"] = static_cast<double>(output_tokens);
  request.fields["kernel_fingerprint"] = info_.fingerprint;
  request.fields["seed"] =
      static_cast<double>(RequestSeed(sampling == nullptr ? 0 : sampling->seed, request.id));
  request.fields["kv_cache_mb"] = Megabytes(outcome.kv_bytes);
  request.fields["peak_memory_mb"] = Megabytes(engine_.stats().peak_bytes);
  if (outcome.preemptions > 0) {
    request.fields["preemptions"] = static_cast<double>(outcome.preemptions);
  }
  if (switches_.audit != AuditLevel::kOff) {
    RequestAudit audit;
    audit.signature = outcome.audit.Signature(switches_.audit);
    if (audit_points_) audit.points = outcome.audit.Points();
    SetAudit(audit, &request);
  }
  if (sampling != nullptr) {  // scored traces carry no clock: same evidence, same bytes
    request.fields["latency_ms"] = outcome.latency_ms;
    request.fields["ttft_ms"] = outcome.ttft_ms;
    request.fields["started_at_ms"] = static_cast<double>(started_at_ms);
  }
  return request;
}

KernelScheme LabScheme(ShippedModel shipped) {
  const auto open = [shipped = std::move(shipped)](
                        const KernelUri& uri,
                        const KernelOpenOptions& options) -> Result<std::unique_ptr<Kernel>> {
    KCC_TRY(const LabUri parsed, ParseLabUri(uri.text));
    KCC_TRY(std::unique_ptr<LabKernel> kernel,
            LabKernel::Open(parsed, shipped, nullptr, options.audit_points));
    return std::unique_ptr<Kernel>(std::move(kernel));
  };
  const auto check = [](const KernelUri& uri) -> Result<> {
    KCC_TRY(const LabUri parsed, ParseLabUri(uri.text));
    KCC_TRY_VOID(ResolveSwitches(parsed.kernel, parsed.options));
    return {};
  };
  return {"lab", "lab:NAME?option=value", open, check};
}

}  // namespace kcc
