// Evidence on its way from a gateway that follows to the one that decides: its text, and the queue
// in which it waits for the register.
//
// The queue is bounded. What it has no room for is counted by its kernel, and the count is
// delivered in its place: evidence that is missing counts against a kernel and not for it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/clock.h"
#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/control/content_hider.h"
#include "kcc/control/live_monitor.h"
#include "kcc/monitorlog/observation_json.h"
#include "kcc/register/gateway_peers.h"

namespace kcc {

inline constexpr size_t kPeerItemBytesMax = size_t{4} << 20;

// An item as it is read: evidence, or how much of a kernel's is missing.
struct ReadItem {
  Evidence evidence;
  EvidenceOrigin origin;
  std::string lost_kernel;  // empty: of any
  uint64_t lost = 0;        // above 0: there is no evidence
  std::string renewal;      // not empty: why the kernel's evidence begins anew; there is no other
};

// `own` must outlive it. Not thread-safe.
class PeerItemReader {
 public:
  explicit PeerItemReader(OwnRows own) : observations_(own) {}
  // `waited_ms`: since it was delivered; `now_ms`: by the clock of the reader, by which the
  // evidence is as old as it says, whatever the other's clock shows.
  Result<ReadItem> Read(std::string_view text, int64_t waited_ms, int64_t now_ms);

 private:
  ObservationReader observations_;
};

class PeerOutbox {
 public:
  static constexpr size_t kItemsMax = 4096;
  static constexpr size_t kBytesMax = size_t{64} << 20;

  // `hide_content`: as the evaluator hides it, before it leaves this process.
  PeerOutbox(const Contract& contract, bool hide_content, const Clock* clock)
      : hider_(contract), hide_content_(hide_content), clock_(clock) {}

  // Any thread; return at once.
  void Put(Evidence evidence, const EvidenceOrigin& origin);
  void PutLost(const std::string& kernel, uint64_t count);
  void PutRenewal(const std::string& kernel, const std::string& reason);

  // One thread. The first of what waits, to be delivered; they wait until Delivered says otherwise.
  std::vector<NewPeerItem> First(size_t count);
  void Delivered(int64_t number);

  size_t waiting() const;
  uint64_t lost() const;  // for which there was no room, since the start
  // Of what comes after `number`.
  std::map<std::string, uint64_t> waiting_by_kernel(int64_t number) const;

 private:
  struct Item {
    int64_t number = 0;
    std::string kernel;
    int64_t told_ms = 0;  // when its request began; 0: it does not matter
    std::string rest;     // its text after the age
    uint64_t counts = 1;  // how much evidence it stands for
  };
  void PutItem(std::string kernel, int64_t told_ms, std::string rest, uint64_t counts);

  const ContentHider hider_;
  const bool hide_content_;
  const Clock* clock_;
  mutable std::mutex mutex_;
  std::deque<Item> items_;
  size_t bytes_ = 0;
  int64_t next_ = 1;
  uint64_t lost_ = 0;
  std::map<std::string, uint64_t> unsaid_;  // lost, and not in an item yet
};

}  // namespace kcc
