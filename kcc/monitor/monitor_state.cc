// Save and Restore: every field that observations change, in one order.
#include "kcc/monitor/monitor_state.h"

#include <cmath>

#include "kcc/base/sha256.h"

namespace kcc {
namespace {

constexpr std::string_view kMagic = "kcc-monitor-state";

// Numbers of things seen.
void VisitCount(Archive& archive, int64_t& count) {
  archive.I64(count);
  if (archive.reading() && count < 0) archive.Fail("a count below 0");
}

// Sums and statistics: what no fold can make is refused.
void VisitFinite(Archive& archive, double& value, double most) {
  archive.Double(value);
  if (archive.reading() && !(value >= 0 && value <= most)) {
    archive.Fail("a statistic that cannot be");
    value = 0;
  }
}

}  // namespace

void RecentMean::Visit(Archive& archive) {
  for (size_t i = 0; i < 2; ++i) {
    VisitFinite(archive, bad[i], 1e300);
    VisitFinite(archive, weight[i], 1e300);
  }
  VisitCount(archive, count);
}

void PairRecord::Visit(Archive& archive) {
  for (int64_t* count : {&observations, &requests, &tokens, &alarms, &clean}) {
    VisitCount(archive, *count);
  }
  for (bool* flag : {&alarmed, &broken, &recovered, &shown}) archive.Bool(*flag);
  if (archive.reading() && !alarmed && (broken || recovered)) {
    archive.Fail("a pair that recovered from no alarm");
  }
  archive.Double(proof);
  if (archive.reading() && std::isnan(proof)) archive.Fail("a value that is not a number");
  recent.Visit(archive);
}

void KernelSignals::VisitBlock(Archive& archive, const SignalPlan& plan, const SignalPair& pair) {
  BlockState& block = blocks_[static_cast<size_t>(pair.block)];
  VisitCount(archive, block.seen);
  VisitCount(archive, block.merged);
  archive.I64(block.index);
  for (bool* flag : {&block.open, &block.partial, &block.doubtful}) archive.Bool(*flag);
  if (archive.reading() && block.merged > kBlockRequestsMax)
    archive.Fail("a block that is too full");
  if (block.merged > 0) {
    const PlanWindow& row = plan.plan.windows()[plan.signals[pair.signal].window];
    block.state.Visit(archive, plan.plan, row);
  }
}

void KernelSignals::Visit(Archive& archive, const SignalPlan& plan) {
  for (PairRecord& pair : pairs_) pair.Visit(archive);
  for (DetectorState& detector : detectors_) {
    for (double& m : detector.m) VisitFinite(archive, m, 1e280);
  }
  for (RunningBets& pass : passes_) {
    for (size_t k = 0; k < kBets; ++k) {
      VisitFinite(archive, pass.wealth[k], 0x1p512);
      archive.I32(pass.scale[k]);
    }
  }
  for (const SignalPair& pair : plan.pairs) {
    if (pair.block >= 0 && archive.ok()) VisitBlock(archive, plan, pair);
  }
}

void KernelRecord::Renew(const SignalPlan& plan, const ReleasePolicy& release, int64_t time_ms) {
  KernelSignals fresh(plan);
  for (size_t i = 0; guarded && i < signals.size(); ++i) {
    const PairRecord& old = signals.pair(i);
    if (!old.alarmed) continue;
    PairRecord& pair = fresh.pair(i);
    pair.alarmed = true;
    pair.broken = old.broken;
    pair.alarms = old.alarms;
    pair.proof = old.proof;
    // How bad it was: where every kernel is guarded the least bad serves, and that is not the one
    // of which nothing is known.
    pair.recent = old.recent;
  }
  signals = std::move(fresh);
  broken = broken && guarded;
  unbroken = 0;
  if (probation_left > 0) probation_left = release.probation;
  alarm_ms = std::max(alarm_ms, time_ms);
  CountStanding();
}

void KernelRecord::Visit(Archive& archive, const SignalPlan& plan) {
  for (int64_t* count : {&served, &audited, &guards, &probation_left, &unbroken}) {
    VisitCount(archive, *count);
  }
  archive.Bool(guarded);
  archive.Bool(broken);
  archive.I64(alarm_ms);
  signals.Visit(archive, plan);
  if (archive.reading()) CountStanding();
}

void Monitor::State::Visit(Archive& archive) {
  for (int64_t* count : {&observations, &unaudited, &duplicates, &repeated_sessions, &late}) {
    VisitCount(archive, *count);
  }
  archive.Bool(begun);
  archive.I64(epoch);
  sessions.Visit(archive);
  requests.Visit(archive);
  for (KernelRecord& record : kernels) record.Visit(archive, plan);
  archive.Text(route.kernel);
  archive.Bool(route.panic);
  archive.Text(route.reason);
  if (archive.reading() && !route.kernel.empty() && Find(route.kernel) == nullptr) {
    archive.Fail("a route to no kernel of the policy");
  }
}

std::string Monitor::Save() const {
  Archive archive = Archive::Writer();
  std::string magic(kMagic);
  uint64_t version = state_->renewals > 0 ? kMonitorStateVersion : kMonitorStateBefore;
  archive.Text(magic);
  archive.U64(version);
  archive.Text(state_->identity);
  state_->Visit(archive);
  if (state_->renewals > 0) archive.I64(state_->renewals);
  std::string bytes = archive.Take();
  // Bytes that were changed by accident decode to another state; the digest shows it.
  return bytes + Sha256Of(bytes);
}

Result<Monitor> Monitor::Restore(Contract contract, MonitorPolicy policy, std::string_view bytes,
                                 const MonitorOptions& options) {
  KCC_TRY(Monitor monitor, Make(std::move(contract), std::move(policy), options));
  const auto wrong = [](const std::string& what) {
    return InvalidError("the saved state of the monitor: " + what +
                        "; start without it, or give the one that was saved");
  };
  constexpr size_t kDigestBytes = 7 + 64;
  if (bytes.size() < kDigestBytes) return wrong("it is cut off");
  const std::string_view body = bytes.substr(0, bytes.size() - kDigestBytes);
  if (Sha256Of(body) != bytes.substr(body.size())) return wrong("its digest is another's");
  Archive archive = Archive::Reader(body);
  std::string magic;
  uint64_t version = 0;
  std::string identity;
  archive.Text(magic);
  archive.U64(version);
  if (!archive.ok() || magic != kMagic) return wrong("it is no state of a monitor");
  if (version != kMonitorStateVersion && version != kMonitorStateBefore) {
    return wrong("it is of version " + std::to_string(version) + ", and this kcc reads version " +
                 std::to_string(kMonitorStateVersion));
  }
  archive.Text(identity);
  if (identity != monitor.state_->identity) {
    return wrong("it was saved with another contract, policy or stage");
  }
  monitor.state_->Visit(archive);
  if (version == kMonitorStateVersion) {
    archive.I64(monitor.state_->renewals);
    if (archive.ok() && monitor.state_->renewals < 1) archive.Fail("a count below 1");
  }
  if (archive.ok() && !archive.AtEnd()) archive.Fail("bytes after the end");
  if (!archive.ok()) return wrong(archive.fault());
  return monitor;
}

}  // namespace kcc
