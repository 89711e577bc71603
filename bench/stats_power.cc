// Prints the power table of docs/statistics.md (Markdown): requests until four of five samples are
// decided, by the bets of before (the coarse grid), by those of now, by the best single bet in
// hindsight, and by the best test that knows more than kcc may assume.
//   stats_power [runs]      default 1000; fixed seeds, about a minute
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "kcc/stats/beta.h"
#include "kcc/stats/betting.h"
#include "kcc/stats/binomial.h"
#include "kcc/stats/mean_bounds.h"
#include "kcc/stats/paired.h"
#include "kcc/stats/simulation.h"
#include "kcc/stats/token_ratio.h"

namespace kcc {
namespace {

constexpr double kAlpha = 0.05;
constexpr double kPower = 0.8;

// Sizes at which power is taken, 2 % apart.
std::vector<int64_t> Sizes(int64_t most) {
  std::vector<int64_t> sizes;
  for (int64_t n = 5; n <= most; n += std::max<int64_t>(1, n / 50)) sizes.push_back(n);
  return sizes;
}

// The least size from which on the share of decided samples stays at kPower.
class PowerCurve {
 public:
  explicit PowerCurve(size_t sizes) : decided_(sizes) {}
  void Count(size_t at, bool decided) { decided_[at] += decided ? 1 : 0; }
  int64_t Needed(const std::vector<int64_t>& sizes, int64_t runs) const {
    int64_t needed = 0;
    for (size_t i = sizes.size(); i-- > 0;) {
      if (static_cast<double>(decided_[i]) < kPower * static_cast<double>(runs)) break;
      needed = sizes[i];
    }
    return needed;
  }

 private:
  std::vector<int64_t> decided_;
};

std::string Text(int64_t needed, int64_t most) {
  return needed > 0 ? std::to_string(needed) : "> " + std::to_string(most);
}

// One row: observations in [0,1] against m. A gap has two signs, and both must pass.
struct Setting {
  const char* name;
  double m = 0;
  bool refute = false;
  bool both_signs = false;
  std::function<UnitValue(RandomStream&)> draw;
  int64_t most = 0;
  std::string known;  // the best test that knows more, and what it needs; may be empty
  std::function<int64_t()> best;
};

void PrintRow(const Setting& s, int64_t runs, uint64_t seed) {
  const std::vector<int64_t> sizes = Sizes(s.most);
  const BettingPlan coarse = *MakeBettingPlan(s.m, BetGrid::kCoarse);
  const BettingPlan fine = *MakeBettingPlan(s.m);
  PowerCurve before(sizes.size());
  PowerCurve anytime(sizes.size());
  PowerCurve once(sizes.size());
  std::vector<PowerCurve> single(kBets, PowerCurve(sizes.size()));
  RandomStream random(seed);
  const size_t signs = s.both_signs ? 2 : 1;
  for (int64_t run = 0; run < runs; ++run) {
    std::vector<BettingSums> old_sums(signs);
    std::vector<BettingSums> new_sums(signs);
    size_t at = 0;
    for (int64_t n = 1; n <= sizes.back(); ++n) {
      const UnitValue x = s.draw(random);
      const UnitValue mirrored{.value = x.complement, .complement = x.value};
      for (size_t i = 0; i < signs; ++i) {
        old_sums[i].Add(coarse, i == 0 ? x : mirrored);
        new_sums[i].Add(fine, i == 0 ? x : mirrored);
      }
      if (n != sizes[at]) continue;
      const auto decided = [&](const BettingPlan& plan, const std::vector<BettingSums>& sums,
                               const Reading& reading) {
        return std::all_of(sums.begin(), sums.end(), [&](const BettingSums& one) {
          return Rejects(s.refute ? LogEFail(plan, one, reading) : LogEPass(plan, one, reading),
                         kAlpha);
        });
      };
      before.Count(at, decided(coarse, old_sums, {}));
      anytime.Count(at, decided(fine, new_sums, {}));
      once.Count(at, decided(fine, new_sums, {.once_at = kAlpha}));
      for (size_t k = 0; k < kBets; ++k) {
        single[k].Count(at, std::all_of(new_sums.begin(), new_sums.end(), [&](const auto& one) {
                          const bool ruined = !s.refute && k == 0 && one.ones > 0;
                          const int64_t sum = s.refute ? one.fail[k] : one.pass[k];
                          return !ruined &&
                                 Rejects(std::ldexp(static_cast<double>(sum), -32), kAlpha);
                        }));
      }
      ++at;
    }
  }
  int64_t best = 0;
  for (const PowerCurve& curve : single) {
    const int64_t needed = curve.Needed(sizes, runs);
    if (needed > 0 && (best == 0 || needed < best)) best = needed;
  }
  const std::string known = s.best ? s.known + std::to_string(s.best()) : "";
  std::printf(
      "| %s | %s | %s | %s | %s | %s |\n", s.name, Text(before.Needed(sizes, runs), s.most).c_str(),
      Text(once.Needed(sizes, runs), s.most).c_str(),
      Text(anytime.Needed(sizes, runs), s.most).c_str(), Text(best, s.most).c_str(), known.c_str());
  std::fflush(stdout);
}

// The least sample with which the exact binomial test has the power, `rate` being the truth.
int64_t BinomialNeeded(double rate, double limit) {
  for (int64_t n = 1;; ++n) {
    double power = 0;
    for (int64_t k = 0; k <= n && CertifiesRate({k, n}, limit, kAlpha); ++k) {
      power += BinomialPoint(k, n, rate);
    }
    if (power >= kPower) return n;
  }
}

// Normal theory with the variance known; a gap must pass on both sides.
int64_t NormalNeeded(double distance, double variance, bool both_signs) {
  const double power_z = both_signs ? 1.2815515655 : 0.8416212336;
  const double z = 1.6448536270 + power_z;
  return static_cast<int64_t>(std::ceil(z * z * variance / (distance * distance)));
}

// Whether a fifth of requests that differ, evenly, are within a gap of 0.1: the exact test.
int64_t PairedNeeded(int64_t runs) {
  const std::vector<int64_t> sizes = Sizes(500);
  PowerCurve curve(sizes.size());
  RandomStream random(61);
  for (int64_t run = 0; run < runs; ++run) {
    PairedCounts seen;
    size_t at = 0;
    while (at < sizes.size()) {
      const double u = random.Uniform();
      seen.up += u < 0.1;
      seen.down += u >= 0.1 && u < 0.2;
      if (++seen.count != sizes[at]) continue;
      const bool exact = static_cast<double>(seen.count) * 0.1 >= kGapUnitsMin;
      curve.Count(at, exact && CertifiesGap(seen, 0.1, kAlpha) &&
                          CertifiesGap({seen.down, seen.up, seen.count}, 0.1, kAlpha));
      ++at;
    }
  }
  return curve.Needed(sizes, runs);
}

// RL's rows, of which count, sum and sum of squares are kept: before by Maurer-Pontil.
void PrintRows(int64_t runs) {
  const std::vector<int64_t> sizes = Sizes(3000);
  PowerCurve before(sizes.size());
  PowerCurve now(sizes.size());
  RandomStream random(71);
  for (int64_t run = 0; run < runs; ++run) {
    ValueSums sums;
    size_t at = 0;
    while (at < sizes.size()) {
      const double tv = 0.002 * random.Uniform();
      ++sums.count;
      sums.sum += tv;
      sums.squares += tv * tv;
      if (sums.count != sizes[at]) continue;
      const auto n = static_cast<double>(sums.count);
      const SampleMoments moments{sums.count, sums.sum / n,
                                  (sums.squares - sums.sum * sums.sum / n) / (n - 1)};
      before.Count(at, MeanUpperMaurerPontil(moments, kAlpha) <= 0.01);
      now.Count(at, MeanUpperBySums(sums, kAlpha) <= 0.01);
      ++at;
    }
  }
  std::printf(
      "\nRL `tv_rows` of 0.001 against 0.01: Maurer-Pontil %s rows, now %s, any valid test "
      "at least 299\n",
      Text(before.Needed(sizes, runs), 3000).c_str(), Text(now.Needed(sizes, runs), 3000).c_str());
}

UnitValue Unit(double x) { return *ToUnitValue(x); }

std::function<UnitValue(RandomStream&)> Tokens(double rate, double icc, double limit) {
  return [=](RandomStream& random) {
    RequestModel model;
    model.rate = rate;
    model.icc = icc;
    const SimulatedRequest r = SimulateRequest(model, random);
    return *RatioObservation(static_cast<double>(r.bad), static_cast<double>(r.tokens),
                             static_cast<double>(model.tokens_max), limit);
  };
}

// 1 and -1 with a tenth each, on the scale of [-reach, reach].
std::function<UnitValue(RandomStream&)> Gap(double reach) {
  return [=](RandomStream& random) {
    const double u = random.Uniform();
    return Unit(((u < 0.1 ? 1 : u < 0.2 ? -1 : 0) + reach) / (2 * reach));
  };
}

void PrintTable(int64_t runs) {
  std::printf(
      "| clause and truth | before | judged once | any time | best single bet | knowing more |\n"
      "|---|---|---|---|---|---|\n");
  const auto reward = [](RandomStream& r) { return Unit(r.Bernoulli(0.7) ? 0 : 0.5); };
  const auto rare = [](RandomStream& r) { return Unit(r.Bernoulli(0.02) ? 0.3 : 0); };
  const Setting settings[] = {
      {"`mean_reward` at least 0.5, rewards 0/1 of mean 0.7", 0.25, false, false, reward, 200,
       "binomial ", [] { return BinomialNeeded(0.3, 0.5); }},
      {"`reward_drift` at most 0.1, ±1 in a tenth each", 0.525, false, true, Gap(2), 800, "TOST ",
       [] { return NormalNeeded(0.1, 0.2, true); }},
      {"`refusal_rate_gap` at most 0.1, the same", 0.55, false, true, Gap(1), 800, "TOST ",
       [] { return NormalNeeded(0.1, 0.2, true); }},
      {"`mean_prob_gap` 0.006 against 0.01, 0.3 in 2 %", 0.01, false, false, rare, 3000, "z-test ",
       [] { return NormalNeeded(0.004, 0.02 * 0.09 - 3.6e-5, false); }},
      {"token rate 1.25 % against 5 %, ICC 1", 0.05, false, false, Tokens(0.0125, 1, 0.05), 700,
       "binomial ", [] { return BinomialNeeded(0.0125, 0.05); }},
      {"token rate 1.25 % against 5 %, ICC 0.3", 0.05, false, false, Tokens(0.0125, 0.3, 0.05), 400,
       "", nullptr},
      {"token rate 4 % against 5 %, ICC 0.3", 0.05, false, false, Tokens(0.04, 0.3, 0.05), 6000, "",
       nullptr},
      {"token rate 4.25 % against 5 %, ICC 0.3", 0.05, false, false, Tokens(0.0425, 0.3, 0.05),
       12000, "", nullptr},
      {"token rate 10 % against 5 %, ICC 1: violated", 0.05, true, false, Tokens(0.1, 1, 0.05),
       1000, "", nullptr},
  };
  uint64_t seed = 50;
  for (const Setting& setting : settings) PrintRow(setting, runs, ++seed);
  std::printf("\n`refusal_rate_gap` by the exact test of pairs, judged once: %lld\n",
              static_cast<long long>(PairedNeeded(runs)));
  PrintRows(runs);
}

}  // namespace
}  // namespace kcc

int main(int argc, char** argv) {
  const int64_t runs = argc > 1 ? std::atoll(argv[1]) : 1000;
  if (runs < 50) {
    std::fprintf(stderr, "usage: stats_power [runs >= 50]\n");
    return 2;
  }
  std::printf("%lld runs per row, requests for 80 %% power at 95 %%\n\n",
              static_cast<long long>(runs));
  kcc::PrintTable(runs);
  return 0;
}
