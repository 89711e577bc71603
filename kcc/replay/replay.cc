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
  }
  return "";
}

std::vector<KernelRequest> ReplayBatch(const KernelRequest& request, const BatchShape& shape,
                                       bool alone, size_t* place) {
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
      filler.tokens.push_back(request.tokens[t % request.tokens.size()]);
    }
    filler.request.fields["prompt_tokens"] = static_cast<double>(prompt);
    batch.push_back(std::move(filler));
  }
  return batch;
}

Result<ReplayResult> Replay(const StoredRequest& stored, const KernelRequest& request,
                            const KernelPair& pair, const ReplayOptions& options) {
  KCC_CHECK(!request.tokens.empty());
  size_t place = 0;
  const std::vector<KernelRequest> batch =
      ReplayBatch(request, stored.batch, options.alone, &place);
  KCC_TRY(const PrivateDir scratch, PrivateDir::Make(options.scratch));
  KCC_TRY(const RequestAudit train, RunSide(*pair.train.kernel, batch, place, scratch / "train"));
  KCC_TRY(const RequestAudit infer, RunSide(*pair.infer.kernel, batch, place, scratch / "infer"));
  const KernelInfo& train_info = pair.train.kernel->info();
  const KernelInfo& infer_info = pair.infer.kernel->info();
  ReplayResult result;
  result.company = batch.size() - 1;
  result.train = CompareSide(stored.train, train_info, train.signature);
  result.infer = CompareSide(stored.infer, infer_info, infer.signature);
  // Two signatures of different kinds differ always, which says nothing.
  if (!train.signature.empty() && !infer.signature.empty() &&
      DeclaredAudit(DeclaredBy(train_info)) == DeclaredAudit(DeclaredBy(infer_info))) {
    result.sides_agree = train.signature == infer.signature;
  }
  result.audit = CompareAudits(train.points, infer.points);
  return result;
}

}  // namespace kcc
