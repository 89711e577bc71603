#include "kcc/judge/relevance.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "kcc/base/strings.h"
#include "kcc/judge/same_sides.h"
#include "kcc/predicate/fields.h"
#include "kcc/summary/series.h"

namespace kcc {
namespace {

std::string Quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

bool Reads(const Slice& slice, std::string_view field) {
  if (!slice.where) return false;
  const std::vector<std::string> fields = slice.where->Fields();
  return std::find(fields.begin(), fields.end(), field) != fields.end();
}

void CheckTemperature(const Contract& contract, const Source& source, Relevance* relevance) {
  const std::string assumed = ShortestNumber(contract.assumptions.temperature);
  if (!source.temperature) {
    relevance->unstated =
        "the evidence does not say at which temperature its distributions are, and the contract "
        "assumes " +
        assumed + "; record it (kcc import --temperature, samplingTemperature of trace.json)";
  } else if (*source.temperature != contract.assumptions.temperature) {
    relevance->mismatch = "measured at temperature " + ShortestNumber(*source.temperature) +
                          ", but the contract assumes " + assumed;
  }
}

void CheckModel(const Contract& contract, const Source& source, Relevance* relevance) {
  const auto digest = contract.model.find("digest");
  if (digest == contract.model.end()) return;
  for (const SourceSide* side : {&source.train, &source.infer}) {
    if (side->model_digest.empty()) {
      relevance->unstated =
          "a trace does not say which model it is of, and the contract binds " + digest->second;
    } else if (side->model_digest != digest->second) {
      relevance->mismatch = "the evidence is about model " + side->model_digest +
                            ", the contract binds " + digest->second;
      return;
    }
  }
}

void CheckDeclared(const Binding& bound, const SourceSide& side, std::string_view name,
                   Relevance* relevance) {
  for (const auto& [key, value] : bound) {
    const auto declared = side.declares.find(key);
    if (declared == side.declares.end()) {
      relevance->unstated = "the contract binds " + std::string(name) + "'s " + key + " to " +
                            Quoted(value) + ", which the " + std::string(name) +
                            " kernel does not declare";
    } else if (declared->second != value) {
      relevance->mismatch = "the " + std::string(name) + " kernel declares " + key + " " +
                            Quoted(declared->second) + ", the contract binds " + Quoted(value);
      return;
    }
  }
}

// What the kernels declare, against what the contract binds on each side.
void CheckSides(const Contract& contract, const SourceSide& train, const SourceSide& infer,
                Relevance* relevance) {
  CheckDeclared(contract.train, train, "train", relevance);
  if (relevance->mismatch.empty()) CheckDeclared(contract.infer, infer, "infer", relevance);
}

// Says where the kernels would fit the contract the other way round.
void CheckExchanged(const Contract& contract, const Source& source, Relevance* relevance) {
  Relevance exchanged;
  CheckSides(contract, source.infer, source.train, &exchanged);
  if (!exchanged.mismatch.empty() || !exchanged.unstated.empty()) return;
  relevance->mismatch +=
      "; the other way round both would fit: exchange what --train and --infer name";
}

void CheckRequestSet(const Contract& contract, const Source& source, Relevance* relevance) {
  if (contract.request_set.empty()) return;
  if (source.request_set.empty()) {
    relevance->unstated =
        "the measurement did not take the digest of its requests, and the "
        "contract binds " +
        contract.request_set;
  } else if (source.request_set != contract.request_set) {
    relevance->mismatch = "the evidence is about the requests " + source.request_set +
                          ", the contract binds " + contract.request_set;
  }
}

}  // namespace

Relevance RelevanceOf(const Contract& contract, const Summary& summary) {
  Relevance relevance;
  for (const Source& source : summary.sources) {
    CheckTemperature(contract, source, &relevance);
    if (relevance.mismatch.empty()) CheckModel(contract, source, &relevance);
    if (relevance.mismatch.empty()) {
      CheckSides(contract, source.train, source.infer, &relevance);
      if (!relevance.mismatch.empty()) CheckExchanged(contract, source, &relevance);
    }
    if (relevance.mismatch.empty()) CheckRequestSet(contract, source, &relevance);
    if (!relevance.mismatch.empty()) return relevance;
  }
  return relevance;
}

namespace {

std::string CountedOf(std::string_view field, uint64_t count) {
  return std::to_string(count) + (field.starts_with(kTokenFieldPrefix) ? " tokens" : " requests");
}

// Format 1 does not say whose word a field was.
std::string UnknownWord(const Clause& clause, const Slice& slice) {
  constexpr std::string_view kAgain = "; measure again";
  if (slice.where) {
    for (const std::string& field : slice.where->Fields()) {
      if (OriginOf(field) == FieldOrigin::kRows) continue;
      return "the summary is of format 1, which does not say whose word " + Quoted(field) + " is" +
             std::string(kAgain);
    }
  }
  const bool placed = !clause.hard() && clause.window.kind != Window::Kind::kRequest;
  if (!placed) return {};
  return "the summary is of format 1, which does not say whose word placed requests in windows" +
         std::string(kAgain);
}

std::string_view PlacingField(const Window& window) {
  return window.kind == Window::Kind::kTime ? "started_at_ms" : "ordinal";
}

// Repeats that were told apart in another way than the contract says: by replica, which it may not
// believe, they lie closer together than they do.
std::string OtherRepeats(const Contract& contract, const Summary& summary, const Clause& clause) {
  const Quantity& quantity = *clause.metric.quantity;
  if (quantity.observation != Observation::kReplay || quantity.form != TestForm::kLargest)
    return {};
  const Repeats wanted = contract.Trusts("replica") ? Repeats::kByReplica : Repeats::kByGroup;
  if (summary.plan.repeats() == wanted) return {};
  return summary.plan.repeats() == Repeats::kNone
             ? "the summary was measured without repeats; measure again with this contract"
             : "the summary tells repeats apart in another way than the contract, by 'replica' or "
               "without it; measure again with this contract";
}

// Windows that infer's word cut when they were measured, and that this contract does not let it
// cut.
std::string UntrustedWindows(const Contract& contract, const Summary& summary,
                             const Clause& clause) {
  if (clause.hard() || clause.window.kind == Window::Kind::kRequest) return {};
  std::vector<std::string> fields = clause.fields;
  std::sort(fields.begin(), fields.end());
  const int at = summary.plan.FindWindow(clause.metric, clause.window, fields);
  if (at < 0) return {};
  const PlanWindow& row = summary.plan.windows()[static_cast<size_t>(at)];
  const std::string_view placing = PlacingField(clause.window);
  const bool believed = PlacementOf(row) == Placement::kTrainElseInfer && !contract.Trusts(placing);
  if (!believed && !row.by_infer) return {};
  return "the summary was measured with windows of " + WindowText(clause.window) +
         " that the infer side's " + Quoted(placing) +
         " may have cut, which the contract does not trust; measure again with this contract";
}

}  // namespace

std::string UnvouchedBy(const Contract& contract, const Summary& summary, const Clause& clause,
                        const Slice& slice, std::optional<size_t> index) {
  if (summary.format == 1) return UnknownWord(clause, slice);
  if (std::string repeats = OtherRepeats(contract, summary, clause); !repeats.empty()) {
    return repeats;
  }
  if (std::string windows = UntrustedWindows(contract, summary, clause); !windows.empty()) {
    return windows;
  }
  if (!index) return {};
  for (const auto& [field, count] : summary.slices[*index].unvouched) {
    if (field == kLengthUnknown) {
      return "slice " + Quoted(slice.name) + " rests on the length of answers, and of " +
             CountedOf(field, count) + " not as many rows are there as output_tokens claims";
    }
    if (OutcomeLent(field) || IsAbsentField(field) || contract.Trusts(field)) continue;
    return "slice " + Quoted(slice.name) + " rests on " + Quoted(field) +
           ", which the infer side alone recorded (" + CountedOf(field, count) +
           "); record it on the train side too, give --requests, or put it into evidence.trust";
  }
  return {};
}

namespace {

// Premises of what clauses imply, held against the evidence (A1 to A3 of the paper).
void AddBreaches(const Contract& contract, const Summary& summary,
                 std::set<std::string>* warnings) {
  const Assumptions& assumed = contract.assumptions;
  const SliceStats* all = summary.FindSlice("all");
  if (all == nullptr) return;
  if (assumed.advantage_max && summary.advantage_abs_max > *assumed.advantage_max) {
    warnings->insert("assumption breached: an advantage is " +
                     ReadableNumber(summary.advantage_abs_max) + ", advantageMax is " +
                     ReadableNumber(*assumed.advantage_max) +
                     "; what clauses imply for gradients does not hold");
  }
  for (size_t series = TokenSeriesCount(); series < SeriesCount(); ++series) {
    if (SeriesQuantity(series).bounded_by != BoundedBy::kRewardMax) continue;
    const SeriesStats& rewards = all->series[series];
    if (!assumed.reward_max || rewards.count() == 0) continue;
    const double most = std::max(std::fabs(rewards.point.min), std::fabs(rewards.point.max));
    if (!(most > *assumed.reward_max)) continue;
    warnings->insert("assumption breached: a reward is " + ReadableNumber(most) +
                     ", rewardMax is " + ReadableNumber(*assumed.reward_max) +
                     "; what clauses imply for rewards does not hold");
  }
  const Tally& ratios = all->series[*FindSeries("log_ratio")].point.tally;
  if (ratios.plus_infinite + ratios.minus_infinite > 0) {
    warnings->insert(
        "assumption breached: " + std::to_string(ratios.plus_infinite + ratios.minus_infinite) +
        " sampled tokens are impossible on one side (log-prob -inf), so that importance "
        "weights do not correct for them");
  }
}

// Whether infer's word can cut the clause's windows, given that the contract trusts it.
bool PlacedByInfer(const Clause& clause) {
  if (clause.hard() || clause.window.kind == Window::Kind::kRequest) return false;
  PlanWindow window;
  window.metric = clause.metric;
  window.trusts_infer = true;
  return PlacementOf(window) == Placement::kTrainElseInfer;
}

constexpr std::string_view kLabelsAlone =
    "labels are the infer trace's word alone: the train trace has none";

constexpr std::string_view kAdvantagesAlone =
    "advantages are the infer trace's word alone: the train trace has none";

// Whether a metric of the user's own is computed from the field.
bool OwnReads(const Metric& metric, std::string_view field) {
  if (metric.quantity->own == nullptr) return false;
  const std::vector<std::string> fields = metric.quantity->own->from.Fields();
  return std::find(fields.begin(), fields.end(), field) != fields.end();
}

// `alone`: columns that infer has and train has not.
void AddOfSlice(const Contract& contract, const Summary& summary, const Slice& slice,
                const std::set<std::string, std::less<>>& alone, std::set<std::string>* warnings) {
  if (alone.contains("gold") && Reads(slice, "token.gold")) {
    warnings->insert(std::string(kLabelsAlone));
  }
  if (alone.contains("advantage") && Reads(slice, "token.advantage")) {
    warnings->insert(std::string(kAdvantagesAlone));
  }
  const std::optional<size_t> at = summary.plan.FindSlice(slice, Side::kInfer);
  if (!at) return;
  for (const auto& [field, count] : summary.slices[*at].unvouched) {
    if (IsAbsentField(field)) continue;
    if (const std::optional<std::string> lent = OutcomeLent(field)) {
      warnings->insert("slice " + Quoted(slice.name) + " reads " + Quoted(*lent) +
                       ", which the infer side does not record (" + CountedOf(*lent, count) +
                       "); train's stands for it");
    } else if (contract.Trusts(field)) {
      warnings->insert("slice " + Quoted(slice.name) + " rests on " + Quoted(field) +
                       ", which the infer side alone recorded; the contract trusts it");
    }
  }
}

}  // namespace

std::vector<std::string> WarningsOf(const Contract& contract, const Summary& summary,
                                    const Judgement& judgement) {
  std::set<std::string> warnings;
  std::set<std::string, std::less<>> alone;
  std::set<std::string_view> judged;
  for (const Source& source : summary.sources) {
    alone.insert(source.infer_alone.begin(), source.infer_alone.end());
  }
  if (alone.contains("mask")) {
    warnings.insert(
        "which tokens count is the infer trace's word alone: it has a mask and the train trace "
        "has none");
  }
  if (alone.contains("prompt_tokens")) {
    warnings.insert(
        "which tokens are prompt and do not count is the infer trace's word alone: the train trace "
        "has no prompt_tokens");
  }
  for (const ClauseVerdict& verdict : judgement.clauses) {
    const Clause* clause = contract.FindClause(verdict.id);
    const std::string_view placing = PlacingField(clause->window);
    if (PlacedByInfer(*clause) && contract.Trusts(placing) && alone.contains(placing)) {
      warnings.insert("windows of " + WindowText(clause->window) + " rest on " + Quoted(placing) +
                      ", which the infer side alone recorded; the contract trusts it");
    }
    if (alone.contains("replay_group") &&
        clause->metric.quantity->observation == Observation::kReplay) {
      warnings.insert(
          "which requests repeat one another is the infer trace's word alone: the train trace "
          "has no replay_group");
    }
    if (clause->metric.quantity->observation == Observation::kReplay &&
        clause->metric.quantity->form == TestForm::kLargest &&
        summary.plan.repeats() == Repeats::kByReplica) {
      warnings.insert(
          "repeats are told apart by 'replica', which is the word of the side that answered; the "
          "contract trusts it");
    }
    const bool labels = clause->metric.quantity->evidence == EvidenceNeeded::kGold ||
                        OwnReads(clause->metric, "token.gold");
    if (alone.contains("gold") && labels) warnings.insert(std::string(kLabelsAlone));
    if (alone.contains("advantage") && OwnReads(clause->metric, "token.advantage")) {
      warnings.insert(std::string(kAdvantagesAlone));
    }
    judged.insert(clause->slices.begin(), clause->slices.end());
  }
  for (const std::string_view name : judged) {
    AddOfSlice(contract, summary, *contract.FindSlice(name), alone, &warnings);
  }
  WarnOfSameSides(summary, &warnings);
  AddBreaches(contract, summary, &warnings);
  if (summary.format == 1) {
    warnings.insert(
        "the summary is of format 1, which does not say what kernels declare, whose mask was used "
        "or whether rows are missing");
  }
  return {warnings.begin(), warnings.end()};
}

}  // namespace kcc
