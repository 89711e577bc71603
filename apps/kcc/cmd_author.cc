// kcc author: a contract proposed from evidence, tolerated costs and envelopes, and put to the
// three-state test where there is evidence to test it on (docs/author.md).
#include "apps/kcc/commands.h"
#include "apps/kcc/evidence.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/three_states.h"
#include "kcc/author/checkpoint.h"
#include "kcc/author/kernel_words.h"
#include "kcc/author/propose.h"
#include "kcc/base/file.h"
#include "kcc/contract/canonical.h"
#include "kcc/judge/judge.h"

namespace kcc::cli {
namespace {

Result<std::optional<EnvelopeInput>> LoadEnvelope(const AuthorOptions& options) {
  if (options.checkpoint.empty()) {
    if (!options.train_kernel.empty() || !options.infer_kernel.empty()) {
      return InvalidError(
          "--train-kernel and --infer-kernel describe envelopes; give --checkpoint");
    }
    return std::optional<EnvelopeInput>();
  }
  const ModelFacts& facts = options.facts;
  if (facts.heads < 1 || facts.context < 1 || !(facts.rms_min > 0) ||
      !(facts.rms_max >= facts.rms_min)) {
    return InvalidError(
        "--checkpoint needs --heads, --context and the measured rms of the residual stream, "
        "--rms-min <= --rms-max: weights alone do not tell them");
  }
  EnvelopeInput envelope;
  KCC_TRY(envelope.train, ParseKernelWords(options.train_kernel));
  KCC_TRY(envelope.infer, ParseKernelWords(options.infer_kernel));
  KCC_TRY(envelope.model, DescribeCheckpoint(options.checkpoint, facts));
  envelope.origin = options.checkpoint.substr(options.checkpoint.find_last_of('/') + 1) + ", " +
                    Counted(envelope.model.layers.size(), "layer") + " of width " +
                    std::to_string(envelope.model.width);
  return std::optional<EnvelopeInput>(std::move(envelope));
}

// Traces are measured again by the contract's own plan, so that its thresholds count exactly.
Result<std::vector<JudgedEvidence>> JudgeAll(const AuthorOptions& options, const Contract& contract,
                                             Console& console) {
  std::vector<JudgedEvidence> judged;
  const auto add = [&](const std::vector<std::string>& names, bool conforming) -> Result<> {
    for (const std::string& name : names) {
      KCC_TRY(const Summary summary, LoadEvidence(name, &contract, options.measure, console));
      judged.push_back({name, conforming, Judge(contract, summary)});
    }
    return {};
  };
  KCC_TRY_VOID(add(options.evidence, true));
  KCC_TRY_VOID(add(options.conforming, true));
  KCC_TRY_VOID(add(options.violating, false));
  return judged;
}

void WriteJson(const AuthoredContract& authored, const std::string& file,
               const std::optional<ThreeStateTest>& test, Console& console) {
  JsonWriter json;
  json.BeginObject().Field("kccAuthor", 1).Key("contract").BeginObject();
  WriteContractIdentity(authored.contract, file, &json);
  json.EndObject().Field("yaml", authored.yaml).Key("clauses").BeginArray();
  for (const ProposedClause& row : authored.clauses) {
    const Clause& clause = *authored.contract.FindClause(row.id);
    json.BeginObject().Field("id", row.id).Field("metric", MetricName(clause.metric));
    json.Field("bound", Name(clause.bound)).Field("threshold", clause.threshold);
    json.Field("exceedance", clause.exceedance).Field("level", Name(clause.level));
    json.Field("origin", row.origin).Field("why", clause.why).EndObject();
  }
  json.EndArray().Key("notes").BeginArray();
  for (const std::string& note : authored.notes) json.Value(note);
  json.EndArray();
  if (test) {
    json.Key("test").BeginObject();
    WriteThreeStates(*test, &json);
    json.EndObject();
  }
  json.EndObject();
  console.out << json.Take();
}

}  // namespace

int RunAuthor(const AuthorOptions& options, Console& console) {
  auto envelope = LoadEnvelope(options);
  if (!envelope.has_value()) return ReportError(envelope.error(), console);
  std::vector<Summary> evidence;
  for (const std::string& name : options.evidence) {
    auto summary = LoadEvidence(name, &ProbeContract(), options.measure, console);
    if (!summary.has_value()) return ReportError(summary.error(), console);
    evidence.push_back(std::move(*summary));
  }
  AuthorInput input = options.input;
  for (const Summary& summary : evidence) input.evidence.push_back(&summary);
  input.envelope = std::move(*envelope);
  if (options.measure.temperature) input.assumptions.temperature = *options.measure.temperature;
  if (!evidence.empty() && !options.measure.temperature && !evidence[0].sources.empty()) {
    input.assumptions.temperature = evidence[0].sources[0].temperature.value_or(1.0);
  }
  const auto authored = ProposeContract(input);
  if (!authored.has_value()) return ReportError(authored.error(), console);

  std::optional<ThreeStateTest> test;
  if (!options.evidence.empty() || !options.conforming.empty() || !options.violating.empty()) {
    const auto judged = JudgeAll(options, authored->contract, console);
    if (!judged.has_value()) return ReportError(judged.error(), console);
    test = TestThreeStates(*judged);
  }
  if (!options.output.empty()) {
    const Result<> written = WriteFileAtomically(options.output, authored->yaml);
    if (!written.has_value()) return ReportError(written.error(), console);
  }
  if (console.json) {
    WriteJson(*authored, options.output, test, console);
  } else {
    if (options.output.empty()) {
      console.contract = true;
      console.out << authored->yaml;
    } else {
      console.out << Shown(options.output) << ": " << Counted(authored->clauses.size(), "clause")
                  << " proposed\n";
    }
    for (const std::string& note : authored->notes) console.err << "note: " << Shown(note) << '\n';
    // The contract alone goes to a pipe; the test is for the reader.
    std::ostream& out = options.output.empty() ? console.err : console.out;
    if (test) {
      out << "\nthe proposed contract is ";
      PrintThreeStates(*test, out, false);
    }
  }
  return test ? ExitCodeOf(*test) : kExitOk;
}

}  // namespace kcc::cli
