#include "kcc/control/live_evidence.h"

#include <algorithm>
#include <utility>

#include "kcc/base/sha256.h"

namespace kcc {
namespace {

constexpr int64_t kCollectMs = 600'000;  // after which little more is enough
constexpr uint64_t kCollectRequests = 25;

}  // namespace

Result<> LiveEvidence::Begin(const LiveStage& stage, const Plan& plan, uint64_t lost) {
  const std::lock_guard lock(mutex_);
  if (stage_ && stage_->Same(stage)) return {};
  KCC_TRY(ObservationMeter meter, ObservationMeter::Make(plan, contract_.trust));
  meter_.emplace(std::move(meter));
  stage_ = stage;
  lost_ = lost;
  from_ms_ = to_ms_ = observations_ = 0;
  given_ = 0;
  given_ms_ = 0;
  return {};
}

bool LiveEvidence::Collects(const LiveStage& stage) const {
  const std::lock_guard lock(mutex_);
  return stage_ && stage_->Same(stage);
}

void LiveEvidence::Discard() {
  const std::lock_guard lock(mutex_);
  stage_.reset();
  meter_.reset();
}

void LiveEvidence::Take(const Evidence& evidence, const EvidenceOrigin& origin,
                        const MonitorDecision& decision) {
  const std::lock_guard lock(mutex_);
  if (!stage_) return;
  // It begins with the first that is evidence: before, a scorer may not have reached its kernels.
  const bool begun = meter_->requests() > 0;
  if (const auto* unread = std::get_if<UnreadLine>(&evidence)) {
    // It may have been of any kernel where none is named.
    const bool ours = unread->kernel.empty() || unread->kernel == stage_->kernel;
    if (begun && ours) lost_ += static_cast<uint64_t>(unread->lines);
    return;
  }
  const auto& observation = std::get<MonitorObservation>(evidence);
  const bool of_copies = stage_->stage == Stage::kShadow;
  if (observation.kernel != stage_->kernel || observation.repeat || !observation.audited) return;
  if (observation.probe != of_copies || origin.at_ms < stage_->entered_ms) return;
  if (decision.handling == Handling::kDuplicate || decision.handling == Handling::kSession) return;
  // One that came too late to count is missing all the same.
  const bool counted = decision.handling == Handling::kCounted;
  if (!counted || !meter_->Add(observation, stage_->candidate.infer)) {
    lost_ += begun ? 1 : 0;
    return;
  }
  if (from_ms_ == 0) from_ms_ = origin.at_ms;
  from_ms_ = std::min(from_ms_, origin.at_ms);
  to_ms_ = std::max(to_ms_, origin.at_ms);
  observations_ = decision.number;
}

// The model is the promotion's word, and what kernels declare is the register's: neither is
// claimed here, so that a clause that binds one is not satisfied by this.
Source LiveEvidence::SourceOf(const Summary& summary) const {
  Source source;
  const std::string of = name_ + " " + stage_->promotion + " " + std::to_string(stage_->entered);
  source.train.identity = Sha256Of("live train " + of);
  source.infer.identity = Sha256Of("live infer " + of);
  source.train.kernel_fingerprint = stage_->candidate.train;
  source.infer.kernel_fingerprint = stage_->candidate.infer;
  source.evidence = source.train.evidence = source.infer.evidence = EvidenceLevel::kTopK;
  source.mode = TraceMode::kScored;
  source.sampled_by = SampledBy::kInfer;
  source.temperature = contract_.assumptions.temperature;
  source.requests = meter_->requests() + lost_;
  for (const SliceStats& slice : summary.slices)
    source.tokens = std::max(source.tokens, slice.tokens);
  for (const uint64_t hash : summary.requests) source.manifest += hash;
  return source;
}

std::optional<CollectedEvidence> LiveEvidence::Collect(int64_t now_ms, bool all) {
  const std::lock_guard lock(mutex_);
  if (!stage_ || meter_->requests() == 0) return std::nullopt;
  const uint64_t have = meter_->requests() + lost_;
  const uint64_t enough = given_ + std::max(kCollectRequests, given_ / 4);
  const bool due =
      given_ == 0 || have >= enough || (have > given_ && now_ms - given_ms_ >= kCollectMs);
  if (!due && !(all && have > given_)) return std::nullopt;
  auto summary = meter_->Sum();
  if (!summary.has_value()) {
    // What was collected cannot be told any more; from here on something is missing.
    ++lost_;
    return std::nullopt;
  }
  given_ = have;
  given_ms_ = now_ms;
  summary->sources = {SourceOf(*summary)};
  return CollectedEvidence{*stage_, std::move(*summary), lost_, from_ms_, to_ms_, observations_};
}

}  // namespace kcc
