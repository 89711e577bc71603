// One request on its way back: hears the tokens of its choices and says them to the client, as one
// answer or as a stream, under the faults that were planned for it. Lives on the batcher's thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "kcc/base/clock.h"
#include "kcc/serve/answer.h"
#include "kcc/serve/fault_plan.h"
#include "kcc/serve/generation_request.h"
#include "kcc/serve/metrics.h"
#include "kcc/serve/reply.h"
#include "kcc/serve/sequence_ask.h"
#include "kcc/serve/served_model.h"
#include "kcc/serve/stop_text.h"

namespace kcc {

// What every exchange shares. All of it outlives them.
struct ExchangeContext {
  const ServedModel* model = nullptr;
  ServeMetrics* metrics = nullptr;
  const Clock* clock = nullptr;
  std::atomic<int64_t>* open = nullptr;  // exchanges that live
};

class Exchange final : public SequenceListener {
 public:
  // The sink is shared with the plane, which may give the connection up first.
  Exchange(const ExchangeContext& context, AnswerHead head, GenerationRequest request,
           FaultPlan faults, std::shared_ptr<ReplySink> sink);
  ~Exchange() override;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // What the engine is to do, a sequence for each choice. `seed` is used where the client gave
  // none.
  std::vector<SequenceAsk> Asks(uint64_t seed) const;

  void OnPrompt(size_t index, std::vector<TokenRecord> records) override;
  bool OnToken(size_t index, TokenRecord record) override;
  void OnEnd(size_t index, FinishReason reason, std::optional<int32_t> end) override;
  void OnFailure(const std::string& message) override;

 private:
  struct Choice {
    explicit Choice(const GenerationRequest& request) : stop(request.stop, request.keep_stop) {}
    Utf8Stream utf8;
    StopText stop;
    std::string text;
    std::vector<TokenRecord> prompt_records;
    std::vector<TokenRecord> records;
    size_t tokens = 0;
    size_t text_offset = 0;
    double last_s = 0;  // when its last token came
    bool begun = false;
    bool ended = false;
    FinishReason finish = FinishReason::kLength;
    StopReason stop_reason;
  };

  const std::vector<int32_t>& PromptOf(size_t index) const;
  void Begin(size_t index);
  void SendChunk(const AnswerChoice& chunk);
  void SendEvent(std::string data);
  void FinishAll();
  AnswerUsage Usage() const;

  const ExchangeContext context_;
  const AnswerHead head_;
  const GenerationRequest request_;
  const FaultPlan faults_;
  const std::shared_ptr<ReplySink> sink_;
  const AnswerWriter writer_;
  const double began_s_;
  std::vector<Choice> choices_;
  size_t left_;
  size_t events_ = 0;
  bool cut_ = false;
  bool failed_ = false;
};

}  // namespace kcc
