// A trace's identity is that of its requests and headers, not of its numbers: two kernels that give
// themselves the same name can have one identity. So it is taken for the same trace only where the
// numbers agree too, on every token.
#include "kcc/judge/same_sides.h"

#include <algorithm>

#include "kcc/summary/series.h"

namespace kcc {
namespace {

// Of the numbers themselves, 0 where both sides gave the same.
constexpr std::string_view kNumbers[] = {"bit_mismatch", "abs_log_ratio", "raw_logit_linf"};
// Of the distributions. With lists they are intervals, whose lower ends are then 0.
constexpr std::string_view kDistributions[] = {"logit_span", "tv", "kl"};

// Every distance that was measured is 0, one of the numbers' among them. On how many tokens; 0: not
// so.
uint64_t TokensWithoutDistance(const Summary& summary) {
  const SliceStats* all = summary.FindSlice("all");
  if (all == nullptr) return 0;
  uint64_t tokens = 0;
  const auto is_zero = [](const SeriesStats& series) {
    const Moments least = series.Stream(SeriesStats::End::kLow);
    return series.count() == 0 || (least.max == 0 && least.min == 0);
  };
  for (const std::string_view name : kNumbers) {
    const SeriesStats& series = all->series[*FindSeries(name)];
    if (!is_zero(series)) return 0;
    tokens = std::max(tokens, series.count());
  }
  for (const std::string_view name : kDistributions) {
    if (!is_zero(all->series[*FindSeries(name)])) return 0;
  }
  return tokens;
}

bool Same(const std::string& train, const std::string& infer) {
  return !train.empty() && train == infer;
}

// The two sides are one trace. Answers that each side wrote have no tokens to compare.
bool SameTrace(const Source& source, bool same_numbers) {
  if (Same(source.train.payload_digest, source.infer.payload_digest)) return true;
  if (!Same(source.train.identity, source.infer.identity)) return false;
  return same_numbers || source.mode == TraceMode::kGenerated;
}

}  // namespace

void WarnOfSameSides(const Summary& summary, std::set<std::string>* warnings) {
  const uint64_t tokens = TokensWithoutDistance(summary);
  for (const Source& source : summary.sources) {
    const std::string& train = source.train.kernel_fingerprint;
    const std::string& infer = source.infer.kernel_fingerprint;
    if (SameTrace(source, tokens > 0)) {
      warnings->insert(
          "train and infer are the same trace: it was compared with itself, which says nothing "
          "about two kernels");
    } else if (Same(train, infer)) {
      warnings->insert("train and infer have the same fingerprint '" + train +
                       "': a kernel was compared with itself, or two builds cannot be told apart");
    } else if (tokens > 0 && (train.empty() || infer.empty())) {
      warnings->insert("train and infer gave the same numbers to the last bit on all " +
                       std::to_string(tokens) +
                       " tokens, and not both have a fingerprint: two bit-exact kernels do that, "
                       "and so does one "
                       "side given twice");
    }
    if (source.train.evidence == EvidenceLevel::kTopK &&
        source.infer.evidence == EvidenceLevel::kLogits) {
      warnings->insert(
          "train gave top-k lists and infer full logits, while trainers have logits and servers "
          "lists: are the sides exchanged?");
    }
  }
}

}  // namespace kcc
