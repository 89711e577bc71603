// For tests: masked_rows.h as the CPU backends take and give rows. Apart, since the GPU's checks
// are compiled without the libraries that token_drift.h needs.
#pragma once

#include <map>
#include <string>

#include "kcc/drift/masked_rows.h"
#include "kcc/drift/token_drift.h"

namespace kcc {

// The case must outlive the pair.
inline RowPair PairOf(const MaskedCase& made) {
  RowPair pair;
  pair.train = made.stored_train.data();
  pair.infer = made.stored_infer.data();
  pair.train_dtype = pair.infer_dtype = made.dtype;
  pair.vocab = made.train.size();
  pair.temperature = made.temperature;
  pair.token = made.token;
  return pair;
}

inline std::string FaultOf(const MaskedCase& made, const std::map<std::string, double>& truth,
                           const MaskedBands& bands, const TokenDrift& drift) {
  return FaultOf(made, truth, bands,
                 [&](const std::string& name) { return drift.lo[TokenSlot(name)]; });
}

}  // namespace kcc
