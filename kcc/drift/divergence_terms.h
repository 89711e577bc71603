// The terms of the divergences, and their least and largest values over boxes. Internal to the
// backends of partial evidence.
//
// A divergence is a sum over tokens of term(p, q) = p phi(q/p), with phi convex and phi(1) = 0: a
// term is 0 only where p = q, and grows as p and q move apart. So over a box [p] x [q] it is
// smallest where p and q come closest and largest at one of the two far corners.
#pragma once

#include "kcc/drift/top_list_view.h"

namespace kcc {

using Term = double (*)(double p, double q);

double KlTerm(double p, double q);
double ReverseKlTerm(double p, double q);
double Chi2Term(double p, double q);
double ReverseChi2Term(double p, double q);
double TvTerm(double p, double q);
double HellingerTerm(double p, double q);
double JsDivergenceTerm(double p, double q);

// What is left of 1, 1 and ln 2 is tv, hellinger and js: terms that grow with p and q, 0 where one
// of them is 0.
double TvOverlap(double p, double q);
double HellingerOverlap(double p, double q);
double JsOverlap(double p, double q);

double AtNearest(Term term, const Interval& p, const Interval& q);
double AtFarthest(Term term, const Interval& p, const Interval& q);

}  // namespace kcc
