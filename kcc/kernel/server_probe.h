// What a server's log-probs mean, found out by asking instead of trusting.
//
// The same sequence is scored at temperature 1, at 2 with sampling by the two best alone, and at 1
// with another last token. With d = log-prob minus that of the best token,
//
//   raw                 d(2) = d(1), and the best token's log-prob stays
//   temperature-scaled  d(2) = d(1) / 2
//   processed           only two entries are left, or the best token's log-prob moves
//   shifted by one      the numbers at the last token change with that token
//   no log-probs        above 0, or probabilities that sum to more than 1
//
// d(2) = s d(1) is fitted by least squares over all positions, so rounding noise of a kernel does
// not decide. Log-probs from logits that are negative enough to pass for log-probs go unnoticed: a
// list cut to the k best cannot show that the rest does not sum to 1.
#pragma once

#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/trace/import_responses.h"

namespace kcc {

inline constexpr double kProbeTemperature = 2;

// The alternatives at each scored position, best first.
using ProbeLists = std::vector<std::vector<TopEntry>>;

struct ProbeAnswers {
  ProbeLists plain;   // temperature 1
  ProbeLists heated;  // kProbeTemperature, sampling by the two best
  ProbeLists other;   // temperature 1, another last token
};

// The meaning, or an error: no log-probs, shifted, or too flat to tell.
Result<LogprobSemantics> FindSemantics(const ProbeAnswers& answers);

// Fails where `found` is not what the options ask for, with the server's flag that changes it
// (ServerDialect::raw_remedy).
Result<> CheckSemantics(std::string_view remedy, LogprobSemantics expected, LogprobSemantics found);

// The alternatives of a token: its list, or the best of its logits.
std::vector<TopEntry> ProbeList(const ImportedToken& token);

}  // namespace kcc
