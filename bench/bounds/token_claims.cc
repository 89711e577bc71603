#include <algorithm>
#include <cmath>

#include "bench/bounds/claims.h"
#include "kcc/bounds/consequence.h"
#include "kcc/bounds/divergence.h"

namespace kcc::bench {
namespace {

using C = const TokenCase&;

// What a measurement in double would hand to a bound: rounded so that it stays on its own side.
double Up(Real x) {
  const auto nearest = static_cast<double>(x);
  return nearest < x ? std::nextafter(nearest, HUGE_VAL) : nearest;
}
double Down(Real x) {
  const auto nearest = static_cast<double>(x);
  return nearest > x ? std::nextafter(nearest, 0.0) : nearest;
}

Real MeanAbsLogRatio(C c) {
  return c.Sum([](Real p, Real x) { return p * std::fabs(x); });
}

Real SoftDrift(C c) {
  // A share eps of contexts is lost entirely: its drift is the whole oscillation.
  return (1 - static_cast<Real>(c.exceedance)) * c.RewardDrift() + c.exceedance;
}

template <Correction kCorrection>
Real Gap(C c) {
  return kCorrection == Correction::kPpo ? c.WorstPpoGap() : c.WeightGap(kCorrection);
}
template <Correction kCorrection>
double GapBound(C c) {
  return WeightGapOfSpan(c.span, kCorrection, c.range);
}
template <Correction kCorrection>
Real Bias(C c) {
  return c.GradientBias(kCorrection);
}
template <Correction kCorrection>
double BiasBound(C c) {
  return GradientBiasOfSpan(c.span, kCorrection, c.range, 1, 1);
}
template <Correction kCorrection>
double BiasOfMeasuredGap(C c) {
  return GradientBiasOfGap(Up(c.WeightGap(kCorrection)), 1, 1);
}

void AddDivergences(std::vector<Claim<TokenCase>>& claims) {
  const auto tv = [](C c) { return c.tv; };
  const auto kl = [](C c) { return c.kl_train_infer; };
  const auto reverse = [](C c) { return c.kl_infer_train; };
  const std::vector<Claim<TokenCase>> rows = {
      {"tv", "TV <= tanh(s/4)", true, tv, [](C c) { return TvOfSpan(c.span); }},
      {"kl train-infer", "KL(p,q) <= KL*(s)", true, kl, [](C c) { return KlOfSpan(c.span); }},
      {"kl infer-train", "KL(q,p) <= KL*(s)", true, reverse, [](C c) { return KlOfSpan(c.span); }},
      {"kl hoeffding", "KL <= s^2/8", true, kl, [](C c) { return KlOfSpanHoeffding(c.span); }},
      {"jeffreys", "KL + KL <= s tanh(s/4)", true,
       [](C c) { return c.kl_train_infer + c.kl_infer_train; },
       [](C c) { return JeffreysOfSpan(c.span); }},
      {"chi2", "chi2(p,q) <= sinh(s/2)^2", true, [](C c) { return c.chi2; },
       [](C c) { return Chi2OfSpan(c.span); }},
      {"chi2 reverse", "chi2(q,p) <= sinh(s/2)^2", true,
       [](C c) {
         return c.Sum([](Real p, Real x) { return p * std::expm1(x) * -std::expm1(-x); });
       },
       [](C c) { return Chi2OfSpan(c.span); }},
      {"hellinger", "1 - BC <= 1 - sech(s/4)", true,
       [](C c) {
         return c.Sum([](Real p, Real x) { return p * std::expm1(x / 2) * std::expm1(x / 2) / 2; });
       },
       [](C c) { return HellingerOfSpan(c.span); }},
      {"log ratio", "max |log w| <= s", true,
       [](C c) {
         Real most = 0;
         for (const Real x : c.log_w) most = std::fmax(most, std::fabs(x));
         return most;
       },
       [](C c) { return LogRatioOfSpan(c.span); }},
      {"renyi", "D_a <= closed form, a in [.02, 40]", true, [](C c) { return c.Renyi(); },
       [](C c) { return RenyiOfSpan(c.span, c.order); }},
      {"textbook tv", "TV <= linf/tau", false, tv,
       [](C c) { return TvOfLinfTextbook(c.span / 2, 1); }},
      {"textbook tv, exponential", "TV <= (e^{2 linf/tau} - 1)/2", false, tv,
       [](C c) { return TvOfLinfExponential(c.span / 2, 1); }},
      {"tv of kl", "TV <= min(Pinsker, Bretagnolle-Huber)", true, tv,
       [](C c) { return TvOfKl(Up(std::fmin(c.kl_train_infer, c.kl_infer_train))); }},
      {"tv of mean abs log ratio", "TV <= E_q|log w|", false, tv,
       [](C c) { return TvOfMeanAbsLogRatio(Up(MeanAbsLogRatio(c))); }},
      {"kl of span and tv", "KL <= s TV", false, kl,
       [](C c) { return KlOfSpanAndTv(c.span, Up(c.tv)); }},
      {"span of log ratio", "s <= 2 max|log w|", true,
       [](C c) { return static_cast<Real>(c.span); },
       [](C c) {
         Real most = 0;
         for (const Real x : c.log_w) most = std::fmax(most, std::fabs(x));
         return SpanOfMaxAbsLogRatio(Up(most));
       }},
      {"least span of tv", "4 atanh(TV) <= s", true,
       [](C c) { return static_cast<Real>(LeastSpanOfTv(Down(c.tv))); },
       [](C c) { return c.span; }},
      {"least span of kl", "KL*^-1(KL) <= s", true,
       [](C c) { return static_cast<Real>(LeastSpanOfKl(Down(c.kl_train_infer))); },
       [](C c) { return c.span; }},
  };
  claims.insert(claims.end(), rows.begin(), rows.end());
}

template <Correction kCorrection>
void AddCorrection(std::vector<Claim<TokenCase>>& claims, const std::string& name,
                   const std::string& gap) {
  claims.push_back({"weight gap, " + name, "E_q|w - phi| <= " + gap, true, Gap<kCorrection>,
                    GapBound<kCorrection>});
  claims.push_back({"bias, " + name, "|bias| <= A G sup E_q|w - phi|", true, Bias<kCorrection>,
                    BiasBound<kCorrection>});
  claims.push_back({"measured bias, " + name, "|bias| <= A G E_q|w - phi|", true, Bias<kCorrection>,
                    BiasOfMeasuredGap<kCorrection>});
}

void AddConsequences(std::vector<Claim<TokenCase>>& claims) {
  const auto drift = [](C c) { return c.RewardDrift(); };
  const auto bias = Bias<Correction::kNone>;
  const std::vector<Claim<TokenCase>> rows = {
      {"reward, tv form", "|E_p r - E_q r| <= osc tanh(s/4)", true, drift,
       [](C c) { return RewardDriftOfTv(TvOfSpan(c.span), 1, RewardRange::kZeroToR); }},
      {"reward, signed", "r in [-R, R]: 2 R TV", true, [](C c) { return 2 * c.RewardDrift(); },
       [](C c) { return RewardDriftOfTv(Up(c.tv), 1, RewardRange::kMinusRToR); }},
      {"reward, measured variance form", "sd_q(r) sqrt(chi2)", true, drift,
       [](C c) { return RewardDriftOfChi2(Up(c.chi2), Up(c.RewardDeviation())); }},
      {"reward, lesser of both", "min(osc tanh(s/4), sd_q(r) sinh(s/2))", true, drift,
       [](C c) {
         return RewardDriftOfSpan(c.span, 1, RewardRange::kZeroToR, Up(c.RewardDeviation()));
       }},
      {"reward, soft clause", "osc ((1 - eps) tanh(s/4) + eps)", true, SoftDrift,
       [](C c) { return RewardDriftOfSoftSpan(c.span, c.exceedance, 1, RewardRange::kZeroToR); }},
      {"bias of kl", "A G min(sqrt(2 KL), ...)", true, bias,
       [](C c) {
         return GradientBiasOfKl(Up(std::fmin(c.kl_train_infer, c.kl_infer_train)), 1, 1);
       }},
      {"bias of mean abs log ratio", "2 A G E_q|log w|", false, bias,
       [](C c) { return GradientBiasOfMeanAbsLogRatio(Up(MeanAbsLogRatio(c)), 1, 1); }},
      {"variance factor", "E_q w^2 <= cosh(s/2)^2", true, [](C c) { return 1 + c.chi2; },
       [](C c) { return ImportanceVarianceFactor(c.span); }},
  };
  claims.insert(claims.end(), rows.begin(), rows.end());
  AddCorrection<Correction::kNone>(claims, "uncorrected", "2 tanh(s/4)");
  AddCorrection<Correction::kTruncate>(claims, "truncated", "(e^{s/2} - sqrt c)^2/(e^s - 1)");
  AddCorrection<Correction::kClip>(claims, "clipped", "closed form");
  AddCorrection<Correction::kMask>(claims, "masked", "closed form");
  AddCorrection<Correction::kFilter>(claims, "filtered", "two-point corners");
  AddCorrection<Correction::kPpo>(claims, "ppo", "as masked");
  claims.push_back({"excess below", "E_q(a - w)_+ <= closed form", true,
                    [](C c) { return c.ExcessBelow(); },
                    [](C c) { return ExcessBelowOfSpan(c.span, c.range.low); }});
}

}  // namespace

const std::vector<Claim<TokenCase>>& TokenClaims() {
  static const std::vector<Claim<TokenCase>> claims = [] {
    std::vector<Claim<TokenCase>> rows;
    AddDivergences(rows);
    AddConsequences(rows);
    return rows;
  }();
  return claims;
}

}  // namespace kcc::bench
