#include "kcc/monitorlog/monitor_session.h"

#include <algorithm>
#include <utility>

#include "kcc/monitorlog/saved_state.h"

namespace kcc {
namespace {

Result<Monitor> StartMonitor(const Contract& contract, const MonitorPolicy& policy,
                             const SessionOptions& options, const SavedState* state) {
  const MonitorOptions monitor{options.stage};
  if (state == nullptr) return Monitor::Make(contract, policy, monitor);
  auto restored = Monitor::Restore(contract, policy, state->monitor, monitor);
  if (!restored.has_value()) return std::move(restored.error()).At(Place{options.state});
  return restored;
}

void NoteNewest(const LogLine& line, std::map<std::string, int64_t>* newest_ms) {
  const auto* observation = std::get_if<MonitorObservation>(&line.logged.what);
  if (observation == nullptr || !observation->audited) return;
  int64_t& newest = newest_ms->try_emplace(observation->kernel, observation->time_ms).first->second;
  newest = std::max(newest, observation->time_ms);
}

// Folds a line of the log that came after the state, which must decide as it did.
Result<> Repeat(const LogLine& line, Monitor* monitor) {
  KCC_TRY(const std::string now, DecideAgain(line.logged, monitor));
  if (now != line.text) {
    return InvalidError(
        "the same observation decides something else now; kcc monitor replay says "
        "what, and a new log must be begun");
  }
  return {};
}

}  // namespace

Result<MonitorSession> MonitorSession::Open(const Contract& contract, const MonitorPolicy& policy,
                                            SessionOptions options) {
  std::optional<SavedState> state;
  if (!options.state.empty()) {
    KCC_TRY(state, ReadState(options.state));
  }
  if (state && state->head.empty() != options.log.empty()) {
    return InvalidError(state->head.empty()
                            ? "the state was kept without a log, so a log could not be replayed; "
                              "go on without one, or begin with a new state"
                            : "the state belongs to a log; name it",
                        Place{options.state});
  }
  KCC_TRY(Monitor monitor, StartMonitor(contract, policy, options, state ? &*state : nullptr));
  MonitorSession session(std::move(monitor), std::move(options));
  const int64_t saved = state ? state->observations : 0;
  session.observations_ = saved;
  if (!session.options_.log.empty()) {
    const LogStart start =
        StartOf(contract, policy, session.options_.stage, session.options_.kcc_version);
    const std::vector<const Quantity*> own = contract.own_rows();
    int64_t read = 0;
    bool met = !state || saved == 0;
    const auto visit = [&](const LogLine& line) -> Result<> {
      NoteNewest(line, &session.newest_ms_);
      if (++read < saved) return {};
      if (read == saved && state) {
        met = line.digest == state->head;
        return {};
      }
      ++session.observations_;
      return Repeat(line, &session.monitor_);
    };
    KCC_TRY(session.log_, DecisionLog::Open(session.options_.log, start, own, visit));
    if (!met) {
      return InvalidError("the state in " + session.options_.state + " is that of " +
                              std::to_string(saved) +
                              " observations of another log, or this one "
                              "lost lines; remove the state to go on from the log alone",
                          Place{session.options_.log});
    }
  }
  session.resumed_ = session.observations_;
  return session;
}

Result<MonitorDecision> MonitorSession::Observe(const MonitorObservation& observation) {
  LoggedMember member;
  if (log_) {
    KCC_TRY(member, MemberOf(observation));
  }
  KCC_TRY(MonitorDecision decision, monitor_.Observe(observation));
  return Keep(member, std::move(decision));
}

Result<MonitorDecision> MonitorSession::ObserveUnread(const UnreadLine& line) {
  return Keep(MemberOf(line), DecideUnread(line, &monitor_));
}

// What was folded already.
Result<MonitorDecision> MonitorSession::Keep(const LoggedMember& member, MonitorDecision decision) {
  ++observations_;
  // Until the line is in the log the monitor is ahead of it, and its state must not be kept.
  ahead_ = log_.has_value();
  if (log_) KCC_TRY_VOID(log_->Append(member, decision));
  ahead_ = false;
  const bool save = !options_.state.empty() && observations_ % options_.save_every == 0;
  if (save) {
    const Result<> kept = Persist();
    // Not kInvalid, which says that nothing was folded.
    if (!kept.has_value()) {
      return Error(ErrorCode::kIo, kept.error().message(), kept.error().place());
    }
  } else if (log_ && (!decision.changes.empty() || observations_ % options_.sync_every == 0)) {
    KCC_TRY_VOID(log_->Sync());
  }
  return decision;
}

// The log first: a state must never be ahead of it.
Result<> MonitorSession::Persist() {
  if (log_) KCC_TRY_VOID(log_->Sync());
  if (options_.state.empty()) return {};
  return WriteState(options_.state, {observations_, head(), monitor_.Save()});
}

Result<> MonitorSession::Close() {
  if (ahead_) return {};
  return Persist();
}

}  // namespace kcc
