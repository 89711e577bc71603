#include "kcc/statement/attest.h"

#include "kcc/statement/dsse.h"

namespace kcc {
namespace {

Result<std::string> SignAll(DsseEnvelope envelope,
                            std::span<const std::unique_ptr<Signer>> signers) {
  if (signers.empty()) return InvalidError("a statement needs a key that signs it");
  for (const std::unique_ptr<Signer>& signer : signers) {
    KCC_TRY_VOID(AddSignature(*signer, &envelope));
  }
  return EnvelopeJson(envelope);
}

}  // namespace

Result<std::string> SignStatement(const Statement& statement,
                                  std::span<const std::unique_ptr<Signer>> signers) {
  KCC_TRY(std::string payload, StatementJson(statement));
  return SignAll({std::string(kInTotoPayloadType), std::move(payload), {}}, signers);
}

Result<std::string> AddSignatures(std::string_view envelope_json,
                                  std::span<const std::unique_ptr<Signer>> signers) {
  KCC_TRY(DsseEnvelope envelope, ReadEnvelope(envelope_json));
  if (envelope.payload_type != kInTotoPayloadType) {
    return InvalidError("the payload type is '" + envelope.payload_type + "', and only " +
                        std::string(kInTotoPayloadType) + " is signed");
  }
  KCC_TRY_VOID(ReadStatement(envelope.payload));
  return SignAll(std::move(envelope), signers);
}

}  // namespace kcc
