#include "kcc/control/decider.h"

#include <utility>

namespace kcc {

Decider::Decider(const Clock* clock, PeerOutbox* outbox) : clock_(clock), outbox_(outbox) {
  auto nothing = std::make_shared<EvaluatorView>();
  nothing->plan.reason = "no gateway has said yet which kernel serves";
  nothing->at_ms = clock->NowMs();
  followed_ = std::move(nothing);
  heard_s_ = clock->MonotonicSeconds();
}

std::shared_ptr<Evaluator> Decider::Set(std::shared_ptr<Evaluator> evaluator) {
  const std::unique_lock giving(giving_);
  const std::lock_guard lock(mutex_);
  std::swap(evaluator_, evaluator);
  // Until the other is heard, what we knew ourselves is the last that is known.
  if (evaluator && !evaluator_) {
    followed_ = evaluator->view();
    heard_s_ = clock_->MonotonicSeconds();
  }
  return evaluator;
}

std::shared_ptr<Evaluator> Decider::evaluator() const {
  const std::lock_guard lock(mutex_);
  return evaluator_;
}

void Decider::Follow(std::shared_ptr<const EvaluatorView> view, double heard_s) {
  const std::lock_guard lock(mutex_);
  followed_ = std::move(view);
  heard_s_ = heard_s;
}

void Decider::SetHeld(std::string why) {
  const std::lock_guard lock(mutex_);
  held_ = std::move(why);
}

std::string Decider::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

void Decider::Take(Evidence evidence, EvidenceOrigin origin) {
  const std::shared_lock giving(giving_);
  if (const auto own = evaluator()) {
    own->Take(std::move(evidence), std::move(origin));
  } else if (outbox_ != nullptr) {
    outbox_->Put(std::move(evidence), origin);
  }
}

void Decider::TakeLost(const std::string& kernel, uint64_t count) {
  const std::shared_lock giving(giving_);
  if (const auto own = evaluator()) {
    own->TakeLost(kernel, count);
  } else if (outbox_ != nullptr) {
    outbox_->PutLost(kernel, count);
  }
}

void Decider::TakeDropped(const std::string& kernel, uint64_t count) {
  const std::shared_lock giving(giving_);
  if (const auto own = evaluator()) {
    own->TakeDropped(kernel, count);
  } else if (outbox_ != nullptr) {
    outbox_->PutLost(kernel, count);
  }
}

Result<> Decider::Wish(const Evaluator::MakeWish& wish, const std::string& kind,
                       const std::string& reason) {
  const auto own = evaluator();
  if (!own) return InvalidError("another gateway decides; ask that one (kcc status names it)");
  return own->Wish(wish, kind, reason);
}

Result<> Decider::Renew(const std::string& kernel, const std::string& reason) {
  const auto own = evaluator();
  if (own) return own->Do([=](LiveMonitor& live) { return live.Renew(kernel, reason); });
  if (outbox_ == nullptr) return IoError("nobody decides");
  outbox_->PutRenewal(kernel, reason);
  return {};
}

std::shared_ptr<const EvaluatorView> Decider::view() const {
  const auto own = evaluator();
  if (own) return own->view();
  const std::lock_guard lock(mutex_);
  return followed_;
}

std::vector<RiskSample> Decider::risk() const {
  const auto own = evaluator();
  return own ? own->risk() : std::vector<RiskSample>();
}

double Decider::silent_s() const {
  const auto own = evaluator();
  if (own) return own->silent_s();
  const std::lock_guard lock(mutex_);
  return clock_->MonotonicSeconds() - heard_s_;
}

size_t Decider::queued() const {
  const auto own = evaluator();
  return own ? own->queued() : outbox_->waiting();
}

double Decider::lag_s() const {
  const auto own = evaluator();
  return own ? own->lag_s() : 0;
}

}  // namespace kcc
