// The slots that lists fill, and their way into a TokenDrift. Internal to the backends of partial
// evidence.
#pragma once

#include <algorithm>

#include "kcc/drift/top_list_view.h"

namespace kcc {

struct ListSlots {
  size_t tv = TokenSlot("tv");
  size_t kl = TokenSlot("kl");
  size_t reverse_kl = TokenSlot("reverse_kl");
  size_t chi2 = TokenSlot("chi2");
  size_t reverse_chi2 = TokenSlot("reverse_chi2");
  size_t hellinger = TokenSlot("hellinger");
  size_t js = TokenSlot("js");
  size_t logit_span = TokenSlot("logit_span");
  size_t logit_linf = TokenSlot("logit_linf");
  size_t logit_l2 = TokenSlot("logit_l2");
  size_t train_entropy = TokenSlot("train_entropy");
  size_t entropy = TokenSlot("entropy");
  size_t entropy_gap = TokenSlot("entropy_gap");
  size_t margin = TokenSlot("margin");
  size_t train_margin = TokenSlot("train_margin");
  size_t top1_overlap = TokenSlot("top1_overlap");
  size_t top5_overlap = TokenSlot("top5_overlap");
  size_t top10_overlap = TokenSlot("top10_overlap");
  size_t rank = TokenSlot("rank");
  size_t train_rank = TokenSlot("train_rank");
};

inline const ListSlots& ListSlotsOf() {
  static const ListSlots slots;
  return slots;
}

// Writes the slots that are wanted.
class Publisher {
 public:
  Publisher(const SlotSet& wanted, TokenDrift* out) : wanted_(wanted), out_(out) {}
  bool Wants(size_t slot) const { return wanted_[slot]; }
  void operator()(size_t slot, const Interval& value) const {
    if (wanted_[slot]) out_->SetInterval(slot, value.lo, value.hi);
  }
  // Of what takes long to compute: only where it is wanted.
  template <class Make>
  void If(size_t slot, const Make& make) const {
    if (wanted_[slot]) (*this)(slot, make());
  }

 private:
  const SlotSet& wanted_;
  TokenDrift* out_;
};

// What follows from each side's own evidence alone.
struct SideValues {
  Interval entropy;
  Interval margin;  // in unscaled logits
};

inline void PublishSides(const SideValues& train, const SideValues& infer,
                         const Publisher& publish) {
  const ListSlots& slots = ListSlotsOf();
  const Interval& p = train.entropy;
  const Interval& q = infer.entropy;
  publish(slots.train_entropy, p);
  publish(slots.entropy, q);
  publish(slots.entropy_gap,
          {std::max({0.0, q.lo - p.hi, p.lo - q.hi}), std::max(q.hi - p.lo, p.hi - q.lo)});
  publish(slots.train_margin, train.margin);
  publish(slots.margin, infer.margin);
}

}  // namespace kcc
