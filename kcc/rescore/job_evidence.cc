#include "kcc/rescore/job_evidence.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"

namespace kcc {
namespace {

constexpr size_t kTextBytesMax = size_t{1} << 20;

std::string Shortened(std::string text) {
  if (text.size() > kBrokenBytesMax) {
    size_t end = kBrokenBytesMax;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text.resize(end);
  }
  return text;
}

// Fields that compare the records of both sides, by the columns of the catalog.
bool ReadsOwnRun(const Metric& metric) {
  const Quantity& quantity = *metric.quantity;
  if (quantity.evidence == EvidenceNeeded::kOutputs) return true;
  if (metric.side == Side::kTrain && OfWholeRequests(quantity)) return true;
  if (quantity.counts == RequestCounts::kSignatures) return true;
  if (quantity.evidence != EvidenceNeeded::kRequestFields) return false;
  return quantity.form == TestForm::kFlagGap || quantity.form == TestForm::kMeanGap ||
         quantity.taken == TakenFrom::kSideDifference || quantity.taken == TakenFrom::kSideGap ||
         quantity.taken == TakenFrom::kSideRatio;
}

}  // namespace

const std::string& KernelName(const ServedRecord& record) {
  return record.pool->kernels[record.kernel].name;
}

bool HasLogprobs(const ServedRecord& record) {
  return std::any_of(record.tokens.begin(), record.tokens.end(),
                     [](const ServedToken& token) { return !std::isnan(token.logprob); });
}

bool SawTokens(const ServedRecord& record) {
  return !record.tokens.empty() || !record.text.empty() || record.ttft_ms > 0;
}

Served ServedOf(const ServedRecord& record) {
  if (record.client_left) return Served::kLeft;
  const bool refused = record.status >= 400 && record.status < 500 && record.status != 429;
  // Who has begun to answer took the request for one that it can answer.
  if (refused && !record.cut) return SawTokens(record) ? Served::kFailed : Served::kRefused;
  const bool answered = record.status >= 200 && record.status < 300;
  // Of what the gateway went to another kernel for, the status alone may look good.
  return answered && !record.cut && record.reason.empty() ? Served::kWhole : Served::kFailed;
}

bool NeedsOwnAnswers(const Contract& contract) {
  return std::any_of(contract.clauses.begin(), contract.clauses.end(),
                     [](const Clause& clause) { return ReadsOwnRun(clause.metric); });
}

std::string AnswerSignature(const RescoreJob& job, const ServedRecord& answer) {
  bool by_ids = true;
  for (const ServedRecord* one :
       {&job.record, job.own ? &*job.own : nullptr, job.again ? &*job.again : nullptr}) {
    if (one == nullptr || ServedOf(*one) != Served::kWhole) continue;
    by_ids = by_ids && (!one->tokens.empty() || one->text.empty());
  }
  if (!by_ids) return Sha256Of("text " + answer.text);
  std::string ids = "ids";
  for (const ServedToken& token : answer.tokens) ids += " " + std::to_string(token.id);
  return Sha256Of(ids);
}

// Ids that a tokenizer made of both texts are compared only where an answer tells none of its own:
// the text of a token sequence may be cut into other tokens.
OutputComparison CompareAnswers(const RescoreJob& job) {
  OutputComparison result;
  if (!job.own || ServedOf(*job.own) != Served::kWhole || job.served != Served::kWhole) {
    return result;
  }
  std::vector<int32_t> infer, own;
  for (const ServedToken& token : job.record.tokens) infer.push_back(token.id);
  for (const ServedToken& token : job.own->tokens) own.push_back(token.id);
  if (infer.empty() || own.empty()) {
    infer = job.text_ids;
    own = job.own_text_ids;
  }
  if (infer.empty() || own.empty()) return result;
  const auto at = std::mismatch(infer.begin(), infer.end(), own.begin(), own.end());
  result.known = true;
  result.common = at.first - infer.begin();
  result.same = infer == own && job.record.finish_reason == job.own->finish_reason;
  return result;
}

EvidenceMaker::EvidenceMaker(const Contract& contract, bool keep_texts)
    : rows_(contract), temperature_(contract.assumptions.temperature), keep_texts_(keep_texts) {}

std::string EvidenceMaker::WhyNotComparable(LogprobSemantics semantics, const AskedRecord& asked,
                                            EvidenceLevel audit) const {
  const std::string at = asked.temperature ? ReadableNumber(*asked.temperature)
                                           : "a temperature that the request does not say";
  if (temperature_ != 1) {
    const std::string wants = "the contract is about temperature " + ReadableNumber(temperature_);
    if (audit != EvidenceLevel::kLogits) return wants + ", and raw log-probs are at 1";
    const bool there =
        semantics == LogprobSemantics::kTemperatureScaled && asked.temperature == temperature_;
    return there ? "" : wants + ", and the kernel's log-probs are not at it";
  }
  if (semantics == LogprobSemantics::kRaw) return "";
  const bool plain = asked.temperature == 1.0;
  if (semantics == LogprobSemantics::kTemperatureScaled) {
    return plain
               ? ""
               : "the kernel's log-probs are scaled by the temperature, and it was asked at " + at;
  }
  if (plain && !asked.altered) return "";
  return "the kernel's log-probs are those that sampling left, and it was asked at " + at +
         (asked.altered ? " with sampling that cuts the distribution" : "");
}

MonitorObservation EvidenceMaker::Begin(const RescoreJob& job, const std::string& kernel) const {
  MonitorObservation observation;
  observation.time_ms = job.record.started_at_ms;
  observation.kernel = kernel;
  observation.session = job.record.session;
  observation.probe = job.record.kind == RecordKind::kProbe;
  observation.audited = true;
  observation.infer.id = job.record.id;
  observation.asked = job.asked.record;
  observation.asked->id = job.record.id;
  auto& asked = observation.asked->fields;
  if (!job.prompt.empty()) asked["prompt_tokens"] = static_cast<double>(job.prompt.size());
  // Every answer may be repeated; one that is not is a group of its own.
  asked.try_emplace("replay_group", job.record.id);
  if (keep_texts_ && job.record.request_body.size() <= kTextBytesMax) {
    asked.insert_or_assign("request_body", job.record.request_body);
  }
  observation.infer.fields["started_at_ms"] = static_cast<double>(job.record.started_at_ms);
  const auto seed = asked.find("seed");
  if (seed != asked.end()) observation.infer.fields["seed"] = seed->second;
  return observation;
}

// The fields of the kernel's own run. What broke off, or was left, has no latency: how long it
// would have taken nobody knows, and a short one would speak for it.
void EvidenceMaker::AddRun(const RescoreJob& job, MonitorObservation* observation) const {
  const ServedRecord& record = job.record;
  auto& infer = observation->infer.fields;
  if (!record.fingerprint.empty()) infer["kernel_fingerprint"] = record.fingerprint;
  if (!record.prompt_ids.empty()) {
    infer["prompt_tokens"] = static_cast<double>(record.prompt_ids.size());
  }
  const bool whole = job.served == Served::kWhole;
  if (whole) infer["failed"] = false;
  if (job.served == Served::kFailed) infer["failed"] = true;
  if (whole) infer["latency_ms"] = record.latency_ms;
  // Of an answer that came in one piece nobody saw when its first token was there; the time to its
  // end in its place would make every token after it cost nothing.
  if ((whole || job.served == Served::kLeft) && record.stream && record.ttft_ms > 0) {
    infer["ttft_ms"] = record.ttft_ms;
  }
  const bool tells = !record.tokens.empty() || (!record.prompt_ids.empty() && record.text.empty());
  if (tells && (job.served != Served::kFailed || !record.tokens.empty())) {
    infer["output_tokens"] = static_cast<double>(record.tokens.size());
  }
  if (whole) infer["replay_signature"] = AnswerSignature(job, record);
  if (keep_texts_ && record.text.size() <= kTextBytesMax) infer["text"] = record.text;
  for (const auto& [field, value] : job.grades.fields) infer.insert_or_assign(field, value);
}

// The audit kernel's word. Of an answer of its own the length is left out: it is that of another
// answer than the one whose tokens are scored.
void EvidenceMaker::AddTrain(const RescoreJob& job, MonitorObservation* observation) const {
  Request train;
  train.id = job.record.id;
  if (!job.prompt.empty()) train.fields["prompt_tokens"] = static_cast<double>(job.prompt.size());
  if (job.audit && job.audit->ok && !job.audit->build.empty()) {
    train.fields["kernel_fingerprint"] = job.audit->build;
  }
  if (job.own) {
    const ServedRecord& own = *job.own;
    const bool whole = ServedOf(own) == Served::kWhole;
    if (!own.fingerprint.empty()) train.fields["kernel_fingerprint"] = own.fingerprint;
    train.fields["started_at_ms"] = static_cast<double>(own.started_at_ms);
    train.fields["failed"] = !whole;
    if (whole) {
      train.fields["latency_ms"] = own.latency_ms;
      train.fields["replay_signature"] = AnswerSignature(job, own);
    }
    for (const auto& [field, value] : job.own_grades.fields) {
      train.fields.insert_or_assign(field, value);
    }
    observation->outputs = CompareAnswers(job);
  }
  // What the kernel does not tell of its tokens is missing of every clause about tokens: else it
  // could leave out the ids of those that are bad.
  if (job.compares_outputs) {
    const size_t own = job.own ? job.own->tokens.size() : 0;
    const size_t claimed = std::max({size_t{1}, own, job.text_ids.size()});
    train.fields["output_tokens"] = static_cast<double>(claimed);
  } else if (job.served != Served::kWhole && job.record.tokens.empty() && SawTokens(job.record)) {
    train.fields["output_tokens"] = 1.0;  // at least
  }
  if (!train.fields.empty()) observation->train = std::move(train);
}

Rows EvidenceMaker::MakeRows(const RescoreJob& job, std::vector<ScoredToken> infer) const {
  RowsAsk ask;
  ask.train = job.audit->tokens;
  ask.infer = infer;
  ask.prompt_tokens = job.prompt_tokens;
  ask.vocab_size = job.vocab_size;
  ask.temperature = temperature_;
  return rows_.Make(ask);
}

// Rows of the served tokens. Of `lost`, the reason why there are none.
JobEvidence EvidenceMaker::Score(const RescoreJob& job, MonitorObservation* observation) const {
  if (!job.lost_served.empty()) return {std::nullopt, job.lost_served, job.lost_served_word};
  if (!job.audit || !job.audit->ok) {
    return {std::nullopt,
            "the audit kernel did not score it: " + (job.audit ? job.audit->fault : ""),
            job.audit && job.audit->timed_out ? "timeout" : "audit"};
  }
  std::vector<ScoredToken> infer;
  const bool told = HasLogprobs(job.record);
  if (told) {
    infer = TokensAsServed(job.record.tokens, job.record.pool->top);
  } else if (job.infer && job.infer->ok) {
    infer = job.infer->tokens;
  } else {
    return {std::nullopt,
            "the answer tells no log-probs, and the kernel does not score its own tokens: " +
                (job.infer ? job.infer->fault : ""),
            "no-logprobs"};
  }
  Rows rows = MakeRows(job, std::move(infer));
  if (!rows.broken_train.empty()) {
    return {std::nullopt, "the audit kernel's numbers are broken " + rows.broken_train, "audit"};
  }
  if (!told) observation->infer.fields["logprobs_rescored"] = true;
  if (!rows.broken_infer.empty()) {
    observation->broken = Shortened("the kernel's numbers are broken " + rows.broken_infer);
  } else {
    observation->tokens = std::move(rows.tokens);
  }
  return {};
}

JobEvidence EvidenceMaker::OfServed(const RescoreJob& job) const {
  if (!job.lost.empty()) return {std::nullopt, job.lost, job.lost_word};
  // A failure is evidence whatever becomes of the tokens that came before it: those that cannot be
  // scored are missing, by the length that is told of them.
  const bool failed = job.served == Served::kFailed;
  if (!failed && !job.lost_served.empty()) {
    return {std::nullopt, job.lost_served, job.lost_served_word};
  }
  MonitorObservation observation = Begin(job, KernelName(job.record));
  AddRun(job, &observation);
  if (!job.broken.empty()) {
    AddTrain(job, &observation);
    observation.broken = Shortened(job.broken);
    return {std::move(observation), "", ""};
  }
  // Both refuse the request: then it is the client's, and nobody's evidence.
  if (job.served == Served::kRefused) {
    const bool audit_refuses = job.own && ServedOf(*job.own) == Served::kRefused;
    if (!audit_refuses && !(job.own && ServedOf(*job.own) == Served::kWhole)) {
      return {std::nullopt,
              "the kernel refused the request with status " + std::to_string(job.record.status) +
                  ", and the audit kernel does not say whether it would: " + job.own_fault,
              "refused"};
    }
    observation.audited = !audit_refuses;
    observation.infer.fields["failed"] = !audit_refuses;
    return {std::move(observation), "", ""};
  }
  if (!job.sequence.empty()) {
    JobEvidence lost = Score(job, &observation);
    if (!failed && !lost.lost.empty()) return lost;
  } else if (job.compares_outputs && job.served == Served::kWhole) {
    if (!job.own || ServedOf(*job.own) != Served::kWhole) {
      return {
          std::nullopt,
          "the answer tells no token ids, and the audit kernel wrote none to compare it with: " +
              job.own_fault,
          "no-ids"};
    }
  }
  AddTrain(job, &observation);
  return {std::move(observation), "", ""};
}

JobEvidence EvidenceMaker::OfCandidate(const RescoreJob& job) const {
  if (!job.lost.empty()) return {std::nullopt, job.lost, job.lost_word};
  if (!job.audit || !job.audit->ok) {
    return {std::nullopt,
            "the audit kernel did not score it: " + (job.audit ? job.audit->fault : ""), "audit"};
  }
  if (!job.candidate || !job.candidate->ok) {
    return {std::nullopt,
            "the candidate did not score it: " + (job.candidate ? job.candidate->fault : ""),
            "candidate"};
  }
  MonitorObservation observation = Begin(job, job.record.pool->kernels[*job.candidate_kernel].name);
  observation.probe = true;
  auto& infer = observation.infer.fields;
  if (!job.candidate->build.empty()) infer["kernel_fingerprint"] = job.candidate->build;
  // It wrote no answer: of its latency, and of whether it would have failed, nothing is known.
  infer["output_tokens"] = static_cast<double>(job.candidate->tokens.size());
  infer["logprobs_rescored"] = true;
  Rows rows = MakeRows(job, job.candidate->tokens);
  if (!rows.broken_train.empty()) {
    return {std::nullopt, "the audit kernel's numbers are broken " + rows.broken_train, "audit"};
  }
  if (!rows.broken_infer.empty()) {
    observation.broken = Shortened("the candidate's numbers are broken " + rows.broken_infer);
  }
  observation.tokens = std::move(rows.tokens);
  Request train;
  train.id = job.record.id;
  if (!job.prompt.empty()) train.fields["prompt_tokens"] = static_cast<double>(job.prompt.size());
  if (!job.audit->build.empty()) train.fields["kernel_fingerprint"] = job.audit->build;
  if (!train.fields.empty()) observation.train = std::move(train);
  return {std::move(observation), "", ""};
}

JobEvidence EvidenceMaker::OfRepeat(const RescoreJob& job) const {
  const ServedRecord& again = *job.again;
  if (ServedOf(again) != Served::kWhole || !again.reason.empty()) {
    const std::string why =
        again.reason.empty() ? "status " + std::to_string(again.status) : again.reason;
    return {std::nullopt, "asked again, the kernel gave no answer to compare: " + why, "again"};
  }
  MonitorObservation observation = Begin(job, KernelName(job.record));
  observation.infer.id = observation.asked->id = job.record.id + "#again";
  observation.session.clear();
  observation.probe = observation.repeat = true;
  auto& infer = observation.infer.fields;
  infer["started_at_ms"] = static_cast<double>(again.started_at_ms);
  infer["failed"] = false;
  infer["latency_ms"] = again.latency_ms;
  infer["replay_signature"] = AnswerSignature(job, again);
  if (!again.fingerprint.empty()) infer["kernel_fingerprint"] = again.fingerprint;
  // For the distance between the log-probs of repeats: what the kernel says of its own tokens.
  const size_t prompt = job.prompt.empty() ? again.prompt_ids.size() : job.prompt.size();
  for (const ScoredToken& token : TokensAsServed(again.tokens, 0)) {
    const size_t row = observation.tokens.position.size();
    observation.tokens.position.push_back(static_cast<int32_t>(prompt + row));
    observation.tokens.token.push_back(token.id);
    observation.tokens.logprob[static_cast<size_t>(Side::kInfer)].push_back(token.logprob);
  }
  return {std::move(observation), "", ""};
}

MonitorObservation EvidenceMaker::OfFingerprint(const ServedRecord& record) const {
  MonitorObservation observation;
  observation.time_ms = record.started_at_ms;
  observation.kernel = KernelName(record);
  // The request itself has a line of its own where it is sampled, and its session is that one's.
  observation.infer.id = record.id + "#build";
  observation.audited = true;
  observation.broken =
      Shortened("another build answered: '" + record.fingerprint + "', and the policy names '" +
                record.pool->kernels[record.kernel].fingerprint + "'");
  observation.infer.fields["kernel_fingerprint"] = record.fingerprint;
  observation.infer.fields["started_at_ms"] = static_cast<double>(record.started_at_ms);
  return observation;
}

}  // namespace kcc
