#include "kcc/rescore/rescore_flow.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kcc/base/check.h"

namespace kcc {
namespace {

constexpr size_t kBuildsMax = 8;      // lines of other builds, of a kernel and minute
constexpr size_t kMinutesMax = 1024;  // of kernels, that are remembered

constexpr uint64_t kAgainSalt = 0x6b636361676e;  // apart from what decides who is audited

// How two prompts part, for whoever reads of it.
std::string Difference(const std::vector<int32_t>& asked, const std::vector<int32_t>& told) {
  const auto at = std::mismatch(asked.begin(), asked.end(), told.begin(), told.end());
  std::string words = "the kernel read another prompt than the one that was asked: ";
  if (asked.size() != told.size()) {
    words +=
        std::to_string(told.size()) + " tokens instead of " + std::to_string(asked.size()) + ", ";
  }
  return words + "the first that differs is token " + std::to_string(at.first - asked.begin());
}

std::string OtherBuild(const std::string& told, const std::string& named) {
  return "it answers as '" + told + "', and the policy names '" + named + "'";
}

// What clients saw of an answer that broke off is scored too: else a kernel would be judged only by
// those tokens after which it did not fail.
bool Scores(const RescoreJob& job) {
  return job.served != Served::kRefused && !job.record.tokens.empty();
}

// That it failed is known all the same; then its tokens are missing.
void LoseScores(RescoreJob* job, std::string why, std::string word) {
  if (job->served == Served::kFailed) return;
  job->lost = std::move(why);
  job->lost_word = std::move(word);
}

}  // namespace

RescoreFlow::RescoreFlow(const Contract& contract, const MonitorPolicy& policy,
                         const RescoreOptions& options, GatewayCore& core, Kernels& kernels,
                         GradeStation* graders, Rescorer::TakeEvidence take)
    : policy_(policy),
      options_(options),
      core_(core),
      kernels_(kernels),
      graders_(graders),
      take_(std::move(take)),
      maker_(contract, options.keep_texts),
      needs_own_(NeedsOwnAnswers(contract)),
      audit_(*policy.FirstOf(KernelRole::kAudit)) {}

void RescoreFlow::Take(ServedRecord record) {
  if (record.pool == nullptr || record.kernel >= record.pool->kernels.size()) {
    return EmitLost("", "a record of no kernel", "lost", record);
  }
  if (record.kind == RecordKind::kLost) {
    return EmitLost(KernelName(record), record.reason, "lost", record);
  }
  if (record.kind == RecordKind::kFingerprint) {
    if (IsNewStranger(record)) take_(maker_.OfFingerprint(record), record);
    return;
  }
  if (!record.place) {
    record.place = record.kind == RecordKind::kProbe ? core_.places().TakeShown(record.kernel)
                                                     : core_.places().TakeServed(record.kernel);
  }
  if (!record.place) {
    return EmitLost(KernelName(record), "the queue of the scorer is full", "queue", record);
  }
  const uint64_t number = next_job_++;
  Job& job = *jobs_.emplace(number, std::make_unique<Job>()).first->second;
  job.record = std::move(record);
  counts_.waiting = jobs_.size();
  if (job.record.kind != RecordKind::kProbe) {
    Answered(number, job);
  } else if (std::string fault; !AskAgain(number, job, KernelName(job.record), Question::kProbe,
                                          &job.probe_call, &fault)) {
    job.lost = "the probe could not be asked: " + fault;
    job.lost_word = "probe";
  }
  FinishIfDone(number);
}

// One line a minute says it as well as thousands; the gateway counts every answer (`strangers`).
bool RescoreFlow::IsNewStranger(const ServedRecord& record) {
  auto& builds = strangers_[{record.started_at_ms / 60'000, KernelName(record)}];
  if (builds.size() >= kBuildsMax) return false;
  const bool is_new = builds.insert(HashBytes(0, record.fingerprint)).second;
  if (strangers_.size() > kMinutesMax) strangers_.erase(strangers_.begin());
  return is_new;
}

void RescoreFlow::Ask(uint64_t number, Job& job, KernelAsker& asker, Question question,
                      AskTask task) {
  task.job = number;
  task.slot = static_cast<int>(question);
  ++job.pending;
  asker.Submit(std::move(task));
}

bool RescoreFlow::AskAgain(uint64_t number, Job& job, const std::string& kernel, Question question,
                           AgainCall* again, std::string* fault) {
  const std::vector<PoolKernel>& kernels = job.record.pool->kernels;
  const auto row = std::find_if(kernels.begin(), kernels.end(),
                                [&](const PoolKernel& one) { return one.name == kernel; });
  KernelAsker* const asker = kernels_.Calls(kernel);
  if (row == kernels.end() || asker == nullptr) {
    *fault = "there is no way to the kernel '" + kernel + "'";
    return false;
  }
  auto made = MakeAgainCall(job.record, *job.record.pool, *row);
  if (!made.has_value()) {
    *fault = made.error().message();
    return false;
  }
  *again = std::move(*made);
  AskTask task;
  task.kind = AskTask::Kind::kCall;
  task.call = again->call;
  Ask(number, job, *asker, question, std::move(task));
  return true;
}

// A call that was made and has no answer is the kernel's failure. One that was never made, since
// others waited for the kernel, says nothing: were it missing, a kernel that is well again could
// never be released while there are more probes than it has places for.
void RescoreFlow::OnProbed(uint64_t number, Job& job, const AskResult& result) {
  job.unasked = !result.asked;
  if (job.unasked) return;
  const int64_t asked_at_ms = job.record.started_at_ms;
  ReadAgain(job.probe_call, result.called, job.record.pool->answer_bytes_max, &job.record);
  if (job.record.started_at_ms == 0) job.record.started_at_ms = asked_at_ms;
  if (!job.record.reason.empty()) {
    job.lost = "the answer to the probe is no evidence: " + job.record.reason;
    job.lost_word = "answer";
    return;
  }
  Answered(number, job);
}

void RescoreFlow::Answered(uint64_t number, Job& job) {
  job.served = ServedOf(job.record);
  auto asked = ReadAskedRecord(job.record);
  if (!asked.has_value()) {
    job.lost = "the request cannot be read: " + asked.error().message();
    job.lost_word = "request";
    return;
  }
  job.asked = std::move(*asked);
  const bool told_empty = !job.record.prompt_ids.empty() && job.record.text.empty();
  job.compares_outputs = job.served == Served::kWhole && job.record.tokens.empty() && !told_empty;
  AskAnswers(number, job);
  AskPrompt(number, job);
}

// What does not need to know the prompt.
void RescoreFlow::AskAnswers(uint64_t number, Job& job) {
  const bool whole = job.served == Served::kWhole;
  const bool compares = whole && job.asked.choices == 1 && (needs_own_ || job.compares_outputs);
  if (job.served == Served::kRefused || compares) {
    AskAgain(number, job, audit_.name, Question::kOwn, &job.own_call, &job.own_fault);
  }
  const uint64_t hash = HashBytes(kAgainSalt, job.record.id);
  if (whole && job.record.kind == RecordKind::kAudit && job.asked.repeatable() &&
      IsSampled(ShareOf(options_.determinism_rate), hash)) {
    std::string fault;
    AskAgain(number, job, KernelName(job.record), Question::kAgain, &job.again_call, &fault);
  }
  if (whole) AskGrades(number, job, Question::kGrades, job.record);
}

void RescoreFlow::AskGrades(uint64_t number, Job& job, Question question,
                            const ServedRecord& answer) {
  if (graders_ == nullptr) return;
  GradeTask task;
  task.job = number;
  task.slot = static_cast<int>(question);
  task.ask = {job.record.path, job.record.request_body, answer.text, answer.finish_reason,
              &job.asked.record};
  ++job.pending;
  graders_->Submit(task);
}

// A failed request is placed in its slices too.
void RescoreFlow::AskPrompt(uint64_t number, Job& job) {
  const AskedPrompt& prompt = job.asked.prompt;
  KernelAsker* const asker = kernels_.Scores(audit_.name);
  const auto audit = asker != nullptr ? asker->kernel() : nullptr;
  AskTask task;
  task.kind = AskTask::Kind::kTokenize;
  if (prompt.kind == AskedPrompt::Kind::kIds) {
    job.prompt = prompt.ids;
  } else if (audit != nullptr && prompt.kind == AskedPrompt::Kind::kText &&
             audit->facts.tokenizes) {
    task.call = TokenizeTextCall(audit->facts, prompt.text, prompt.begins);
    return Ask(number, job, *asker, Question::kPrompt, std::move(task));
  } else if (audit != nullptr && prompt.kind == AskedPrompt::Kind::kChat) {
    const auto& known = audit->facts.chat_members;
    const bool renders =
        std::all_of(prompt.members.begin(), prompt.members.end(), [&](const auto& member) {
          return std::find(known.begin(), known.end(), member.first) != known.end();
        });
    if (renders) {
      task.call = TokenizeChatCall(audit->facts, prompt.members);
      return Ask(number, job, *asker, Question::kPrompt, std::move(task));
    }
  }
  PromptKnown(number, job);
}

// A tokenizer that refuses the request can tell nothing of its prompt. One that does not answer
// could have: what is then not checked is not taken for true.
void RescoreFlow::OnPrompt(uint64_t number, Job& job, AskResult result) {
  const bool refuses = result.called.status >= 400 && result.called.status < 500;
  if (result.fault.empty()) {
    job.prompt = std::move(result.ids);
  } else if (!refuses && Scores(job)) {
    return LoseScores(&job, "which prompt was asked could not be checked: " + result.fault,
                      result.timed_out ? "timeout" : "prompt");
  }
  PromptKnown(number, job);
}

// False where nothing can be scored.
bool RescoreFlow::ChoosePrompt(Job& job) {
  const std::vector<int32_t>& told = job.record.prompt_ids;
  if (!job.prompt.empty() && !told.empty() && job.prompt != told) {
    job.broken = Difference(job.prompt, told);
    return false;
  }
  if (!Scores(job)) return false;
  const std::vector<int32_t>& prompt = job.prompt.empty() ? told : job.prompt;
  if (prompt.empty()) {
    LoseScores(&job, "neither the answer nor the audit kernel tells the ids of the prompt",
               "prompt");
    return false;
  }
  job.prompt_tokens = static_cast<int32_t>(prompt.size());
  return true;
}

// Whether what the kernel says of its tokens can be held against the audit kernel's word.
bool RescoreFlow::CheckServed(Job& job, const AskedKernel& audit) {
  for (const ServedToken& token : job.record.tokens) {
    if (token.id < audit.facts.vocab_size) continue;
    job.broken = "the kernel's answer names the token id " + std::to_string(token.id) +
                 ", outside the vocabulary of " + std::to_string(audit.facts.vocab_size);
    return false;
  }
  if (!HasLogprobs(job.record)) return true;
  const std::string& name = KernelName(job.record);
  KernelAsker* const asker = kernels_.Scores(name);
  const auto served = asker != nullptr ? asker->kernel() : nullptr;
  job.lost_served_word = "semantics";
  if (served == nullptr) {
    job.lost_served = "what the log-probs of '" + name + "' mean is not known: " +
                      (asker != nullptr ? asker->fault() : "there is no way to it");
    return true;
  }
  job.lost_served = maker_.WhyNotComparable(served->generated, job.asked, audit.facts.evidence);
  return true;
}

void RescoreFlow::PromptKnown(uint64_t number, Job& job) {
  if (ChoosePrompt(job)) AskScores(number, job);
}

void RescoreFlow::AskScores(uint64_t number, Job& job) {
  KernelAsker* const asker = kernels_.Scores(audit_.name);
  const auto audit = asker != nullptr ? asker->kernel() : nullptr;
  if (audit == nullptr) {
    return LoseScores(&job,
                      "the audit kernel does not answer: " +
                          (asker != nullptr ? asker->fault() : "there is no way to it"),
                      "audit-down");
  }
  job.vocab_size = audit->facts.vocab_size;
  if (!CheckServed(job, *audit)) return;
  job.candidate_kernel = CandidateOf(job.record);
  if (job.candidate_kernel) {
    job.candidate_place = core_.places().TakeShown(*job.candidate_kernel);
    if (!job.candidate_place) {
      ++counts_.unasked;
      job.candidate_kernel.reset();
    }
  }
  if (!job.lost_served.empty() && !job.candidate_kernel) return;
  const std::vector<int32_t>& prompt = job.prompt.empty() ? job.record.prompt_ids : job.prompt;
  job.sequence = prompt;
  for (const ServedToken& token : job.record.tokens) job.sequence.push_back(token.id);
  AskTask task;
  task.kind = AskTask::Kind::kScore;
  task.tokens = &job.sequence;
  task.prompt_tokens = job.prompt_tokens;
  Ask(number, job, *asker, Question::kAudit, task);
  if (job.candidate_kernel) AskCandidate(number, job, task);
  if (!HasLogprobs(job.record)) {
    if (KernelAsker* const own = kernels_.Scores(KernelName(job.record))) {
      Ask(number, job, *own, Question::kInfer, task);
    }
  }
}

void RescoreFlow::AskCandidate(uint64_t number, Job& job, const AskTask& task) {
  const std::string& name = job.record.pool->kernels[*job.candidate_kernel].name;
  KernelAsker* const candidate = kernels_.Scores(name);
  if (candidate == nullptr) return;
  Ask(number, job, *candidate, Question::kCandidate, task);
  --job.pending;  // what was served does not wait for it
  job.candidate_pending = true;
}

std::optional<size_t> RescoreFlow::CandidateOf(const ServedRecord& record) const {
  if (!record.shadow || record.kind != RecordKind::kAudit) return std::nullopt;
  const std::vector<PoolKernel>& kernels = record.pool->kernels;
  size_t candidate = core_.route().sampling().shadow;
  if (candidate >= kernels.size()) {
    const auto row = std::find_if(kernels.begin(), kernels.end(), [](const PoolKernel& kernel) {
      return kernel.role == KernelRole::kCandidate;
    });
    candidate = static_cast<size_t>(row - kernels.begin());
  }
  if (candidate >= kernels.size() || candidate == record.kernel) return std::nullopt;
  return candidate;
}

void RescoreFlow::OnAudit(Job& job, TokenAnswer scored) {
  if (scored.ok && !audit_.fingerprint.empty() && scored.build != audit_.fingerprint) {
    scored.ok = false;
    scored.fault = OtherBuild(scored.build, audit_.fingerprint);
  }
  job.audit = std::move(scored);
}

void RescoreFlow::OnOwn(uint64_t number, Job& job, const AskResult& result) {
  if (!result.fault.empty()) {
    job.own_fault = result.fault;
    return;
  }
  ServedRecord own;
  own.pool = job.record.pool;
  ReadAgain(job.own_call, result.called, job.record.pool->answer_bytes_max, &own);
  if (!own.reason.empty()) {
    job.own_fault = own.reason;
    return;
  }
  const Served served = ServedOf(own);
  // A refusal does not tell who refuses; an answer does.
  if (served == Served::kWhole && !audit_.fingerprint.empty() &&
      own.fingerprint != audit_.fingerprint) {
    job.own_fault = OtherBuild(own.fingerprint, audit_.fingerprint);
    return;
  }
  if (served == Served::kFailed) {
    job.own_fault = own.cut ? "its answer has no choice"
                            : "it answers with status " + std::to_string(own.status);
  }
  job.own = std::move(own);
  if (ServedOf(*job.own) != Served::kWhole || job.served != Served::kWhole) return;
  AskGrades(number, job, Question::kOwnGrades, *job.own);
  AskTexts(number, job);
}

// Answers without ids are compared by what one tokenizer makes of their texts.
void RescoreFlow::AskTexts(uint64_t number, Job& job) {
  if (!job.record.tokens.empty() && !job.own->tokens.empty()) return;
  KernelAsker* const asker = kernels_.Scores(audit_.name);
  const auto audit = asker != nullptr ? asker->kernel() : nullptr;
  if (audit == nullptr || !audit->facts.tokenizes) return;
  const std::pair<Question, const std::string*> texts[] = {{Question::kTextInfer, &job.record.text},
                                                           {Question::kTextOwn, &job.own->text}};
  for (const auto& [question, text] : texts) {
    AskTask task;
    task.kind = AskTask::Kind::kTokenize;
    task.call = TokenizeTextCall(audit->facts, *text, false);
    Ask(number, job, *asker, question, std::move(task));
  }
}

}  // namespace kcc
