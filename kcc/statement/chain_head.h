// The signed head of a register's log: the number of its last event and the digest that its chain
// has there. Predicate type "kcc:register-head/v1".
//
// Kept outside the register, it shows what a chain of hashes alone cannot: that the log was cut off
// behind some event, or was written anew from the beginning.
#pragma once

#include <string>
#include <string_view>

#include "kcc/base/result.h"
#include "kcc/statement/in_toto.h"

namespace kcc {

struct ChainHead {
  std::string register_id;  // which register; never empty
  int64_t sequence = 0;     // of the last event, from 1; 0: the log is empty
  std::string digest;       // of the chain there
  int64_t time_ms = 0;      // when it was signed
};

// Its subject is the digest, under the name "register/ID".
Result<Statement> ChainHeadStatement(const ChainHead& head);
Result<ChainHead> ReadChainHead(std::string_view predicate);

}  // namespace kcc
