// What blame is asked about: an incident or a promotion, what was promoted, and what served before
// it. Private to register/.
#pragma once

#include <optional>
#include <string>

#include "kcc/base/result.h"
#include "kcc/promotion/promotion.h"
#include "kcc/register/register.h"

namespace kcc {

// What is asked about, as the register has it.
struct BlameSubject {
  std::optional<Entry> incident;  // with the event that opened it
  int64_t incident_opened = 0;
  std::string named_evaluation;    // by the incident; empty: none
  std::optional<Entry> promotion;  // with its last event
  Deployment before;               // empty: nothing served, or nobody knows
  Deployment after;
};

// By the name of either, or incident:NAME and promotion:NAME. An incident about a triple is about
// its newest promotion, and a promotion has the newest incident about it.
Result<BlameSubject> FindBlameSubject(Register& source, const std::string& name);

}  // namespace kcc
