// The monitor of a gateway: evidence in, the words that requests are routed by out, in the same
// call. One thread.
//
// What is decided is in the decision log before anybody acts on it. While the log cannot be written
// (a full disk), nothing is released and no share grows: evidence waits for the log, and a copy of
// the monitor that writes nothing looks at it meanwhile, so that an alarm still takes a kernel
// away. Once the log takes lines again, what waited is decided in its order. Evidence for which
// there was no room is folded as lines that could not be read: it is missing for every clause.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kcc/base/clock.h"
#include "kcc/base/result.h"
#include "kcc/control/content_hider.h"
#include "kcc/control/history.h"
#include "kcc/control/route_plan.h"
#include "kcc/gateway/route_word.h"
#include "kcc/monitorlog/monitor_session.h"
#include "kcc/rescore/rescorer.h"

namespace kcc {

// Whose evidence it is, for `why`.
struct EvidenceOrigin {
  std::string request;  // empty: of none
  std::string kernel;
  int64_t at_ms = 0;
  bool probe = false;
  bool hidden = false;  // its content is: another gateway has measured it
  int64_t inbox = 0;    // its place among what others measured; 0: it is our own
};

struct LiveMonitorOptions {
  Contract contract;
  MonitorPolicy policy;
  SessionOptions session;
  std::vector<std::string> kernels;  // of the pool, in its order
  RouteWishes wishes;
  // Kernels that must not serve though the log does not say so: what another gateway knew of them
  // is in no log. Evidence in ours that satisfies every clause settles it.
  std::set<std::string> unsafe;
  bool hide_content = true;  // content_hider.h
  // Told of everything that is folded, once it is in the log.
  std::function<void(const Evidence&, const EvidenceOrigin&, const MonitorDecision&)> folded;
  size_t waiting_max = 512;      // evidence that waits for the log
  int64_t retry_ms = 1000;       // between two tries to open the log again
  int64_t probe_turn_ms = 5000;  // after which another guarded kernel is shown the probes
};

// What another gateway needs to go on where this one is.
struct MonitorSnapshot {
  int64_t observations = 0;
  std::string head;     // of the log
  int64_t inbox = 0;    // of others' evidence, up to which it is folded
  std::string monitor;  // Monitor::Save
};

class LiveMonitor {
 public:
  // Opens the log and the state, and publishes the route that they lead to.
  static Result<std::unique_ptr<LiveMonitor>> Open(LiveMonitorOptions options, RouteWords* words,
                                                   History* history, const Clock* clock);

  void Fold(Evidence evidence, const EvidenceOrigin& origin);
  // Evidence of a kernel that nobody kept; empty: of any.
  void FoldLost(const std::string& kernel, uint64_t count);
  // The same of requests of which nothing was kept: lost() does not count them once more.
  void FoldDropped(const std::string& kernel, uint64_t count);
  // What time brings: tries the log again, turns the probes to the next kernel.
  void Tick();
  void Wish(const RouteWishes& wishes, const std::string& kind, const std::string& reason);
  // Begins a kernel's evidence anew. Fails while the log cannot be written.
  Result<> Renew(const std::string& kernel, const std::string& reason);
  // Fails while the log cannot be written: what is decided meanwhile is not known to be kept.
  Result<MonitorSnapshot> Snapshot() const;
  // Syncs the log and saves the state.
  Result<> Close();

  const RoutePlan& plan() const { return plan_; }
  const RouteWishes& wishes() const { return options_.wishes; }
  // As decided in the log; while the log cannot be written, as it was at its last line.
  const MonitorStatus& status();
  const std::set<std::string>& unsafe() const { return unsafe_; }
  bool log_failed() const { return !session_; }
  uint64_t log_errors() const { return log_errors_; }
  const std::string& log_error() const { return log_error_; }  // empty: it is written
  // Why the log could not go on in a new file, and grows beyond its size; empty: it does not.
  const std::string& log_file_fault() const {
    static const std::string none;
    return session_ ? session_->file_fault() : none;
  }
  std::string head() const { return session_ ? session_->head() : head_; }
  int64_t resumed() const { return resumed_; }
  size_t waiting() const { return waiting_.size(); }
  uint64_t lost() const { return lost_; }
  int64_t tokens(const std::string& kernel) const;  // audited, since this process began
  // When the newest audited request of each kernel began.
  const std::map<std::string, int64_t>& newest_ms() const { return newest_ms_; }
  const std::map<std::string, uint64_t>& guards() const { return guards_; }
  // Changes whenever something above may have.
  uint64_t version() const { return version_; }
  // Decisions and routes among them, which nobody should hear of late.
  uint64_t changes() const { return changes_; }

 private:
  struct Waiting {
    Evidence evidence;
    EvidenceOrigin origin;
    int64_t told_ms = 0;  // when the request began, as its evidence says
  };
  LiveMonitor(LiveMonitorOptions options, RouteWords* words, History* history, const Clock* clock)
      : options_(std::move(options)),
        hider_(options_.contract),
        words_(words),
        history_(history),
        clock_(clock) {}

  // Evidence comes when it is scored, not in the order in which requests began. A window or an
  // epoch that is over takes nothing more, so that what is slow or fails would be in none: it
  // counts when it comes, at a time that is neither before what was folded nor in the future.
  void PutInOrder(int64_t told_ms, MonitorObservation* observation);
  void FoldInOrder(Waiting item);
  Result<MonitorDecision> FoldInLog(const Evidence& evidence);
  void Took(const Evidence& evidence, const EvidenceOrigin& origin,
            const MonitorDecision& decision);
  void NoteNewest(const std::string& kernel, int64_t time_ms);
  void TellChanges(const MonitorDecision& decision, const std::string& request);
  void LogFailed(const Error& error);
  void Wait(Waiting item);
  void Scout(const Evidence& evidence);
  void TryLogAgain();
  void TellGuards(const MonitorStatus& before);
  void FoldWaiting();
  void Publish(HistoryEntry because);
  bool PublishWords();
  void TellRoute(HistoryEntry entry);
  void Republish();

  LiveMonitorOptions options_;
  const ContentHider hider_;
  RouteWords* words_;
  History* history_;
  const Clock* clock_;
  std::optional<MonitorSession> session_;  // none: the log cannot be written
  MonitorStatus status_;
  bool status_old_ = true;
  RoutePlan plan_;
  int64_t folded_ = 0;  // that are in the log
  int64_t resumed_ = 0;
  int64_t inbox_ = 0;  // of others' evidence, up to which it was folded
  // While the log cannot be written.
  std::optional<Monitor> scout_;
  std::deque<Waiting> waiting_;
  std::map<std::string, uint64_t> unfolded_;  // lost, by kernel, and not folded as such yet
  std::string head_;
  bool first_may_be_in_log_ = false;  // of `waiting_`: its line was written, or was not
  std::pair<std::string, uint64_t> unfolded_may_be_in_log_;  // the same of lost ones, and how many
  int64_t retry_ms_ = 0;                                     // doubles
  double retry_at_s_ = 0;
  std::set<std::string> unsafe_;  // kernels that the scout saw guarded

  uint64_t log_errors_ = 0;
  std::string log_error_;
  uint64_t lost_ = 0;
  std::map<std::string, int64_t> tokens_, newest_ms_;
  std::map<std::string, uint64_t> guards_;  // times that a kernel was guarded, since it began
  uint64_t turn_ = 0;
  double turned_at_s_ = 0;
  uint64_t version_ = 0;
  uint64_t changes_ = 0;
  int64_t last_time_ms_ = 0;                    // of evidence; never goes back
  std::map<std::string, int64_t> alarm_at_ms_;  // by kernel, by that time
};

}  // namespace kcc
