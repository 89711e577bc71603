#include "kcc/drift/divergence_terms.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/constants.h"
#include "kcc/drift/sampled_token.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

// The nearest points of two intervals; equal ones where they meet.
struct Nearest {
  double p;
  double q;
};
Nearest NearestOf(const Interval& p, const Interval& q) {
  if (p.lo > q.hi) return {p.lo, q.hi};
  if (q.lo > p.hi) return {p.hi, q.lo};
  const double common = std::max(p.lo, q.lo);
  return {common, common};
}

}  // namespace

double KlTerm(double p, double q) {
  if (p == q) return 0;
  if (p == 0) return q;
  return q == 0 ? kInf : std::max(0.0, p * ExpResidual(Log(q / p)));
}
double ReverseKlTerm(double p, double q) { return KlTerm(q, p); }
double Chi2Term(double p, double q) { return p == q ? 0 : q == 0 ? kInf : (p - q) / q * (p - q); }
double ReverseChi2Term(double p, double q) { return Chi2Term(q, p); }
double TvTerm(double p, double q) { return 0.5 * std::fabs(p - q); }
double HellingerTerm(double p, double q) {
  const double root = std::sqrt(p) - std::sqrt(q);
  return 0.5 * root * root;
}
double JsDivergenceTerm(double p, double q) {
  if (p == q) return 0;
  if (p == 0 || q == 0) return 0.5 * kLn2 * std::max(p, q);
  const double x = Log(q / p);
  return x < 600 ? p * JsTerm(x) : 0.5 * kLn2 * q;
}

double TvOverlap(double p, double q) { return std::min(p, q); }
double HellingerOverlap(double p, double q) { return std::sqrt(p * q); }
double JsOverlap(double p, double q) {  // (p log((p + q) / p) + q log((p + q) / q)) / 2
  const double larger = std::max(p, q);
  const double ratio = std::min(p, q) / larger;
  if (!(ratio > 0)) return 0;
  const double log = Log1p(ratio);
  return 0.5 * larger * (log + ratio * (log - Log(ratio)));
}

double AtNearest(Term term, const Interval& p, const Interval& q) {
  const Nearest at = NearestOf(p, q);
  return term(at.p, at.q);
}

double AtFarthest(Term term, const Interval& p, const Interval& q) {
  return std::max(term(p.lo, q.hi), term(p.hi, q.lo));
}

}  // namespace kcc
