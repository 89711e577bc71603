// What the hot path leaves behind of a request, for the scorer. Made at the end of the answer, or
// when it is cut off; moved, never copied.
//
// A kernel that fails a sampled request before its first content leaves a kAudit record of its own,
// with its status (0: none) and `reason`, and `id` ends in "~1" for the first such kernel; the
// kernel that answers in its place leaves the request's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kcc/gateway/pool.h"
#include "kcc/gateway/scorer_places.h"

namespace kcc {

enum class RecordKind : uint8_t {
  kAudit,        // a sampled request: is to be scored
  kProbe,        // a copy for the guarded kernel: `request_body` is to be asked of `kernel`
  kFingerprint,  // an answer that carries another fingerprint than the kernel's; of any request
  // A sampled request whose answer is no evidence, since it is too large, not to be understood or
  // has no choice: `reason` says why. An answer that was cut is a kAudit whatever was read of it.
  kLost,
};

// A token that was served, as the kernel's answer tells it.
struct ServedToken {
  int32_t id = -1;
  double logprob = 0;  // NaN: not told
  // The best alternatives, best first, and nothing else: a token that was drawn from below them is
  // not in the list, wherever the server puts it. Empty: not told, or told without ids.
  std::vector<std::pair<int32_t, double>> top;
};

struct ServedRecord {
  RecordKind kind = RecordKind::kAudit;
  std::shared_ptr<const GatewayPool> pool;
  size_t kernel = 0;    // who served it; of a probe, who is to be asked
  std::string id;       // of the request: what its client reads in x-request-id
  std::string session;  // the key; empty: its own
  // RequestField::name -> the value, as JSON: of a body its own text, of a header a JSON string.
  std::map<std::string, std::string> fields;
  std::string path;          // "/v1/chat/completions"
  std::string request_body;  // as the client sent it
  bool stream = false;
  int64_t started_at_ms = 0;        // wall clock
  double latency_ms = 0;            // to the last byte
  double ttft_ms = 0;               // to the first content; 0: none came
  int status = 0;                   // 0: no answer
  bool cut = false;                 // the answer did not end as it should
  bool client_left = false;         // the client went before its end: no fault of the kernel's
  std::string finish_reason;        // as served: "stop", "length" ...; empty: none
  std::string fingerprint;          // system_fingerprint of the answer; empty: none
  std::string text;                 // of the first choice
  std::vector<int32_t> prompt_ids;  // empty: the answer does not tell
  std::vector<ServedToken> tokens;  // of the first choice
  bool shadow = false;              // the candidate is asked as well
  bool canary = false;              // it was the canary that served it
  std::string reason;               // of kLost and of failures: a short word
  ScorerPlace place;                // on its way to evidence; of another build's answer: none
};

}  // namespace kcc
