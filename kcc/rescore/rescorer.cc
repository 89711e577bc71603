// The threads of the scorer: one that takes records and makes evidence (rescore_flow.h), one for
// each kernel that is asked for numbers, one for each that is asked for answers, one for graders.
#include "kcc/rescore/rescorer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "kcc/base/descriptor.h"
#include "kcc/gateway/background_thread.h"
#include "kcc/gateway/record_ring.h"
#include "kcc/rescore/grade_station.h"
#include "kcc/rescore/kernel_asker.h"
#include "kcc/rescore/rescore_flow.h"

namespace kcc {
namespace {

// How long a record may lie in a ring, at most, before it is seen.
constexpr std::chrono::milliseconds kLook(5);
constexpr size_t kRecordsAtOnce = 1024;  // of one ring, before answers are looked at again
constexpr double kOpenCallsS =
    10;  // of discovery and probe, which a loaded kernel takes longer for

// What other threads say to the one that makes evidence.
struct Letter {
  AskResult answer;
  bool grades = false;
  uint64_t job = 0;
  int slot = 0;
  Grades graded;
};

class Outbox {
 public:
  void Put(Letter letter) {
    {
      const std::lock_guard lock(mutex_);
      letters_.push_back(std::move(letter));
    }
    wake_.notify_one();
  }
  // Waits no longer than kLook. False: it is to end, and these are the last.
  bool Take(std::deque<Letter>* letters) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, kLook, [this] { return ending_ || !letters_.empty(); });
    *letters = std::exchange(letters_, {});
    return !ending_;
  }
  void End() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Letter> letters_;
  bool ending_ = false;
};

TokenScorerOptions ScorerOptions(const RescoreOptions& options, const std::string& uri,
                                 double call_timeout_s) {
  TokenScorerOptions scorer;
  scorer.uri = uri;
  scorer.top = options.top;
  scorer.in_flight_max = static_cast<int>(std::clamp<size_t>(options.in_flight_max, 1, 1024));
  scorer.call_timeout_s = call_timeout_s;
  scorer.start_timeout_s = kOpenCallsS;
  return scorer;
}

class ThreadedRescorer final : public Rescorer, public Kernels {
 public:
  ThreadedRescorer(const Contract& contract, const MonitorPolicy& policy,
                   const RescoreOptions& options, GatewayCore& core)
      : contract_(contract), policy_(policy), options_(options), core_(core) {}

  ~ThreadedRescorer() override { (void)Finish(); }

  RescoreCounts Finish() override {
    outbox_.End();
    if (thread_.joinable()) thread_.join();
    if (stop_write_.get() >= 0) {
      [[maybe_unused]] const ssize_t written = ::write(stop_write_.get(), "x", 1);
    }
    graders_ = nullptr;
    scores_.clear();
    calls_.clear();
    if (flow_) {
      flow_->Abandon();
      PublishCounts();
    }
    return counts();
  }

  Result<> Start(TakeEvidence take, TakeDropped take_dropped) {
    take_dropped_ = std::move(take_dropped);
    const size_t places = options_.waiting_max + options_.in_flight_max;
    const auto& kernels = core_.pool()->kernels;
    const auto judged = std::count_if(kernels.begin(), kernels.end(), [](const PoolKernel& kernel) {
      return kernel.role != KernelRole::kAudit;
    });
    core_.places().SetLimits(places, options_.in_flight_max, static_cast<size_t>(judged));
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return IoError("the scorer cannot make a pipe");
    stop_read_ = FileDescriptor(ends[0]);
    stop_write_ = FileDescriptor(ends[1]);
    GraderLimits limits;
    limits.timeout_s = options_.timeout_s;
    limits.stop_fd = stop_read_.get();
    KCC_TRY(GradeSet set, GradeSet::Make(options_.hooks, limits));
    if (!set.empty()) {
      const auto done = [this](uint64_t job, int slot, Grades grades) {
        Letter letter;
        letter.grades = true;
        letter.job = job;
        letter.slot = slot;
        letter.graded = std::move(grades);
        outbox_.Put(std::move(letter));
      };
      graders_ = std::make_unique<GradeStation>(std::move(set), options_.waiting_max,
                                                4 * options_.timeout_s, done);
    }
    for (const auto& [kernel, uri] : options_.uris) {
      KCC_TRY_VOID(StartAsker(kernel, uri, false));
      KCC_TRY_VOID(StartAsker(kernel, uri, true));
    }
    // Who is given evidence finds it counted.
    const auto counted = [this, take = std::move(take)](Evidence evidence,
                                                        const ServedRecord& record) {
      PublishCounts();
      take(std::move(evidence), record);
    };
    flow_ = std::make_unique<RescoreFlow>(contract_, policy_, options_, core_, *this,
                                          graders_.get(), counted);
    thread_ = std::thread([this] { Run(); });
    return {};
  }

  RescoreCounts counts() const override {
    const std::lock_guard lock(counts_mutex_);
    return counts_;
  }

 private:
  // All are started before the thread, where it may fail in words; after, it alone looks.
  KernelAsker* Scores(const std::string& kernel) override { return Find(scores_, kernel); }
  KernelAsker* Calls(const std::string& kernel) override { return Find(calls_, kernel); }

  using Askers = std::map<std::string, std::unique_ptr<KernelAsker>>;
  static KernelAsker* Find(const Askers& askers, const std::string& kernel) {
    const auto found = askers.find(kernel);
    return found == askers.end() ? nullptr : found->second.get();
  }

  Result<> StartAsker(const std::string& kernel, const std::string& uri, bool calls_alone) {
    const MonitorKernel* const row = policy_.FindKernel(kernel);
    AskerOptions asker;
    asker.name = kernel;
    asker.calls_alone = calls_alone;
    asker.ask_generated = !calls_alone && row != nullptr && row->role != KernelRole::kAudit;
    asker.limit_s = calls_alone ? options_.generate_timeout_s : options_.timeout_s;
    asker.retry_s = options_.retry_s;
    // Every record has at most three questions for one kernel at a time.
    const size_t shown = policy_.kernels.size() * options_.in_flight_max;
    asker.waiting_max = 3 * (options_.waiting_max + options_.in_flight_max + shown);
    asker.scorer = ScorerOptions(
        options_, uri,
        calls_alone ? options_.generate_timeout_s : std::max(kOpenCallsS, options_.timeout_s));
    const auto done = [this](AskResult result) {
      Letter letter;
      letter.answer = std::move(result);
      outbox_.Put(std::move(letter));
    };
    KCC_TRY(auto made, KernelAsker::Start(std::move(asker), done));
    (calls_alone ? calls_ : scores_).emplace(kernel, std::move(made));
    return {};
  }

  void Run() {
    GoBehindTraffic("kcc-scorer");
    std::deque<Letter> letters;
    for (bool more = true; more;) {
      more = outbox_.Take(&letters);
      for (Letter& letter : letters) {
        if (letter.grades) {
          flow_->OnGrades(letter.job, letter.slot, std::move(letter.graded));
        } else {
          flow_->OnAnswer(std::move(letter.answer));
        }
      }
      if (more) LookIntoRings();
      PublishCounts();
    }
  }

  void PublishCounts() {
    const std::lock_guard lock(counts_mutex_);
    counts_ = flow_->counts();
  }

  void LookIntoRings() {
    for (const std::unique_ptr<GatewayWorker>& worker : core_.workers()) {
      RecordRing& ring = worker->ring();
      for (size_t taken = 0; taken < kRecordsAtOnce; ++taken) {
        std::optional<ServedRecord> record = ring.Take();
        if (!record) break;
        flow_->Take(std::move(*record));
      }
      const std::vector<uint64_t> dropped = ring.TakeDropped();
      for (size_t kernel = 0; kernel < dropped.size(); ++kernel) {
        if (dropped[kernel] > 0) take_dropped_(KernelAt(kernel), dropped[kernel]);
      }
    }
  }

  std::string KernelAt(size_t kernel) const {
    const auto pool = core_.pool();
    return kernel < pool->kernels.size() ? pool->kernels[kernel].name : std::string();
  }

  const Contract contract_;
  const MonitorPolicy policy_;
  const RescoreOptions options_;
  GatewayCore& core_;
  TakeDropped take_dropped_;
  Outbox outbox_;
  FileDescriptor stop_read_, stop_write_;  // of graders
  std::unique_ptr<GradeStation> graders_;
  Askers scores_, calls_;
  std::unique_ptr<RescoreFlow> flow_;
  mutable std::mutex counts_mutex_;
  RescoreCounts counts_;
  std::thread thread_;
};

}  // namespace

RescoreCounts& RescoreCounts::operator+=(const RescoreCounts& other) {
  scored += other.scored;
  lost += other.lost;
  timed_out += other.timed_out;
  refused += other.refused;
  waiting += other.waiting;
  ungraded += other.ungraded;
  unasked += other.unasked;
  for (const auto& [reason, count] : other.reasons) reasons[reason] += count;
  return *this;
}

Result<std::unique_ptr<Rescorer>> Rescorer::Start(const Contract& contract,
                                                  const MonitorPolicy& policy,
                                                  const RescoreOptions& options, GatewayCore& core,
                                                  TakeEvidence take, TakeDropped take_dropped) {
  const MonitorKernel* const audit = policy.FirstOf(KernelRole::kAudit);
  if (audit == nullptr) {
    return InvalidError("the monitor policy '" + policy.name +
                        "' has no kernel of role audit: nobody could be asked what served tokens "
                        "should be");
  }
  if (!options.uris.contains(audit->name)) {
    return InvalidError("no address is known of the audit kernel '" + audit->name + "'");
  }
  for (const auto& [name, uri] : options.uris) {
    auto checked = TokenScorer::Check(ScorerOptions(options, uri, options.timeout_s));
    if (!checked.has_value()) return std::move(checked.error());
  }
  auto rescorer = std::make_unique<ThreadedRescorer>(contract, policy, options, core);
  KCC_TRY_VOID(rescorer->Start(std::move(take), std::move(take_dropped)));
  return std::unique_ptr<Rescorer>(std::move(rescorer));
}

}  // namespace kcc
