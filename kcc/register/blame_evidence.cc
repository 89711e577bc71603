#include "kcc/register/blame_evidence.h"

#include <algorithm>
#include <cmath>

#include "kcc/judge/judge.h"
#include "kcc/register/event_body.h"
#include "kcc/register/promotion_evidence.h"
#include "kcc/register/promotions.h"
#include "kcc/register/signed_stages.h"
#include "kcc/summary/file.h"

namespace kcc {
namespace {

Result<std::optional<Summary>> ReadSummary(Register& source, const std::string& digest) {
  if (digest.empty()) return std::optional<Summary>();
  KCC_TRY(const std::optional<std::string> bytes, source.ReadBlob(digest));
  if (!bytes) return std::optional<Summary>();
  KCC_TRY(Summary summary, DecodeSummary(*bytes));
  return std::optional<Summary>(std::move(summary));
}

// How far from the limit, as a share of it. None where nothing could be better: a coverage of 1
// that must be 1 is not near its limit, it is at its best.
std::optional<double> HeadroomOf(const Clause& clause, const SliceVerdict& slice) {
  const auto share = [](double room, double limit) -> std::optional<double> {
    const double headroom = limit == 0 ? room : room / std::fabs(limit);
    return std::isfinite(headroom) ? std::optional(headroom) : std::nullopt;
  };
  if (!clause.hard()) {
    if (!slice.exceedance) return {};
    return share(slice.exceedance->budget - slice.exceedance->rate(), slice.exceedance->budget);
  }
  const Quantity& quantity = *clause.metric.quantity;
  if (!slice.value.known()) return {};
  if (clause.at_most()) {
    if (slice.threshold <= quantity.min) return {};
    return share(slice.threshold - slice.value.hi, slice.threshold);
  }
  if (slice.threshold >= quantity.max) return {};
  return share(slice.value.lo - slice.threshold, slice.threshold);
}

}  // namespace

bool SamePair(const Deployment& a, const Deployment& b) {
  return a.model == b.model && a.train == b.train && a.infer == b.infer;
}

Result<std::vector<StoredEvidence>> EvidenceOfPair(Register& source, const Deployment& pair) {
  KCC_TRY(const std::vector<Entry> triples, source.List({.table = EntryTable::kTriples}));
  std::vector<StoredEvidence> found;
  for (const Entry& triple : triples) {
    const std::string& body = triple.event.body;
    Deployment of;
    of.model = BodyText(body, "model");
    of.train = BodyText(body, "train");
    of.infer = BodyText(body, "infer");
    if (!SamePair(of, pair)) continue;
    KCC_TRY(const std::vector<Entry> evaluations,
            source.List({.table = EntryTable::kEvaluations, .subject = triple.key.id}));
    for (const Entry& entry : evaluations) {
      const RecordedEvaluation recorded = ReadRecordedEvaluation(entry.event.body);
      const std::optional<Stage> stage = StageNamed(recorded.stage);
      StoredEvidence evidence{entry.state.added, entry.key.id, stage.value_or(Stage::kOffline), {}};
      // Of an unknown stage, written by other hands: what it asks is not known either.
      if (stage) {
        KCC_TRY(evidence.summary, ReadSummary(source, recorded.summary));
      }
      found.push_back(std::move(evidence));
    }
  }
  std::sort(found.begin(), found.end(), [](const StoredEvidence& a, const StoredEvidence& b) {
    return a.sequence > b.sequence;
  });
  return found;
}

Result<std::optional<StoredEvidence>> JoinedEvidence(Register& source,
                                                     const std::string& promotion) {
  KCC_TRY(const std::vector<PromotionHistoryRow> history, ReadHistory(source, promotion));
  for (auto record = history.rbegin(); record != history.rend(); ++record) {
    const std::string digest = BodyText(record->event.body, "evidence");
    if (digest.empty()) continue;
    StoredEvidence evidence;
    evidence.sequence = record->event.sequence;
    evidence.stage = StageNamed(record->from).value_or(Stage::kOffline);
    KCC_TRY(evidence.summary, ReadSummary(source, digest));
    if (!evidence.summary) return std::optional<StoredEvidence>();
    return std::optional(std::move(evidence));
  }
  return std::optional<StoredEvidence>();
}

Result<std::optional<Contract>> BlamedContract(Register& source, const std::string& digest) {
  Result<Contract> contract = ReadKeptContract(source, digest);
  if (!contract.has_value()) {
    // Absent or removed is an answer; broken bytes and a broken connection are errors.
    if (contract.error().code() == ErrorCode::kInvalid) return std::optional<Contract>();
    return std::move(contract.error());
  }
  contract->model.clear();
  contract->train.clear();
  contract->infer.clear();
  return std::optional(std::move(*contract));
}

namespace {

std::vector<BlameFinding> FindingsOf(const Contract& contract, const Summary& summary,
                                     Stage stage) {
  std::vector<BlameFinding> findings;
  const Judgement judgement = Judge(contract, summary, {stage, Population::kEvaluationSet});
  for (const ClauseVerdict& clause : judgement.clauses) {
    for (const SliceVerdict& slice : clause.slices) {
      BlameFinding finding{clause.id, slice.slice, slice.verdict(), slice.about.reason, {}};
      if (finding.verdict == Verdict::kSatisfied) {
        finding.headroom = HeadroomOf(*contract.FindClause(clause.id), slice);
      }
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace

BlameCell JudgeForBlame(const std::optional<Contract>& contract, const StoredEvidence& evidence,
                        Stage stage) {
  if (!contract || !evidence.summary) return {BlameCell::State::kRemoved, {}};
  Contract others = *contract;
  std::erase_if(others.clauses, [&](const Clause& clause) {
    return std::find(clause.stages.begin(), clause.stages.end(), stage) != clause.stages.end();
  });
  for (Clause& clause : others.clauses) clause.stages = {stage};
  return {BlameCell::State::kJudged, FindingsOf(*contract, *evidence.summary, stage),
          FindingsOf(others, *evidence.summary, stage)};
}

}  // namespace kcc
