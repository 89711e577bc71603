// The tokens of a measurement as the monitor reads them: what lies behind kcc_tokens.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "kcc/measure/measure_arrays.h"
#include "kcc/measure/pair_walk.h"
#include "kcc/monitor/observation.h"

namespace kcc::api {

class TokenRows final : public TokenSink {
 public:
  // Both must live until Finish.
  TokenRows(const ArrayPair& pair, const Plan& plan);

  void Begin(size_t request, const RequestPair& pair) override;
  void Take(size_t request, const MeasuredToken& token) override;
  // Of every request, by its place in the arrays. Once, after the measurement.
  std::vector<ObservedTokens> Finish();

 private:
  const ArrayPair& pair_;
  std::vector<size_t> slots_;     // a column for each
  std::vector<std::string> own_;  // and for each of these
  std::vector<ObservedTokens> requests_;
};

}  // namespace kcc::api
