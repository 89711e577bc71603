#include "kcc/rescore/kernel_asker.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "kcc/base/clock.h"
#include "kcc/base/descriptor.h"
#include "kcc/gateway/background_thread.h"

namespace kcc {
namespace {

double Now() { return TheSystemClock().MonotonicSeconds(); }

class ThreadedAsker final : public KernelAsker {
 public:
  ThreadedAsker(AskerOptions options, Done done, FileDescriptor stop_read,
                FileDescriptor stop_write);
  ~ThreadedAsker() override;
  void StartThread() {
    thread_ = std::thread([this] { Run(); });
  }

  void Submit(AskTask task) override;
  std::shared_ptr<const AskedKernel> kernel() const override;
  std::string fault() const override;

 private:
  void Run();
  bool OpenOnce();
  std::vector<AskTask> TakeBatch();
  void Answer(std::vector<AskTask> batch);
  void AnswerCalls(const std::vector<AskTask>& calls, double until_s);
  void AnswerScores(const std::vector<AskTask>& scores, double until_s);
  void Refuse(const AskTask& task, const std::string& fault, bool timed_out, bool not_up);
  void NoteOutcome(bool answered, bool timed_out);

  const AskerOptions options_;
  const Done done_;
  std::unique_ptr<TokenScorer> scorer_;   // the thread's own
  std::unique_ptr<ServerCaller> caller_;  // of calls_alone
  // Of the batch: whether anything was answered, or at least held up; a kernel that refuses all
  // connections is gone.
  bool heard_ = false;
  bool changed_ = false;  // another build answers

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<AskTask> waiting_;
  std::shared_ptr<const AskedKernel> kernel_;
  std::string fault_ = "it was not reached yet";
  bool ending_ = false;
  const FileDescriptor stop_read_;
  const FileDescriptor stop_write_;
  std::thread thread_;
};

ThreadedAsker::ThreadedAsker(AskerOptions options, Done done, FileDescriptor stop_read,
                             FileDescriptor stop_write)
    : options_(std::move(options)),
      done_(std::move(done)),
      stop_read_(std::move(stop_read)),
      stop_write_(std::move(stop_write)) {
  if (options_.calls_alone) fault_.clear();  // whether anybody listens shows with the first call
}

// A byte in the pipe is what wakes a thread that waits for a server.
ThreadedAsker::~ThreadedAsker() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  [[maybe_unused]] const ssize_t written = ::write(stop_write_.get(), "x", 1);
  if (thread_.joinable()) thread_.join();
  for (const AskTask& task : waiting_) Refuse(task, "the gateway ends", false, false);
}

void ThreadedAsker::Submit(AskTask task) {
  std::string fault;
  bool not_up = false;
  {
    const std::lock_guard lock(mutex_);
    if (!fault_.empty()) {
      fault = "the kernel '" + options_.name + "' does not answer: " + fault_;
      not_up = true;
    } else if (ending_ || waiting_.size() >= options_.waiting_max) {
      fault = "the queue of the kernel '" + options_.name + "' is full";
    }
    if (fault.empty()) {
      task.waits_since_s = Now();
      waiting_.push_back(std::move(task));
      wake_.notify_all();
      return;
    }
  }
  Refuse(task, fault, false, not_up);
}

std::shared_ptr<const AskedKernel> ThreadedAsker::kernel() const {
  const std::lock_guard lock(mutex_);
  return kernel_;
}

std::string ThreadedAsker::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

void ThreadedAsker::Refuse(const AskTask& task, const std::string& fault, bool timed_out,
                           bool not_up) {
  AskResult result;
  result.job = task.job;
  result.slot = task.slot;
  result.fault = fault;
  result.timed_out = timed_out;
  result.not_up = not_up;
  done_(std::move(result));
}

bool ThreadedAsker::OpenOnce() {
  TokenScorerOptions scorer = options_.scorer;
  scorer.stop_fd = stop_read_.get();
  auto found = std::make_shared<AskedKernel>();
  std::string fault;
  if (options_.calls_alone) {
    auto opened = ServerCaller::Open(scorer);
    if (opened.has_value()) {
      caller_ = std::move(*opened);
    } else {
      fault = opened.error().message();
    }
  } else {
    auto opened = TokenScorer::Open(scorer);
    if (opened.has_value()) {
      found->facts = (*opened)->facts();
      if (options_.ask_generated) {
        const auto meaning = (*opened)->GeneratedSemantics(scorer.start_timeout_s);
        if (meaning.has_value()) {
          found->generated = *meaning;
        } else {
          fault = "what the log-probs of its answers mean: " + meaning.error().message();
        }
      }
      scorer_ = std::move(*opened);
    } else {
      fault = opened.error().message();
    }
  }
  const std::lock_guard lock(mutex_);
  fault_ = fault;
  kernel_ = fault.empty() ? std::move(found) : nullptr;
  changed_ = false;
  return fault.empty();
}

// Until the kernel is up nothing waits, since Submit refuses.
void ThreadedAsker::Run() {
  GoBehindTraffic("kcc-ask");
  const auto retry = std::chrono::duration<double>(options_.retry_s);
  while (true) {
    while (!OpenOnce()) {
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, retry, [this] { return ending_; })) return;
    }
    bool up = true;
    while (up) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
        if (ending_) return;
      }
      heard_ = false;
      std::vector<AskTask> batch = TakeBatch();
      const bool asked = !batch.empty();
      Answer(std::move(batch));
      up = !asked || (heard_ && !changed_);
    }
    std::deque<AskTask> left;
    {
      const std::lock_guard lock(mutex_);
      fault_ =
          changed_ ? "another build answers; it is probed again" : "it refused its connections";
      kernel_ = nullptr;
      left = std::exchange(waiting_, {});
    }
    for (const AskTask& task : left) Refuse(task, fault(), false, true);
  }
}

// What has waited longer than a batch may take would be asked too late for anybody.
std::vector<AskTask> ThreadedAsker::TakeBatch() {
  std::vector<AskTask> batch;
  std::vector<AskTask> late;
  const double now_s = Now();
  {
    const std::lock_guard lock(mutex_);
    const auto most = static_cast<size_t>(options_.scorer.in_flight_max);
    while (!waiting_.empty() && batch.size() < most) {
      const bool stale = now_s - waiting_.front().waits_since_s > options_.limit_s;
      (stale ? late : batch).push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
  }
  for (const AskTask& task : late) {
    Refuse(task, "the kernel '" + options_.name + "' is too slow: the question waited too long",
           true, false);
  }
  return batch;
}

void ThreadedAsker::Answer(std::vector<AskTask> batch) {
  std::vector<AskTask> calls;
  std::vector<AskTask> scores;
  for (AskTask& task : batch) {
    (task.kind == AskTask::Kind::kScore ? scores : calls).push_back(std::move(task));
  }
  const double until_s = Now() + options_.limit_s;
  if (!calls.empty()) AnswerCalls(calls, until_s);
  if (!scores.empty()) AnswerScores(scores, until_s);
}

void ThreadedAsker::NoteOutcome(bool answered, bool timed_out) {
  heard_ = heard_ || answered || timed_out;
}

void ThreadedAsker::AnswerCalls(const std::vector<AskTask>& calls, double until_s) {
  std::vector<HttpCall> asked;
  asked.reserve(calls.size());
  for (const AskTask& task : calls) asked.push_back(task.call);
  const double limit_s = std::max(0.01, until_s - Now());
  std::vector<CallAnswer> answers =
      caller_ != nullptr ? caller_->Call(asked, limit_s) : scorer_->Call(asked, limit_s);
  for (size_t i = 0; i < calls.size(); ++i) {
    AskResult result;
    result.asked = true;
    result.job = calls[i].job;
    result.slot = calls[i].slot;
    NoteOutcome(answers[i].status != 0, answers[i].timed_out);
    if (answers[i].status == 0) {
      result.fault = answers[i].fault;
      result.timed_out = answers[i].timed_out;
    } else if (calls[i].kind == AskTask::Kind::kTokenize) {
      auto ids = answers[i].status == 200
                     ? ReadTokenized(answers[i].body)
                     : Result<std::vector<int32_t>>(IoError("its tokenizer answers with status " +
                                                            std::to_string(answers[i].status)));
      if (ids.has_value()) {
        result.ids = std::move(*ids);
      } else {
        result.fault = ids.error().message();
      }
    }
    result.called = std::move(answers[i]);
    done_(std::move(result));
  }
}

void ThreadedAsker::AnswerScores(const std::vector<AskTask>& scores, double until_s) {
  std::vector<TokenAsk> asked;
  asked.reserve(scores.size());
  for (const AskTask& task : scores) asked.push_back({*task.tokens, task.prompt_tokens});
  const double limit_s = std::max(0.01, until_s - Now());
  std::vector<TokenAnswer> answers = scorer_->Score(asked, limit_s);
  const std::string& build = scorer_->facts().build;
  for (size_t i = 0; i < scores.size(); ++i) {
    AskResult result;
    result.asked = true;
    result.job = scores[i].job;
    result.slot = scores[i].slot;
    // A refusal in words is an answer: the kernel is there.
    const bool refused = answers[i].fault.find("status ") != std::string::npos ||
                         answers[i].fault.find("no connection") == std::string::npos;
    NoteOutcome(answers[i].ok || refused, answers[i].timed_out);
    result.fault = answers[i].fault;
    result.timed_out = answers[i].timed_out;
    changed_ = changed_ || (answers[i].ok && !build.empty() && answers[i].build != build);
    result.scored = std::move(answers[i]);
    done_(std::move(result));
  }
}

}  // namespace

Result<std::unique_ptr<KernelAsker>> KernelAsker::Start(AskerOptions options, Done done) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return IoError("the kernel '" + options.name +
                   "' cannot be asked: a pipe cannot be made: " + std::strerror(errno));
  }
  FileDescriptor stop_read(ends[0]), stop_write(ends[1]);
  const std::string name = options.name;
  auto asker = std::make_unique<ThreadedAsker>(std::move(options), std::move(done),
                                               std::move(stop_read), std::move(stop_write));
  try {
    asker->StartThread();
  } catch (const std::system_error& error) {
    return IoError("the kernel '" + name +
                   "' cannot be asked: a thread cannot be started: " + error.what());
  }
  return std::unique_ptr<KernelAsker>(std::move(asker));
}

}  // namespace kcc
