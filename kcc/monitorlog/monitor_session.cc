#include "kcc/monitorlog/monitor_session.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "kcc/monitorlog/log_files.h"
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
  session.observations_ = state ? state->observations : 0;
  session.next_file_bytes_ = session.options_.log_bytes_max;
  if (!session.options_.log.empty()) {
    KCC_TRY_VOID(session.OpenLog(contract, policy, state ? &*state : nullptr));
  }
  session.resumed_ = session.observations_;
  return session;
}

// The state counts where it is not older than the newest file of the log, whose first line holds
// one too.
Result<> MonitorSession::OpenLog(const Contract& contract, const MonitorPolicy& policy,
                                 const SavedState* state) {
  const LogStart start = StartOf(contract, policy, options_.stage, options_.kcc_version);
  const std::vector<const Quantity*> own = contract.own_rows();
  int64_t saved = observations_;
  int64_t read = 0;
  bool met = saved == 0;
  const auto begun = [&](const LogStart& logged) -> Result<> {
    if (!logged.before) return {};
    read = logged.before->decisions;
    met = saved == read && state != nullptr && state->head == logged.before->head;
    if (saved >= read && saved > 0) return {};
    auto restored =
        Monitor::Restore(contract, policy, logged.before->state, MonitorOptions{options_.stage});
    if (!restored.has_value()) return std::move(restored.error());
    monitor_ = std::move(*restored);
    saved = observations_ = read;
    met = true;
    return {};
  };
  const auto visit = [&](const LogLine& line) -> Result<> {
    NoteNewest(line, &newest_ms_);
    if (++read < saved) return {};
    if (read == saved) {
      met = state != nullptr && line.digest == state->head;
      return {};
    }
    ++observations_;
    return Repeat(line, &monitor_);
  };
  KCC_TRY(log_, DecisionLog::Open(options_.log, start, own, begun, visit));
  if (met) return {};
  return InvalidError("the state in " + options_.state + " is that of " + std::to_string(saved) +
                          " observations of another log, or this one "
                          "lost lines; remove the state to go on from the log alone",
                      Place{options_.log});
}

Result<> MonitorSession::BeginFrom(const Contract& contract, const MonitorPolicy& policy,
                                   const SessionOptions& options, std::optional<LogBefore> before) {
  if (before && before->state.size() > kLoggedStateBytesMax) {
    return InvalidError("the state has more than " + std::to_string(kLoggedStateBytesMax) +
                        " bytes, which no log can hold; lower audit.sessionFilter in the policy");
  }
  if (before) {
    KCC_TRY_VOID(Monitor::Restore(contract, policy, before->state, MonitorOptions{options.stage}));
  }
  LogStart start = StartOf(contract, policy, options.stage, options.kcc_version);
  start.before = std::move(before);
  // The state first: alone it would be that of another log, and without it the log is enough.
  if (!options.state.empty() && ::unlink(options.state.c_str()) != 0 && errno != ENOENT) {
    return IoError(std::string("cannot remove the old state: ") + std::strerror(errno),
                   Place{options.state});
  }
  return DecisionLog::BeginFrom(options.log, start);
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

Result<MonitorDecision> MonitorSession::Renew(const Renewal& renewal) {
  KCC_TRY(const LoggedMember member, MemberOf(renewal));
  KCC_TRY(MonitorDecision decision,
          monitor_.Renew(renewal.kernel, renewal.time_ms, renewal.reason));
  return Keep(member, std::move(decision));
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
  const bool grown = log_ && options_.log_bytes_max > 0 && log_->bytes() >= next_file_bytes_;
  if (grown) KCC_TRY_VOID(BeginNextFile());
  return decision;
}

Result<> MonitorSession::BeginNextFile() {
  LogStart start =
      StartOf(monitor_.contract(), monitor_.policy(), options_.stage, options_.kcc_version);
  start.before = LogBefore{log_->head(), log_->decisions(), monitor_.Save()};
  file_fault_.clear();
  bool begun = false;
  if (start.before->state.size() > kLoggedStateBytesMax) {
    file_fault_ = "the monitor's state is too large for the first line of a file; lower " +
                  std::string("audit.sessionFilter in the policy");
  } else {
    KCC_TRY(begun, log_->BeginNextFile(start, &file_fault_));
  }
  // Not at every line: a disk that is full stays full for a while.
  constexpr int64_t kParts = 16;
  const int64_t step = options_.log_bytes_max / kParts + 1;
  next_file_bytes_ = begun ? options_.log_bytes_max : log_->bytes() + step;
  if (begun && options_.log_files_max > 0) {
    RemoveOldestSetAside(options_.log, options_.log_files_max);
  }
  return {};
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
