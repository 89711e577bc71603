// A kernel's arithmetic in a few words, as the command line gives it:
//   "weights=fp8-e4m3 granularity=channel kv=fp8-e4m3 store=bf16 accumulate=f32 schedule=tiled:16"
// What is not named is exact. docs/author.md lists the words.
#pragma once

#include <string_view>

#include "kcc/base/result.h"
#include "kcc/bounds/envelope.h"

namespace kcc {

// Words are separated by blanks or commas; errors name the word and what it could have been.
Result<KernelDescription> ParseKernelWords(std::string_view text);

}  // namespace kcc
