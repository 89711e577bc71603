// One record on its way to evidence: what it asks of whom, and what has come back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kcc/gateway/served_record.h"
#include "kcc/kernel/token_scorer.h"
#include "kcc/rescore/ask_again.h"
#include "kcc/rescore/asked_record.h"
#include "kcc/rescore/grade.h"

namespace kcc {

// The questions of a job.
enum class Question : int {
  kProbe,      // the guarded kernel's answer to a probe
  kPrompt,     // the ids of the prompt, by the audit kernel's tokenizer
  kAudit,      // the audit kernel's log-probs of the tokens
  kCandidate,  // the candidate's
  kInfer,      // those of the kernel that served them, where its answer told none
  kOwn,        // an answer of the audit kernel's own
  kAgain,      // the kernel's answer when it is asked again
  kTextInfer,  // ids of the served text, by the audit kernel's tokenizer
  kTextOwn,    // and of the audit kernel's own
  kGrades,     // of the answer
  kOwnGrades,  // of the audit kernel's own
};

// What kind of answer a record holds.
enum class Served : uint8_t {
  kWhole,    // of status 2xx, to its end
  kFailed,   // no answer, 429, 5xx, one that broke off or that the gateway could not use
  kRefused,  // another 4xx, before any content: it may be the client's fault
  kLeft,     // the client left: what was served until then is a shorter answer
};
Served ServedOf(const ServedRecord& record);
// Whether its client got any of the answer's content.
bool SawTokens(const ServedRecord& record);
// Of who served it, or is to be asked.
const std::string& KernelName(const ServedRecord& record);
// Whether the answer told a log-prob of any token.
bool HasLogprobs(const ServedRecord& record);

struct RescoreJob {
  ServedRecord record;  // of a probe: with its answer, once it is there
  AskedRecord asked;
  Served served = Served::kWhole;
  int pending = 0;       // questions about what was served, a probe or a repeat
  bool told = false;     // their evidence is given
  bool unasked = false;  // the probe never went to its kernel: evidence of nothing

  // Why nothing can be said; empty: something can. `lost_word` is the reason in a word.
  std::string lost, lost_word;
  std::string lost_served, lost_served_word;  // the same of the kernel that served it alone
  // Why the kernel's evidence contradicts what is known.
  std::string broken;

  // Of whoever is no party: the client's own ids, or the audit kernel's tokenizer's. Empty: nobody
  // else than the kernel says what the prompt was.
  std::vector<int32_t> prompt;
  std::vector<int32_t> sequence;  // prompt and output, as scored
  int32_t prompt_tokens = 0;      // of `sequence`
  bool compares_outputs = false;  // the tokens cannot be scored

  std::optional<TokenAnswer> audit, candidate, infer;
  int64_t vocab_size = 0;
  std::optional<size_t> candidate_kernel;  // of the record's pool
  // Of the mirror. What was served does not wait for it.
  ScorerPlace candidate_place;
  bool candidate_pending = false;

  AgainCall probe_call, own_call, again_call;
  std::optional<ServedRecord> own;    // the audit kernel's answer; it may have failed
  std::optional<ServedRecord> again;  // the kernel's, asked again
  std::string own_fault;
  std::vector<int32_t> text_ids, own_text_ids;
  Grades grades, own_grades;
};

}  // namespace kcc
