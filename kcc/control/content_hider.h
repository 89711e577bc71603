// What of requests stands in the decision log where the configuration stores no content
// (`store: none` or `hashes`): no session key and no token.
//
// A session key becomes its SHA-256, so that a session is still one. Token ids, which decode to the
// text, are left out, with two exceptions: a contract that selects slices by token.token needs them
// as they are; and one that compares repeats of a request gets numbers in their place that are
// alike within one request and its repeats alone, by a secret that no file holds.
#pragma once

#include <cstdint>
#include <string>

#include "kcc/contract/contract.h"
#include "kcc/monitor/observation.h"

namespace kcc {

class ContentHider {
 public:
  explicit ContentHider(const Contract& contract);
  void Hide(MonitorObservation* observation) const;

 private:
  bool keeps_tokens_ = false;
  bool compares_repeats_ = false;
  uint64_t secret_ = 0;
};

}  // namespace kcc
