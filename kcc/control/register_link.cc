#include "kcc/control/register_link.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "kcc/base/json_writer.h"
#include "kcc/contract/canonical.h"
#include "kcc/judge/judge.h"
#include "kcc/promotion/promotion.h"
#include "kcc/register/event_body.h"
#include "kcc/register/kernel_class.h"
#include "kcc/register/promotion_evidence.h"
#include "kcc/register/promotions.h"
#include "kcc/register/record.h"
#include "kcc/register/redaction.h"
#include "kcc/register/register.h"
#include "kcc/report/from_summary.h"
#include "kcc/report/report_json.h"

namespace kcc {
namespace {

constexpr size_t kToldMax = 1000;

std::string IncidentId(const HistoryEntry& entry) {
  return entry.kernel + "-" + std::to_string(entry.number) + "-" + std::to_string(entry.at_ms);
}

NewEvent IncidentEvent(const HistoryEntry& entry, const std::string& promotion,
                       const std::string& actor) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("incident", IncidentId(entry)).Field("what", entry.reason);
  if (!promotion.empty()) json.Field("promotion", promotion);
  return {entry.at_ms, actor, "incident.opened", json.EndObject().Take()};
}

ViolationLevel LevelOf(const HistoryEntry& entry) {
  const bool worst =
      entry.action == Name(Action::kRollback) || entry.action == Name(Action::kFallback);
  return worst ? ViolationLevel::kL3 : ViolationLevel::kL2;
}

// The promotion of this contract that is under way; of several, the one that was proposed last.
Result<std::optional<KeptPromotion>> FindPromotion(Register& source, const std::string& contract) {
  std::optional<KeptPromotion> found;
  KCC_TRY(auto promotions, ReadPromotions(source));
  for (KeptPromotion& one : promotions) {
    const bool ours = one.state.candidate.contract == contract;
    if (ours && one.state.started && !IsOver(one.state.phase)) found = std::move(one);
  }
  return found;
}

// Where live evidence speaks for a promotion; none: it does not, now.
std::optional<Stage> StageIn(Phase phase) {
  if (phase == Phase::kShadow) return Stage::kShadow;
  if (phase == Phase::kCanary) return Stage::kCanary;
  if (phase == Phase::kFull) return Stage::kFull;
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<RegisterLink>> RegisterLink::Open(RegisterLinkOptions options,
                                                         const Clock* clock) {
  std::unique_ptr<RegisterLink> link(new RegisterLink(std::move(options), clock));
  if (link->options_.claims) KCC_TRY_VOID(link->TakeLock());
  KCC_TRY_VOID(Register::Create(link->options_.uri));
  KCC_TRY_VOID(link->AddContract());
  link->wishes_ = link->options_.wishes;
  KCC_TRY_VOID(link->Read());
  return link;
}

RegisterLink::~RegisterLink() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

// One gateway to a register: two would each decide by half of the evidence.
Result<> RegisterLink::TakeLock() {
  KCC_TRY(claim_, RegisterClaim::Take(options_.uri));
  if (claim_) return {};
  return InvalidError(
      "another gateway has this SQLite register, and one alone may decide by the evidence in it: "
      "give this gateway a register of its own, or both one in PostgreSQL, where one decides and "
      "the others follow it");
}

Result<> RegisterLink::AddContract() {
  KCC_TRY(Register target, Register::Open(options_.uri));
  const auto make = [&](Register& seen) -> Result<Batch> {
    KCC_TRY(const auto known,
            seen.Find({EntryTable::kContracts, ContractDigest(options_.contract)}));
    if (known) return Batch{};
    ContractEvent added = ContractAdded(options_.contract, options_.contract_text,
                                        "gateway " + options_.gateway, clock_->NowMs());
    return Batch{{std::move(added.event)}, std::move(added.blobs)};
  };
  KCC_TRY_VOID(target.Update(make));
  return {};
}

Result<> RegisterLink::Read() {
  KCC_TRY(Register source, Register::Open(options_.uri));
  const std::string digest = ContractDigest(options_.contract);
  RouteWishes wishes = options_.wishes;
  KCC_TRY(const auto classes, KernelClasses(source, digest));
  std::set<std::string> registered;
  for (const KernelClass& one : classes) {
    registered.insert(one.train);
    for (const ClassMember& member : one.members) registered.insert(member.kernel);
  }
  // A register that knows no pair under this contract rules out nobody: one that is new, or was
  // lost, would else be an outage. It is said.
  std::string warning;
  for (const LinkedKernel& kernel : options_.kernels) {
    if (kernel.fingerprint.empty()) continue;
    if (registered.empty()) {
      warning =
          "the register knows no pair under the contract, so that it rules out no kernel; `kcc run "
          "--register` records one";
    } else if (!registered.contains(kernel.fingerprint)) {
      wishes.barred.insert(kernel.name);
    }
  }
  std::optional<PromotionNow> now;
  std::string candidate;
  if (options_.follows_promotion) {
    // Without a promotion under way there is no candidate, and nobody is given a share.
    wishes.canary.clear();
    wishes.canary_share = 0;
    KCC_TRY(const auto promotion, FindPromotion(source, digest));
    if (promotion) {
      const PromotionState& state = promotion->state;
      now.emplace();
      now->id = state.id;
      now->phase = Name(state.phase);
      now->reason = state.reason;
      now->missing = state.progress.missing;
      for (const LinkedKernel& kernel : options_.kernels) {
        if (!kernel.fingerprint.empty() && kernel.fingerprint == state.candidate.infer) {
          candidate = kernel.name;
        }
      }
      if (candidate.empty()) {
        now->error = "no kernel of the pool has the candidate's fingerprint";
      } else {
        now->share = CandidateShare(promotion->policy, state);
        wishes.canary = candidate;
        wishes.canary_share = now->share;
        now->error = WhyNoEvidence(promotion->policy, state);
        if (now->error.empty()) {
          KCC_TRY_VOID(CollectFor(source, promotion->policy, state, promotion->entered, candidate));
        }
      }
    }
  }
  const std::lock_guard lock(mutex_);
  wishes_ = std::move(wishes);
  promotion_ = std::move(now);
  candidate_ = std::move(candidate);
  warning_ = std::move(warning);
  error_.clear();
  return {};
}

std::string RegisterLink::WhyNoEvidence(const PromotionPolicy& policy,
                                        const PromotionState& state) const {
  const std::optional<Stage> stage = StageIn(state.phase);
  if (options_.evidence == nullptr || !stage) return {};
  if (state.candidate.train != options_.audit_fingerprint) {
    return "no live evidence is recorded: the monitor policy's audit kernel has not the "
           "fingerprint of the training kernel that the promotion compares with";
  }
  if (!policy.stage(*stage).looks.empty()) {
    return "no live evidence is recorded: the policy plans looks at exact sizes, and live evidence "
           "grows past them";
  }
  return {};
}

// What a gateway collected of the stage and did not record when it was killed is missing.
Result<> RegisterLink::CollectFor(Register& source, const PromotionPolicy& policy,
                                  const PromotionState& state, int64_t entered,
                                  const std::string& kernel) {
  const std::optional<Stage> stage = StageIn(state.phase);
  if (options_.evidence == nullptr || !stage) return {};
  if (!options_.decides()) {
    options_.evidence->Discard();
    return {};
  }
  LiveStage live{state.id,        entered,        state.progress.entered_ms, *stage, kernel,
                 state.candidate, policy.requests};
  if (options_.evidence->Collects(live)) return {};
  const Deployment& of = state.candidate;
  const std::string triple = TripleId({of.model, of.train, of.infer, of.contract});
  KCC_TRY(const auto entries, source.List({.table = EntryTable::kEvaluations, .subject = triple}));
  uint64_t lost = 0;
  for (const Entry& entry : entries) {  // the last first
    const std::string recorded = BodyJson(entry.event.body, "live");
    if (recorded.empty() || BodyInteger(recorded, "entered").value_or(0) != entered) continue;
    lost = BodyJson(recorded, "whole") == "true" ? 0 : 1;
    break;
  }
  std::vector<Contract> beside;
  KCC_TRY(const auto digests, ContractsToCompare(source, of.contract));
  for (const std::string& digest : digests) {
    auto read = ReadKeptContract(source, digest);
    if (read.has_value()) beside.push_back(std::move(*read));
  }
  const Plan plan = Plan::FromContracts(MeasuredContract(options_.contract), beside);
  return options_.evidence->Begin(live, plan, lost);
}

// Judged here for people; a promotion judges the summary again.
Result<> RegisterLink::RecordEvidence(bool last) {
  if (options_.evidence == nullptr || !options_.decides()) return {};
  const auto collected = options_.evidence->Collect(clock_->NowMs(), last);
  if (!collected) return {};
  const LiveStage& stage = collected->stage;
  JudgeOptions how;
  how.stage = stage.stage;
  const Judgement judgement = Judge(options_.contract, collected->summary, how);
  const Plan shown = Plan::FromContract(MeasuredContract(options_.contract));
  const ReportData report = MakeReport(options_.contract, options_.contract.name,
                                       options_.kcc_version, collected->summary, judgement, &shown);
  const Summary stored = Redacted(collected->summary, stage.storage);
  JsonWriter live(JsonWriter::Style::kCompact);
  live.BeginObject().Field("gateway", options_.gateway).Field("kernel", stage.kernel);
  live.Field("promotion", stage.promotion).Field("entered", stage.entered);
  live.Field("from", collected->from_ms).Field("to", collected->to_ms);
  live.Field("requests", collected->summary.requests.size()).Field("lost", collected->lost);
  live.Field("observations", collected->observations).Field("head", options_.log_head());
  live.Field("whole", last).EndObject();
  const JudgedRun run{.contract = options_.contract,
                      .contract_source = options_.contract_text,
                      .summary = stored,
                      .judgement = judgement,
                      .report = ReportJson(Redacted(report, stage.storage)),
                      .model = stage.candidate.model,
                      .kcc_version = options_.kcc_version,
                      .actor = "gateway " + options_.gateway,
                      .time_ms = clock_->NowMs(),
                      .requests_kept = std::string(Name(stage.storage.store)),
                      .live = live.Take()};
  KCC_TRY(Register target, Register::Open(options_.uri));
  std::string warning;
  KCC_TRY_VOID(target.Update([&](Register& seen) { return RecordRun(seen, run, &warning); }));
  return {};
}

// A guarded kernel is an incident of the register, and of the promotion whose candidate it is.
Result<> RegisterLink::Record(const HistoryEntry& entry) {
  KCC_TRY(Register target, Register::Open(options_.uri));
  std::string promotion;
  {
    const std::lock_guard lock(mutex_);
    if (promotion_ && entry.kernel == candidate_) promotion = promotion_->id;
  }
  const std::string actor = "gateway " + options_.gateway;
  KCC_TRY_VOID(target.Update([&](Register& seen) -> Result<Batch> {
    KCC_TRY(const auto known, seen.Find({EntryTable::kIncidents, IncidentId(entry)}));
    if (known) return Batch{};
    return Batch{{IncidentEvent(entry, promotion, actor)}, {}};
  }));
  if (promotion.empty()) return {};
  PromotionEvent event;
  event.kind = PromotionEventKind::kIncident;
  event.at_ms = clock_->NowMs();
  event.by = actor;
  event.level = LevelOf(entry);
  event.text = entry.reason;
  KCC_TRY_VOID(SendEvent(target, promotion, event, {actor, event.at_ms}));
  return {};
}

void RegisterLink::Begin(Wish wish) {
  wish_ = std::move(wish);
  given_ = wishes();
  thread_ = std::thread([this] { Run(); });
}

void RegisterLink::StopWishing() {
  const std::lock_guard lock(wish_mutex_);
  wish_ = nullptr;
}

void RegisterLink::Tell(const HistoryEntry& entry) {
  if (entry.kind != Name(MonitorChangeKind::kGuard)) return;
  const std::lock_guard lock(mutex_);
  if (told_.size() < kToldMax) told_.push_back(entry);
  wake_.notify_all();
}

void RegisterLink::Run() {
  Look();  // at once: evidence is collected from then on
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait_for(lock, std::chrono::milliseconds(options_.every_ms),
                   [&] { return end_ || !told_.empty(); });
    if (end_ && told_.empty()) {
      lock.unlock();
      // What cannot be recorded now is missing of the stage from now on.
      (void)RecordEvidence(true);
      return;
    }
    std::deque<HistoryEntry> told;
    told.swap(told_);
    lock.unlock();
    Result<> recorded;
    while (!told.empty() && recorded.has_value()) {
      recorded = Record(told.front());
      if (recorded.has_value()) told.pop_front();
    }
    Look();
    lock.lock();
    if (recorded.has_value()) continue;
    // Tried again in a while, before what came since; at the end what is left is in the decision
    // log.
    error_ = recorded.error().Format();
    told_.insert(told_.begin(), std::make_move_iterator(told.begin()),
                 std::make_move_iterator(told.end()));
    if (end_) return;
    wake_.wait_for(lock, std::chrono::milliseconds(options_.every_ms), [&] { return end_; });
  }
}

void RegisterLink::Look() {
  Result<> read = Read();
  if (read.has_value()) read = RecordEvidence(false);
  if (!read.has_value()) {
    const std::lock_guard lock(mutex_);
    error_ = read.error().Format();
    return;
  }
  const RouteWishes now = wishes();
  const bool same = now.canary == given_.canary && now.canary_share == given_.canary_share &&
                    now.barred == given_.barred;
  if (same) return;
  const auto promotion = this->promotion();
  const std::string reason = promotion ? "promotion " + promotion->id + " is in stage " +
                                             promotion->phase + ": " + promotion->reason
                                       : "the register says which kernels may serve";
  const std::lock_guard lock(wish_mutex_);
  if (wish_ && wish_(now, reason)) given_ = now;
}

RouteWishes RegisterLink::wishes() const {
  const std::lock_guard lock(mutex_);
  return wishes_;
}

std::optional<PromotionNow> RegisterLink::promotion() const {
  const std::lock_guard lock(mutex_);
  return promotion_;
}

std::optional<double> RegisterLink::share_allowed(const std::string& kernel) const {
  const std::lock_guard lock(mutex_);
  if (!options_.follows_promotion) return std::nullopt;
  return promotion_ && kernel == candidate_ ? promotion_->share : 0;
}

std::string RegisterLink::warning() const {
  const std::lock_guard lock(mutex_);
  return warning_;
}

std::string RegisterLink::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace kcc
