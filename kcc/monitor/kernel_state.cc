#include "kcc/monitor/kernel_state.h"

#include <algorithm>

namespace kcc {
namespace {

// Every order that stands: of the alarmed pairs, and of broken evidence.
template <class Visitor>
void ForEachOrder(const KernelRecord& record, const SignalPlan& plan, const Order& on_broken,
                  Visitor visit) {
  bool broken = record.broken;
  for (size_t i = 0; i < record.signals.size(); ++i) {
    const PairRecord& pair = record.signals.pair(i);
    if (!pair.alarmed) continue;
    if (pair.broken) {
      broken = true;
    } else {
      visit(plan.signals[plan.pairs[i].signal].order);
    }
  }
  if (broken) visit(on_broken);
}

}  // namespace

void KernelRecord::CountStanding() {
  standing = 0;
  for (size_t i = 0; i < signals.size(); ++i) standing += signals.pair(i).alarmed ? 1 : 0;
}

std::optional<Action> ActionOf(const KernelRecord& record, const SignalPlan& plan,
                               const Order& on_broken) {
  std::optional<Action> most;
  ForEachOrder(record, plan, on_broken, [&](const Order& order) {
    most = std::max(most.value_or(order.action), order.action);
  });
  return most;
}

Order MovingOrder(const KernelRecord& record, const SignalPlan& plan, const Order& on_broken) {
  Order most;
  ForEachOrder(record, plan, on_broken, [&](const Order& order) {
    if (order.moves() && (!most.moves() || order.action > most.action)) most = order;
  });
  return most;
}

}  // namespace kcc
