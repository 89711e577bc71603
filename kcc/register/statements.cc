#include "kcc/register/statements.h"

#include "kcc/base/json_writer.h"
#include "kcc/register/event_body.h"
#include "kcc/report/report_json.h"
#include "kcc/statement/evaluation.h"
#include "kcc/summary/file.h"

namespace kcc {

NewEvent StatementAdded(const std::string& envelope, const EntryKey& about, int64_t event,
                        const std::string& actor, int64_t time_ms) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("statement", BlobDigest(envelope)).Field("about", KeyText(about));
  json.Field("event", event).EndObject();
  return {time_ms, actor, "statement.added", json.Take()};
}

Result<std::string> SignRun(const JudgedRun& run, SignerList signers) {
  KCC_TRY(const Triple triple, TripleOf(run));
  KCC_TRY(const ReportData report, ReadReport(run.report));
  EvaluationEvent event;
  event.time_ms = run.time_ms;
  event.triple = TripleId(triple);
  event.report_digest = BlobDigest(run.report);
  event.evidence = {{"summary", BlobDigest(EncodeSummary(run.summary))}};
  KCC_TRY(const StatedEvaluation evaluation, EvaluationOf(report, event));
  KCC_TRY(const Statement statement, EvaluationStatement(evaluation));
  return SignStatement(statement, signers);
}

Result<std::string> SignPromotion(Register& source, PromotionRecord record,
                                  const StatementSigning& signing) {
  KCC_TRY(const std::optional<Entry> contract,
          source.Find({EntryTable::kContracts, record.contract.digest}));
  if (contract) {
    const std::string& body = contract->event.body;
    record.contract.name = BodyText(body, "name") + "@" + BodyText(body, "version");
  }
  record.kcc = signing.kcc_version;
  KCC_TRY(const Statement statement, PromotionStatement(record));
  return SignStatement(statement, signing.signers);
}

}  // namespace kcc
