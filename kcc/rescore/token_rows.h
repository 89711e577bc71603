// From what two kernels say of the same tokens to the rows of an observation: the same code as of
// any pair of traces (measure/token_meter.h) gives the quantities, and lists give intervals.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/drift/token_drift.h"
#include "kcc/gateway/served_record.h"
#include "kcc/kernel/token_scorer.h"
#include "kcc/monitor/observation.h"

namespace kcc {

// Tokens as a kernel served them, in the form of scored ones. `top`: so many alternatives were
// asked for. A list may hold the token itself beyond them, or in place of the last one: where it
// stands last nothing shows its rank, and then it is left out of the list.
std::vector<ScoredToken> TokensAsServed(std::span<const ServedToken> served, int32_t top);

struct RowsAsk {
  std::span<const ScoredToken> train;
  std::span<const ScoredToken> infer;  // the same tokens
  int32_t prompt_tokens = 0;
  int64_t vocab_size = 0;
  double temperature = 1;  // of both sides' distributions
};

struct Rows {
  ObservedTokens tokens;
  // Numbers that no kernel can mean: above 0, twice the same id, probabilities of more than 1. Of
  // infer's they are broken evidence, of train's none at all.
  std::string broken_infer;
  std::string broken_train;
};

// Every slot that the contract's clauses read. A token without a log-prob has missing values.
class RowMaker {
 public:
  explicit RowMaker(const Contract& contract);
  Rows Make(const RowsAsk& ask) const;

 private:
  SlotSet wanted_;
};

}  // namespace kcc
