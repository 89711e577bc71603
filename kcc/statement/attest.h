// From a statement to a signed envelope, by one or more keys; and the signature of one more key on
// an envelope that exists, which is how several people sign one promotion.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kcc/base/result.h"
#include "kcc/statement/in_toto.h"
#include "kcc/statement/signature.h"

namespace kcc {

// The envelope's JSON. Fails without a signer, with the same key twice, or where a signer fails.
Result<std::string> SignStatement(const Statement& statement,
                                  std::span<const std::unique_ptr<Signer>> signers);

// The same envelope with more signatures; its payload keeps its bytes. Fails (kInvalid) if it does
// not hold a statement, since whoever signs must be able to read what.
Result<std::string> AddSignatures(std::string_view envelope_json,
                                  std::span<const std::unique_ptr<Signer>> signers);

}  // namespace kcc
