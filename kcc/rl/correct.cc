// CorrectRl: rules applied row by row. Rows are independent but for batch normalisation, whose mean
// is taken in a pass of its own; figures are added up in the order of the rows, so that neither
// weights nor figures depend on the number of threads.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "kcc/numeric/double_math.h"
#include "kcc/rl/correction.h"
#include "kcc/rl/row_kernel.h"

namespace kcc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double LogBound(double bound) { return bound > 0 ? Log(bound) : -kInf; }

// phi of one unit.
double WeightOf(const RlWeightRule& rule, double w) {
  switch (rule.mode) {
    case RlWeightMode::kOff:
      return 1;
    case RlWeightMode::kFull:
      return w;
    case RlWeightMode::kTruncate:
      return std::min(w, rule.high);
    case RlWeightMode::kClip:
      return std::min(std::max(w, rule.low), rule.high);
    case RlWeightMode::kMask:
      return w >= rule.low && w <= rule.high ? w : 0;
  }
  return 1;
}

bool IsOutside(const RlWeightRule& rule, double w) {
  switch (rule.mode) {
    case RlWeightMode::kOff:
    case RlWeightMode::kFull:
      return false;
    case RlWeightMode::kTruncate:
      return w > rule.high;
    case RlWeightMode::kClip:
    case RlWeightMode::kMask:
      return w < rule.low || w > rule.high;
  }
  return false;
}

// What one row contributes.
struct RowResult {
  int64_t tokens = 0, tokens_kept = 0, outside = 0;
  double weight = 0, weight_kept = 0;        // sums of phi before and after rejection
  double square = 0;                         // of final weights
  double bias_token = 0, bias_sequence = 0;  // sums of |w - phi|, |W - phi|
  double sequence_weight = 0;                // phi of the whole, at sequence levels
};

// A sum in eight lanes: the same order whatever the compiler makes of it, and no chain of waits.
template <class F>
double SumLanes(size_t count, F value) {
  double lane[8] = {};
  const size_t whole = count / 8 * 8;
  for (size_t i = 0; i < whole; i += 8) {
    for (size_t k = 0; k < 8; ++k) lane[k] += value(i + k);
  }
  for (size_t i = whole; i < count; ++i) lane[i - whole] += value(i);
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

class Corrector {
 public:
  Corrector(const RlBatch& batch, const RlCorrection& correction, Target target)
      : batch_(batch), correction_(correction), target_(target) {}

  // Fills weight_ and keep_ for the row's tokens; without normalisation.
  Result<> Weigh(int64_t row, RowResult* out) {
    KCC_TRY_VOID(row_.Load(batch_, row));
    count_ = static_cast<size_t>(row_.tokens);
    if (row_.zero_ratio + row_.infinite_ratio > 0) {
      for (size_t i = 0; i < count_; ++i) {
        row_.log_ratio[i] = std::clamp(row_.log_ratio[i], -kRlLogRatioMax, kRlLogRatioMax);
      }
    }
    excess_.resize(count_ + kRlLanes);
    weight_.resize(count_);
    sums_ = SumRlRow(row_.log_ratio.data(), nullptr, nullptr, count_, excess_.data(), target_);
    out->tokens = row_.tokens;
    FillWeights(out);
    out->weight = SumLanes(count_, [&](size_t i) { return weight_[i]; });
    keep_.assign(count_, 1);
    for (const RlRejectRule& rule : correction_.reject) Reject(rule);
    if (correction_.veto.has_value()) Veto(*correction_.veto);
    return {};
  }

  void Finish(double normalizer, RowResult* out) {
    const double sequence_ratio = Exp(sums_.d);
    const double scale = 1 / normalizer;
    int64_t kept = 0;
    for (size_t i = 0; i < count_; ++i) kept += keep_[i];
    out->tokens_kept = kept;
    if (kept < static_cast<int64_t>(count_) || scale != 1) {
      for (size_t i = 0; i < count_; ++i) {
        weight_[i] *= scale * static_cast<double>(keep_[i]);
      }
    }
    const double* phi = weight_.data();
    const double* excess = excess_.data();
    out->weight_kept = SumLanes(count_, [&](size_t i) { return phi[i]; });
    out->square = SumLanes(count_, [&](size_t i) { return phi[i] * phi[i]; });
    out->bias_token =
        SumLanes(count_, [&](size_t i) { return std::fabs((1 + excess[i]) - phi[i]); });
    out->bias_sequence =
        SumLanes(count_, [&](size_t i) { return std::fabs(sequence_ratio - phi[i]); });
  }

  template <class T>
  void WriteWeights(T* to, int64_t length) const {
    std::fill(to, to + length, T{0});
    for (const RlRow::Run& run : row_.runs) {
      const double* from = weight_.data() + run.token;
      for (int64_t i = 0; i < run.length; ++i) to[run.column + i] = static_cast<T>(from[i]);
    }
  }

  void WriteMask(uint8_t* to, int64_t length) const {
    std::fill(to, to + length, uint8_t{0});
    for (const RlRow::Run& run : row_.runs) {
      std::copy_n(keep_.data() + run.token, run.length, to + run.column);
    }
  }

 private:
  void FillWeights(RowResult* out) {
    const RlWeightRule& rule = correction_.weight;
    if (rule.mode == RlWeightMode::kOff) {
      std::fill(weight_.begin(), weight_.end(), 1.0);
      out->sequence_weight = 1;
      return;
    }
    if (rule.level == RlLevel::kToken) {
      // Written out by mode, so that each is a plain loop.
      const double high = rule.high;
      const double* excess = excess_.data();
      double* to = weight_.data();
      int64_t outside = 0;
      if (rule.mode == RlWeightMode::kFull) {
        for (size_t i = 0; i < count_; ++i) to[i] = 1 + excess[i];
      } else if (rule.mode == RlWeightMode::kTruncate) {
        for (size_t i = 0; i < count_; ++i) {
          const double w = 1 + excess[i];
          outside += w > high;
          to[i] = w > high ? high : w;
        }
      } else {
        for (size_t i = 0; i < count_; ++i) {
          const double w = 1 + excess[i];
          outside += IsOutside(rule, w);
          to[i] = WeightOf(rule, w);
        }
      }
      out->outside = outside;
      return;
    }
    if (rule.level == RlLevel::kSegment) {
      for (const RlRow::Run& run : row_.runs) {
        const double w = Exp(SumOf(run, [&](size_t i) { return row_.log_ratio[i]; }));
        out->outside += IsOutside(rule, w);
        std::fill_n(weight_.begin() + run.token, run.length, WeightOf(rule, w));
      }
      return;
    }
    const double whole = rule.level == RlLevel::kSequence
                             ? sums_.d
                             : sums_.d / static_cast<double>(std::max<size_t>(1, count_));
    const double w = Exp(whole);
    if (count_ > 0) out->outside += IsOutside(rule, w);
    out->sequence_weight = WeightOf(rule, w);
    std::fill(weight_.begin(), weight_.end(), out->sequence_weight);
  }

  template <class F>
  double SumOf(const RlRow::Run& run, F value) const {
    double sum = 0;
    for (int64_t i = 0; i < run.length; ++i) sum += value(static_cast<size_t>(run.token + i));
    return sum;
  }

  // The statistic of one token; bands of ratios are bands of it in logs.
  double Statistic(RlStatistic statistic, size_t i) const {
    const double d = row_.log_ratio[i];
    switch (statistic) {
      case RlStatistic::kRatio:
        return d;
      case RlStatistic::kK1:
        return -d;
      case RlStatistic::kK2:
        return d * d / 2;
      case RlStatistic::kK3:
        return ExpResidual(d);
    }
    return 0;
  }

  void Reject(const RlRejectRule& rule) {
    const bool band = rule.statistic == RlStatistic::kRatio || rule.statistic == RlStatistic::kK1;
    const double low = band ? LogBound(rule.low) : -kInf;
    const double high = band ? LogBound(rule.high) : rule.high;
    const auto in = [&](double x) { return x >= low && x <= high; };
    const auto value = [&](size_t i) { return Statistic(rule.statistic, i); };
    switch (rule.aggregate) {
      case RlAggregate::kTokenwise:
        for (size_t i = 0; i < count_; ++i) keep_[i] &= static_cast<uint8_t>(in(value(i)));
        return;
      case RlAggregate::kSegmentSum:
        for (const RlRow::Run& run : row_.runs) {
          if (!in(SumOf(run, value)))
            std::fill_n(keep_.begin() + run.token, run.length, uint8_t{0});
        }
        return;
      case RlAggregate::kSequenceMax: {
        bool all = true;
        for (size_t i = 0; i < count_; ++i) all &= in(value(i));
        if (!all) RejectAll();
        return;
      }
      case RlAggregate::kSequenceSum:
      case RlAggregate::kSequenceMean: {
        double sum = SequenceSum(rule.statistic);
        if (rule.aggregate == RlAggregate::kSequenceMean && count_ > 0) {
          sum /= static_cast<double>(count_);
        }
        if (!in(sum)) RejectAll();
        return;
      }
    }
  }

  double SequenceSum(RlStatistic statistic) const {
    switch (statistic) {
      case RlStatistic::kRatio:
        return sums_.d;
      case RlStatistic::kK1:
        return -sums_.d;
      case RlStatistic::kK2:
        return sums_.square_d / 2;
      case RlStatistic::kK3:
        return sums_.k3;
    }
    return 0;
  }

  void Veto(const RlVeto& veto) {
    const double low = LogBound(veto.low);
    const double high = veto.high > 0 ? LogBound(veto.high) : kInf;
    if (count_ > 0 && (sums_.min_d < low || sums_.max_d > high)) RejectAll();
  }

  void RejectAll() { std::fill(keep_.begin(), keep_.end(), uint8_t{0}); }

  const RlBatch& batch_;
  const RlCorrection& correction_;
  Target target_;
  RlRow row_;
  RlRowSums sums_;
  size_t count_ = 0;
  std::vector<double> excess_, weight_;
  std::vector<uint8_t> keep_;
};

struct Totals {
  RowResult sum;
  int64_t rows = 0, rows_kept = 0;

  void Add(const RowResult& row) {
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

  RlCorrectionFigures Figures(std::string slice, double normalizer) const {
    RlCorrectionFigures out;
    out.slice = std::move(slice);
    out.tokens = sum.tokens;
    out.tokens_kept = sum.tokens_kept;
    out.rows = rows;
    out.rows_kept = rows_kept;
    out.units_outside = sum.outside;
    const auto n = static_cast<double>(sum.tokens);
    out.mean_weight = sum.weight / n;
    out.mean_weight_kept = sum.weight_kept / static_cast<double>(sum.tokens_kept);
    out.normalizer = normalizer;
    out.ess = sum.square > 0 ? sum.weight_kept * sum.weight_kept / (n * sum.square) : 0;
    out.bias_token = sum.bias_token / n;
    out.bias_sequence = sum.bias_sequence / n;
    out.variance = sum.square / n;
    return out;
  }
};

// Calls work(part, begin, end) for shares of the rows, each in its own thread.
void ForRows(int64_t rows, int threads, const std::function<void(size_t, int64_t, int64_t)>& work) {
  const int64_t parts = std::clamp<int64_t>(threads, 1, std::max<int64_t>(1, rows));
  std::vector<std::thread> workers;
  for (int64_t p = 1; p < parts; ++p) {
    workers.emplace_back(
        [&, p] { work(static_cast<size_t>(p), rows * p / parts, rows * (p + 1) / parts); });
  }
  work(0, 0, rows / parts);
  for (std::thread& worker : workers) worker.join();
}

double Normalizer(const RlWeightRule& rule, const std::vector<RowResult>& rows) {
  double sum = 0, count = 0;
  const bool by_row = rule.level == RlLevel::kSequence || rule.level == RlLevel::kGeometric;
  for (const RowResult& row : rows) {
    if (row.tokens == 0) continue;
    sum += by_row ? row.sequence_weight : row.weight;
    count += by_row ? 1 : static_cast<double>(row.tokens);
  }
  const double mean = count > 0 ? sum / count : 1;
  return mean > 1e-8 && std::isfinite(mean) ? mean : 1;
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

}  // namespace

Result<std::vector<RlCorrectionFigures>> CorrectRl(const RlBatch& batch,
                                                   const RlCorrection& correction,
                                                   const RlCorrectOutput& output, int threads) {
  KCC_TRY_VOID(CheckRlBatch(batch));
  KCC_TRY_VOID(CheckCorrection(correction));
  KCC_TRY_VOID(CheckOutput(batch, output));
  const Target target = BestTarget();
  std::vector<RowResult> results(static_cast<size_t>(batch.rows));
  std::vector<Result<>> faults(static_cast<size_t>(std::max(1, threads)));
  double normalizer = 1;
  const auto pass = [&](bool finish) {
    ForRows(batch.rows, threads, [&](size_t part, int64_t begin, int64_t end) {
      Corrector corrector(batch, correction, target);
      for (int64_t r = begin; r < end; ++r) {
        RowResult& result = results[static_cast<size_t>(r)];
        result = {};
        if (auto fault = corrector.Weigh(r, &result); !fault.has_value()) {
          faults[part] = std::move(fault);
          return;
        }
        if (!finish) continue;
        corrector.Finish(normalizer, &result);
        const int64_t length = batch.RowLength(r);
        const auto at = batch.packed() ? batch.offsets[static_cast<size_t>(r)] : r * batch.columns;
        if (!output.weights.empty()) corrector.WriteWeights(output.weights.data() + at, length);
        if (!output.weights_double.empty()) {
          corrector.WriteWeights(output.weights_double.data() + at, length);
        }
        if (!output.mask.empty()) corrector.WriteMask(output.mask.data() + at, length);
      }
    });
  };
  if (correction.weight.batch_normalize) {
    pass(false);
    for (Result<>& fault : faults) KCC_TRY_VOID(std::move(fault));
    normalizer = Normalizer(correction.weight, results);
  }
  pass(true);
  for (Result<>& fault : faults) KCC_TRY_VOID(std::move(fault));

  Totals all;
  std::vector<Totals> by_slice(batch.slice_of_row.empty() ? 0 : batch.slice_names.size());
  for (size_t r = 0; r < results.size(); ++r) {
    all.Add(results[r]);
    if (!by_slice.empty()) by_slice[static_cast<size_t>(batch.slice_of_row[r])].Add(results[r]);
  }
  std::vector<RlCorrectionFigures> figures = {all.Figures("", normalizer)};
  for (size_t s = 0; s < by_slice.size(); ++s) {
    figures.push_back(by_slice[s].Figures(batch.slice_names[s], normalizer));
  }
  return figures;
}

}  // namespace kcc
