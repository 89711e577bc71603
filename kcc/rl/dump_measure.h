// A dump under a contract: its rows as requests, measured into the summary that two traces of the
// same tokens would give, so that everything behind a summary (verdicts, reports) serves dumps too.
#pragma once

#include <optional>
#include <string>

#include "kcc/base/result.h"
#include "kcc/rl/dump.h"
#include "kcc/summary/plan.h"
#include "kcc/summary/summary.h"

namespace kcc {

struct RlMeasureOptions {
  double temperature = 1;  // of the distributions that the log-probs are of
  // At which the tokens were sampled; 0: greedily, or not from the whole distribution (top-p,
  // top-k); none: at `temperature`.
  std::optional<double> sampling_temperature;
  std::string train_fingerprint, infer_fingerprint;
  bool request_set = false;  // keep the digest of the set of requests
  int threads = 1;
};

// Row r is the request of that number, eight digits wide. It ends with the last token that counts;
// its fields are output_tokens, the slice as its tag, and prompt_tokens and reward where the dump
// tells them.
Result<Summary> MeasureRlDump(const RlDump& dump, const Plan& plan,
                              const RlMeasureOptions& options);

}  // namespace kcc
