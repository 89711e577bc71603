// DSSE envelopes, version 1: a payload, its type, and signatures over both.
//
// What is signed is the pre-authentication encoding, so that a payload cannot be read as one of
// another type:
//
//   PAE(type, body) = "DSSEv1" SP LEN(type) SP type SP LEN(body) SP body     (LEN in decimal bytes)
//
// Everything else in an envelope is unsigned: the key id is a hint for the verifier, blanks and
// unknown keys mean nothing. A key of the format that stands twice is refused, since readers of
// JSON disagree about which of the two counts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/statement/signature.h"

namespace kcc {

inline constexpr std::string_view kInTotoPayloadType = "application/vnd.in-toto+json";
inline constexpr size_t kEnvelopeBytesMax = size_t{64} << 20;
inline constexpr size_t kEnvelopeSignaturesMax = 100;

struct EnvelopeSignature {
  std::string key_id;     // as the envelope names it; says nothing by itself
  std::string signature;  // raw bytes
};

struct DsseEnvelope {
  std::string payload_type;
  std::string payload;
  std::vector<EnvelopeSignature> signatures;
};

std::string PreAuthEncoding(std::string_view payload_type, std::string_view payload);

// Signs what the envelope holds and adds the signature. Fails if the key has signed it already, or
// the signer fails.
Result<> AddSignature(const Signer& signer, DsseEnvelope* envelope);

// One object, ending in a line feed. The same envelope gives the same bytes.
std::string EnvelopeJson(const DsseEnvelope& envelope);

// Errors (kInvalid) name the key that is wrong. Nothing is verified here (verify.h).
Result<DsseEnvelope> ReadEnvelope(std::string_view json);

}  // namespace kcc
