// How far repeats of one request lie apart: the log-probs of their tokens, least and greatest at
// each place, kept while requests come in any order and merged exactly. A clause on
// replay_logprob_gap or replay_ulp_gap is a clause on determinism with a tolerance.
//
// What was asked once shows nothing about determinism, so a group of one counts as missing and not
// as alike; and so do groups whose members were asked about other tokens. A group's 16 bytes a
// token are kept only where a plan asks for them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "kcc/metric/metric.h"
#include "kcc/summary/archive.h"

namespace kcc {

// The rows of one request, in order.
struct ReplayRows {
  std::vector<int32_t> tokens;
  std::array<std::vector<double>, 2> logprobs;  // by Side; NaN: not known
  bool by_replica = false;                      // as the plan says

  void Clear();
  void Add(int32_t token, const std::array<double, 2>& logprob);
};

struct ReplaySpread {
  uint64_t members = 0;
  uint64_t tokens = 0;  // hash of the token ids; 0 where members differ
  bool mixed = false;   // members were asked about other tokens: nothing more is known
  std::vector<double> least, greatest;

  bool operator==(const ReplaySpread&) const = default;
};

class ReplaySpreads {
 public:
  // `group` names what repeats what, `replica` who answered (empty: not told, or not asked for).
  // The request is missing where it has no group, no row, or a row without a log-prob.
  void Add(std::string_view group, std::string_view replica, const ReplayRows& rows, Side side);
  void AddMissing() { ++missing_; }
  void Merge(const ReplaySpreads& other);
  void Visit(Archive& archive);

  struct Gap {
    double value = 0;
    uint64_t repeats = 0;  // 0: nothing was repeated, and the value says nothing
    uint64_t missing = 0;
  };
  // In nat, or in units of the last place of float32.
  Gap Largest(bool ulp) const;

  bool operator==(const ReplaySpreads&) const = default;

 private:
  uint64_t missing_ = 0;
  std::map<uint64_t, ReplaySpread> groups_;  // by hash of group and replica
};

}  // namespace kcc
