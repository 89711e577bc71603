#include "kcc/monitor/kernel_signals.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/constants.h"
#include "kcc/judge/health.h"

namespace kcc {
namespace {

int64_t FloorDivide(int64_t value, int64_t by) { return value / by - (value % by < 0 ? 1 : 0); }

bool HasSamples(const Clause& clause, const PairRecord& state) {
  return state.requests >= clause.min_samples.requests && state.tokens >= clause.min_samples.tokens;
}

bool IsHardBlock(const ClauseSignal& signal) {
  return signal.kind == SignalKind::kBlock && signal.clause->hard();
}

bool IsOfRepeats(const ClauseSignal& signal) {
  return signal.clause->metric.quantity->observation == Observation::kReplay;
}

// Whether one observation beyond the threshold is a violation by itself.
bool NeedsNoTest(const ClauseSignal& signal) {
  return signal.kind == SignalKind::kProof || IsHardBlock(signal);
}

}  // namespace

void RecentMean::Add(double its_bad, double its_weight, int64_t half) {
  if (count >= half) {
    bad[1] = bad[0];
    weight[1] = weight[0];
    bad[0] = weight[0] = 0;
    count = 0;
  }
  bad[0] += its_bad;
  weight[0] += its_weight;
  ++count;
}

double RecentMean::Mean() const {
  const double total = weight[0] + weight[1];
  return total > 0 ? (bad[0] + bad[1]) / total : 0;
}

KernelSignals::KernelSignals(const SignalPlan& plan)
    : pairs_(plan.pairs.size()),
      detectors_(plan.detectors),
      passes_(plan.passes),
      blocks_(plan.blocks) {}

void KernelSignals::Fold(const SignalPlan& plan, RequestEvidence* evidence, int64_t time_ms,
                         int64_t half_window, std::vector<Alert>* alerts) {
  FoldPairs(plan, Read::kAll, evidence, time_ms, half_window, alerts);
}

void KernelSignals::FoldRepeat(const SignalPlan& plan, RequestEvidence* evidence, int64_t time_ms,
                               int64_t half_window, std::vector<Alert>* alerts) {
  FoldPairs(plan, Read::kRepeats, evidence, time_ms, half_window, alerts);
}

void KernelSignals::FoldEarlier(const SignalPlan& plan, RequestEvidence* evidence, int64_t time_ms,
                                int64_t half_window, std::vector<Alert>* alerts) {
  FoldPairs(plan, Read::kEarlier, evidence, time_ms, half_window, alerts);
}

void KernelSignals::FoldEvent(const SignalPlan& plan, RequestEvidence* evidence, int64_t time_ms,
                              int64_t half_window, std::vector<Alert>* alerts) {
  FoldPairs(plan, Read::kEvents, evidence, time_ms, half_window, alerts);
}

// The whole request makes one sample of a clause, whatever slices of requests it is in.
void KernelSignals::FoldPairs(const SignalPlan& plan, Read read, RequestEvidence* evidence,
                              int64_t time_ms, int64_t half_window, std::vector<Alert>* alerts) {
  size_t last_signal = plan.signals.size();
  Sample whole;
  for (size_t at = 0; at < plan.pairs.size(); ++at) {
    const SignalPair& pair = plan.pairs[at];
    const ClauseSignal& signal = plan.signals[pair.signal];
    if (signal.kind == SignalKind::kNone) continue;
    if (read == Read::kEvents && !signal.of_events) continue;
    if (read == Read::kRepeats && !signal.of_events && !IsOfRepeats(signal)) continue;
    if (signal.kind == SignalKind::kBlock && read == Read::kEarlier) {
      BlockState& block = blocks_[static_cast<size_t>(pair.block)];
      block.doubtful = block.doubtful || (block.open && evidence->Touches(pair.slice));
      continue;
    }
    if (signal.kind == SignalKind::kBlock) {
      FoldBlock(plan, at, evidence, time_ms, half_window, alerts);
      continue;
    }
    const Credit credit = read == Read::kEarlier ? Credit::kNone : Credit::kFull;
    const bool touched = evidence->Touches(pair.slice);
    const bool unvouched = evidence->Unvouched(pair.slice);
    if (!touched && !unvouched) continue;
    if (touched) {
      const auto tokens = static_cast<int64_t>(evidence->Group(pair.slice).tokens);
      pairs_[at].tokens += tokens;
      ++pairs_[at].requests;
    }
    if (evidence->OfTokens(pair.slice)) {
      const Sample own = touched ? SampleOf(signal, plan.plan, pair.slice, evidence) : Sample();
      FoldPair(plan, at, own, unvouched, touched, credit, half_window, alerts);
      continue;
    }
    if (last_signal != pair.signal) {
      whole = SampleOf(signal, plan.plan, pair.slice, evidence);
      last_signal = pair.signal;
    }
    FoldPair(plan, at, whole, unvouched, touched, credit, half_window, alerts);
  }
}

void KernelSignals::FoldUnread(const SignalPlan& plan, RequestEvidence* evidence, bool its_own,
                               int64_t half_window, std::vector<Alert>* alerts) {
  for (size_t at = 0; at < plan.pairs.size(); ++at) {
    const SignalPair& pair = plan.pairs[at];
    const ClauseSignal& signal = plan.signals[pair.signal];
    if (signal.kind == SignalKind::kNone) continue;
    const bool counts = its_own && signal.of_events && evidence->Touches(pair.slice);
    if (signal.kind == SignalKind::kBlock) {
      FoldUnreadBlock(plan, at, evidence, counts, half_window, alerts);
    } else if (counts) {
      ++pairs_[at].requests;
      const Sample sample = SampleOf(signal, plan.plan, pair.slice, evidence);
      FoldPair(plan, at, sample, false, true, Credit::kFull, half_window, alerts);
    } else {
      FoldPair(plan, at, Sample(), true, false, Credit::kFull, half_window, alerts);
    }
    pairs_[at].clean = 0;
  }
}

void KernelSignals::FoldPair(const SignalPlan& plan, size_t at, const Sample& sample,
                             bool unvouched, bool touched, Credit credit, int64_t half_window,
                             std::vector<Alert>* alerts) {
  const SignalPair& pair = plan.pairs[at];
  const ClauseSignal& signal = plan.signals[pair.signal];
  PairRecord& state = pairs_[at];
  if (touched && !sample.defined) return;
  if (touched && sample.broken) {
    state.clean = 0;
    alerts->push_back({Alert::Kind::kBroken, at, 0});
    return;
  }
  const bool credited = credit == Credit::kFull;
  if (credited) ++state.observations;
  if (credited && state.broken && touched && !unvouched) ++state.clean;
  // By infer's word alone it is in the slice, or not: nothing good may follow from it.
  for (size_t i = 0; credited && i < signal.passes.size(); ++i) {
    const UnitValue worst{.value = 1, .complement = 0};
    passes_[pair.first_pass + i].Add(signal.passes[i], unvouched ? worst : sample.for_pass[i]);
  }
  if (!touched) return;
  state.recent.Add(sample.bad, sample.weight, half_window);
  if (signal.kind == SignalKind::kExistence) {
    state.shown = state.shown || (credited && !sample.possible && !unvouched);
    return;
  }
  if (NeedsNoTest(signal)) {
    if (credited && !state.broken && !sample.possible && !unvouched) ++state.clean;
    if (!sample.sure) return;
    state.clean = 0;
    state.proof = sample.value;
    if (HasSamples(*signal.clause, state)) alerts->push_back({Alert::Kind::kProof, at, 0});
    return;
  }
  if (!state.broken) {
    const bool doubtful = sample.possible || unvouched;
    state.clean = doubtful ? 0 : state.clean + (credited ? 1 : 0);
  }
  double largest = 0;
  bool alarm = false;
  for (size_t i = 0; i < signal.detectors.size(); ++i) {
    DetectorState& detector = detectors_[pair.first_detector + i];
    detector.Add(signal.detectors[i], sample.for_fail[i]);
    const double statistic = detector.Statistic(signal.detectors[i]);
    largest = std::max(largest, statistic);
    alarm = alarm || statistic >= signal.detectors[i].alarm_level();
  }
  if (alarm && HasSamples(*signal.clause, state)) {
    alerts->push_back({Alert::Kind::kAlarm, at, largest});
  }
}

// A block of N requests is of the next N that count for the kernel, in whatever slice; a window of
// time is closed by the first request of a later one. A window of time during which the evidence
// began is left out: what came before is not known.
void KernelSignals::FoldBlock(const SignalPlan& plan, size_t at, RequestEvidence* evidence,
                              int64_t time_ms, int64_t half_window, std::vector<Alert>* alerts) {
  const SignalPair& pair = plan.pairs[at];
  const ClauseSignal& signal = plan.signals[pair.signal];
  const PlanWindow& row = plan.plan.windows()[signal.window];
  BlockState& block = blocks_[static_cast<size_t>(pair.block)];
  const bool by_time = row.window.kind == Window::Kind::kTime;
  if (by_time) {
    const int64_t index = FloorDivide(time_ms, row.window.size);
    if (block.open && index < block.index) return;  // its window is closed
    if (block.open && index > block.index) {
      if (!block.partial) CloseBlock(plan, at, half_window, alerts);
      block = BlockState();
      block.partial = false;
    }
    block.index = index;
  }
  block.open = true;
  ++block.seen;
  block.doubtful = block.doubtful || evidence->Unvouched(pair.slice);
  MergeIntoBlock(plan, at, evidence);
  if (by_time || block.seen < row.window.size) return;
  CloseBlock(plan, at, half_window, alerts);
  block = BlockState();
}

void KernelSignals::MergeIntoBlock(const SignalPlan& plan, size_t at, RequestEvidence* evidence) {
  const SignalPair& pair = plan.pairs[at];
  if (!evidence->Touches(pair.slice)) return;
  const PlanWindow& row = plan.plan.windows()[plan.signals[pair.signal].window];
  BlockState& block = blocks_[static_cast<size_t>(pair.block)];
  const GroupTokens& group = evidence->Group(pair.slice);
  ++pairs_[at].requests;
  pairs_[at].tokens += static_cast<int64_t>(group.tokens);
  if (block.merged >= kBlockRequestsMax) return;
  ++block.merged;
  block.state.Merge(evidence->recorder().MakeState(evidence->pair(), group, row), row);
}

// The line has no time: it is of the block that is open. Where it is not known to count there, the
// block is in doubt.
void KernelSignals::FoldUnreadBlock(const SignalPlan& plan, size_t at, RequestEvidence* evidence,
                                    bool counts, int64_t half_window, std::vector<Alert>* alerts) {
  const SignalPair& pair = plan.pairs[at];
  const PlanWindow& row = plan.plan.windows()[plan.signals[pair.signal].window];
  BlockState& block = blocks_[static_cast<size_t>(pair.block)];
  const bool by_time = row.window.kind == Window::Kind::kTime;
  if (!counts || (by_time && !block.open)) {
    block.doubtful = true;
    return;
  }
  block.open = true;
  ++block.seen;
  MergeIntoBlock(plan, at, evidence);
  if (by_time || block.seen < row.window.size) return;
  CloseBlock(plan, at, half_window, alerts);
  block = BlockState();
}

void KernelSignals::CloseBlock(const SignalPlan& plan, size_t at, int64_t half_window,
                               std::vector<Alert>* alerts) {
  const SignalPair& pair = plan.pairs[at];
  const BlockState& block = blocks_[static_cast<size_t>(pair.block)];
  if (block.merged == 0 && !block.doubtful) return;
  const ClauseSignal& signal = plan.signals[pair.signal];
  Sample sample;
  if (block.merged > 0) sample = SampleOfBlock(signal, plan.plan, block.state, block.doubtful);
  const int64_t clean = pairs_[at].clean;
  FoldPair(plan, at, sample, block.doubtful, block.merged > 0, Credit::kFull, half_window, alerts);
  // A clean block is as many clean requests as it holds.
  if (pairs_[at].clean == clean + 1) pairs_[at].clean += block.merged - 1;
}

void KernelSignals::ResetDetectors(const SignalPlan& plan, size_t pair) {
  const SignalPair& row = plan.pairs[pair];
  const size_t count = plan.signals[row.signal].detectors.size();
  for (size_t i = 0; i < count; ++i) detectors_[row.first_detector + i].Reset();
}

void KernelSignals::Restart(const SignalPlan& plan, size_t pair) {
  const SignalPair& row = plan.pairs[pair];
  const size_t passes = plan.signals[row.signal].passes.size();
  ResetDetectors(plan, pair);
  for (size_t i = 0; i < passes; ++i) passes_[row.first_pass + i].Reset();
  if (row.block >= 0) blocks_[static_cast<size_t>(row.block)] = BlockState();
  pairs_[pair].observations = 0;
  pairs_[pair].clean = 0;
  pairs_[pair].recovered = false;
}

double KernelSignals::LogPass(const SignalPlan& plan, size_t pair) const {
  const SignalPair& row = plan.pairs[pair];
  const ClauseSignal& signal = plan.signals[row.signal];
  if (signal.passes.empty()) return -kInf;
  double least = kInf;
  for (size_t i = 0; i < signal.passes.size(); ++i) {
    least = std::min(least, passes_[row.first_pass + i].LogE(signal.passes[i]));
  }
  return least;
}

bool KernelSignals::Certifies(const SignalPlan& plan, size_t pair, double alpha,
                              int64_t clean) const {
  const SignalPair& row = plan.pairs[pair];
  const ClauseSignal& signal = plan.signals[row.signal];
  const PairRecord& state = pairs_[pair];
  if (state.broken || signal.passes.empty()) return state.clean >= clean;
  for (size_t i = 0; i < signal.passes.size(); ++i) {
    if (!passes_[row.first_pass + i].Certifies(signal.passes[i], alpha)) return false;
  }
  // The test of a truncated mean says nothing of what lies above the cap; clean requests do.
  return signal.certifies || state.clean >= clean;
}

double KernelSignals::Level(const SignalPlan& plan, size_t pair) const {
  const SignalPair& row = plan.pairs[pair];
  const ClauseSignal& signal = plan.signals[row.signal];
  double level = 0;
  for (size_t i = 0; i < signal.detectors.size(); ++i) {
    level = std::max(level, detectors_[row.first_detector + i].Level(signal.detectors[i]));
  }
  return level;
}

Verdict KernelSignals::VerdictOf(const SignalPlan& plan, size_t pair) const {
  const ClauseSignal& signal = plan.signals[plan.pairs[pair].signal];
  const PairRecord& state = pairs_[pair];
  if (state.alarmed) return state.broken ? Verdict::kError : Verdict::kViolated;
  if (state.observations == 0 || !HasSamples(*signal.clause, state)) return Verdict::kInconclusive;
  if (signal.kind == SignalKind::kExistence) {
    return state.shown ? Verdict::kSatisfied : Verdict::kInconclusive;
  }
  if (!signal.certifies) return Verdict::kInconclusive;
  return Certifies(plan, pair, signal.alpha, 0) ? Verdict::kSatisfied : Verdict::kInconclusive;
}

double KernelSignals::DeviationOf(const SignalPlan& plan, size_t pair) const {
  const PairRecord& state = pairs_[pair];
  if (!state.alarmed || state.broken) return 0;
  const ClauseSignal& signal = plan.signals[plan.pairs[pair].signal];
  if (NeedsNoTest(signal)) {
    const double excess = signal.clause->at_most() ? state.proof - signal.clause->threshold
                                                   : signal.clause->threshold - state.proof;
    return Deviation(excess, signal.clause->threshold);
  }
  return Deviation(state.recent.Mean() - signal.limit, signal.limit);
}

double KernelSignals::Health(const SignalPlan& plan) const {
  double health = 0;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    if (pairs_[i].alarmed) health += plan.pairs[i].weight * DeviationOf(plan, i);
  }
  return health;
}

}  // namespace kcc
