#include "kcc/register/statement_check.h"

#include <algorithm>
#include <vector>

#include "kcc/base/strings.h"
#include "kcc/format/json.h"
#include "kcc/register/event_body.h"
#include "kcc/register/record.h"
#include "kcc/statement/evaluation.h"
#include "kcc/statement/promotion_record.h"
#include "kcc/statement/timestamp.h"

namespace kcc {
namespace {

constexpr std::string_view kApproveStep = "approve";

std::string FailuresText(const Verification& found) {
  std::string text;
  for (const NamedFailure& failure : found.failures) {
    text += (text.empty() ? "" : "; ") + std::string(Name(failure.failure)) + ": " + failure.text;
  }
  return text;
}

std::string Differs(std::string_view what, std::string_view said, std::string_view logged) {
  return "it says " + std::string(what) + " '" + std::string(said) + "', and the log says '" +
         std::string(logged) + "'";
}

int64_t BodyNumber(const std::string& body, std::string_view key) {
  json::parser parser;
  const Result<json::element> root = ParseJson(parser, body);
  if (!root.has_value() || !root->is_object()) return 0;
  const auto value = JsonMember(root->get_object().value_unsafe(), key);
  int64_t number = 0;
  return value && value->get_int64().get(number) == simdjson::SUCCESS ? number : 0;
}

// The gravest verdict that the statement gives on a clause; none: it has no row of it.
std::optional<Verdict> StatedVerdict(const StatedEvaluation& evaluation, const std::string& id) {
  std::optional<Verdict> gravest;
  for (const EvaluationRow& row : evaluation.rows) {
    if (row.id == id) gravest = gravest ? std::max(*gravest, row.verdict) : row.verdict;
  }
  return gravest;
}

std::string CompareEvaluation(const StatedEvaluation& stated, const Event& about) {
  const RecordedEvaluation recorded = ReadRecordedEvaluation(about.body);
  if (stated.triple != recorded.triple) return Differs("triple", stated.triple, recorded.triple);
  if (stated.stage != recorded.stage) return Differs("stage", stated.stage, recorded.stage);
  if (Name(stated.verdict) != recorded.verdict) {
    return Differs("verdict", Name(stated.verdict), recorded.verdict);
  }
  for (const std::string& blob : {recorded.report, recorded.summary}) {
    const bool named = std::any_of(stated.evidence.begin(), stated.evidence.end(),
                                   [&](const NamedDigest& one) { return one.digest == blob; });
    if (!blob.empty() && !named) return "it does not rest on " + blob + ", which the log names";
  }
  std::set<std::string_view> known;
  for (const RecordedClause& clause : recorded.clauses) {
    known.insert(clause.id);
    const std::optional<Verdict> verdict = StatedVerdict(stated, clause.id);
    if (verdict && Name(*verdict) != clause.verdict) {
      return Differs("of clause " + clause.id, Name(*verdict), clause.verdict);
    }
  }
  for (const EvaluationRow& row : stated.rows) {
    if (known.count(row.id) == 0) return "it judges clause " + row.id + ", and the log does not";
  }
  // Both keep milliseconds. An older statement is not about this evaluation, whatever it says.
  if (stated.time_ms != about.time_ms) {
    return Differs("time", FormatTimestamp(stated.time_ms), ShownTimestamp(about.time_ms));
  }
  return {};
}

// Of what a promotion is, which no step of it changes: against a promotion.changed.
std::string CompareSubject(const PromotionRecord& record, const std::string& body) {
  const std::string triple = BodyText(body, "triple");
  if (record.triple != triple) return Differs("triple", record.triple, triple);
  const std::string state = BodyJson(body, "state");
  const std::string policy = BodyText(state, "policy");
  if (record.policy.digest != policy) return Differs("policy", record.policy.digest, policy);
  const std::string contract = BodyText(BodyJson(state, "candidate"), "contract");
  if (record.contract.digest != contract) {
    return Differs("contract", record.contract.digest, contract);
  }
  return {};
}

}  // namespace

Result<std::optional<Event>> StatementChecker::EventAt(int64_t sequence) {
  KCC_TRY(std::vector<Event> events, source_.ReadEvents({.first = sequence, .last = sequence}));
  if (events.empty()) return std::optional<Event>();
  return std::optional<Event>(std::move(events[0]));
}

Result<std::string> StatementChecker::CheckStatement(const Event& event,
                                                     const std::string& envelope) {
  const std::string which = "the statement of event " + std::to_string(event.sequence) + " about " +
                            BodyText(event.body, "about");
  if (event.time_ms < 0 || event.time_ms > kTimestampMsMax) {
    return which + " has a time at which no key is valid";
  }
  VerifyOptions options;
  options.time_ms = event.time_ms;
  const Verification found = Verify(envelope, keyring_, options);
  std::string wrong = FailuresText(found);
  if (wrong.empty()) {
    KCC_TRY(wrong, CheckAbout(event, found));
  }
  if (!wrong.empty()) return which + " does not hold: " + wrong;
  ++statements_;
  return std::string();
}

Result<std::string> StatementChecker::CheckAbout(const Event& event, const Verification& found) {
  const std::string about = BodyText(event.body, "about");
  const size_t blank = about.find(' ');
  const std::string table = about.substr(0, blank);
  const std::string id = blank == std::string::npos ? "" : about.substr(blank + 1);
  const bool evaluation = table == Singular(EntryTable::kEvaluations);
  if (!evaluation && table != Singular(EntryTable::kPromotions)) return std::string();
  const int64_t sequence = BodyNumber(event.body, "event");
  if (sequence >= event.sequence) return std::string("it is about an event that comes after it");
  KCC_TRY(const std::optional<Event> logged, EventAt(sequence));
  if (!logged) return "there is no event " + std::to_string(sequence);
  if (!evaluation && BodyText(logged->body, "promotion") != id) {
    return "event " + std::to_string(sequence) + " is not of promotion " + id;
  }
  if (evaluation && (logged->kind != "evaluation.recorded" || id != std::to_string(sequence))) {
    return "event " + std::to_string(sequence) + " is not evaluation " + id;
  }
  KCC_TRY(std::string wrong,
          evaluation ? CheckEvaluation(*logged, found) : CheckStep(event, *logged, found));
  if (wrong.empty()) signed_.insert(sequence);
  return wrong;
}

Result<std::string> StatementChecker::CheckEvaluation(const Event& about,
                                                      const Verification& found) {
  if (found.statement->predicate_type == kEvaluationType) {
    KCC_TRY(const StatedEvaluation stated, ReadEvaluation(found.statement->predicate));
    return CompareEvaluation(stated, about);
  }
  if (found.statement->predicate_type != kSlsaVsaType &&
      found.statement->predicate_type != kTestResultType) {
    return "it is not about an evaluation but " + found.statement->predicate_type;
  }
  return CheckGeneric(about, found);
}

// A predicate of others says less, and what it says must be so: whether it passed, of what, and
// when. Without the time, one of an earlier evaluation would pass for this one's.
Result<std::string> StatementChecker::CheckGeneric(const Event& about, const Verification& found) {
  const RecordedEvaluation recorded = ReadRecordedEvaluation(about.body);
  // What is not satisfied must not pass.
  if (found.verdict == Verdict::kSatisfied && recorded.verdict != Name(Verdict::kSatisfied)) {
    return Differs("verdict", "passed", recorded.verdict);
  }
  if (found.stated_time_ms && *found.stated_time_ms != about.time_ms) {
    return Differs("time", FormatTimestamp(*found.stated_time_ms), ShownTimestamp(about.time_ms));
  }
  // Not Register::Find: whoever verifies has a transaction already.
  KCC_TRY(const auto entry, source_.store().FindEntry({EntryTable::kTriples, recorded.triple}));
  KCC_TRY(const std::optional<Event> added, EventAt(entry ? entry->added : 0));
  const std::string contract = added ? BodyText(added->body, "contract") : "";
  const std::vector<NamedDigest>& subjects = found.statement->subjects;
  const bool named = std::any_of(subjects.begin(), subjects.end(), [&](const NamedDigest& one) {
    return one.digest == recorded.triple || (!contract.empty() && one.digest == contract);
  });
  if (!named)
    return std::string("it is about neither the triple nor the contract of the evaluation");
  return std::string();
}

Result<std::string> StatementChecker::CheckStep(const Event& event, const Event& about,
                                                const Verification& found) {
  if (found.statement->predicate_type != kPromotionType) {
    return "it is not about a promotion but " + found.statement->predicate_type;
  }
  KCC_TRY(const PromotionRecord record, ReadPromotionRecord(found.statement->predicate));
  const std::string promotion = BodyText(about.body, "promotion");
  if (record.promotion != promotion) return Differs("promotion", record.promotion, promotion);
  if (record.sequence != about.sequence) {
    return Differs("event", std::to_string(record.sequence), std::to_string(about.sequence));
  }
  if (record.time_ms != about.time_ms) {
    return Differs("time", FormatTimestamp(record.time_ms), ShownTimestamp(about.time_ms));
  }
  if (about.kind == "approval.given") {
    KCC_TRY(std::string wrong, CheckApproval(about, record));
    if (!wrong.empty()) return wrong;
    for (const SignatureCheck& check : found.signatures) {
      const KeyringKey* key = keyring_.Find(check.key_id);
      if (check.failure || key == nullptr) continue;
      stages_.Add(promotion, {about.sequence, event.sequence, record.from, record.approvals[0].by,
                              record.approvals[0].note, key->key.id(), record.triple,
                              record.policy.digest, record.contract.digest});
    }
    return std::string();
  }
  if (about.kind != "promotion.changed")
    return "event " + std::to_string(about.sequence) + " is not a step of a promotion";
  const auto logged = [&](std::string_view key) { return BodyText(about.body, key); };
  if (record.from != logged("from")) return Differs("from", record.from, logged("from"));
  if (record.to != logged("to")) return Differs("to", record.to, logged("to"));
  const std::string wrong = CompareSubject(record, about.body);
  return wrong.empty() ? CheckEvidence(record) : wrong;
}

// The event says who approved in which stage; of what, the promotion's own event says.
Result<std::string> StatementChecker::CheckApproval(const Event& about,
                                                    const PromotionRecord& record) {
  const std::string stage = BodyText(about.body, "stage");
  const std::string role = BodyText(about.body, "role");
  if (record.step != kApproveStep) return Differs("step", record.step, kApproveStep);
  if (record.from != stage) return Differs("stage", record.from, stage);
  if (record.approvals.size() != 1 || record.approvals[0].by != about.actor) {
    return "it is not the approval of " + about.actor;
  }
  if (record.approvals[0].note != role) return Differs("role", record.approvals[0].note, role);
  // Not Register::Find: whoever verifies has a transaction already.
  KCC_TRY(const auto promotion,
          source_.store().FindEntry({EntryTable::kPromotions, record.promotion}));
  KCC_TRY(const std::optional<Event> changed, EventAt(promotion ? promotion->changed : 0));
  if (!changed) return "there is no promotion " + record.promotion;
  return CompareSubject(record, changed->body);
}

// "evaluation 12" with the digest that the chain has at its event, which stands for all before it.
Result<std::string> StatementChecker::CheckEvidence(const PromotionRecord& record) {
  for (const NamedDigest& one : record.evaluations) {
    constexpr std::string_view kPrefix = "evaluation ";
    if (one.name.rfind(kPrefix, 0) != 0) continue;
    const auto number = ParseNumber(std::string_view(one.name).substr(kPrefix.size()));
    KCC_TRY(const std::optional<Event> event,
            EventAt(number && *number >= 1 && *number <= 1e15 ? static_cast<int64_t>(*number) : 0));
    if (!event || event->digest != one.digest) {
      return "it rests on " + one.name + ", which is not in the log with that digest";
    }
  }
  return std::string();
}

Result<std::string> UnbackedApproval(Register& source, const KeptPromotion& kept,
                                     const Keyring& keyring) {
  const std::optional<Stage> stage = StageNamed(Name(kept.state.phase));
  if (!stage || !kept.policy.stage(*stage).approvals.must_sign) return std::string();
  if (kept.state.progress.approvals.empty()) return std::string();
  KCC_TRY(const std::vector<Entry> entries,
          source.List({.table = EntryTable::kStatements,
                       .subject = KeyText({EntryTable::kPromotions, kept.state.id})}));
  StatementChecker checker(source, keyring);
  for (const Entry& entry : entries) {
    KCC_TRY(const std::optional<std::string> envelope, source.ReadBlob(entry.key.id));
    // One that does not hold shows nothing.
    if (envelope) KCC_TRY_VOID(checker.CheckStatement(entry.event, *envelope));
  }
  // When the stage was entered is for the log to say: the state is what is in question.
  KCC_TRY(const std::optional<Entry> entry, source.Find({EntryTable::kPromotions, kept.state.id}));
  const int64_t first = entry ? entry->state.added : 1;
  KCC_TRY(const std::vector<Event> changes,
          source.ReadEvents({.first = first, .kind = "promotion.changed"}));
  for (const Event& change : changes) {
    if (BodyText(change.body, "promotion") != kept.state.id) continue;
    KCC_TRY_VOID(checker.CheckPromotion(change));
  }
  for (const Approval& approval : kept.state.progress.approvals) {
    if (!checker.stages().Backs(kept.state.id, *stage, approval)) {
      return "no signed statement shows the approval of " + approval.by + " in " +
             std::string(Name(*stage));
    }
  }
  return std::string();
}

}  // namespace kcc
