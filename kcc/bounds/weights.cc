#include "kcc/bounds/weights.h"

#include <cmath>

#include "kcc/base/check.h"
#include "kcc/bounds/divergence.h"
#include "kcc/bounds/rounding.h"

namespace kcc {
namespace {

// The range's ends as distances of log w from 0, rounded towards 0: towards more excess.
struct LogRange {
  double down;  // -ln a
  double up;    // ln c
};

LogRange LogOf(CorrectionRange range) {
  KCC_CHECK(range.high >= 1.0 && range.low > 0 && range.low <= 1.0);
  return {RoundDown(-std::log(range.low)), RoundDown(std::log(range.high))};
}

// (1 - e^{-(s-d)/2})^2/(1 - e^-s), the hockey-stick form with e^s divided out.
double Excess(double span, double log_distance) {
  const double gap = -std::expm1(-(span - log_distance) / 2.0);
  return gap * (gap / -std::expm1(-span));
}

double ClipGapOfSpan(double span, CorrectionRange range) {
  const double above = ExcessAboveOfSpan(span, range.high);
  const double below = ExcessBelowOfSpan(span, range.low);
  if (span == 0) return 0;
  const double a = range.low;
  const double sum = a + range.high;
  // r = e^{-s/2} y; r - 1 without cancellation where a and c are near 1, where a + c would round
  // away what matters but 1 - a and c - 1 are exact.
  const double r = std::sqrt(2.0 / sum);
  const double asymmetry = (1.0 - a) - (range.high - 1.0);
  const double shift = asymmetry / sum / (r + 1.0);
  const double reach = -std::expm1(-span / 2.0);
  const double gap = shift + reach + kOutward * (std::fabs(shift) + reach);
  double both = 0;
  if (gap > 0) {
    both = (a - 1.0) + sum * gap * (gap / -std::expm1(-span));
    both = RoundUp(std::fmax(0.0, both + kOutward * (1.0 - a)));
  }
  return std::fmin(above + below, std::fmax(both, std::fmax(above, below)));
}

// P_p(w outside [a, c]). If both ends can lie outside (s > ln(c/a)) all of p's mass can: 1.
// Otherwise one side is used. Above: w = c+ and w = c e^-s; below: w = a- and w = a e^s.
double MaskedMassOfSpan(double span, CorrectionRange range) {
  const auto [down, up] = LogOf(range);
  if (span > RoundDown(down + up)) return 1;
  const double above = span > up ? std::expm1(up - span) / std::expm1(-span) : 0.0;
  const double below = span > down ? range.low * std::expm1(down - span) / std::expm1(-span) : 0.0;
  return RoundUpToOne(std::fmax(above, below));
}

// The filter's g(w) is 1 - w on [a, 1], w - 1 on [1, c] and w outside. Over two points l <= 1 <= h,
// h <= l e^s, the mean [(h-1) g(l) + (1-l) g(h)]/(h-l) is
//   both inside     2 TV, rising with h and falling with l;
//   both outside    1;
//   l below a       (h-1)/(h-l), rising with both: l = a-, h = min(c, a e^s);
//   h above c       (1-l)(2h-1)/(h-l), falling with l, in h as 1 - 2l: l = a and h = c+ or a e^s;
//                   on l = h e^-s it peaks at h = e^{s/2}/sqrt 2, else at the end h = c+.
// Each case below is one of these corners. Points are kept as lambda = -ln l, eta = ln h.
class FilterCorners {
 public:
  FilterCorners(double span, CorrectionRange range) : ends_(LogOf(range)), span_(RoundUp(span)) {}

  double Sup() {
    const auto [down, up] = ends_;
    if (span_ > RoundDown(down + up)) best_ = 1;
    if (span_ / 2 < down && span_ / 2 < up) Consider(span_ / 2, span_ / 2);
    Consider(down, std::fmin(up, span_ - down));
    Consider(down, span_ - down);
    if (span_ - up <= down) Consider(span_ - up, up);
    const double peak = (span_ - std::log(2.0)) / 2.0;
    if (peak >= up && span_ - peak <= down) Consider(span_ - peak, peak);
    return best_;
  }

 private:
  void Consider(double lambda, double eta) {
    if (lambda < 0 || eta < 0) return;
    eta = std::fmin(eta, 690.0);  // e^eta stays finite; the mean has long converged
    const double below_one = -std::expm1(-lambda);
    const double above_one = std::expm1(eta);
    if (below_one + above_one == 0) return;
    const bool at_low = lambda >= ends_.down * (1 - kOutward);
    const bool at_high = eta >= ends_.up * (1 - kOutward);
    const double g_low = at_low ? std::fmax(below_one, std::exp(-lambda)) : below_one;
    const double g_high = at_high ? std::exp(eta) : above_one;
    const double scale = above_one + below_one;
    best_ = std::fmax(best_, above_one / scale * g_low + below_one / scale * g_high);
  }

  LogRange ends_;
  double span_;
  double best_ = 0;
};

}  // namespace

double ExcessAboveOfSpan(double span, double c) {
  KCC_CHECK(c >= 1.0);
  const double up = RoundDown(std::log(c));
  return span <= up ? 0 : RoundUpToOne(Excess(span, up));
}

double ExcessBelowOfSpan(double span, double a) {
  KCC_CHECK(a > 0 && a <= 1.0);
  const double down = RoundDown(-std::log(a));
  return span <= down ? 0 : std::fmin(a, RoundUp(a * Excess(span, down)));
}

double WeightGapOfSpan(double span, Correction correction, CorrectionRange range) {
  KCC_CHECK(span >= 0);
  switch (correction) {
    case Correction::kNone:
      return 2.0 * TvOfSpan(span);
    case Correction::kTruncate:
      return ExcessAboveOfSpan(span, range.high);
    case Correction::kClip:
      return ClipGapOfSpan(span, range);
    case Correction::kMask:
    case Correction::kPpo:
      return MaskedMassOfSpan(span, range);
    case Correction::kFilter:
      // Corners shifted by a few units of rounding: twice the usual margin.
      return span == 0 ? 0 : std::fmin(2.0, RoundUp(RoundUp(FilterCorners(span, range).Sup())));
    case Correction::kFull:
      return 0;
  }
  return 2.0;
}

double WeightGap(double log_ratio, Correction correction, CorrectionRange range, double advantage) {
  const double w = std::exp(log_ratio);
  const bool below = w < range.low;
  const bool above = w > range.high;
  switch (correction) {
    case Correction::kNone:
      return std::fabs(std::expm1(log_ratio));
    case Correction::kTruncate:
      return above ? w - range.high : 0;
    case Correction::kClip:
      return above ? w - range.high : below ? range.low - w : 0;
    case Correction::kMask:
      return below || above ? w : 0;
    case Correction::kFilter:
      return below || above ? w : std::fabs(std::expm1(log_ratio));
    case Correction::kPpo:
      return (above && advantage > 0) || (below && advantage < 0) ? w : 0;
    case Correction::kFull:
      return 0;
  }
  return 0;
}

}  // namespace kcc
