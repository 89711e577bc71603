// By what a slice selects. Sampled tokens stand for the distribution they were drawn from only
// where they were selected before they were drawn: the tokens with a good reward are no sample of
// any law.
#pragma once

#include <cstdint>

#include "kcc/contract/contract.h"

namespace kcc {

enum class Selection : uint8_t {
  kAnswers,   // whole continuations, by what is known before they begin: tags, prompt_tokens, …
  kPrefixes,  // tokens, by what stands before them: token.position
  kOutcomes,  // by what was drawn or came of it: token.token, output_tokens, reward, …
};

Selection SelectionOf(const Slice& slice);

}  // namespace kcc
