// One observation of the monitor: what a kernel did with one request and, where the request was
// audited, what the audit kernel says about the same tokens. Time is data: nothing here is read
// from a clock.
//
// Whose word a field is stands in predicate/fields.h, and the rules of docs/semantics.md hold: what
// decides slices and what counts never comes from the judged side alone. `asked` is the word of
// whoever routed the request, `train` that of the audit kernel, `infer` that of the kernel judged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kcc/base/interval.h"
#include "kcc/base/result.h"
#include "kcc/metric/metric.h"
#include "kcc/trace/outputs.h"
#include "kcc/trace/trace.h"

namespace kcc {

inline constexpr size_t kBrokenBytesMax = 1024;  // of MonitorObservation::broken

// One quantity of every token, by row.
struct TokenColumn {
  size_t slot = 0;         // of metric/token_slots.h: TokenSlot("kl")
  std::vector<double> lo;  // NaN: the value is missing
  std::vector<double> hi;  // upper ends of intervals; empty: `lo` is exact
};

// A token metric of the contract's own, by the name a clause would use ("queue_ms").
struct OwnTokenColumn {
  std::string name;
  std::vector<double> values;  // NaN: missing
};

// The tokens that both kernels scored, masked ones left out. Every column that is not empty has one
// entry for each row.
struct ObservedTokens {
  std::vector<int32_t> position;  // over prompt and output together; as many as there are rows
  std::vector<int32_t> token;     // empty: not known
  std::vector<int32_t> gold;      // train's labels, -1: none
  std::vector<double> advantage;  // train's
  std::array<std::vector<double>, 2> logprob;  // of the token, by Side
  // For calibration: each side's most likely token (-1: not known) and its probability, by Side.
  std::array<std::vector<int32_t>, 2> argmax;
  std::array<std::vector<double>, 2> confidence;
  std::vector<TokenColumn> columns;
  std::vector<OwnTokenColumn> own;
  int64_t masked = 0;  // rows of the output that train leaves out

  size_t rows() const { return position.size(); }
};

struct MonitorObservation {
  int64_t time_ms = 0;
  std::string kernel;   // of the policy: who served the request, or was shown it as a probe
  std::string session;  // empty: the request is a session of its own
  // A copy of the request that a kernel was shown and nobody was answered with.
  bool probe = false;
  // The kernel was asked again for what another observation of the same `replay_group` shows:
  // clauses about repeats read it, and no other. It is no request of its own, and of no session.
  bool repeat = false;
  // The evidence below is complete as far as it will ever be. What is not audited is counted, and
  // is evidence of nothing.
  bool audited = false;
  Request infer;                 // its id is the request's
  std::optional<Request> train;  // the audit side's record; none: it has no word
  std::optional<Request> asked;  // what was asked of both sides
  // Why this is no evidence but of its being broken: what the kernel did, in words that an alarm
  // repeats ("it read another prompt"). Empty: it is not.
  std::string broken;
  // Infer's record speaks for both sides, as those that come with arrays (summary/population.h): of
  // train's own run nothing is known, nor how the two compare. Then `train` is none.
  bool one_record = false;
  ObservedTokens tokens;
  // Metrics of the request that the emitter computed itself, by name ("mean_kl"), for one that has
  // no tokens to show. They stand for the request as a whole: soft clauses by request and extremes
  // read them where there are no rows, slices of tokens do not.
  std::map<std::string, Interval, std::less<>> values;
  std::optional<OutputComparison> outputs;  // of what both sides generated

  const std::string& id() const { return infer.id; }
};

// Success if the observation can be read at all: an id, columns of one length, no empty interval,
// slots that exist. What it says may still be missing, broken or ignored.
Result<> CheckObservation(const MonitorObservation& observation);

}  // namespace kcc
