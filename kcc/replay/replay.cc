#include "kcc/replay/replay.h"

#include <algorithm>

#include "kcc/base/check.h"
#include "kcc/kernel/private_dir.h"
#include "kcc/trace/reader.h"

namespace kcc {
namespace {

// What a kernel declares as the way it makes its signatures. Signatures made in different ways
// differ though the computation may be the same.
constexpr std::string_view kAuditDeclared = "audit";

std::string DeclaredAudit(const std::map<std::string, std::string>& declares) {
  const auto found = declares.find(std::string(kAuditDeclared));
  return found == declares.end() ? std::string() : found->second;
}

Result<RequestAudit> RunSide(Kernel& kernel, std::span<const KernelRequest> batch, size_t place,
                             const std::string& directory) {
  KCC_TRY_VOID(kernel.Score(batch, directory));
  KCC_TRY(const TraceReader reader, TraceReader::Open(directory));
  const std::string& id = batch[place].request.id;
  for (const Request& request : reader.requests()) {
    if (request.id == id) return AuditOf(request);
  }
  return BrokenEvidenceError("the kernel did not answer for request '" + id + "'");
}

SideReplay CompareSide(const StoredSide& stored, const KernelInfo& now,
                       const std::string& signature) {
  SideReplay side;
  side.fingerprint = now.fingerprint;
  side.signature = signature;
  side.stored_fingerprint = stored.fingerprint;
  side.stored_signature = stored.signature;
  const std::string audit = DeclaredAudit(DeclaredBy(now));
  const std::string stored_audit = DeclaredAudit(stored.declares);
  const auto outcome = [&](SideOutcome what, std::string why) {
    side.outcome = what;
    side.why = std::move(why);
    return side;
  };
  const bool other_weights = !stored.model_digest.empty() && !now.model_digest.empty() &&
                             stored.model_digest != now.model_digest;
  if (stored.fingerprint != now.fingerprint) {
    return outcome(SideOutcome::kAnotherBuild, "its fingerprint differs from the stored one");
  }
  if (other_weights) return outcome(SideOutcome::kAnotherBuild, "it runs other weights");
  if (stored.signature.empty() || signature.empty()) {
    return outcome(SideOutcome::kNotRecorded, stored.signature.empty()
                                                  ? "no signature was recorded then"
                                                  : "the kernel gives no signature now");
  }
  if (audit != stored_audit) {
    return outcome(SideOutcome::kNotComparable,
                   "signatures are of audit=" + audit + " now and were of audit=" + stored_audit);
  }
  if (signature != stored.signature) {
    return outcome(SideOutcome::kNotReproduced, "its signature differs from the stored one");
  }
  return outcome(SideOutcome::kReproduced, "");
}

}  // namespace

std::string_view Name(SideOutcome outcome) {
  switch (outcome) {
    case SideOutcome::kReproduced:
      return "reproduced";
    case SideOutcome::kNotReproduced:
      return "not reproduced";
    case SideOutcome::kAnotherBuild:
      return "another build";
    case SideOutcome::kNotRecorded:
      return "not recorded";
    case SideOutcome::kNotComparable:
      return "not comparable";
    case SideOutcome::kAnotherBatch:
      return "another batch";
  }
  return "";
}

KernelRequest OtherTokens(const KernelRequest& request, int64_t vocab_size) {
  KernelRequest other = request;
  other.request.id += "#other-tokens";
  for (int32_t& token : other.tokens) {
    token = token + 1 < vocab_size ? token + 1 : 0;
  }
  return other;
}

std::vector<KernelRequest> ReplayBatch(const KernelRequest& request, const BatchShape& shape,
                                       bool alone, const KernelRequest& company, size_t* place) {
  std::vector<KernelRequest> batch;
  *place = 0;
  if (alone || shape.requests.empty()) {
    batch.push_back(request);
    return batch;
  }
  *place = shape.place;
  for (size_t i = 0; i < shape.requests.size(); ++i) {
    if (i == shape.place) {
      batch.push_back(request);
      continue;
    }
    const auto [prompt, output] = shape.requests[i];
    KernelRequest filler;
    filler.request.id = request.request.id + "#company-" + std::to_string(i);
    filler.prompt_tokens = prompt;
    const size_t length = static_cast<size_t>(prompt) + static_cast<size_t>(output);
    for (size_t t = 0; t < length; ++t) {
      filler.tokens.push_back(company.tokens[t % company.tokens.size()]);
    }
    filler.request.fields["prompt_tokens"] = static_cast<double>(prompt);
    batch.push_back(std::move(filler));
  }
  return batch;
}

namespace {

// One side of a replay: the request as it was asked then, and what it takes to believe the answer.
class ReplayedSide {
 public:
  ReplayedSide(const StoredSide& stored, const BatchShape& shape, const KernelRequest& request,
               Kernel& kernel, bool alone)
      : stored_(stored),
        shape_(shape),
        request_(request),
        other_(OtherTokens(request, kernel.info().vocab_size)),
        kernel_(kernel),
        alone_(alone) {}

  Result<> Run(const std::string& directory) {
    KCC_TRY(audit_, Ask(request_, directory));
    side_ = CompareSide(stored_, kernel_.info(), audit_.signature);
    if (audit_.signature.empty()) return {};
    KCC_TRY_VOID(LookAtOtherTokens(directory + "-other"));
    if (side_.outcome != SideOutcome::kNotReproduced) return {};
    return LookAtBatch(directory + "-company");
  }

  const SideReplay& side() const { return side_; }
  const RequestAudit& audit() const { return audit_; }
  size_t company() const { return alone_ || shape_.requests.empty() ? 0 : Others(); }

 private:
  size_t Others() const { return shape_.requests.size() - 1; }
  bool HasOtherTokens() const { return other_.tokens != request_.tokens; }

  Result<RequestAudit> Ask(const KernelRequest& company, const std::string& directory) {
    size_t place = 0;
    const auto batch = ReplayBatch(request_, shape_, alone_, company, &place);
    return RunSide(kernel_, batch, place, directory);
  }

  // What a kernel signs for every request alike is no trace of what it computed for this one.
  Result<> LookAtOtherTokens(const std::string& directory) {
    if (!HasOtherTokens()) return {};
    KCC_TRY(const RequestAudit other, RunSide(kernel_, {&other_, 1}, 0, directory));
    side_.signs_alike = other.signature == audit_.signature;
    const bool compared =
        side_.outcome == SideOutcome::kReproduced || side_.outcome == SideOutcome::kNotReproduced;
    if (!side_.signs_alike || !compared) return {};
    side_.outcome = SideOutcome::kNotComparable;
    side_.why = "it signs a request of other tokens alike, so its signature shows nothing";
    return {};
  }

  // The build signed something else. That is its doing only if it was asked what it was asked then.
  Result<> LookAtBatch(const std::string& directory) {
    if (shape_.requests.empty()) {
      return Cannot("it was asked alone, and what it was asked together with then is not known");
    }
    if (Others() == 0) return {};
    const std::string others =
        std::to_string(Others()) + (Others() == 1 ? " other request" : " other requests");
    if (alone_) {
      return Cannot("it was asked alone, and then together with " + others + "; leave --alone out");
    }
    if (!HasOtherTokens()) return {};
    KCC_TRY(const RequestAudit again, Ask(other_, directory));
    if (again.signature == audit_.signature) return {};
    return Cannot("its signature depends on what the " + others +
                  " of its batch hold, and that is not kept");
  }

  Result<> Cannot(std::string why) {
    side_.outcome = SideOutcome::kAnotherBatch;
    side_.why = std::move(why);
    return {};
  }

  const StoredSide& stored_;
  const BatchShape& shape_;
  const KernelRequest& request_;
  const KernelRequest other_;
  Kernel& kernel_;
  const bool alone_;
  RequestAudit audit_;
  SideReplay side_;
};

}  // namespace

Result<ReplayResult> Replay(const StoredRequest& stored, const KernelRequest& request,
                            const KernelPair& pair, const ReplayOptions& options) {
  KCC_CHECK(!request.tokens.empty());
  KCC_TRY(const PrivateDir scratch, PrivateDir::Make(options.scratch));
  ReplayedSide train(stored.train, TrainBatch(stored), request, *pair.train.kernel, options.alone);
  ReplayedSide infer(stored.infer, stored.batch, request, *pair.infer.kernel, options.alone);
  KCC_TRY_VOID(train.Run(scratch / "train"));
  KCC_TRY_VOID(infer.Run(scratch / "infer"));
  ReplayResult result;
  result.company = infer.company();
  result.train = train.side();
  result.infer = infer.side();
  // Two signatures of different kinds differ always, which says nothing; and so do two that are
  // the same for every request.
  const bool of_one_kind = DeclaredAudit(DeclaredBy(pair.train.kernel->info())) ==
                           DeclaredAudit(DeclaredBy(pair.infer.kernel->info()));
  if (!result.train.signature.empty() && !result.infer.signature.empty() && of_one_kind &&
      !result.train.signs_alike && !result.infer.signs_alike) {
    result.sides_agree = result.train.signature == result.infer.signature;
  }
  result.audit = CompareAudits(train.audit().points, infer.audit().points);
  return result;
}

}  // namespace kcc
