// The one thread of a gateway that decides: evidence comes in through a bounded queue, decisions go
// out as the words that requests are routed by (live_monitor.h) and as a view for whoever asks.
//
// Who has evidence never waits. What the queue has no room for is counted, and folded as lines that
// could not be read. If this thread hangs (a disk that does not answer), the last route holds:
// nobody else writes it. silent_s() says for how long nothing was heard of it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kcc/control/evidence_watch.h"
#include "kcc/control/live_monitor.h"

namespace kcc {

// What the evaluator knows, at one moment.
struct EvaluatorView {
  // As the monitor has it, but that nothing stale is satisfied: kernels and pairs are inconclusive
  // then. Routes are not chosen by it.
  MonitorStatus status;
  std::map<std::string, EvidenceAge> evidence;  // of each kernel
  RoutePlan plan;
  RouteWishes wishes;
  std::map<std::string, int64_t> since_ms;  // of the route ("") and of each kernel's state
  std::map<std::string, int64_t> tokens;    // audited
  std::map<std::string, uint64_t> guards;   // times that a kernel was guarded
  int64_t at_ms = 0;
  std::string log_head;
  bool log_failed = false;
  std::string log_error;
  std::string log_file_fault;  // why it grows beyond the size of a file; empty: it does not
  uint64_t log_errors = 0;
  uint64_t lost = 0;
  size_t waiting = 0;  // for the log
  int64_t resumed = 0;
};

// Of each kernel, at one moment.
struct RiskSample {
  struct Kernel {
    std::string name;
    double health = 0;
    double level = 0;  // the highest of its pairs'
  };
  int64_t at_ms = 0;
  std::string serves;  // empty: nobody
  std::vector<Kernel> kernels;
};

struct EvaluatorOptions {
  LiveMonitorOptions live;
  size_t queue_max = 1024;
  double lease_s = 5;  // silent for longer: the route is held, and said to be
  // Sampled requests of each kernel until now, whatever became of them; empty: nobody knows, and
  // nothing is stale. Called by the evaluator's thread.
  std::function<std::map<std::string, uint64_t>()> offered;
  double stale_after_s = 60;
};

class Evaluator {
 public:
  static Result<std::unique_ptr<Evaluator>> Start(EvaluatorOptions options, RouteWords* words,
                                                  History* history, const Clock* clock);
  // Folds what is in the queue, closes the log and ends the thread.
  ~Evaluator();
  // The same, now; whatever it is given later is counted as lost, and nothing is done.
  void End();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  // Any thread; returns at once.
  void Take(Evidence evidence, EvidenceOrigin origin);
  // Evidence that was lost before it came here.
  void TakeLost(const std::string& kernel, uint64_t count);
  // The same of requests that are counted as dropped already.
  void TakeDropped(const std::string& kernel, uint64_t count);
  // Done by the thread; waits for it, but no longer than the lease. `wish` may refuse, and a share
  // that would grow while the evidence of its kernel is stale is refused.
  using MakeWish = std::function<Result<RouteWishes>(const EvaluatorView&)>;
  Result<> Wish(const MakeWish& wish, const std::string& kind, const std::string& reason);
  // Anything else that its thread is to do, in the same way; by value, since it may be under way
  // when this has given up waiting for it.
  using Task = std::function<Result<>(LiveMonitor&)>;
  Result<> Do(Task task);

  std::shared_ptr<const EvaluatorView> view() const;
  std::vector<RiskSample> risk() const;
  double silent_s() const;
  bool silent() const { return silent_s() > options_.lease_s; }
  double lease_s() const { return options_.lease_s; }
  size_t queued() const;
  std::map<std::string, uint64_t> queued_by_kernel() const;  // of this gateway's own evidence
  double lag_s() const;  // how long the oldest in the queue has waited

 private:
  struct Item {
    Evidence evidence;
    EvidenceOrigin origin;
    double came_s = 0;
  };
  struct Asked {
    Task task;
    std::optional<Result<>> answer;
    bool cancelled = false;
    bool begun = false;  // it is being done: it cannot be taken back
  };
  Evaluator(EvaluatorOptions options, History* history, const Clock* clock)
      : options_(std::move(options)),
        history_(history),
        clock_(clock),
        watch_(options_.stale_after_s) {}

  void Run();
  bool Turn();  // false: it is to end
  void Answer(Asked& asked);
  void Beat() { beat_s_.store(clock_->MonotonicSeconds(), std::memory_order_relaxed); }
  void Look(bool at_once = false);  // makes the view anew, if anything changed
  void TakeRisk(const EvaluatorView& view);
  bool Watch(double now_s);  // whether evidence became stale, or is so no more
  void AddEvidence(EvaluatorView* view);
  EvidenceAge AgeOf(const std::string& kernel) const;

  EvaluatorOptions options_;
  History* history_;
  const Clock* clock_;
  EvidenceWatch watch_;                // the thread's
  double watched_at_s_ = -1;           // by a clock that never goes back; below 0: never
  std::unique_ptr<LiveMonitor> live_;  // the thread's
  std::deque<Item> batch_;             // the thread's
  std::map<std::string, uint64_t> taken_lost_, taken_dropped_;
  uint64_t seen_version_ = 0;
  double looked_at_s_ = 0;  // by a clock that never goes back
  std::map<std::string, std::string> states_;
  std::map<std::string, int64_t> since_ms_;
  double risk_every_s_ = 1;
  double risk_at_s_ = 0;

  std::atomic<double> beat_s_{0};
  mutable std::mutex mutex_;
  std::condition_variable wake_, answered_;
  std::deque<Item> queue_;
  std::map<std::string, uint64_t> lost_, dropped_;  // not told to the monitor yet
  std::deque<std::shared_ptr<Asked>> asked_;
  bool end_ = false;
  std::shared_ptr<const EvaluatorView> view_;
  std::deque<RiskSample> risk_;
  std::thread thread_;
};

}  // namespace kcc
