// Whether the two sides are one: a trace given twice, a kernel compared with itself, sides that
// look exchanged. Such evidence satisfies every clause and shows nothing, so the verdict says so.
#pragma once

#include <set>
#include <string>

#include "kcc/summary/summary.h"

namespace kcc {

// Adds what a reader must know, in words. Never a verdict: bit-exact kernels are possible, and a
// kernel may be held against itself on purpose.
void WarnOfSameSides(const Summary& summary, std::set<std::string>* warnings);

}  // namespace kcc
