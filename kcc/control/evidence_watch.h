// How old the newest evidence of each kernel is, and whether it still comes: a verdict that was
// reached on evidence says nothing any more once requests are sampled and none of them becomes
// evidence, since the scorer hangs, the audit kernel is gone, or there is no room.
//
// A verdict is stale when for `stale_after_s` sampled requests were offered and none became
// evidence. Without traffic nothing is offered, and a verdict grows old without being stale.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace kcc {

struct EvidenceAge {
  std::optional<int64_t> newest_ms;  // when its newest audited request began; none is known
  uint64_t offered = 0;              // sampled requests since then that became none
  double waits_s = 0;                // since the first of them
  bool stale = false;
};

class EvidenceWatch {
 public:
  explicit EvidenceWatch(double stale_after_s) : stale_after_s_(stale_after_s) {}

  // Totals of a kernel, which only grow, at a time of a clock that never goes back. Whether it
  // became stale, or is so no more.
  bool Look(const std::string& kernel, uint64_t offered, int64_t audited, double now_s);
  EvidenceAge of(const std::string& kernel) const;  // without newest_ms
  double stale_after_s() const { return stale_after_s_; }

 private:
  struct Row {
    uint64_t offered_before = 0;  // when the newest evidence was seen
    int64_t audited = 0;
    std::optional<double> waits_since_s;
    EvidenceAge age;
  };
  const double stale_after_s_;
  std::map<std::string, Row> rows_;
};

// A sentence: of a stale verdict, why it says nothing.
std::string WhyStale(const EvidenceAge& age, int64_t now_ms);

}  // namespace kcc
