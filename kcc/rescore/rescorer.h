// From what was served to evidence: the scorer of a gateway, off the path of requests.
//
// A record of a sampled request names the served token ids. The audit kernel, and the candidate
// where there is one, are asked for the log-probs of exactly these tokens (teacher-forced, by
// server dialect); the pair becomes quantities by the same code as any trace
// (measure/token_meter.h), and an observation for the monitor. Where only text is to be had, the
// audit kernel writes an answer of its own, and the two are compared as outputs. Answers are graded
// by hooks. A probe is first asked of the guarded kernel, whose answer nobody gets.
//
// What cannot be scored is no silence: it becomes a line that could not be read (UnreadLine) of the
// kernel that served, so that event_conformance counts it and no PASS test gains by it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kcc/base/clock.h"
#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/contract/monitor_policy.h"
#include "kcc/gateway/gateway_core.h"
#include "kcc/monitor/observation.h"
#include "kcc/monitorlog/unread_line.h"
#include "kcc/rescore/grade.h"

namespace kcc {

struct RescoreOptions {
  // KernelUri of every kernel of the policy that may be asked, by name:
  // "openai+http://127.0.0.1:8000?server=vllm".
  std::map<std::string, std::string> uris;
  int32_t top = 20;
  // Calls to one kernel at once; and probes or mirrors of a kernel that have no answer yet.
  size_t in_flight_max = 64;
  // Records of served requests, with those that are asked about: what comes beyond is dropped.
  size_t waiting_max = 256;
  double timeout_s = 2;            // of one record's calls
  double generate_timeout_s = 60;  // of an answer that is written for the scorer: probes, repeats
  double retry_s = 3;              // between attempts to reach a kernel that does not answer
  double determinism_rate = 0;     // share of audited requests that are asked of their kernel again
  std::vector<GradeHook> hooks;
  bool keep_texts = false;  // store: full
};

// Evidence, or that there is none.
using Evidence = std::variant<MonitorObservation, UnreadLine>;

struct RescoreCounts {
  // refused: by the kernel and by the audit kernel alike, so the client's fault. ungraded: fields
  // that a hook could not tell.
  // unasked: probes and mirrors that never went to their kernel, since others waited for it; they
  // are evidence of nothing.
  uint64_t scored = 0, lost = 0, timed_out = 0, refused = 0, waiting = 0, ungraded = 0, unasked = 0;
  std::map<std::string, uint64_t> reasons;  // of lost ones, by a short word

  RescoreCounts& operator+=(const RescoreCounts& other);
};

class Rescorer {
 public:
  // Starts its thread, which takes records from the core's workers. `take` is called by that thread
  // alone, with the record it is made of. A kernel that does not answer yet is asked again later.
  using TakeEvidence = std::function<void(Evidence evidence, const ServedRecord& record)>;
  // So many requests of a kernel were sampled, and nothing of them was kept.
  using TakeDropped = std::function<void(const std::string& kernel, uint64_t count)>;
  static Result<std::unique_ptr<Rescorer>> Start(const Contract& contract,
                                                 const MonitorPolicy& policy,
                                                 const RescoreOptions& options, GatewayCore& core,
                                                 TakeEvidence take, TakeDropped take_dropped);
  // Ends as Finish does.
  virtual ~Rescorer() = default;
  virtual RescoreCounts counts() const = 0;
  // Ends the thread, once. What waits is lost, and given to `take` as such by the thread that calls
  // this. What it counted from its start to now.
  virtual RescoreCounts Finish() = 0;
};

}  // namespace kcc
