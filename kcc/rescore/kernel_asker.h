// One kernel that is asked about records, on a thread of its own: what stalls it stalls nobody
// else. Tasks are taken in batches of as many as may be under way at once; each is answered by
// itself, and always, whatever becomes of the kernel.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kcc/base/descriptor.h"
#include "kcc/base/result.h"
#include "kcc/kernel/http_pool.h"
#include "kcc/kernel/token_scorer.h"

namespace kcc {

struct AskTask {
  enum class Kind : uint8_t {
    kScore,     // the tokens from `prompt_tokens` on
    kTokenize,  // `call` asks a tokenizer
    kCall,      // `call` as it is
  };
  Kind kind = Kind::kScore;
  uint64_t job = 0;
  int slot = 0;  // which of the job's questions it is; the asker does not look at it
  // kScore: lives until the task is answered.
  const std::vector<int32_t>* tokens = nullptr;
  int32_t prompt_tokens = 0;
  HttpCall call;
  double waits_since_s = 0;  // set by Submit
};

struct AskResult {
  uint64_t job = 0;
  int slot = 0;
  TokenAnswer scored;        // kScore
  std::vector<int32_t> ids;  // kTokenize, where `fault` is empty
  CallAnswer called;         // kCall
  std::string fault;         // there is no answer
  bool timed_out = false;
  bool not_up = false;  // the kernel is not there (yet)
};

// What is known of a kernel that is up.
struct AskedKernel {
  ScoringFacts facts;
  LogprobSemantics generated = LogprobSemantics::kRaw;  // of tokens that it serves
};

struct AskerOptions {
  std::string name;  // of the kernel
  TokenScorerOptions scorer;
  // Texts and conversations are written by it, which takes long: no probe, calls alone.
  bool calls_alone = false;
  // Whether it is asked what the log-probs of served tokens mean.
  bool ask_generated = false;
  double limit_s = 2;  // for one batch
  double retry_s = 3;  // between attempts to reach it
  size_t waiting_max = 256;
};

class KernelAsker {
 public:
  // `done` is called on the asker's thread, or by Submit where the task is refused; it returns
  // soon.
  using Done = std::function<void(AskResult result)>;
  // Fails where the process is out of descriptors or threads.
  static Result<std::unique_ptr<KernelAsker>> Start(AskerOptions options, Done done);
  ~KernelAsker();  // answers what waits, that it was given up
  KernelAsker(const KernelAsker&) = delete;
  KernelAsker& operator=(const KernelAsker&) = delete;

  void Submit(AskTask task);
  // None while it is not up. Any thread.
  std::shared_ptr<const AskedKernel> kernel() const;
  std::string fault() const;  // why it is not up; empty: it is

 private:
  KernelAsker(AskerOptions options, Done done, FileDescriptor stop_read, FileDescriptor stop_write);
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

}  // namespace kcc
