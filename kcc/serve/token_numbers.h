// The numbers of a token that a client may ask for, and the token that is drawn: from one row of
// logits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kcc/serve/sequence_ask.h"

namespace kcc {

// Log-prob, rank and alternatives of a token. Ties go to the lower id.
TokenRecord RecordOf(std::span<const float> logits, int32_t token, std::optional<int32_t> top);

// The next token, by the ask's sampling; `outputs` are the tokens given out before.
int32_t ChooseToken(std::span<const float> logits, const SequenceAsk& ask, size_t position,
                    size_t outputs);

// The row as a fault leaves it, in `changed`.
void ChangeLogits(std::span<const float> logits, const LogitChange& change, size_t position,
                  std::vector<float>* changed);

}  // namespace kcc
