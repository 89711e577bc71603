// One kernel that is asked about records, on a thread of its own: what stalls it stalls nobody
// else. Tasks are taken in batches of as many as may be under way at once; each is answered by
// itself, and always, whatever becomes of the kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

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
  bool asked = false;        // the question was sent, or it was tried to
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
  virtual ~KernelAsker() = default;  // answers what waits, that it was given up

  virtual void Submit(AskTask task) = 0;
  // None while it is not up. Any thread.
  virtual std::shared_ptr<const AskedKernel> kernel() const = 0;
  virtual std::string fault() const = 0;  // why it is not up; empty: it is
};

}  // namespace kcc
