// The quantities of one row pair by name, as a backend computes them, and their way into slots.
// Every backend fills this struct, so that the mapping to the catalog is written once.
#pragma once

#include <array>

#include "kcc/drift/sampled_token.h"
#include "kcc/drift/token_drift.h"
#include "kcc/drift/top_tokens.h"

namespace kcc {

inline constexpr size_t kInfer = static_cast<size_t>(Side::kInfer);
inline constexpr size_t kTrain = static_cast<size_t>(Side::kTrain);

struct RowQuantities {
  double span = 0;
  double linf = 0;
  double l2 = 0;
  double raw_linf = 0;
  double raw_l2 = 0;
  double kl = 0;
  double reverse_kl = 0;
  double js = 0;
  double tv = 0;
  double hellinger = 0;
  double chi2 = 0;
  double reverse_chi2 = 0;
  double entropy_gap = 0;
  std::array<double, 2> entropy{};  // by side
  std::array<double, 2> rank{};
  std::array<double, 2> confidence{};
  std::array<TopTokens, 2> top{};
  bool has_token = false;
  SampledToken token;
};

// Writes the wanted slots, and the argmax and confidence of both sides.
void Publish(const RowQuantities& row, const SlotSet& wanted, TokenDrift* out);

// The slots computed only where asked for (the catalog's on_demand), and all slots.
SlotSet OnDemandSlots();
SlotSet AllTokenSlots();

// Shared preconditions of both backends: dtypes, vocabulary, temperature, token.
Result<> CheckRowPair(const RowPair& pair);

}  // namespace kcc
