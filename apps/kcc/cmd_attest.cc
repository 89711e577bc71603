// kcc register attest: a report's evaluation, signed.
#include <algorithm>

#include "apps/kcc/commands.h"
#include "apps/kcc/register_statement.h"
#include "apps/kcc/reporting.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/signing.h"
#include "kcc/base/clock.h"
#include "kcc/base/file.h"
#include "kcc/base/sha256.h"
#include "kcc/statement/attest.h"
#include "kcc/statement/dsse.h"
#include "kcc/statement/evaluation.h"
#include "kcc/statement/generic_predicates.h"
#include "kcc/statement/timestamp.h"

namespace kcc::cli {
namespace {

Result<> CheckAttestFlags(const AttestOptions& options) {
  if (options.report.empty() == options.cosign.empty()) {
    return InvalidError("name a report to attest, or an envelope to add a signature to (--cosign)");
  }
  if (!options.signing.any()) {
    return InvalidError("sign with --key FILE or with --sign-with COMMAND");
  }
  const bool more = !options.vsa.empty() || !options.test_result.empty() ||
                    !options.triple.empty() || !options.evidence.empty() || !options.time.empty();
  if (!options.cosign.empty() && more) {
    return InvalidError("--cosign adds a signature and changes nothing of what is signed");
  }
  if (!options.vsa.empty() && options.resource.empty()) {
    return InvalidError("--vsa needs --resource URI, by which verifiers look it up");
  }
  if (options.vsa.empty() && !(options.resource.empty() && options.verifier.empty())) {
    return InvalidError("--resource and --verifier are for --vsa");
  }
  std::vector<std::string> outputs = {options.output};
  for (const std::string& further : {options.vsa, options.test_result}) {
    if (!further.empty()) outputs.push_back(further);
  }
  std::sort(outputs.begin(), outputs.end());
  if (std::adjacent_find(outputs.begin(), outputs.end()) != outputs.end()) {
    return InvalidError("two outputs have one name");
  }
  return {};
}

Result<EvaluationEvent> EventOf(const AttestOptions& options) {
  EvaluationEvent event;
  event.time_ms = TheSystemClock().NowMs() / 1000 * 1000;
  if (!options.time.empty()) {
    const auto time = ParseTimestamp(options.time);
    if (!time) {
      return InvalidError("--time is '" + options.time +
                          "', not a time such as 2026-11-18T09:30:00Z");
    }
    event.time_ms = *time;
  }
  event.triple = options.triple;
  for (const std::string& one : options.evidence) {
    const size_t equals = one.rfind('=');
    if (equals == std::string::npos || equals == 0 || !IsSha256(one.substr(equals + 1))) {
      return InvalidError("--evidence takes NAME=sha256:…, not '" + one + "'");
    }
    event.evidence.push_back({one.substr(0, equals), one.substr(equals + 1)});
  }
  return event;
}

struct SignedFile {
  std::string path;
  std::string type;
  std::string bytes;
};

// Everything is signed before anything is written: a signer that fails half-way leaves no envelope.
Result<std::vector<SignedFile>> SignReport(const AttestOptions& options,
                                           const OwnedSigners& signers,
                                           StatedEvaluation* evaluation, Console& console) {
  KCC_TRY(EvaluationEvent event, EventOf(options));
  KCC_TRY(const StoredReport report, LoadReport(options.report, console));
  event.report_digest = report.digest;
  Result<StatedEvaluation> made = EvaluationOf(report.data, event);
  if (!made.has_value()) return std::move(made.error()).At(Place{DisplayName(options.report)});
  *evaluation = std::move(*made);
  std::vector<SignedFile> files;
  const auto add = [&](const std::string& path, const Statement& statement) -> Result<> {
    KCC_TRY(std::string bytes, SignStatement(statement, signers));
    files.push_back({path, statement.predicate_type, std::move(bytes)});
    return {};
  };
  KCC_TRY(const Statement statement, EvaluationStatement(*evaluation));
  KCC_TRY_VOID(add(options.output, statement));
  if (!options.vsa.empty()) {
    VsaSettings settings;
    settings.resource = options.resource;
    if (!options.verifier.empty()) settings.verifier = options.verifier;
    settings.input = {"kcc:evaluation", Sha256Of(files[0].bytes)};
    KCC_TRY(const Statement summary, VsaStatement(*evaluation, settings));
    KCC_TRY_VOID(add(options.vsa, summary));
  }
  if (!options.test_result.empty()) {
    KCC_TRY(const Statement result, TestResultStatement(*evaluation));
    KCC_TRY_VOID(add(options.test_result, result));
  }
  return files;
}

Result<std::vector<SignedFile>> Cosign(const AttestOptions& options, const OwnedSigners& signers,
                                       Console& console) {
  KCC_TRY(const std::string text, ReadInput(options.cosign, kEnvelopeBytesMax, console));
  Result<std::string> bytes = AddSignatures(text, signers);
  if (!bytes.has_value()) return std::move(bytes.error()).At(Place{DisplayName(options.cosign)});
  KCC_TRY(const DsseEnvelope envelope, ReadEnvelope(*bytes));
  KCC_TRY(const Statement statement, ReadStatement(envelope.payload));
  return std::vector<SignedFile>{{options.output, statement.predicate_type, std::move(*bytes)}};
}

void PrintSigned(const std::vector<SignedFile>& files, const OwnedSigners& signers,
                 const std::optional<StatedEvaluation>& evaluation, Console& console) {
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("kccAttest", 1);
    json.Key("files").BeginArray();
    for (const SignedFile& file : files) {
      json.BeginObject().Field("file", file.path).Field("predicateType", file.type);
      json.Field("digest", Sha256Of(file.bytes)).EndObject();
    }
    json.EndArray().Key("keys").BeginArray();
    for (const auto& signer : signers) {
      json.BeginObject().Field("keyid", signer->public_key().id());
      json.Field("kind", Name(signer->public_key().kind())).EndObject();
    }
    json.EndArray();
    if (evaluation) {
      json.Field("verdict", Name(evaluation->verdict)).Field("passed", evaluation->passed());
      json.Field("time", FormatTimestamp(evaluation->time_ms));
    }
    json.EndObject();
    console.out << json.Take();
    return;
  }
  for (const SignedFile& file : files) {
    console.out << Shown(file.path) << ": " << Shown(file.type);
    if (evaluation) console.out << ", " << Name(evaluation->verdict);
    console.out << '\n';
  }
  console.out << SignerLines(signers);
}

Result<> Attest(const AttestOptions& options, Console& console) {
  KCC_TRY_VOID(CheckAttestFlags(options));
  KCC_TRY(const OwnedSigners signers, OpenSigners(options.signing));
  std::vector<SignedFile> files;
  std::optional<StatedEvaluation> evaluation;
  if (options.cosign.empty()) {
    KCC_TRY(files, SignReport(options, signers, &evaluation.emplace(), console));
  } else {
    KCC_TRY(files, Cosign(options, signers, console));
  }
  for (const SignedFile& file : files) KCC_TRY_VOID(WriteFileAtomically(file.path, file.bytes));
  PrintSigned(files, signers, evaluation, console);
  return {};
}

}  // namespace

int RunAttest(const AttestOptions& options, Console& console) {
  const Result<> done = Attest(options, console);
  return done.has_value() ? kExitOk : ReportError(done.error(), console);
}

}  // namespace kcc::cli
