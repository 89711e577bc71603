#include "kcc/gateway/fingerprint_search.h"

#include <algorithm>
#include <utility>

#include "kcc/gateway/event_signs.h"

namespace kcc {

// What lies across a cut ends within a span behind it.
const std::string& FingerprintSearch::Feed(std::string_view bytes) {
  std::string across = tail_;
  across.append(bytes.substr(0, kFingerprintSpan));
  Take(FingerprintOf(across));
  Take(FingerprintOf(bytes));
  if (bytes.size() >= kFingerprintSpan) {
    tail_ = bytes.substr(bytes.size() - kFingerprintSpan);
  } else {
    tail_.append(bytes);
    tail_.erase(0, tail_.size() - std::min(tail_.size(), kFingerprintSpan));
  }
  return found_;
}

void FingerprintSearch::Take(std::string found) {
  if (!found.empty()) found_ = std::move(found);
}

}  // namespace kcc
