// The way of records through their questions to evidence, on one thread: what is asked of whom,
// what an answer leads to, and when all that will be known is known. It starts no thread itself;
// askers and graders answer through OnAnswer and OnGrades.
//
//   probe -> answered -> prompt known -> scored -> evidence
//               |  \          \-> scored by the candidate -> evidence of it
//               |   \-> graded, asked again, answered by the audit kernel itself
//
// Every record holds a place (gateway/scorer_places.h) until its evidence is given, and a mirror
// one of the candidate's. What was served never waits for a candidate or for another's probe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "kcc/contract/monitor_policy.h"
#include "kcc/gateway/gateway_core.h"
#include "kcc/rescore/grade_station.h"
#include "kcc/rescore/job_evidence.h"
#include "kcc/rescore/kernel_asker.h"
#include "kcc/rescore/rescorer.h"

namespace kcc {

// Who can be asked, by the name of the policy. Null: there is no such kernel, or no way to it.
class Kernels {
 public:
  virtual ~Kernels() = default;
  virtual KernelAsker* Scores(const std::string& kernel) = 0;  // log-probs and ids
  virtual KernelAsker* Calls(const std::string& kernel) = 0;   // answers
};

class RescoreFlow {
 public:
  // All outlive it. `graders` may be null.
  RescoreFlow(const Contract& contract, const MonitorPolicy& policy, const RescoreOptions& options,
              GatewayCore& core, Kernels& kernels, GradeStation* graders,
              Rescorer::TakeEvidence take);

  void Take(ServedRecord record);
  // Nobody answers any more: what is under way is lost.
  void Abandon();
  void OnAnswer(AskResult result);
  void OnGrades(uint64_t job, int slot, Grades grades);

  const RescoreCounts& counts() const { return counts_; }

 private:
  using Job = RescoreJob;
  void Ask(uint64_t number, Job& job, KernelAsker& asker, Question question, AskTask task);
  void AskAnswers(uint64_t number, Job& job);
  bool AskAgain(uint64_t number, Job& job, const std::string& kernel, Question question,
                AgainCall* again, std::string* fault);
  void AskPrompt(uint64_t number, Job& job);
  void AskTexts(uint64_t number, Job& job);
  void AskScores(uint64_t number, Job& job);
  void AskGrades(uint64_t number, Job& job, Question question, const ServedRecord& answer);
  void OnProbed(uint64_t number, Job& job, const AskResult& result);
  void OnPrompt(uint64_t number, Job& job, AskResult result);
  void OnAudit(Job& job, TokenAnswer scored);
  void OnOwn(uint64_t number, Job& job, const AskResult& result);
  void Answered(uint64_t number, Job& job);
  void PromptKnown(uint64_t number, Job& job);
  bool ChoosePrompt(Job& job);
  bool CheckServed(Job& job, const AskedKernel& audit);
  std::optional<size_t> CandidateOf(const ServedRecord& record) const;
  bool IsNewStranger(const ServedRecord& record);
  void AskCandidate(uint64_t number, Job& job, const AskTask& task);
  void OnCandidate(Job& job, TokenAnswer scored, bool asked, bool not_up);
  void FinishIfDone(uint64_t number);
  void TellServed(Job& job);
  void Emit(JobEvidence evidence, const std::string& kernel, const ServedRecord& record);
  void EmitLost(const std::string& kernel, const std::string& why, const std::string& word,
                const ServedRecord& record);

  const MonitorPolicy& policy_;
  const RescoreOptions& options_;
  GatewayCore& core_;
  Kernels& kernels_;
  GradeStation* const graders_;
  const Rescorer::TakeEvidence take_;
  const EvidenceMaker maker_;
  const bool needs_own_;
  const MonitorKernel& audit_;
  std::map<uint64_t, std::unique_ptr<Job>> jobs_;
  // Hashes of builds that the policy does not name, by minute and kernel.
  std::map<std::pair<int64_t, std::string>, std::set<uint64_t>> strangers_;
  uint64_t next_job_ = 1;
  RescoreCounts counts_;
};

}  // namespace kcc
