// A monitor that outlives its process: what it decides is logged, and its state is kept.
//
// The log is the truth and the state a shortcut: a session goes on from the state and from what
// stands in the log after it, or from the log alone. Either way it decides as one that was never
// interrupted. Lines that changed something are synced before they are told to anybody.
//
// A log that has grown goes on in a new file, whose first line holds the state (log_files.h). Where
// that cannot be made the old one goes on, and it is tried again later.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kcc/monitor/monitor.h"
#include "kcc/monitorlog/decision_log.h"

namespace kcc {

struct SavedState;

struct SessionOptions {
  std::string log;            // empty: none is written
  std::string state;          // empty: none is kept
  int64_t sync_every = 1000;  // observations after which the log is synced though nothing changed
  int64_t save_every = 100'000;  // observations after which the state is saved
  Stage stage = Stage::kFull;
  std::string kcc_version;
  int64_t log_bytes_max = 0;  // of one file of the log; 0: it is of one file
  size_t log_files_max = 0;   // of those set aside, that are kept; 0: all
};

class MonitorSession {
 public:
  static Result<MonitorSession> Open(const Contract& contract, const MonitorPolicy& policy,
                                     SessionOptions options);

  // Fails with kInvalid, and changes nothing, where the monitor cannot take the observation. After
  // any other failure the session must be opened again.
  Result<MonitorDecision> Observe(const MonitorObservation& observation);
  // The same with a line of the stream that could not be read: it counts as an observation, or as
  // many as it stands for.
  Result<MonitorDecision> ObserveUnread(const UnreadLine& line);
  // Begins a kernel's evidence anew (Monitor::Renew); logged like an observation.
  Result<MonitorDecision> Renew(const Renewal& renewal);
  // Syncs the log and saves the state; does nothing after a line could not be written.
  Result<> Close();

  // Begins the log and the state anew, from a state that another log has recorded (none: from
  // nothing): what stands under their names is set aside, or removed. Fails, and changes nothing,
  // where another process has the log; with kInvalid where the state cannot be gone on from.
  static Result<> BeginFrom(const Contract& contract, const MonitorPolicy& policy,
                            const SessionOptions& options, std::optional<LogBefore> before);

  const Monitor& monitor() const { return monitor_; }
  // Lines of the log that it had folded when it was opened: observations, but for lines that stand
  // for several.
  int64_t resumed() const { return resumed_; }
  // When the newest audited request of each kernel began, of those that the newest file of
  // the log held when it was opened.
  const std::map<std::string, int64_t>& newest_ms() const { return newest_ms_; }
  int64_t dropped_bytes() const { return log_ ? log_->dropped_bytes() : 0; }
  std::string head() const { return log_ ? log_->head() : std::string(); }  // of the log
  int64_t observations() const { return observations_; }
  // Why the log could not go on in a new file; empty: it could, or did not have to.
  const std::string& file_fault() const { return file_fault_; }

 private:
  MonitorSession(Monitor monitor, SessionOptions options)
      : monitor_(std::move(monitor)), options_(std::move(options)) {}
  Result<> OpenLog(const Contract& contract, const MonitorPolicy& policy, const SavedState* state);
  Result<MonitorDecision> Keep(const LoggedMember& member, MonitorDecision decision);
  Result<> Persist();
  Result<> BeginNextFile();

  Monitor monitor_;
  SessionOptions options_;
  std::optional<DecisionLog> log_;
  int64_t observations_ = 0;
  int64_t resumed_ = 0;
  std::map<std::string, int64_t> newest_ms_;
  bool ahead_ = false;           // of the log
  int64_t next_file_bytes_ = 0;  // at which another file is tried
  std::string file_fault_;
};

}  // namespace kcc
