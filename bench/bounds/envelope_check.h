// Envelopes against measured drift, source by source, on random toy transformers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kcc::bench {

struct EnvelopeFinding {
  std::string source;
  int64_t layers = 0;
  int networks = 0;
  double measured = 0;           // largest |z' - z| of any logit
  double worst_case = 0;         // the least envelope over the networks
  double best_ratio = 0;         // max of measured/envelope
  double statistical_ratio = 0;  // max of measured/statistical envelope
  int vacuous = 0;
  int violations = 0;  // of the worst-case form
};

std::vector<EnvelopeFinding> CheckEnvelopes(int networks, uint64_t seed);

// Prints the table; returns the program's exit status.
int PrintEnvelopes(int networks, uint64_t seed);

}  // namespace kcc::bench
