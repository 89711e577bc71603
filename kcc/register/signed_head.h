// The head of a register's log, signed, to be kept outside (docs/register.md "A signed head").
//
// A head that was kept shows that the log was cut off or written anew before it. Its signature
// shows that whoever keeps it did not make it up. A register is known by the digest of its first
// event, which no event after it can change.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/register/register.h"
#include "kcc/statement/attest.h"
#include "kcc/statement/keyring.h"

namespace kcc {

// The statement to sign, at `time_ms`. Fails with kInvalid where the log is empty, or its last
// event is later than that: nobody signs what has not happened.
Result<Statement> HeadToSign(Register& source, int64_t time_ms);

struct SignedHead {
  std::string wrong;  // why it is not believed, as a sentence; empty: it holds
  Head head;
  std::string register_id;
  int64_t time_ms = 0;               // when it was signed, as it says
  std::vector<std::string> signers;  // owners of the keys that hold
};

// Looks at an envelope with a keyring: keys of the role `head`, valid at the time that the head
// says, at least `threshold` of them. Whether it fits a log is Verify's to find (verify.h).
SignedHead ReadSignedHead(std::string_view envelope, const Keyring& keyring, size_t threshold);

}  // namespace kcc
