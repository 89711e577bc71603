// The population quantities of the catalog, from their counts: one small function each.
#include <algorithm>
#include <array>
#include <cmath>

#include "kcc/base/check.h"
#include "kcc/summary/population.h"

namespace kcc {
namespace {

constexpr size_t kInfer = static_cast<size_t>(Side::kInfer);
constexpr size_t kTrain = static_cast<size_t>(Side::kTrain);

struct Asked {
  const PopulationEvidence& evidence;
  size_t side;
  size_t field_set;
  const PopulationStats& population() const { return *evidence.population; }
  const SidePopulation& one_side() const { return evidence.population->sides[side]; }
};

PopulationValue Point(double value, uint64_t count, uint64_t missing) {
  return {{value, value}, count, missing};
}

double Share(uint64_t part, uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

PopulationValue Rate(uint64_t part, const FlagCounts& flags) {
  return Point(flags.known() == 0 ? 0 : Share(part, flags.known()), flags.known(), flags.missing);
}

PopulationValue RateGap(const PairedFlagCounts& flags) {
  // Those that both sides have cancel: the gap is of the discordant ones.
  const uint64_t more = std::max(flags.infer_only, flags.train_only);
  const uint64_t less = std::min(flags.infer_only, flags.train_only);
  return Point(flags.known() == 0 ? 0 : Share(more - less, flags.known()), flags.known(),
               flags.missing);
}

Interval GapOf(const Interval& a, const Interval& b) {
  const double nearest = std::max({0.0, a.lo - b.hi, b.lo - a.hi});
  return {nearest, std::max(a.hi - b.lo, b.hi - a.lo)};
}

template <class OfSide>
PopulationValue CalibrationGap(const Asked& of, OfSide of_side) {
  const Calibration& calibration = *of.evidence.calibration;
  PopulationValue result;
  result.count = calibration.count();
  result.missing = calibration.unlabelled;
  if (result.count != 0) {
    result.value = GapOf(of_side(calibration.sides[kInfer]), of_side(calibration.sides[kTrain]));
  }
  return result;
}

PopulationValue EceGap(const Asked& of) {
  return CalibrationGap(of, [](const SideCalibration& side) {
    const double ece = side.Ece();
    return Interval{ece, ece};
  });
}

PopulationValue SmceGap(const Asked& of) {
  return CalibrationGap(of, [](const SideCalibration& side) { return side.Smce(); });
}

PopulationValue BrierGap(const Asked& of) {
  return CalibrationGap(of, [](const SideCalibration& side) {
    const double brier = side.Brier();
    return Interval{brier, brier};
  });
}

PopulationValue RewardDrift(const Asked& of) {
  const PopulationStats& all = of.population();
  const double gap = std::fabs(all.reward_gap.Round());
  return Point(all.rewarded == 0 ? 0 : gap / static_cast<double>(all.rewarded), all.rewarded,
               all.reward_missing);
}

PopulationValue FlipRate(const Asked& of) {
  const SeriesStats& overlap = *of.evidence.top1_overlap;
  PopulationValue result;
  result.count = overlap.count();
  result.missing = overlap.missing;
  if (result.count == 0) return result;
  const uint64_t sure = overlap.point.tally.zeros;
  const uint64_t lo = overlap.exact() ? 0 : overlap.ends[1].tally.zeros;  // the overlap at best
  const uint64_t hi = overlap.exact() ? 0 : overlap.ends[0].tally.zeros;
  result.value = {Share(sure + lo, result.count), Share(sure + hi, result.count)};
  return result;
}

PopulationValue Throughput(const Asked& of) {
  const SidePopulation& side = of.one_side();
  const double seconds = (side.last_end_ms - side.first_start_ms) / 1000;
  const double tokens = side.output_tokens.Round();
  // No token in no time is still none: requests that failed at once must not vanish.
  const bool defined = side.timed != 0 && (seconds > 0 || tokens == 0);
  return Point(defined && seconds > 0 ? tokens / seconds : 0, defined ? side.timed : 0,
               side.untimed + (defined ? 0 : side.timed));
}

// What infer has against train, where both are known of and train's is above 0. What either side
// lacks is missing, and so are requests that give no ratio: to leave it out must not help.
template <class OfSide>
PopulationValue Ratio(const Asked& of, OfSide of_side) {
  const PopulationValue infer = of_side(Asked{of.evidence, kInfer, of.field_set});
  const PopulationValue train = of_side(Asked{of.evidence, kTrain, of.field_set});
  const bool defined = infer.count != 0 && train.count != 0 && train.value.lo > 0;
  if (!defined) return Point(0, 0, of.population().requests);
  return Point(infer.value.lo / train.value.lo, std::min(infer.count, train.count),
               std::max(infer.missing, train.missing));
}

PopulationValue FailureRateGap(const Asked& of) {
  const FlagCounts& infer = of.population().sides[kInfer].failed;
  const FlagCounts& train = of.population().sides[kTrain].failed;
  const uint64_t missing = std::max(infer.missing, train.missing);
  const uint64_t known = std::min(infer.known(), train.known());
  if (known == 0) return Point(0, 0, missing);
  // Of the same number of requests the gap is one share, rounded once: 4 of 10 less 3 of 10 are a
  // tenth, which the difference of the two doubles is not.
  const double gap = infer.known() == train.known()
                         ? (static_cast<double>(infer.yes) - static_cast<double>(train.yes)) /
                               static_cast<double>(known)
                         : Share(infer.yes, infer.known()) - Share(train.yes, train.known());
  return Point(gap, known, missing);
}

PopulationValue Determinism(const Asked& of) {
  const SidePopulation& side = of.one_side();
  uint64_t repeats = 0;
  uint64_t alike = 0;
  for (const auto& [group, counts] : side.replay) {
    uint64_t members = 0;
    for (const auto& [signature, count] : counts.signatures) members += count;
    repeats += members - 1;
    alike += counts.signatures.at(counts.first_signature) - 1;
  }
  return Point(repeats == 0 ? 0 : Share(alike, repeats), repeats, side.replay_missing);
}

PopulationValue ReplayGap(const Asked& of, bool ulp) {
  const ReplaySpreads::Gap gap = of.one_side().spreads.Largest(ulp);
  return Point(gap.value, gap.repeats, gap.missing);
}

PopulationValue Largest(double value, uint64_t requests, uint64_t missing) {
  return Point(value, requests - std::min(requests, missing), missing);
}

PopulationValue PeakMemory(const Asked& of) {
  return Largest(of.one_side().peak_memory_mb, of.population().requests,
                 of.one_side().peak_memory_missing);
}

using Compute = PopulationValue (*)(const Asked&);
struct Row {
  std::string_view id;
  Compute compute;
};

// clang-format off
constexpr Row kRows[] = {
    {"ece_gap", EceGap},
    {"smce_gap", SmceGap},
    {"brier_gap", BrierGap},
    {"reward_drift", RewardDrift},
    {"refusal_rate_gap", [](const Asked& of) { return RateGap(of.population().refused); }},
    {"parse_rate_gap", [](const Asked& of) { return RateGap(of.population().parsed); }},
    {"flip_rate", FlipRate},
    {"throughput_tokens_per_s", Throughput},
    {"throughput_ratio", [](const Asked& of) { return Ratio(of, Throughput); }},
    {"peak_memory_mb", PeakMemory},
    {"peak_memory_ratio", [](const Asked& of) { return Ratio(of, PeakMemory); }},
    {"kv_cache_mb", [](const Asked& of) {
       return Largest(of.one_side().kv_cache_mb, of.population().requests,
                      of.one_side().kv_cache_missing); }},
    {"failure_rate", [](const Asked& of) {
       return Rate(of.one_side().failed.yes, of.one_side().failed); }},
    {"failure_rate_gap", FailureRateGap},
    {"replay_mismatch_rate", [](const Asked& of) {
       return Rate(of.population().signatures.no, of.population().signatures); }},
    {"determinism_rate", Determinism},
    {"replay_logprob_gap", [](const Asked& of) { return ReplayGap(of, false); }},
    {"replay_ulp_gap", [](const Asked& of) { return ReplayGap(of, true); }},
    {"trace_field_coverage", [](const Asked& of) {
       const auto& sets = of.one_side().coverage;
       return of.field_set < sets.size() ? Rate(sets[of.field_set].yes, sets[of.field_set])
                                         : PopulationValue{}; }},
    {"event_conformance", [](const Asked& of) {
       return Rate(of.one_side().conforming.yes, of.one_side().conforming); }},
    {"fingerprint_match_rate", [](const Asked& of) {
       return Rate(of.one_side().fingerprint.yes, of.one_side().fingerprint); }},
    {"signature_match_rate", [](const Asked& of) {
       return Rate(of.population().signatures.yes, of.population().signatures); }},
};
// clang-format on

}  // namespace

PopulationValue ComputePopulation(const Metric& metric, const PopulationEvidence& evidence,
                                  size_t field_set) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& candidate) {
    return candidate.id == metric.quantity->id;
  });
  KCC_CHECK(row != std::end(kRows));
  return row->compute({evidence, static_cast<size_t>(metric.side), field_set});
}

}  // namespace kcc
