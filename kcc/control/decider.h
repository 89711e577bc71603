// Who decides for a process: an evaluator of its own, or a gateway elsewhere, whose route it
// follows. Which of the two may change while it runs; the rest of the process does not need to
// know.
//
// Evidence goes to the evaluator, or else to the register (peer_items.h); never to both, and what
// comes while the one takes the other's place is in one of them.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "kcc/control/evaluator.h"
#include "kcc/control/peer_items.h"

namespace kcc {

class Decider {
 public:
  // `outbox`: null where there is nobody to follow.
  Decider(const Clock* clock, PeerOutbox* outbox);

  // Null: from now on it follows. Gives the one before, which nobody gives evidence any more.
  // Shared with those who wait for an answer of it while it goes.
  std::shared_ptr<Evaluator> Set(std::shared_ptr<Evaluator> evaluator);
  std::shared_ptr<Evaluator> evaluator() const;
  bool follows() const { return evaluator() == nullptr; }
  // What the gateway that decides said last, and when it was heard of.
  void Follow(std::shared_ptr<const EvaluatorView> view, double heard_s);
  // Why no share may grow and nothing may be released; empty: they may.
  void SetHeld(std::string why);
  std::string held() const;

  // As of the evaluator. While it follows, wishes are refused.
  void Take(Evidence evidence, EvidenceOrigin origin);
  void TakeLost(const std::string& kernel, uint64_t count);
  void TakeDropped(const std::string& kernel, uint64_t count);
  Result<> Wish(const Evaluator::MakeWish& wish, const std::string& kind,
                const std::string& reason);
  // Begins a kernel's evidence anew, here or where it is decided.
  Result<> Renew(const std::string& kernel, const std::string& reason);
  std::shared_ptr<const EvaluatorView> view() const;
  std::vector<RiskSample> risk() const;
  double silent_s() const;
  bool silent() const { return silent_s() > kLeaseS; }
  size_t queued() const;
  double lag_s() const;

  static constexpr double kLeaseS = 5;

 private:
  const Clock* clock_;
  PeerOutbox* const outbox_;
  mutable std::shared_mutex giving_;  // held while evidence is given to one of the two
  mutable std::mutex mutex_;          // of what follows; `giving_` first
  std::shared_ptr<Evaluator> evaluator_;
  std::shared_ptr<const EvaluatorView> followed_;
  double heard_s_ = 0;
  std::string held_;
};

}  // namespace kcc
