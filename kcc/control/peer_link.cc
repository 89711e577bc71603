#include "kcc/control/peer_link.h"

#include <chrono>
#include <utility>

#include "kcc/base/json_writer.h"
#include "kcc/register/register.h"

namespace kcc {
namespace {

constexpr auto kPeerTurn = std::chrono::milliseconds(200);
constexpr double kRetryS = 1;
constexpr double kNoticeWaitS = 3;  // for a gateway that began to decide and has not said so yet

}  // namespace

PeerLink::PeerLink(PeerLinkParts parts)
    : parts_(std::move(parts)), documents_(DocumentsText(parts_.documents)) {
  items_.emplace(parts_.contract.own_rows());
  now_.self = parts_.instance;
  now_.since_ms = parts_.clock->NowMs();
}

Result<std::unique_ptr<PeerLink>> PeerLink::Start(PeerLinkParts parts) {
  std::unique_ptr<PeerLink> link(new PeerLink(std::move(parts)));
  KCC_TRY_VOID(link->Connect());
  KCC_TRY_VOID(link->Begin());
  link->thread_ = std::thread([self = link.get()] { self->Run(); });
  return link;
}

void PeerLink::End() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

Result<> PeerLink::Connect() {
  KCC_TRY(peers_, GatewayPeers::Open(parts_.uri));
  return {};
}

// At the start, where what is wrong is an error and not a state that is waited out.
Result<> PeerLink::Begin() {
  const double end = parts_.clock->MonotonicSeconds() + kNoticeWaitS;
  while (true) {
    KCC_TRY(const bool claimed, peers_->Claim());
    if (claimed) return BeginToDecide();
    KCC_TRY(const auto notice, peers_->ReadNotice());
    if (notice && notice->documents == documents_) return Follow();
    if (parts_.clock->MonotonicSeconds() >= end) {
      if (!notice) return Follow();
      return InvalidError("the gateway '" + notice->gateway + "' decides at this register, and " +
                          WhatDiffers(notice->documents, parts_.documents) +
                          "; give both the same documents, or each a register of its own");
    }
    std::this_thread::sleep_for(kPeerTurn);
  }
}

void PeerLink::Run() {
  while (true) {
    Turn();
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, kPeerTurn, [&] { return end_ || woken_; });
    woken_ = false;
    if (!end_) continue;
    lock.unlock();
    HandOver();
    peers_.reset();
    return;
  }
}

void PeerLink::Turn() {
  const double now = parts_.clock->MonotonicSeconds();
  if (!peers_) {
    if (now < retry_at_s_) return;
    const Result<> connected = Connect();
    if (!connected.has_value()) return Lost(connected.error());
  }
  const Result<> done = parts_.decider->follows() ? Follow() : Decide();
  if (!done.has_value()) return Lost(done.error());
  SetError("");
}

// The connection is given up whatever the error was: with it goes the lock, and what may be half
// done on the other side.
void PeerLink::Lost(const Error& error) {
  peers_.reset();
  retry_at_s_ = parts_.clock->MonotonicSeconds() + kRetryS;
  SetError(error.Format());
  if (!parts_.decider->follows()) {
    Hold("the register is not reached, so that another gateway may have begun to decide: " +
         error.message());
  }
}

void PeerLink::Tell(const std::string& reason) {
  HistoryEntry entry;
  entry.at_ms = parts_.clock->NowMs();
  entry.kind = "peers";
  entry.reason = reason;
  if (const auto view = parts_.decider->view()) entry.serves = view->plan.serves;
  parts_.history->Add(entry);
}

void PeerLink::SetError(const std::string& error) {
  const std::lock_guard lock(mutex_);
  now_.error = error;
}

void PeerLink::Wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  wake_.notify_all();
}

PeersNow PeerLink::now() const {
  PeersNow now;
  {
    const std::lock_guard lock(mutex_);
    now = now_;
  }
  now.held = parts_.decider->held();
  now.waiting = parts_.outbox->waiting();
  now.lost = parts_.outbox->lost();
  return now;
}

PeerMember PeerLink::Self(const std::map<std::string, uint64_t>& missing) const {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject();
  for (const auto& [kernel, count] : missing) json.Field(kernel, count);
  return {parts_.instance, parts_.boot, parts_.gateway, json.EndObject().Take(), 0};
}

Result<std::optional<RouteRecord>> PeerLink::ReadRoute(int64_t event) const {
  if (event <= 0) return std::optional<RouteRecord>();
  KCC_TRY(Register source, Register::Open(parts_.uri));
  KCC_TRY(const auto events, source.ReadEvents({.first = event, .last = event}));
  if (events.empty() || events[0].kind != "route.changed") {
    return BrokenEvidenceError("event " + std::to_string(event) +
                               " of the register is no route, though the gateway that decides "
                               "names it; look with `kcc register verify`");
  }
  KCC_TRY(RouteRecord record, ReadRouteBody(events[0].body));
  return std::optional<RouteRecord>(std::move(record));
}

}  // namespace kcc
