// PeerLink while another gateway decides.
#include <utility>

#include "kcc/control/peer_link.h"

namespace kcc {
namespace {

constexpr double kMemberS = 1;  // after which it says that it is there
constexpr size_t kDeliverAtOnce = 64;

}  // namespace

Result<> PeerLink::Follow() {
  KCC_TRY(const bool claimed, peers_->Claim());
  if (claimed) return BeginToDecide();
  KCC_TRY(const auto notice, peers_->ReadNotice());
  if (!notice) return {};
  {
    const std::lock_guard lock(mutex_);
    now_.gateway = notice->gateway;
    now_.instance = notice->instance;
    now_.term = notice->term;
  }
  if (notice->documents != documents_) {
    return InvalidError("the gateway '" + notice->gateway + "' decides now, and " +
                        WhatDiffers(notice->documents, parts_.documents) +
                        "; this gateway holds its last route: end it, or start all of them with "
                        "the same documents");
  }
  KCC_TRY_VOID(ReadWhatIsRecorded(*notice));
  KCC_TRY_VOID(Publish(*notice));
  return DeliverAll();
}

Result<> PeerLink::ReadWhatIsRecorded(const PeerNotice& notice) {
  if (notice.states != states_ || status_.kernels.empty()) {
    KCC_TRY(const auto state, peers_->ReadState());
    auto monitor = Monitor::Make(parts_.contract, parts_.policy, {parts_.stage});
    if (state && state->documents == documents_) {
      monitor = Monitor::Restore(parts_.contract, parts_.policy, state->monitor, {parts_.stage});
      log_head_ = state->head;
    }
    if (!monitor.has_value()) {
      return InvalidError("what '" + notice.gateway +
                          "' has recorded cannot be read here: " + monitor.error().message() +
                          "; use one version of kcc, and the same documents in the same order");
    }
    status_ = monitor->Status();
    states_ = notice.states;
  }
  if (notice.event == event_ && (followed_ || notice.event == 0)) return {};
  KCC_TRY(auto route, ReadRoute(notice.event));
  followed_ = std::move(route);
  event_ = notice.event;
  const std::lock_guard lock(mutex_);
  now_.event = event_;
  return {};
}

// A route names no kernel that is not allowed, at any moment in between.
Result<> PeerLink::Publish(const PeerNotice& notice) {
  KCC_TRY(const LiveWords live, ReadLive(notice.live));
  auto view = std::make_shared<EvaluatorView>();
  view->status = status_;
  view->at_ms = parts_.clock->NowMs();
  view->log_head = log_head_;
  view->log_failed = live.evaluator == "log-failed";
  view->log_error = live.log_error;
  view->wishes.shadow = live.shadow;
  if (followed_) {
    KCC_TRY(RoutePlan next, PlanOf(*followed_, live, parts_.kernels));
    view->wishes.canary = followed_->wished_canary;
    view->wishes.canary_share = followed_->wished_share;
    const bool moved = next.serves != plan_.serves || next.canary != plan_.canary ||
                       next.canary_share != plan_.canary_share;
    RouteWords& words = *parts_.words;
    words.Allow(words.allowed() | next.allowed);
    words.Publish(next.sampling);
    words.Publish(next.route);
    words.Allow(next.allowed);
    plan_ = std::move(next);
    if (moved) {
      HistoryEntry entry;
      entry.at_ms = view->at_ms;
      entry.kind = Name(MonitorChangeKind::kRoute);
      entry.kernel = entry.serves = plan_.serves;
      entry.canary = plan_.canary;
      entry.canary_share = plan_.canary_share;
      entry.reason = plan_.reason + " (decided by '" + followed_->gateway + "')";
      parts_.history->Add(entry);
    }
  } else {
    plan_.reason = "the gateway '" + notice.gateway + "' has recorded no route yet";
  }
  view->plan = plan_;
  const auto note = [&](const std::string& what, const std::string& state) {
    const auto [place, added] = shown_.try_emplace(what, state);
    if (!added && place->second == state) return;
    place->second = state;
    since_ms_[what] = view->at_ms;
  };
  note("", plan_.serves + "\n" + plan_.canary);
  for (const KernelStatus& kernel : status_.kernels) {
    note(kernel.name, std::string(Name(kernel.state)) + "\n" + std::string(Name(kernel.verdict)));
  }
  view->since_ms = since_ms_;
  // One that decides and hangs is heard of, and decides nothing.
  const bool lives = live.evaluator != "silent";
  const double heard = parts_.clock->MonotonicSeconds() - static_cast<double>(notice.age_ms) / 1000;
  parts_.decider->Follow(std::move(view), lives ? heard : heard - 2 * Decider::kLeaseS);
  return {};
}

// What would be missing if this process ended after the step: what is being scored, and what waits
// behind the items of the step.
Result<> PeerLink::DeliverAll() {
  const double now = parts_.clock->MonotonicSeconds();
  while (true) {
    const auto items = parts_.outbox->First(kDeliverAtOnce);
    if (items.empty() && now - told_at_s_ < kMemberS) return {};
    std::map<std::string, uint64_t> missing;
    for (const auto& [kernel, count] : parts_.counts()) {
      if (count.sampled > count.finished) missing[kernel] = count.sampled - count.finished;
    }
    const int64_t last = items.empty() ? 0 : items.back().number;
    for (const auto& [kernel, count] : parts_.outbox->waiting_by_kernel(last)) {
      missing[kernel] += count;
    }
    KCC_TRY_VOID(peers_->Deliver(Self(missing), items));
    told_at_s_ = now;
    if (items.empty()) return {};
    parts_.outbox->Delivered(last);
    if (items.size() < kDeliverAtOnce) return {};
  }
}

}  // namespace kcc
