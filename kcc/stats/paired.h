// The exact test that two rates on the same units differ by less than a gap, for a fixed number of
// independent units: does one kernel refuse more often than the other?
//
// A unit scores +1 (the first side alone), -1 (the second alone) or 0; S is the sum over n units.
// H0: P(+1) - P(-1) >= gap, with the share of units that differ, d = P(+1) + P(-1), unknown. On the
// boundary S + n is the sum of two binomials of n trials each, with rates a1 + a2 = 1 + gap and
// a1 a2 = (d + gap)/2, where these are real: d <= (1 + gap^2)/2. Such a sum has its mode next to
// its mean (Darroch 1964), and dP(S <= s)/dd = n/2 (P(S' = s+1) - P(S' = s)) with S' of n-1 units,
// so P(S <= s) rises with d for s + 1 <= floor((n-1) gap). Hence with D an upper bound of d at
// level gamma (Clopper-Pearson), gamma + P(S <= s at d = D) is a p-value (Berger and Boos 1994).
//
// Nothing here may be looked at repeatedly; betting.h may. Where n gap is below kGapUnitsMin so few
// units differ that the bound on d costs more than it brings, and the bets do better.
#pragma once

#include <cstdint>

namespace kcc {

inline constexpr double kGapUnitsMin = 16;

struct PairedCounts {
  int64_t up = 0;    // units that score +1
  int64_t down = 0;  // and -1
  int64_t count = 0;
};

// Whether P(+1) - P(-1) < gap is shown at level alpha. Never where no proof covers the counts: too
// many units differ, or S is not below its mean. Precondition: 0 <= up, down; up + down <= count;
// 0 < gap < 1; 0 < alpha < 1/2.
bool CertifiesGap(PairedCounts seen, double gap, double alpha);

}  // namespace kcc
