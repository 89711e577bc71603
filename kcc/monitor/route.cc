#include "kcc/monitor/route.h"

#include <algorithm>
#include <vector>

#include "kcc/base/check.h"

namespace kcc {
namespace {

const RouteKernel* FindRouteKernel(std::span<const RouteKernel> kernels, std::string_view name) {
  const auto found = std::find_if(kernels.begin(), kernels.end(),
                                  [&](const RouteKernel& row) { return row.kernel->name == name; });
  return found == kernels.end() ? nullptr : &*found;
}

bool Usable(const RouteKernel& row) { return IsServable(row.kernel->role) && !row.guarded; }

// All kernels that may serve, by role: the order in which equals are preferred.
std::vector<const RouteKernel*> ByRole(std::span<const RouteKernel> kernels) {
  std::vector<const RouteKernel*> rows;
  for (const RouteKernel& row : kernels) {
    if (IsServable(row.kernel->role)) rows.push_back(&row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const RouteKernel* a, const RouteKernel* b) {
    return a->kernel->role < b->kernel->role;
  });
  return rows;
}

Route InPanic(std::span<const RouteKernel> kernels, PanicRule rule) {
  const std::vector<const RouteKernel*> rows = ByRole(kernels);
  switch (rule) {
    case PanicRule::kFailClosed:
      return {"", true, "every kernel that could serve is guarded, and the policy fails closed"};
    case PanicRule::kFailOpen:
      return {rows.front()->kernel->name, true,
              "every kernel that could serve is guarded, and the policy fails open"};
    case PanicRule::kServeSafest:
      break;
  }
  const auto* const* safest = &*std::min_element(
      rows.begin(), rows.end(),
      [](const RouteKernel* a, const RouteKernel* b) { return a->health < b->health; });
  return {(*safest)->kernel->name, true,
          "every kernel that could serve is guarded; this one has the least H"};
}

}  // namespace

Route ChooseRoute(std::span<const RouteKernel> kernels, PanicRule panic) {
  const std::vector<const RouteKernel*> rows = ByRole(kernels);
  KCC_CHECK(!rows.empty() && rows.front()->kernel->role == KernelRole::kInfer);
  const RouteKernel* at = rows.front();
  if (Usable(*at)) return {at->kernel->name, false, "no alarm moves its requests"};
  // Orders may lead in a circle; each step leaves one kernel behind.
  for (size_t step = 0; step < rows.size() && at != nullptr && !Usable(*at); ++step) {
    const RouteKernel* next = FindRouteKernel(kernels, at->order.target);
    if (next != nullptr && Usable(*next)) {
      return {next->kernel->name, false,
              at->kernel->name + " is guarded, and its alarms order " +
                  std::string(Name(at->order.action)) + " to " + next->kernel->name};
    }
    at = next;
  }
  // The most careful role first: what alarms is not to be served by its like.
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    if (!Usable(**row)) continue;
    return {(*row)->kernel->name, false,
            rows.front()->kernel->name + " and where its alarms send requests are guarded"};
  }
  return InPanic(kernels, panic);
}

}  // namespace kcc
