#include "kcc/control/live_monitor.h"

#include <algorithm>
#include <utility>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

// Of one turn; what is left is folded in the next, so that evidence keeps coming in between.
constexpr uint64_t kLostAtOnce = 10'000;
static_assert(kLostAtOnce <= kUnreadLinesMax);
constexpr int64_t kRetryMsMax = 10'000;

UnreadLine LostLine(const MonitorPolicy& policy, const std::string& kernel,
                    const std::string& why) {
  UnreadLine line = UnreadLineOf(std::nullopt, InvalidError(why), policy);
  if (policy.FindKernel(kernel) != nullptr) line.kernel = kernel;
  return line;
}

}  // namespace

Result<std::unique_ptr<LiveMonitor>> LiveMonitor::Open(LiveMonitorOptions options,
                                                       RouteWords* words, History* history,
                                                       const Clock* clock) {
  std::unique_ptr<LiveMonitor> live(new LiveMonitor(std::move(options), words, history, clock));
  const LiveMonitorOptions& given = live->options_;
  KCC_TRY(live->session_, MonitorSession::Open(given.contract, given.policy, given.session));
  live->resumed_ = live->folded_ = live->session_->resumed();
  live->newest_ms_ = live->session_->newest_ms();
  live->last_time_ms_ = clock->NowMs();
  // What satisfied them before is no evidence of what took them away.
  for (const KernelStatus& kernel : live->status().kernels) {
    if (kernel.state == KernelState::kGuarded || !given.unsafe.contains(kernel.name)) continue;
    live->unsafe_.insert(kernel.name);
    KCC_TRY_VOID(live->session_->Renew(
        {kernel.name, clock->NowMs(), "another gateway had taken it away, and why is in no log"}));
    ++live->folded_;
    live->status_old_ = true;
  }
  // What began before this moment is judged by its own time: the alarm may be later than it.
  for (const KernelStatus& kernel : live->status().kernels) {
    if (kernel.state == KernelState::kGuarded) live->alarm_at_ms_[kernel.name] = clock->NowMs();
  }
  HistoryEntry start;
  start.at_ms = clock->NowMs();
  start.kind = "start";
  start.number = 0;
  live->Publish(std::move(start));
  return live;
}

const MonitorStatus& LiveMonitor::status() {
  if (status_old_ && session_) {
    status_ = session_->monitor().Status();
    status_old_ = false;
  }
  return status_;
}

int64_t LiveMonitor::tokens(const std::string& kernel) const {
  const auto found = tokens_.find(kernel);
  return found == tokens_.end() ? 0 : found->second;
}

Result<MonitorDecision> LiveMonitor::FoldInLog(const Evidence& evidence) {
  if (const auto* unread = std::get_if<UnreadLine>(&evidence)) {
    return session_->ObserveUnread(
        unread->reason.empty() ? LostLine(options_.policy, unread->kernel, "no reason is told")
                               : *unread);
  }
  const auto& observation = std::get<MonitorObservation>(evidence);
  auto decision = session_->Observe(observation);
  if (decision.has_value() || decision.error().code() != ErrorCode::kInvalid) return decision;
  // It cannot be taken as it is: what it would have said is missing, and not gone.
  return session_->ObserveUnread(
      LostLine(options_.policy, observation.kernel, decision.error().message()));
}

// A request that began before its kernel's last alarm keeps its time, by which the monitor knows
// that it cannot speak for the kernel's return.
void LiveMonitor::PutInOrder(int64_t told_ms, MonitorObservation* observation) {
  const int64_t began = std::min(told_ms, clock_->NowMs());
  observation->time_ms = began;
  const auto alarm = alarm_at_ms_.find(observation->kernel);
  if (alarm != alarm_at_ms_.end() && began < alarm->second) return;
  last_time_ms_ = std::max(last_time_ms_, began);
  observation->time_ms = last_time_ms_;
}

void LiveMonitor::Fold(Evidence evidence, const EvidenceOrigin& origin) {
  int64_t told_ms = 0;
  if (auto* observation = std::get_if<MonitorObservation>(&evidence)) {
    if (options_.hide_content && !origin.hidden) hider_.Hide(observation);
    told_ms = observation->time_ms;
  }
  FoldInOrder({std::move(evidence), origin, told_ms});
}

void LiveMonitor::FoldInOrder(Waiting item) {
  ++version_;
  if (auto* observation = std::get_if<MonitorObservation>(&item.evidence)) {
    PutInOrder(item.told_ms, observation);
  }
  if (!session_) {
    Scout(item.evidence);
    Wait(std::move(item));
    return;
  }
  const auto decision = FoldInLog(item.evidence);
  if (decision.has_value()) {
    Took(item.evidence, item.origin, *decision);
    return;
  }
  LogFailed(decision.error());
  waiting_.push_front(std::move(item));
  first_may_be_in_log_ = true;
}

void LiveMonitor::Took(const Evidence& evidence, const EvidenceOrigin& origin,
                       const MonitorDecision& decision) {
  ++folded_;
  status_old_ = true;
  inbox_ = std::max(inbox_, origin.inbox);
  if (options_.folded) options_.folded(evidence, origin, decision);
  if (const auto* observation = std::get_if<MonitorObservation>(&evidence)) {
    if (observation->audited && decision.handling == Handling::kCounted) {
      tokens_[observation->kernel] += static_cast<int64_t>(observation->tokens.rows());
      NoteNewest(observation->kernel, observation->time_ms);
    }
  }
  history_->Add(DecidedRequest{origin.request, origin.kernel, origin.at_ms, decision.number,
                               std::string(Name(decision.handling)), origin.probe});
  if (!decision.changes.empty()) TellChanges(decision, origin.request);
}

void LiveMonitor::TellChanges(const MonitorDecision& decision, const std::string& request) {
  ++changes_;
  for (const MonitorChange& change : decision.changes) {
    const bool bad = change.kind == MonitorChangeKind::kAlarm ||
                     change.kind == MonitorChangeKind::kProof ||
                     change.kind == MonitorChangeKind::kBroken;
    if (bad) alarm_at_ms_[change.kernel] = last_time_ms_;
  }
  HistoryEntry route;
  route.at_ms = clock_->NowMs();
  route.kind = Name(MonitorChangeKind::kRoute);
  route.number = decision.number;
  route.request = request;
  // The words first: whoever is told of the alarm finds its route in force.
  const bool moved = PublishWords();
  for (const MonitorChange& change : decision.changes) {
    if (change.kind == MonitorChangeKind::kRoute) continue;  // as the words have it, below
    if (change.kind == MonitorChangeKind::kGuard) ++guards_[change.kernel];
    HistoryEntry entry = EntryOf(change, route.at_ms);
    entry.number = decision.number;
    entry.request = request;
    entry.serves = plan_.serves;
    history_->Add(entry);
  }
  if (moved) TellRoute(std::move(route));
}

void LiveMonitor::NoteNewest(const std::string& kernel, int64_t time_ms) {
  int64_t& newest = newest_ms_.try_emplace(kernel, time_ms).first->second;
  newest = std::max(newest, time_ms);
}

void LiveMonitor::FoldLost(const std::string& kernel, uint64_t count) {
  lost_ += count;
  FoldDropped(kernel, count);
}

void LiveMonitor::FoldDropped(const std::string& kernel, uint64_t count) {
  if (count == 0) return;
  ++version_;
  unfolded_[kernel] += count;
  if (session_) FoldWaiting();
}

void LiveMonitor::LogFailed(const Error& error) {
  ++log_errors_;
  log_error_ = error.Format();
  const bool first = session_.has_value();
  if (first) {
    // The monitor itself has folded the observation already, the log may lack it.
    head_ = session_->head();
    const Monitor& ahead = session_->monitor();
    auto copy = Monitor::Restore(options_.contract, options_.policy, ahead.Save(),
                                 {options_.session.stage});
    scout_.reset();
    if (copy.has_value()) scout_.emplace(std::move(*copy));
    const MonitorStatus seen = ahead.Status();
    for (size_t i = 0; i < seen.kernels.size() && i < status_.kernels.size(); ++i) {
      const bool was = status_.kernels[i].state == KernelState::kGuarded;
      if (seen.kernels[i].state == KernelState::kGuarded && !was) {
        unsafe_.insert(seen.kernels[i].name);
      }
    }
    session_.reset();
    HistoryEntry entry;
    entry.at_ms = clock_->NowMs();
    entry.kind = "log";
    entry.reason = "the decision log cannot be written: " + log_error_ +
                   "; the route holds, nothing is released, and the log is tried again";
    entry.serves = plan_.serves;
    history_->Add(entry);
    Republish();
  }
  // Opening reads the log from its start, which takes the longer the more there is.
  retry_ms_ = first ? options_.retry_ms : std::min(2 * retry_ms_, kRetryMsMax);
  retry_at_s_ = clock_->MonotonicSeconds() + static_cast<double>(retry_ms_) / 1000;
}

void LiveMonitor::Wait(Waiting item) {
  if (waiting_.size() < options_.waiting_max) {
    waiting_.push_back(std::move(item));
    return;
  }
  ++lost_;
  ++unfolded_[item.origin.kernel];
}

// Takes kernels away and gives none back.
void LiveMonitor::Scout(const Evidence& evidence) {
  if (!scout_) return;
  MonitorDecision decision;
  if (const auto* unread = std::get_if<UnreadLine>(&evidence)) {
    decision = scout_->ObserveUnread(unread->kernel);
  } else {
    auto observed = scout_->Observe(std::get<MonitorObservation>(evidence));
    if (!observed.has_value()) return;
    decision = std::move(*observed);
  }
  bool more = false;
  for (const MonitorChange& change : decision.changes) {
    if (change.kind == MonitorChangeKind::kGuard) more |= unsafe_.insert(change.kernel).second;
  }
  if (more) Republish();
}

void LiveMonitor::TryLogAgain() {
  const int64_t before = folded_;
  auto opened = MonitorSession::Open(options_.contract, options_.policy, options_.session);
  if (!opened.has_value()) {
    LogFailed(opened.error());
    return;
  }
  session_.emplace(std::move(*opened));
  const MonitorStatus before_failure = status_;
  status_old_ = true;
  for (const auto& [kernel, time_ms] : session_->newest_ms()) NoteNewest(kernel, time_ms);
  // A line that was written, and whose sync failed, is in the log: it must not be folded twice.
  folded_ = session_->resumed();
  if (first_may_be_in_log_ && folded_ > before && !waiting_.empty()) waiting_.pop_front();
  first_may_be_in_log_ = false;
  if (const auto [kernel, count] = std::exchange(unfolded_may_be_in_log_, {});
      folded_ > before && count > 0) {
    unfolded_[kernel] -= count;
  }
  retry_ms_ = options_.retry_ms;
  scout_.reset();
  log_error_.clear();
  TellGuards(before_failure);
  HistoryEntry entry;
  entry.at_ms = clock_->NowMs();
  entry.kind = "log";
  entry.reason = "the decision log is written again; " + std::to_string(waiting_.size()) +
                 " observations waited for it";
  entry.serves = plan_.serves;
  history_->Add(entry);
  FoldWaiting();
  if (session_) Republish();
}

// A line that was written, and whose sync failed, decided without anybody being told.
void LiveMonitor::TellGuards(const MonitorStatus& before) {
  const MonitorStatus& now = status();
  for (size_t i = 0; i < now.kernels.size() && i < before.kernels.size(); ++i) {
    const KernelStatus& kernel = now.kernels[i];
    const bool was = before.kernels[i].state == KernelState::kGuarded;
    if (was || kernel.state != KernelState::kGuarded) continue;
    ++guards_[kernel.name];
    HistoryEntry entry;
    entry.at_ms = clock_->NowMs();
    entry.kind = Name(MonitorChangeKind::kGuard);
    entry.kernel = kernel.name;
    if (kernel.action) entry.action = Name(*kernel.action);
    entry.target = kernel.target;
    entry.reason = kernel.name + " is guarded; it was decided while the log could not be synced";
    entry.serves = plan_.serves;
    history_->Add(entry);
  }
}

void LiveMonitor::FoldWaiting() {
  while (session_ && !waiting_.empty()) {
    Waiting item = std::move(waiting_.front());
    waiting_.pop_front();
    FoldInOrder(std::move(item));
  }
  uint64_t left = kLostAtOnce;
  for (auto& [kernel, count] : unfolded_) {
    if (!session_ || count == 0 || left == 0) continue;
    UnreadLine lines = LostLine(options_.policy, kernel, "there was no room for its evidence");
    lines.lines = static_cast<int64_t>(std::min(count, left));
    const auto decision = FoldInLog(lines);
    if (!decision.has_value()) {
      unfolded_may_be_in_log_ = {kernel, static_cast<uint64_t>(lines.lines)};
      LogFailed(decision.error());
      return;
    }
    count -= static_cast<uint64_t>(lines.lines);
    left -= static_cast<uint64_t>(lines.lines);
    Took(lines, {{}, kernel, clock_->NowMs(), false}, *decision);
  }
}

void LiveMonitor::Tick() {
  const double now = clock_->MonotonicSeconds();
  if (!session_) {
    if (now >= retry_at_s_) TryLogAgain();
  } else if (!unfolded_.empty()) {
    FoldWaiting();
    std::erase_if(unfolded_, [](const auto& row) { return row.second == 0; });
  }
  if (now - turned_at_s_ >= static_cast<double>(options_.probe_turn_ms) / 1000) {
    turned_at_s_ = now;
    ++turn_;
    Republish();
  }
}

void LiveMonitor::Wish(const RouteWishes& wishes, const std::string& kind,
                       const std::string& reason) {
  ++version_;
  options_.wishes = wishes;
  HistoryEntry entry;
  entry.at_ms = clock_->NowMs();
  entry.kind = kind;
  entry.reason = reason;
  Publish(std::move(entry));
}

Result<> LiveMonitor::Renew(const std::string& kernel, const std::string& reason) {
  if (!session_) return IoError("the decision log cannot be written: " + log_error_);
  ++version_;
  const auto decision = session_->Renew({kernel, clock_->NowMs(), reason});
  if (!decision.has_value()) {
    if (decision.error().code() != ErrorCode::kInvalid) LogFailed(decision.error());
    return Error(decision.error());
  }
  ++folded_;
  status_old_ = true;
  TellChanges(*decision, "");
  return {};
}

Result<MonitorSnapshot> LiveMonitor::Snapshot() const {
  if (!session_) return IoError("the decision log cannot be written: " + log_error_);
  return MonitorSnapshot{session_->observations(), session_->head(), inbox_,
                         session_->monitor().Save()};
}

void LiveMonitor::Republish() {
  HistoryEntry entry;
  entry.at_ms = clock_->NowMs();
  entry.kind = Name(MonitorChangeKind::kRoute);
  Publish(std::move(entry));
}

// `because`: tells of the route where it changed; always, where it is of another kind.
void LiveMonitor::Publish(HistoryEntry because) {
  const bool moved = PublishWords();
  const bool told = because.kind != Name(MonitorChangeKind::kRoute);
  if (moved || told) TellRoute(std::move(because));
}

void LiveMonitor::TellRoute(HistoryEntry entry) {
  entry.kernel = plan_.serves;
  entry.serves = plan_.serves;
  entry.canary = plan_.canary;
  entry.canary_share = plan_.canary_share;
  if (entry.reason.empty()) entry.reason = plan_.reason;
  history_->Add(entry);
}

// True: requests go elsewhere, or in other shares.
bool LiveMonitor::PublishWords() {
  ++version_;
  const MonitorStatus& now = status();
  if (session_) {
    // The log has caught up with what the scout saw, or evidence in it shows the contrary.
    for (const KernelStatus& kernel : now.kernels) {
      const bool settled = kernel.state == KernelState::kGuarded ||
                           (kernel.verdict == Verdict::kSatisfied && waiting_.empty());
      if (settled) unsafe_.erase(kernel.name);
    }
  }
  const std::string standby = scout_ ? scout_->serves() : std::string();
  RoutePlan next =
      PlanRoute(now, options_.policy, options_.kernels, options_.wishes, unsafe_, standby, turn_);
  // A share that grows, of whichever kernel, is published only with the log at hand.
  if (!session_ && next.canary_share > plan_.ShareOfKernel(next.canary)) {
    next.canary = plan_.canary == next.canary ? next.canary : std::string();
    next.canary_share = next.canary.empty() ? 0 : plan_.canary_share;
    next.route.canary = next.canary.empty() ? kNoKernel : plan_.route.canary;
    next.route.canary_share = next.canary.empty() ? 0 : plan_.route.canary_share;
  }
  const bool moved = next.serves != plan_.serves || next.canary != plan_.canary ||
                     next.canary_share != plan_.canary_share;
  if (moved) ++changes_;
  // A route names no kernel that is not allowed, at any moment in between.
  words_->Allow(words_->allowed() | next.allowed);
  words_->Publish(next.sampling);
  words_->Publish(next.route);
  words_->Allow(next.allowed);
  plan_ = std::move(next);
  return moved;
}

Result<> LiveMonitor::Close() {
  if (!session_) return IoError(log_error_);
  return session_->Close();
}

}  // namespace kcc
