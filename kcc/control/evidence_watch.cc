#include "kcc/control/evidence_watch.h"

#include <algorithm>
#include <cmath>

namespace kcc {
namespace {

std::string Seconds(double seconds) {
  return std::to_string(static_cast<int64_t>(std::max(0.0, std::floor(seconds)))) + " s";
}

}  // namespace

bool EvidenceWatch::Look(const std::string& kernel, uint64_t offered, int64_t audited,
                         double now_s) {
  const auto [place, added] = rows_.try_emplace(kernel);
  Row& row = place->second;
  if (added || audited != row.audited) {
    row.audited = audited;
    row.offered_before = offered;
    row.waits_since_s.reset();
  }
  if (offered > row.offered_before && !row.waits_since_s) row.waits_since_s = now_s;
  const bool was = row.age.stale;
  row.age.offered = offered - std::min(offered, row.offered_before);
  row.age.waits_s = row.waits_since_s ? now_s - *row.waits_since_s : 0;
  row.age.stale = row.waits_since_s && row.age.waits_s >= stale_after_s_;
  return row.age.stale != was;
}

EvidenceAge EvidenceWatch::of(const std::string& kernel) const {
  const auto found = rows_.find(kernel);
  return found == rows_.end() ? EvidenceAge() : found->second.age;
}

std::string WhyStale(const EvidenceAge& age, int64_t now_ms) {
  std::string why = "for " + Seconds(age.waits_s) + " none of " + std::to_string(age.offered) +
                    " sampled requests became evidence; ";
  if (!age.newest_ms) return why + "there is none yet";
  const auto old_s = static_cast<double>(now_ms - *age.newest_ms) / 1000;
  return why + "the newest is " + Seconds(old_s) + " old";
}

}  // namespace kcc
