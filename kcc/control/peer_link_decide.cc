// PeerLink while this gateway decides.
#include <algorithm>
#include <set>
#include <utility>

#include "kcc/control/peer_link.h"
#include "kcc/format/json.h"
#include "kcc/register/event_body.h"
#include "kcc/register/register.h"

namespace kcc {
namespace {

constexpr double kBeatS = 0.5;
constexpr double kRecordS = 10;       // after which a state is recorded though nothing changed
constexpr int64_t kGoneMs = 10'000;   // silent for longer: a process that is gone
constexpr int64_t kItemsAtOnce = 16;  // each of at most kPeerItemBytesMax
constexpr size_t kQueuedMax = 512;    // of the evaluator, above which others' evidence waits
constexpr uint64_t kMissingMax = 10'000'000;

// By kernel; what cannot be read is nothing.
std::map<std::string, uint64_t> MissingIn(const std::string& text) {
  std::map<std::string, uint64_t> missing;
  json::parser parser;
  const auto root = ParseJson(parser, text);
  json::object object;
  if (!root.has_value() || root->get(object) != simdjson::SUCCESS) return missing;
  for (const auto field : object) {
    const int64_t count = JsonInteger(field.value).value_or(0);
    if (count > 0) missing[std::string(field.key)] = static_cast<uint64_t>(count);
  }
  return missing;
}

// What others see of the monitor, in short: where it changes, it is recorded at once.
std::string InShort(const RouteRecord& route, const MonitorStatus& status) {
  std::string text = RouteBody(route);
  for (const KernelStatus& kernel : status.kernels) {
    text += "\n" + kernel.name + " " + std::string(Name(kernel.state)) + " " +
            std::string(Name(kernel.verdict));
    for (const PairStatus& pair : kernel.pairs)
      text += static_cast<char>('0' + static_cast<int>(pair.verdict));
  }
  return text;
}

// Made by the evaluator's thread, so that its parts are of one moment.
struct Moment {
  std::optional<MonitorSnapshot> snapshot;  // none: the log cannot be written
  RouteRecord route;
  MonitorStatus status;
  std::map<std::string, uint64_t> queued;  // own evidence that it does not hold yet
};

}  // namespace

Result<> PeerLink::BeginToDecide() {
  KCC_TRY(const auto notice, peers_->ReadNotice());
  const bool same = notice && notice->documents == documents_;
  TakeOver from;
  if (notice && !same) KCC_TRY_VOID(peers_->Clear());
  if (same) {
    auto state = peers_->ReadState();
    // A damaged one is told, and what it guarded is known by the route.
    if (!state.has_value() && state.error().code() == ErrorCode::kIo) return Error(state.error());
    if (!state.has_value()) Tell("the recorded state is not used: " + state.error().message());
    if (state.has_value() && *state && (*state)->documents == documents_) from.state = **state;
  }
  KCC_TRY(const LastRoute last, ReadLastRoute());
  if (last.record && last.record->documents == parts_.documents) from.route = last.record;
  from.own = from.state   ? from.state->instance == parts_.instance
             : from.route ? from.route->instance == parts_.instance
                          : false;
  term_ = std::max(notice ? notice->term : 0, last.record ? last.record->term : 0) + 1;
  event_ = from.route ? last.event : 0;
  states_ = (notice ? notice->states : 0) + 1;
  taken_ = from.state ? from.state->inbox : 0;
  recorded_.clear();
  recorded_route_ = from.route;
  recorded_observations_ = -1;
  settled_.clear();
  KCC_TRY_VOID(Beat());
  KCC_TRY(auto evaluator, parts_.start(from));
  parts_.decider->SetHeld("");
  held_ = false;
  parts_.decider->Set(std::move(evaluator));
  for (const auto& [kernel, count] : parts_.counts()) finished_[kernel] = count.finished;
  {
    const std::lock_guard lock(mutex_);
    now_.decides = true;
    now_.gateway = parts_.gateway;
    now_.instance = parts_.instance;
    now_.term = term_;
    now_.since_ms = parts_.clock->NowMs();
  }
  const std::string before =
      !notice    ? "nobody decided before"
      : from.own ? "it decided before"
                 : "'" + notice->gateway + "' (" + notice->instance + ") decided before";
  Tell("this gateway decides, in term " + std::to_string(term_) + "; " + before);
  if (notice) KCC_TRY_VOID(SettleBefore(*notice, from.own));
  return Decide();
}

// By the register's log, which outlives the notice.
Result<PeerLink::LastRoute> PeerLink::ReadLastRoute() const {
  KCC_TRY(Register source, Register::Open(parts_.uri));
  KCC_TRY(const auto entry, source.Find({EntryTable::kRoutes, parts_.documents.contract}));
  if (!entry) return LastRoute();
  KCC_TRY(RouteRecord record, ReadRouteBody(entry->event.body));
  return LastRoute{std::move(record), entry->state.changed};
}

// Who decided before and did not hand over. Its own earlier process did all in the same log; what
// another had not recorded is known to nobody, and may have been of any kernel.
Result<> PeerLink::SettleBefore(const PeerNotice& before, bool own) {
  KCC_TRY(const auto members, peers_->ReadMembers());
  for (const PeerMember& member : members) {
    if (member.boot != before.boot) continue;
    if (own) {
      settled_.push_back(member);
      continue;
    }
    parts_.decider->TakeLost("", 1);
    Settle(member);
  }
  return {};
}

Result<> PeerLink::Decide() {
  const auto evaluator = parts_.decider->evaluator();
  if (!evaluator) return {};
  KCC_TRY(const bool claimed, peers_->Claim());
  KCC_TRY(const auto notice, peers_->ReadNotice());
  if (!notice || notice->term != term_ || notice->boot != parts_.boot) {
    StepDown(notice ? notice->gateway : std::string("nobody"));
    return {};
  }
  // Our own session of before, which the server has not given up yet.
  if (!claimed) return IoError("the register's lock is not free yet");
  KCC_TRY_VOID(TakeItems());
  if (held_ && evaluator->queued() == 0) Release();
  const double now = parts_.clock->MonotonicSeconds();
  const bool beat = now - told_at_s_ >= kBeatS;
  if (beat) KCC_TRY_VOID(LookAtMembers());
  KCC_TRY_VOID(Record());
  if (beat) KCC_TRY_VOID(Beat());
  return {};
}

// The evaluator's queue has a bound, and what others delivered can wait where it is.
Result<> PeerLink::TakeItems() {
  const auto evaluator = parts_.decider->evaluator();
  while (evaluator->queued() < kQueuedMax) {
    KCC_TRY(const auto items, peers_->ReadItems(taken_, kItemsAtOnce));
    for (const PeerItem& item : items) {
      auto read = item.sound ? items_->Read(item.text, item.waited_ms, parts_.clock->NowMs())
                             : Result<ReadItem>(InvalidError("it was changed in the register"));
      if (read.has_value() && !read->renewal.empty()) {
        const auto renew = [kernel = read->origin.kernel, why = read->renewal](LiveMonitor& live) {
          return live.Renew(kernel, why);
        };
        const Result<> renewed = evaluator->Do(renew);
        // What comes behind it waits with it, until the log can be written.
        if (!renewed.has_value() && renewed.error().code() == ErrorCode::kIo) return {};
        taken_ = item.sequence;
        continue;
      }
      taken_ = item.sequence;
      if (!read.has_value()) {
        evaluator->TakeLost("", 1);  // it may have been of any kernel
      } else if (read->lost > 0) {
        evaluator->TakeLost(read->lost_kernel, read->lost);
      } else {
        read->origin.inbox = item.sequence;
        evaluator->Take(std::move(read->evidence), std::move(read->origin));
      }
    }
    if (static_cast<int64_t>(items.size()) < kItemsAtOnce) return {};
  }
  return {};
}

// A process that is silent is gone: what it had not delivered is missing.
Result<> PeerLink::LookAtMembers() {
  KCC_TRY_VOID(peers_->Deliver(Self(Unrecorded()), {}));
  KCC_TRY(const auto members, peers_->ReadMembers());
  std::vector<PeerNow> followers;
  for (const PeerMember& member : members) {
    const bool ours = member.instance == parts_.instance;
    if (ours && member.boot == parts_.boot) continue;
    if (ours || member.age_ms > kGoneMs) {
      Settle(member);
    } else {
      followers.push_back({member.gateway, member.instance, member.age_ms});
    }
  }
  const std::lock_guard lock(mutex_);
  now_.followers = std::move(followers);
  return {};
}

void PeerLink::Settle(const PeerMember& member) {
  for (const PeerMember& one : settled_) {
    if (one.instance == member.instance && one.boot == member.boot) return;
  }
  settled_.push_back(member);
  uint64_t sum = 0;
  for (const auto& [kernel, count] : MissingIn(member.missing)) {
    const uint64_t counted = std::min(count, kMissingMax);
    parts_.decider->TakeLost(kernel, counted);
    sum += counted;
  }
  Tell("'" + member.gateway + "' (" + member.instance + ") is gone; of its evidence " +
       std::to_string(sum) + " was not delivered, which counts as missing");
}

// Sampled by this process, and not in the recorded state.
std::map<std::string, uint64_t> PeerLink::Unrecorded() const {
  std::map<std::string, uint64_t> missing;
  for (const auto& [kernel, count] : parts_.counts()) {
    const auto recorded = finished_.find(kernel);
    const uint64_t kept = recorded == finished_.end() ? 0 : recorded->second;
    if (count.sampled > kept) missing[kernel] = count.sampled - kept;
  }
  return missing;
}

// The state before the route: who takes over then guards at least what the route has taken away.
Result<> PeerLink::Record() {
  const auto evaluator = parts_.decider->evaluator();
  const auto view = evaluator->view();
  const double now = parts_.clock->MonotonicSeconds();
  const RouteRecord seen = RecordOf(view->plan, view->status, view->wishes, parts_.kernels);
  const bool changed = InShort(seen, view->status) != recorded_;
  const bool grown = view->status.observations != recorded_observations_ || !settled_.empty();
  if (!changed && !(grown && now - recorded_at_s_ >= kRecordS)) return {};
  std::map<std::string, uint64_t> finished;
  for (const auto& [kernel, count] : parts_.counts()) finished[kernel] = count.finished;
  const auto moment = std::make_shared<Moment>();
  const auto look = [moment, self = evaluator.get(),
                     kernels = parts_.kernels](LiveMonitor& live) -> Result<> {
    auto snapshot = live.Snapshot();
    if (snapshot.has_value()) moment->snapshot = std::move(*snapshot);
    moment->status = live.status();
    moment->route = RecordOf(live.plan(), moment->status, live.wishes(), kernels);
    moment->queued = self->queued_by_kernel();
    return {};
  };
  const Result<> looked = evaluator->Do(look);
  // An evaluator that hangs has changed nothing, and says so itself.
  if (!looked.has_value()) return {};
  if (moment->snapshot) {
    PeerState state{parts_.instance,
                    documents_,
                    moment->snapshot->observations,
                    moment->snapshot->head,
                    moment->snapshot->inbox,
                    std::move(moment->snapshot->monitor)};
    KCC_TRY_VOID(peers_->WriteState(state, settled_));
    settled_.clear();
    ++states_;
    moment->route.head = state.head;
    // What still waits for the evaluator is in no state.
    for (const auto& [kernel, count] : finished) {
      const uint64_t queued = moment->queued[kernel];
      finished_[kernel] = std::max(finished_[kernel], count - std::min(count, queued));
    }
  }
  moment->route.observations = moment->status.observations;
  recorded_observations_ = moment->status.observations;
  recorded_at_s_ = now;
  recorded_ =
      InShort(RecordOf(view->plan, view->status, view->wishes, parts_.kernels), view->status);
  KCC_TRY_VOID(RecordRoute(std::move(moment->route)));
  return Beat();
}

// Nothing is added where another has begun to decide: the log's head is compared while it is added,
// so that a route of an earlier term never comes after one of a later.
Result<> PeerLink::RecordRoute(RouteRecord record) {
  record.documents = parts_.documents;
  record.gateway = parts_.gateway;
  record.instance = parts_.instance;
  record.term = term_;
  if (recorded_route_ && recorded_route_->term == term_ && record.SameRoute(*recorded_route_)) {
    return {};
  }
  KCC_TRY(Register target, Register::Open(parts_.uri));
  const EntryKey key{EntryTable::kRoutes, parts_.documents.contract};
  bool late = false;
  KCC_TRY(const Head head, target.Update([&](Register& seen) -> Result<Batch> {
    KCC_TRY(const auto known, seen.Find(key));
    late = known && BodyInteger(known->event.body, "term").value_or(0) > term_ &&
           BodyText(known->event.body, "policy") == parts_.documents.policy;
    if (late) return Batch{};
    return Batch{
        {{parts_.clock->NowMs(), "gateway " + parts_.gateway, "route.changed", RouteBody(record)}},
        {}};
  }));
  if (late) return IoError("another gateway has begun to decide");
  event_ = head.sequence;
  recorded_route_ = std::move(record);
  const std::lock_guard lock(mutex_);
  now_.event = event_;
  return {};
}

Result<> PeerLink::Beat() {
  PeerNotice notice;
  notice.term = term_;
  notice.instance = parts_.instance;
  notice.boot = parts_.boot;
  notice.gateway = parts_.gateway;
  notice.documents = documents_;
  notice.event = event_;
  notice.states = states_;
  LiveWords live;
  if (const auto evaluator = parts_.decider->evaluator()) {
    const auto view = evaluator->view();
    live.audit_share = view->plan.audit_share;
    live.probed = view->plan.probed;
    live.probe_share = view->plan.probe_share;
    live.shadow = view->wishes.shadow;
    live.log_error = view->log_error;
    if (view->log_failed) live.evaluator = "log-failed";
    if (evaluator->silent()) live.evaluator = "silent";
  } else {
    live.evaluator = "starting";
  }
  notice.live = LiveText(live);
  KCC_TRY_VOID(peers_->WriteNotice(notice));
  told_at_s_ = parts_.clock->MonotonicSeconds();
  return {};
}

void PeerLink::Hold(const std::string& why) {
  if (held_) return;
  held_ = true;
  parts_.decider->SetHeld(why);
  const auto make = [](const EvaluatorView& view) -> Result<RouteWishes> {
    RouteWishes wishes = view.wishes;
    for (const KernelStatus& kernel : view.status.kernels) {
      if (kernel.state == KernelState::kGuarded) wishes.held.insert(kernel.name);
    }
    wishes.canary_share = std::min(wishes.canary_share, view.plan.ShareOfKernel(wishes.canary));
    return wishes;
  };
  (void)parts_.decider->Wish(make, "peers",
                             why + "; what is guarded stays guarded, and no share grows");
}

void PeerLink::Release() {
  const auto make = [](const EvaluatorView& view) -> Result<RouteWishes> {
    RouteWishes wishes = view.wishes;
    wishes.held.clear();
    return wishes;
  };
  const Result<> done = parts_.decider->Wish(
      make, "peers", "the register is reached again, and this gateway still decides");
  if (!done.has_value()) return;
  held_ = false;
  parts_.decider->SetHeld("");
}

// What was folded here and not recorded, the other has not.
void PeerLink::StepDown(const std::string& who) {
  std::map<std::string, uint64_t> unknown;
  for (const auto& [kernel, count] : parts_.counts()) {
    const auto recorded = finished_.find(kernel);
    const uint64_t kept = recorded == finished_.end() ? 0 : recorded->second;
    if (count.finished > kept) unknown[kernel] = count.finished - kept;
  }
  const auto evaluator = parts_.decider->Set(nullptr);
  for (const auto& [kernel, count] : unknown) parts_.outbox->PutLost(kernel, count);
  if (evaluator) evaluator->End();
  parts_.decider->SetHeld("");
  held_ = false;
  term_ = 0;
  followed_.reset();
  states_ = event_ = 0;
  {
    const std::lock_guard lock(mutex_);
    now_.decides = false;
    now_.since_ms = parts_.clock->NowMs();
    now_.followers.clear();
  }
  // With a connection that never had the lock.
  peers_.reset();
  Tell("'" + who +
       "' has begun to decide; this gateway follows, and what it had not recorded counts "
       "as missing");
}

// At the end of the process. What cannot be done is counted by whoever comes next.
void PeerLink::HandOver() {
  if (!peers_) return;
  const double end = parts_.clock->MonotonicSeconds() + 2;
  if (parts_.decider->follows()) {
    while (parts_.outbox->waiting() > 0 && parts_.clock->MonotonicSeconds() < end) {
      if (!DeliverAll().has_value()) return;
    }
    if (parts_.outbox->waiting() == 0) (void)peers_->Leave(Self({}));
    return;
  }
  const auto evaluator = parts_.decider->evaluator();
  while (evaluator->queued() > 0 && parts_.clock->MonotonicSeconds() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  recorded_.clear();
  if (held_ || !Record().has_value()) return;
  if (Unrecorded().empty()) (void)peers_->Leave(Self({}));
}

}  // namespace kcc
