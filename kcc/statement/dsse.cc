#include "kcc/statement/dsse.h"

#include <algorithm>

#include "kcc/base/json_writer.h"
#include "kcc/format/base64.h"
#include "kcc/statement/json_fields.h"

namespace kcc {
namespace {

std::string Base64Field(const JsonFields& object, std::string_view key) {
  const JsonFields field = object.At(key);
  const auto bytes = DecodeBase64(field.Text());
  if (!bytes) field.Fail("is not base64");
  return bytes.value_or("");
}

}  // namespace

std::string PreAuthEncoding(std::string_view payload_type, std::string_view payload) {
  std::string bytes = "DSSEv1 " + std::to_string(payload_type.size()) + " ";
  bytes.append(payload_type).append(" ").append(std::to_string(payload.size())).append(" ");
  return bytes.append(payload);
}

Result<> AddSignature(const Signer& signer, DsseEnvelope* envelope) {
  const std::string& id = signer.public_key().id();
  const bool signed_already =
      std::any_of(envelope->signatures.begin(), envelope->signatures.end(),
                  [&](const EnvelopeSignature& one) { return one.key_id == id; });
  if (signed_already) return InvalidError("the key " + id + " has signed this already");
  if (envelope->signatures.size() == kEnvelopeSignaturesMax) {
    return InvalidError("an envelope takes " + std::to_string(kEnvelopeSignaturesMax) +
                        " signatures at most");
  }
  KCC_TRY(std::string signature,
          signer.Sign(PreAuthEncoding(envelope->payload_type, envelope->payload)));
  envelope->signatures.push_back({id, std::move(signature)});
  return {};
}

std::string EnvelopeJson(const DsseEnvelope& envelope) {
  JsonWriter json;
  json.BeginObject();
  json.Field("payloadType", envelope.payload_type);
  json.Field("payload", EncodeBase64(envelope.payload));
  json.Key("signatures").BeginArray();
  for (const EnvelopeSignature& one : envelope.signatures) {
    json.BeginObject();
    json.Field("keyid", one.key_id).Field("sig", EncodeBase64(one.signature));
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

Result<DsseEnvelope> ReadEnvelope(std::string_view text) {
  if (text.size() > kEnvelopeBytesMax) {
    return InvalidError("larger than the limit of " + std::to_string(kEnvelopeBytesMax) +
                        " bytes for an envelope");
  }
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, text));
  std::string problem;
  const JsonFields fields(root, "", &problem);
  DsseEnvelope envelope;
  envelope.payload_type = fields.At("payloadType").Text();
  envelope.payload = Base64Field(fields, "payload");
  const std::vector<JsonFields> signatures = fields.At("signatures").Items();
  if (signatures.empty()) fields.Fail("has no signature");
  if (signatures.size() > kEnvelopeSignaturesMax) fields.Fail("has too many signatures");
  for (const JsonFields& one : signatures) {
    if (fields.failed()) break;
    envelope.signatures.push_back({one.At("keyid").Text(), Base64Field(one, "sig")});
  }
  if (!problem.empty()) return InvalidError("not a DSSE envelope: " + problem);
  return envelope;
}

}  // namespace kcc
