// kcc register verify-attestation: is this statement signed by keys that we trust?
#include "apps/kcc/commands.h"
#include "apps/kcc/register_statement.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/signing.h"
#include "kcc/statement/dsse.h"
#include "kcc/statement/evaluation.h"
#include "kcc/statement/timestamp.h"
#include "kcc/statement/verify.h"

namespace kcc::cli {
namespace {

constexpr size_t kIdShown = 16;  // digits of a key's id in a line for people

Result<VerifyOptions> VerifyOptionsOf(const VerifyAttestationOptions& options) {
  VerifyOptions made;
  if (!options.time.empty()) {
    made.time_ms = ParseTimestamp(options.time);
    if (!made.time_ms) {
      return InvalidError("--time is '" + options.time +
                          "', not a time such as 2026-11-18T09:30:00Z");
    }
  }
  made.subjects = options.subjects;
  made.threshold = static_cast<size_t>(options.threshold);
  if (!options.verdict.empty()) made.verdict = ParseVerdict(options.verdict);
  return made;
}

void WriteFailure(const NamedFailure& failure, JsonWriter* json) {
  json->BeginObject();
  json->Field("name", Name(failure.failure)).Field("text", failure.text);
  json->EndObject();
}

void PrintVerificationJson(const Verification& found, const VerifyAttestationOptions& options,
                           Console& console) {
  JsonWriter json;
  json.BeginObject().Field("kccVerification", 1);
  json.Field("file", DisplayName(options.file)).Field("verified", found.verified());
  json.Key("failures").BeginArray();
  for (const NamedFailure& failure : found.failures) WriteFailure(failure, &json);
  json.EndArray().Key("signatures").BeginArray();
  for (const SignatureCheck& check : found.signatures) {
    json.BeginObject().Field("keyid", check.key_id).Field("owner", check.owner);
    json.Key("failure");
    if (check.failure) {
      WriteFailure(*check.failure, &json);
    } else {
      json.Null();
    }
    json.EndObject();
  }
  json.EndArray();
  json.Field("keys", found.good_keys).Field("threshold", options.threshold);
  if (found.time_ms) {
    json.Field("time", FormatTimestamp(*found.time_ms));
    json.Field("timeFrom", options.time.empty() ? "statement" : "caller");
  }
  if (found.verdict) json.Field("verdict", Name(*found.verdict));
  if (found.statement) {
    json.Field("predicateType", found.statement->predicate_type);
    json.Key("subjects").BeginArray();
    for (const NamedDigest& subject : found.statement->subjects) {
      json.BeginObject().Field("name", subject.name).Field("digest", subject.digest).EndObject();
    }
    json.EndArray();
    json.Key("predicate").Raw(found.statement->predicate);
  }
  json.EndObject();
  console.out << json.Take();
}

void PrintVerification(const Verification& found, const VerifyAttestationOptions& options,
                       Console& console) {
  const bool good = found.verified();
  console.out << Paint(good ? Style::kGreen : Style::kRed, good ? "✓ verified" : "✗ NOT VERIFIED",
                       console.colour_out)
              << "  " << Shown(DisplayName(options.file)) << '\n';
  for (const NamedFailure& failure : found.failures) {
    console.out << "  " << Name(failure.failure) << ": " << Shown(failure.text) << '\n';
  }
  if (found.statement) {
    console.out << "  " << Shown(found.statement->predicate_type);
    if (found.verdict) console.out << ", verdict: " << Name(*found.verdict);
    if (found.time_ms) {
      console.out << ", " << FormatTimestamp(*found.time_ms)
                  << (options.time.empty() ? " as the statement says" : " as given");
    }
    console.out << '\n';
    for (const NamedDigest& subject : found.statement->subjects) {
      console.out << "  about " << Shown(subject.name) << ' '
                  << (subject.digest.empty() ? "without SHA-256" : subject.digest) << '\n';
    }
  }
  for (const SignatureCheck& check : found.signatures) {
    console.out << "  " << (check.failure ? Name(check.failure->failure) : "signed by") << ' '
                << (check.owner.empty() ? "" : Shown(check.owner) + " ")
                << Shown(check.key_id.substr(0, kIdShown)) << '\n';
  }
}

}  // namespace

int RunVerifyAttestation(const VerifyAttestationOptions& options, Console& console) {
  const Result<VerifyOptions> asked = VerifyOptionsOf(options);
  if (!asked.has_value()) return ReportError(asked.error(), console);
  const Result<Keyring> keyring = LoadKeyring(options.keyring);
  if (!keyring.has_value()) return ReportError(keyring.error(), console);
  const Result<std::string> envelope = ReadInput(options.file, kEnvelopeBytesMax, console);
  if (!envelope.has_value()) return ReportError(envelope.error(), console);
  const Verification found = Verify(*envelope, *keyring, *asked);
  if (console.json) {
    PrintVerificationJson(found, options, console);
  } else {
    PrintVerification(found, options, console);
  }
  return found.verified() ? kExitOk : kExitViolated;
}

}  // namespace kcc::cli
