// What a stored report concludes, drawn again from its own clauses. report.json is plain text: a
// verdict edited there, by hand or by a broken merge, must not be taken for the judge's.
//
// It finds what does not follow, not what was forged: a report whose clauses were all rewritten to
// agree is consistent. What shows that is the evidence, judged again.
#pragma once

#include <string>

#include "kcc/judge/verdict.h"

namespace kcc {

// The first statement that does not follow from what it rests on, as a sentence that starts with
// its JSON path: ".verdict is 'satisfied', but the clauses make it 'violated'". Empty: all follow.
//
// A clause follows from its slices; verdict, convergence, health and thresholds from the clauses;
// the action from the violated ones, where no inconclusive or failed pair could have ordered more
// (a report does not say what those order). A slice that is satisfied about the evaluation set
// must not show a value or an exceedance beyond its limit.
std::string Contradiction(const Judgement& stored);

}  // namespace kcc
