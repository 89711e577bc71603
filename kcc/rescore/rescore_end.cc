// The end of a record's way: answers come in, evidence goes out.
#include <utility>

#include "kcc/base/check.h"
#include "kcc/rescore/rescore_flow.h"

namespace kcc {

void RescoreFlow::OnAnswer(AskResult result) {
  const uint64_t number = result.job;
  const auto found = jobs_.find(number);
  KCC_CHECK(found != jobs_.end());
  Job& job = *found->second;
  const bool of_candidate = static_cast<Question>(result.slot) == Question::kCandidate;
  if (!of_candidate) --job.pending;
  if (result.timed_out) ++counts_.timed_out;
  TokenAnswer scored = std::move(result.scored);
  if (!scored.ok && scored.fault.empty()) scored.fault = result.fault;
  scored.timed_out = scored.timed_out || result.timed_out;
  switch (static_cast<Question>(result.slot)) {
    case Question::kProbe:
      OnProbed(number, job, result);
      break;
    case Question::kPrompt:
      OnPrompt(number, job, std::move(result));
      break;
    case Question::kAudit:
      OnAudit(job, std::move(scored));
      break;
    case Question::kCandidate:
      OnCandidate(job, std::move(scored), result.asked, result.not_up);
      break;
    case Question::kInfer:
      job.infer = std::move(scored);
      break;
    case Question::kOwn:
      OnOwn(number, job, result);
      break;
    case Question::kAgain:
      if (!result.asked) break;
      job.again.emplace();
      job.again->pool = job.record.pool;
      ReadAgain(job.again_call, result.called, job.record.pool->answer_bytes_max, &*job.again);
      if (!result.fault.empty()) job.again->reason = result.fault;
      break;
    case Question::kTextInfer:
      job.text_ids = std::move(result.ids);
      break;
    case Question::kTextOwn:
      job.own_text_ids = std::move(result.ids);
      break;
    case Question::kGrades:
    case Question::kOwnGrades:
      break;
  }
  FinishIfDone(number);
}

void RescoreFlow::OnGrades(uint64_t number, int slot, Grades grades) {
  const auto found = jobs_.find(number);
  KCC_CHECK(found != jobs_.end());
  Job& job = *found->second;
  --job.pending;
  counts_.ungraded += grades.faults.size();
  const bool own = static_cast<Question>(slot) == Question::kOwnGrades;
  (own ? job.own_grades : job.grades) = std::move(grades);
  FinishIfDone(number);
}

// The repeat comes right behind what it repeats, so that both are in one block.
void RescoreFlow::TellServed(Job& job) {
  job.told = true;
  const ScorerPlace given_back = std::move(job.record.place);
  if (job.unasked) {
    ++counts_.unasked;
    return;
  }
  JobEvidence served = maker_.OfServed(job);
  const bool repeats = job.again && served.observation && served.observation->broken.empty();
  JobEvidence again = repeats ? maker_.OfRepeat(job) : JobEvidence{};
  const std::string kernel = KernelName(job.record);
  if (served.observation && !served.observation->audited) ++counts_.refused;
  Emit(std::move(served), kernel, job.record);
  if (repeats) Emit(std::move(again), kernel, job.record);
}

// What was served is told as soon as all about it is known; the candidate, which needs the audit
// kernel's word too, after it.
void RescoreFlow::FinishIfDone(uint64_t number) {
  const auto found = jobs_.find(number);
  if (found->second->pending > 0) return;
  const bool done = !found->second->candidate_pending;
  if (!found->second->told) {
    if (done) counts_.waiting = jobs_.size() - 1;  // who is given evidence finds it counted
    TellServed(*found->second);
  }
  if (!done) return;
  const std::unique_ptr<Job> job = std::move(found->second);
  jobs_.erase(found);
  counts_.waiting = jobs_.size();
  if (!job->candidate_kernel) return;
  JobEvidence candidate = maker_.OfCandidate(*job);
  // To whom the evidence is given, it is of the candidate, which was shown the request.
  job->record.kernel = *job->candidate_kernel;
  job->record.kind = RecordKind::kProbe;
  job->candidate_place.GiveBack();
  Emit(std::move(candidate), KernelName(job->record), job->record);
}

void RescoreFlow::OnCandidate(Job& job, TokenAnswer scored, bool asked, bool not_up) {
  job.candidate_pending = false;
  job.candidate = std::move(scored);
  if (asked || not_up) return;
  ++counts_.unasked;
  job.candidate_kernel.reset();
  job.candidate_place.GiveBack();
}

void RescoreFlow::Abandon() {
  constexpr const char* kWhy = "the scorer ended before it was scored";
  for (auto& [number, job] : std::exchange(jobs_, {})) {
    if (!job->told) EmitLost(KernelName(job->record), kWhy, "ended", job->record);
    if (!job->candidate_kernel) continue;
    job->record.kernel = *job->candidate_kernel;
    job->record.kind = RecordKind::kProbe;
    EmitLost(KernelName(job->record), kWhy, "ended", job->record);
  }
  counts_.waiting = 0;
}

void RescoreFlow::Emit(JobEvidence evidence, const std::string& kernel,
                       const ServedRecord& record) {
  if (!evidence.observation) return EmitLost(kernel, evidence.lost, evidence.lost_word, record);
  ++counts_.scored;
  take_(std::move(*evidence.observation), record);
}

void RescoreFlow::EmitLost(const std::string& kernel, const std::string& why,
                           const std::string& word, const ServedRecord& record) {
  ++counts_.lost;
  ++counts_.reasons[word];
  // As a line that could not be read is cut and named.
  UnreadLine line =
      UnreadLineOf(std::nullopt, InvalidError(why.empty() ? "it was lost" : why), policy_);
  if (policy_.FindKernel(kernel) != nullptr) line.kernel = kernel;
  take_(std::move(line), record);
}

}  // namespace kcc
