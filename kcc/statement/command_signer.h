// A signer that is a program, so that keys can stay in an HSM, a KMS or an agent.
//
// For each signature the command is run by /bin/sh: it gets the bytes to sign on its standard input
// and writes the raw signature to its standard output (64 bytes for Ed25519, ASN.1 DER for ECDSA).
// It gets kcc's environment, a session of its own without a terminal, and so cannot ask anything.
// It fails if it ends with another exit code than 0, writes more than a signature can have, or is
// not done in time; then it and all that it started in its session's group is killed.
#pragma once

#include <string>

#include "kcc/base/clock.h"
#include "kcc/statement/signature.h"

namespace kcc {

inline constexpr size_t kSignatureBytesMax = 1024;

// `clock` must outlive the signer.
std::unique_ptr<Signer> CommandSigner(std::string command, PublicKey public_key, double timeout_s,
                                      const Clock& clock = TheSystemClock());

}  // namespace kcc
