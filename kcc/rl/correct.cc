// CorrectRl and StepRl: rows shared out to threads, metrics added up in the order of the rows, so
// that neither weights nor metrics depend on the number of threads.
#include "kcc/base/strings.h"
#include "kcc/rl/correction.h"
#include "kcc/rl/corrector.h"
#include "kcc/rl/summary_pass.h"

namespace kcc {
namespace {

struct Totals {
  RlRowResult sum;
  int64_t rows = 0, rows_kept = 0;

  void Add(const RlRowResult& row) {
    sum.tokens += row.tokens;
    sum.tokens_kept += row.tokens_kept;
    sum.outside += row.outside;
    sum.weight += row.weight;
    sum.weight_kept += row.weight_kept;
    sum.square += row.square;
    sum.bias_token += row.bias_token;
    sum.bias_sequence += row.bias_sequence;
    rows += row.tokens > 0;
    rows_kept += row.tokens_kept > 0;
  }

  Result<RlCorrectionMetrics> Metrics(std::string slice, const WideDouble& normalizer) const {
    RlCorrectionMetrics out;
    out.slice = std::move(slice);
    out.tokens = sum.tokens;
    out.tokens_kept = sum.tokens_kept;
    out.rows = rows;
    out.rows_kept = rows_kept;
    out.units_outside = sum.outside;
    const auto n = static_cast<double>(sum.tokens);
    out.mean_weight = (sum.weight / n).ToDouble();
    out.mean_weight_kept = (sum.weight_kept / static_cast<double>(sum.tokens_kept)).ToDouble();
    out.normalizer = normalizer.ToDouble();
    out.bias_token = (sum.bias_token / n).ToDouble();
    out.bias_sequence = (sum.bias_sequence / n).ToDouble();
    out.variance = (sum.square / n).ToDouble();
    if (sum.square.IsZero()) return out;  // nothing has a weight: its ess stays 0
    // In (0, 1] by Cauchy and Schwarz, but for roundings.
    const double ess = (sum.weight_kept * sum.weight_kept / (n * sum.square)).ToDouble();
    out.ess = ess > 1 && ess < 1 + 1e-9 ? 1 : ess;
    if (out.ess > 0 && out.ess <= 1) return out;
    return BrokenEvidenceError("the weights of " +
                               (out.slice.empty() ? "everything" : "slice \"" + out.slice + "\"") +
                               " have an effective sample size of " + ShortestNumber(ess) +
                               ", outside (0, 1]: no weights have");
  }
};

// The mean weight; 1 where it is below 1e-8, as in verl.
WideDouble Normalizer(const RlWeightRule& rule, const std::vector<RlRowResult>& rows) {
  WideDouble sum;
  double count = 0;
  const bool by_row = rule.level == RlLevel::kSequence || rule.level == RlLevel::kGeometric;
  for (const RlRowResult& row : rows) {
    if (row.tokens == 0) continue;
    sum += by_row ? row.sequence_weight : row.weight;
    count += by_row ? 1 : static_cast<double>(row.tokens);
  }
  const WideDouble mean = count > 0 ? sum / count : 1;
  return WideDouble(1e-8) < mean ? mean : 1;
}

Result<> CheckOutput(const RlBatch& batch, const RlCorrectOutput& output) {
  const int64_t wanted = batch.packed() ? batch.offsets.back() : batch.rows * batch.columns;
  const auto size = static_cast<size_t>(wanted);
  for (const size_t given :
       {output.weights.size(), output.weights_double.size(), output.mask.size()}) {
    if (given != 0 && given != size) {
      return InvalidError("an output array has " + std::to_string(given) + " elements, not " +
                          std::to_string(size));
    }
  }
  return {};
}

// Totals of everything, then by slice, in the order of the rows.
Result<std::vector<RlCorrectionMetrics>> AllMetrics(const RlBatch& batch,
                                                    const std::vector<RlRowResult>& rows,
                                                    const WideDouble& normalizer) {
  Totals all;
  std::vector<Totals> by_slice(batch.slice_of_row.empty() ? 0 : batch.slice_names.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    all.Add(rows[r]);
    if (!by_slice.empty()) by_slice[static_cast<size_t>(batch.slice_of_row[r])].Add(rows[r]);
  }
  std::vector<RlCorrectionMetrics> metrics;
  KCC_TRY(RlCorrectionMetrics whole, all.Metrics("", normalizer));
  metrics.push_back(std::move(whole));
  for (size_t s = 0; s < by_slice.size(); ++s) {
    KCC_TRY(RlCorrectionMetrics slice, by_slice[s].Metrics(batch.slice_names[s], normalizer));
    metrics.push_back(std::move(slice));
  }
  return metrics;
}

// Corrects every row; with passes, diagnoses it too.
Result<> VisitRows(const RlBatch& batch, const RlCorrection& correction,
                   const RlCorrectOutput& output, const WideDouble& normalizer, int threads,
                   std::vector<RlRowResult>* results, std::vector<RlPass>* passes) {
  const Target target = BestTarget();
  const auto parts = static_cast<size_t>(RlParts(batch.rows, threads));
  std::vector<RlCorrector> correctors;
  std::vector<RlRowTerms> terms(parts);
  for (size_t p = 0; p < parts; ++p) {
    correctors.emplace_back(correction, target);
    if (passes != nullptr) passes->emplace_back(batch, target);
  }
  const RlRowTerms::Wanted wanted = {correctors[0].wanted().log_ratio, passes != nullptr};
  return ForRlRows(batch.rows, threads, [&](size_t part, int64_t row) -> Result<> {
    KCC_TRY_VOID(terms[part].Load(batch, row, wanted, target));
    (*results)[static_cast<size_t>(row)] =
        correctors[part].Correct(terms[part], normalizer, RlRowOutput::Of(batch, output, row));
    if (passes != nullptr) (*passes)[part].AddRow(row, &terms[part]);
    return {};
  });
}

// Only if every row is sound is anything added to the summary.
Result<std::vector<RlCorrectionMetrics>> Run(const RlBatch& batch, const RlCorrection& correction,
                                             const RlCorrectOutput& output, int threads,
                                             RlSummary* summary) {
  KCC_TRY_VOID(CheckRlBatch(batch));
  KCC_TRY_VOID(CheckCorrection(correction));
  KCC_TRY_VOID(CheckOutput(batch, output));
  std::vector<RlRowResult> results(static_cast<size_t>(batch.rows));
  std::vector<RlPass> passes;
  WideDouble normalizer = 1;
  if (correction.weight.batch_normalize) {
    KCC_TRY_VOID(VisitRows(batch, correction, {}, 1, threads, &results, nullptr));
    normalizer = Normalizer(correction.weight, results);
  }
  KCC_TRY_VOID(VisitRows(batch, correction, output, normalizer, threads, &results,
                         summary == nullptr ? nullptr : &passes));
  KCC_TRY(auto metrics, AllMetrics(batch, results, normalizer));
  RlSummary added;
  for (RlPass& pass : passes) pass.MergeInto(&added);
  if (summary != nullptr) summary->Merge(std::move(added));
  return metrics;
}

}  // namespace

Result<std::vector<RlCorrectionMetrics>> CorrectRl(const RlBatch& batch,
                                                   const RlCorrection& correction,
                                                   const RlCorrectOutput& output, int threads) {
  return Run(batch, correction, output, threads, nullptr);
}

Result<std::vector<RlCorrectionMetrics>> StepRl(const RlBatch& batch,
                                                const RlCorrection& correction,
                                                const RlCorrectOutput& output, int threads,
                                                RlSummary* summary) {
  return Run(batch, correction, output, threads, summary);
}

}  // namespace kcc
