// Inside of dump_measure.cc and dump_import.cc: a row of a dump as a request.
#pragma once

#include <cstdint>
#include <string>

#include "kcc/rl/batch.h"
#include "kcc/rl/dump.h"
#include "kcc/trace/trace.h"

namespace kcc {

std::string RowId(int64_t row);  // eight digits or more
// A token id that an array holds; -1 where the number is none.
int32_t ArrayTokenId(double number);
// Tokens up to the last that counts: what follows is padding.
int64_t OutputLength(const RlDump& dump, const RlBatch& batch, int64_t row);
// Its fields: output_tokens, the slice as its tag, and prompt_tokens and reward where they are
// told.
Request RowRequest(const RlDump& dump, const RlBatch& batch, int64_t row, int64_t length);

}  // namespace kcc
