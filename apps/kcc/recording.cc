// kcc run and kcc judge with --register: the verdict, its evidence and its report are kept, and the
// requests that a policy or the flags ask for.
#include "apps/kcc/judging.h"
#include "apps/kcc/registers.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/signing.h"
#include "kcc/contract/canonical.h"
#include "kcc/contract/values.h"
#include "kcc/promotion/promotion_json.h"
#include "kcc/register/event_body.h"
#include "kcc/register/promotion_evidence.h"
#include "kcc/register/promotions.h"
#include "kcc/register/record.h"
#include "kcc/register/redaction.h"
#include "kcc/register/statements.h"
#include "kcc/report/report_json.h"

namespace kcc::cli {
namespace {

void Warn(const std::string& text, Console& console) {
  console.err << Paint(Style::kYellow, "warning:", console.colour_err) << ' ' << Shown(text)
              << '\n';
}

// What the command line asks for.
Result<RequestStorage> AskedStorage(const JudgeFlags& flags) {
  RequestStorage storage;
  storage.store = ParseStoreRequests(flags.store).value_or(StoreRequests::kNone);
  if (!flags.store_retention.empty()) {
    KCC_TRY(storage.retention_ms, ReadDuration(flags.store_retention));
  }
  storage.sample = flags.store_sample;
  storage.text = flags.store_text;
  if (storage.text && storage.store != StoreRequests::kFull) {
    return InvalidError("--store-text keeps texts beside token ids: it needs --store full");
  }
  if (storage.store != StoreRequests::kNone && flags.record.uri.empty()) {
    return InvalidError("--store keeps requests in a register; name it with --register");
  }
  return storage;
}

struct Rule {
  RequestStorage storage;
  std::string policy;  // whose it is; empty: the command line's
};

// What both of two policies allow to keep.
RequestStorage LeastOf(const RequestStorage& a, const RequestStorage& b) {
  RequestStorage least;
  least.store = std::min(a.store, b.store);
  least.flagged = a.flagged && b.flagged;
  least.sample = std::min(a.sample, b.sample);
  least.retention_ms = a.retention_ms;
  if (!a.retention_ms || (b.retention_ms && *b.retention_ms < *a.retention_ms)) {
    least.retention_ms = b.retention_ms;
  }
  least.text = a.text && b.text;
  return least;
}

// The policy decides where a promotion of the triple is under way. Of several, what all of them
// allow: what one of them promises not to keep is not kept.
Result<std::optional<Rule>> RuleOfPolicies(Register& source, const std::string& triple) {
  std::optional<Rule> rule;
  KCC_TRY(const auto promotions,
          source.List({.table = EntryTable::kPromotions, .subject = triple}));
  for (const Entry& entry : promotions) {
    // Without its policy, which may be gone: a run must not fail for a promotion that is over.
    const auto state = ReadPromotionState(BodyJson(entry.event.body, "state"));
    if (state.has_value() && IsOver(state->phase)) continue;
    KCC_TRY(const KeptPromotion promotion, ReadPromotion(source, entry.key.id));
    const PromotionPolicy& policy = promotion.policy;
    const std::string name = policy.name + " " + policy.version + " of promotion " + entry.key.id;
    if (!rule) {
      rule = Rule{policy.requests, name};
      continue;
    }
    rule->storage = LeastOf(rule->storage, policy.requests);
    rule->policy += " and " + name;
  }
  return rule;
}

// A difference between policy and command line is said, never resolved in silence.
Result<Rule> StorageRule(Register& source, const std::string& triple, const JudgeFlags& flags,
                         Console& console) {
  KCC_TRY(const RequestStorage asked, AskedStorage(flags));
  KCC_TRY(const auto rule, RuleOfPolicies(source, triple));
  if (!rule) return Rule{asked, ""};
  if (!flags.store.empty() && asked != rule->storage) {
    Warn("--store is not followed: policy " + rule->policy +
             " says what is kept of requests: " + StorageWords(rule->storage),
         console);
  }
  return *rule;
}

struct KeptRequests {
  Rule rule;
  std::vector<RequestToKeep> requests;
};

// The requests that the run keeps. What cannot be kept does not cost the evaluation.
Result<KeptRequests> KeepRequests(Register& source, const JudgeFlags& flags, RunLog* log,
                                  const JudgedRun& run, Console& console) {
  KCC_TRY(const Triple triple, TripleOf(run));
  KeptRequests result;
  KCC_TRY(result.rule, StorageRule(source, TripleId(triple), flags, console));
  const Rule& rule = result.rule;
  if (rule.storage.store == StoreRequests::kNone) return result;
  if (log == nullptr) {
    Warn("no request is kept: only kcc run has their token ids at hand", console);
    return result;
  }
  const RunLog::Judged judged{run.contract, run.summary,     run.judgement,
                              triple.model, triple.contract, TripleId(triple)};
  const auto kept = log->Keep(judged, rule.storage);
  if (!kept.has_value()) {
    Warn("no request is kept: " + kept.error().Format(), console);
    return result;
  }
  for (const StoredRequest& stored : *kept) {
    result.requests.push_back(
        {stored.id, std::string(Name(stored.store)), StoredRequestJson(stored)});
  }
  if (!console.json) {
    const std::string by = rule.policy.empty() ? "--store" : "policy " + rule.policy;
    console.out << "\nkept " << Counted(kept->size(), "request") << ", as " << Shown(by)
                << " says: " << StorageWords(rule.storage) << '\n';
  }
  return result;
}

}  // namespace

Result<> CheckRecording(const JudgeFlags& flags, const Console& console) {
  KCC_TRY_VOID(AskedStorage(flags));
  if (flags.record.uri.empty()) {
    if (flags.signing.any()) {
      return InvalidError("--key and --sign-with sign what is recorded: name a --register");
    }
    return {};
  }
  KCC_TRY_VOID(StampOf(flags.record, console));
  KCC_TRY_VOID(OpenSigners(flags.signing));
  KCC_TRY_VOID(Register::Open(flags.record.uri));
  return {};
}

Result<std::vector<Contract>> ContractsBeside(const Contract& contract, const JudgeFlags& flags,
                                              Console& console) {
  std::vector<Contract> beside;
  if (flags.record.uri.empty()) return beside;
  KCC_TRY(Register source, Register::Open(flags.record.uri));
  KCC_TRY(const std::vector<std::string> digests,
          ContractsToCompare(source, ContractDigest(contract)));
  for (const std::string& digest : digests) {
    Result<Contract> read = ReadKeptContract(source, digest);
    if (read.has_value()) {
      beside.push_back(std::move(*read));
      continue;
    }
    if (read.error().code() != ErrorCode::kInvalid) return std::move(read.error());
    console.err << Paint(Style::kYellow, "warning:", console.colour_err)
                << " the evidence will not be judged under contract " << digest << ": "
                << Shown(read.error().message()) << '\n';
  }
  return beside;
}

// Requests are chosen by what was measured; what is stored of it is as much as the policy allows.
Result<std::string> RecordVerdict(const ValidContract& contract, const Summary& summary,
                                  const Judgement& judgement, const ReportData& report,
                                  const JudgeFlags& flags, Console& console, RunLog* log) {
  if (flags.record.uri.empty()) return std::string();
  KCC_TRY(const Stamp stamp, StampOf(flags.record, console));
  KCC_TRY(Register target, Register::Open(flags.record.uri));
  KCC_TRY(const OwnedSigners signers, OpenSigners(flags.signing));
  const auto run_of = [&](const Summary& of) {
    return JudgedRun{.contract = contract.contract,
                     .contract_source = contract.text,
                     .summary = of,
                     .judgement = judgement,
                     .report = {},
                     .model = flags.model,
                     .kcc_version = std::string(Version()),
                     .actor = stamp.actor,
                     .time_ms = stamp.time_ms};
  };
  KCC_TRY(KeptRequests kept, KeepRequests(target, flags, log, run_of(summary), console));
  const RequestStorage& storage = kept.rule.storage;
  const Summary stored = Redacted(summary, storage);
  JudgedRun run = run_of(stored);
  run.report = ReportJson(Redacted(report, storage));
  run.requests = std::move(kept.requests);
  run.requests_retention_ms = storage.retention_ms;
  run.requests_kept = Name(storage.store);
  if (!signers.empty()) {
    KCC_TRY(run.statement, SignRun(run, signers));
  }
  std::string warning;
  KCC_TRY(const Head head, target.Update([&](Register& seen) {
    warning.clear();
    return RecordRun(seen, run, &warning);
  }));
  if (!warning.empty()) Warn(warning, console);
  return std::to_string(head.sequence - (signers.empty() ? 0 : 1));
}

}  // namespace kcc::cli
