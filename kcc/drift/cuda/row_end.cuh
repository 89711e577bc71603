// The end of a row in double: from the sums and the pivot, which is the largest train entry, to the
// divergences, with the formulas of drift/row_end.cc (x - delta is the log-ratio; the pivot's own
// is found apart). Rows whose sums cancel, overflow or are not finite go to the careful kernel.
#pragma once

#include "kcc/drift/cuda/drift_cuda.h"
#include "kcc/drift/cuda/row_plan.cuh"
#include "kcc/drift/row_rules.h"

namespace kcc {

inline constexpr double kDeviceLn2 = 0.6931471805599453;
inline constexpr double kDoubleInf = __builtin_huge_val();

// What every kernel needs to know about the rows and where values go.
struct RowArgs {
  const void* train;
  const void* infer;
  int64_t train_stride;  // elements
  int64_t infer_stride;
  int train_dtype;
  int infer_dtype;
  int64_t vocab;
  int64_t rows;
  double tau;
  const int32_t* tokens;
  unsigned wanted;
  double* values;  // [kCudaValues] rows of value_stride
  int64_t value_stride;
  int32_t* argmax;  // [2] rows of value_stride
  int32_t* status;
  int32_t* careful_rows;  // rows left to the careful kernel, their number first

  __device__ const void* TrainRow(int64_t row) const {
    return static_cast<const char*>(train) + row * train_stride * Bytes(train_dtype);
  }
  __device__ const void* InferRow(int64_t row) const {
    return static_cast<const char*>(infer) + row * infer_stride * Bytes(infer_dtype);
  }
  __device__ static int Bytes(int dtype) {
    return dtype == kDeviceF32 ? 4 : dtype == kDeviceF16 || dtype == kDeviceBF16 ? 2 : 1;
  }
  __device__ void Set(int64_t row, int value, double to) const {
    values[value * value_stride + row] = to;
  }
};

// e^x - 1 - x without cancellation, where e^x - 1 is known.
__device__ inline double ExpResidualDevice(double x, double excess) {
  if (fabs(x) > 0.35) return excess - x;
  double sum = 1.0 / 87178291200.0;
  const double coefficients[] = {1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0,
                                 1.0 / 3628800.0,    1.0 / 362880.0,    1.0 / 40320.0,
                                 1.0 / 5040.0,       1.0 / 720.0,       1.0 / 120.0,
                                 1.0 / 24.0,         1.0 / 6.0,         0.5};
  for (const double c : coefficients) sum = fma(sum, x, c);
  return x * x * sum;
}
__device__ inline double ExpResidualDevice(double x) {
  return ExpResidualDevice(x, fabs(x) > 0.35 ? expm1(x) : 0);
}

// 2 (cosh x - 1).
__device__ inline double CoshResidualDevice(double x) {
  const double half = sinh(0.5 * x);
  return 4 * half * half;
}

struct DeviceTop {
  int bits[10];
  int id[10];
  int count;
};

// |first k of both| / k, as Overlap in top_tokens.h.
__device__ inline double OverlapOf(const DeviceTop& a, const DeviceTop& b, int k) {
  const int of_a = min(k, a.count);
  const int of_b = min(k, b.count);
  int shared = 0;
  for (int i = 0; i < of_a; ++i) {
    for (int j = 0; j < of_b; ++j) shared += a.id[i] == b.id[j] ? 1 : 0;
  }
  return static_cast<double>(shared) / static_cast<double>(max(of_a, of_b));
}

__device__ inline double MarginOf(const DeviceTop& top) {
  if (top.count < 2) return kDoubleInf;
  return static_cast<double>(FromOrderedBits(top.bits[0])) -
         static_cast<double>(FromOrderedBits(top.bits[1]));
}

// `overlaps`: of the first, the first five and the first ten.
__device__ inline void PublishTops(const RowArgs& args, int64_t row, const DeviceTop& train,
                                   const DeviceTop& infer, const double (&overlaps)[3]) {
  args.Set(row, kCudaMargin, MarginOf(infer));
  args.Set(row, kCudaTrainMargin, MarginOf(train));
  args.Set(row, kCudaTop1Overlap, overlaps[0]);
  const bool lists = (args.wanted & (kCudaWantTopK | kCudaWantOnDemand)) != 0;
  args.Set(row, kCudaTop5Overlap, lists ? overlaps[1] : nan(""));
  args.Set(row, kCudaTop10Overlap, lists ? overlaps[2] : nan(""));
  if (args.argmax != nullptr) {
    args.argmax[row] = infer.id[0];
    args.argmax[args.value_stride + row] = train.id[0];
  }
}

// A token's logits.
struct TokenPair {
  float train, infer;
};

struct EndSums {
  double sum[kLaneSums];  // as in LaneSums, without the pivot
  double absolute;
  uint32_t low;
  int high;
  float pivot_train, pivot_infer;
};

// What a warp gathers (row_gather.cuh) and one of its lanes solves.
struct EndRow {
  EndSums sums;
  DeviceTop tops[2];
  int token;            // the caller's; -1: none
  TokenPair token_at;   // if it is in the vocabulary
  TokenPair infer_top;  // the infer side's likeliest
  int listed;
};

struct EndArgs {
  RowArgs row;
  SumsArgs sums;
  int64_t first_row;  // of this batch in the caller's rows
  int64_t count;
  int top_rank;  // 9, or 1 where only the margin is asked for
};

// The pivot and what follows from it.
struct EndSolution {
  double delta, pivot_ratio, pivot_excess, pivot_share, log_z, z, pivot_logit;
  double kl, reverse_kl, chi2, reverse_chi2, tv;
  double train_entropy, infer_entropy, entropy_gap;
  bool usable;
};

// As the train side's, from the infer side's weights e + q.
__device__ inline double InferEntropyOf(const double* rest, double e, double x,
                                        double pivot_logit) {
  const double pivot_e = e * exp(x);
  const double others = rest[0] + rest[1];
  const double share = log1p(others / pivot_e);
  const double logits = (rest[6] + rest[7]) * kDeviceLn2 + (rest[1] - rest[2]) + rest[4];
  const double sum = pivot_e * share + others * (pivot_logit + x + share) - logits;
  return fmax(0.0, sum / (pivot_e + others));
}

// From the train side's entropy and what the sums say it changes by, `moved`.
__device__ inline void SetEntropies(const double* rest, double e, double x, double train_entropy,
                                    double moved, EndSolution* row) {
  row->train_entropy = fmax(0.0, train_entropy);
  row->entropy_gap = fabs(moved - row->reverse_kl);
  row->infer_entropy = fmax(0.0, row->train_entropy + (moved - row->reverse_kl));
  if (4 * row->infer_entropy < row->train_entropy + fabs(moved) + row->reverse_kl) {
    row->infer_entropy = InferEntropyOf(rest, e, x, row->pivot_logit);  // that difference cancels
  }
}

// Whether the sum for kl kept enough digits: `magnitude` is what its terms without the pivot's add
// up to, `amplification` that by their sum. What they contribute may be small against the pivot's
// own term: its error counts then against the sum of all, `kl`.
__device__ inline bool IsAccurate(double magnitude, double amplification, double kl,
                                  double pivot_term) {
  const double relative = amplification * fmax(kl - pivot_term, 0.0) / fmax(kl, 1e-300);
  return magnitude == 0 || amplification <= double{kAmplificationMax} ||
         (isfinite(relative) && relative <= double{kAmplificationMax});
}

__device__ inline EndSolution SolveEnd(const EndSums& sums, const RowSettings& settings,
                                       float scale, float inverse_tau) {
  const double* rest = sums.sum;
  EndSolution row;
  row.usable = false;
  const double z = rest[0];
  const double q = rest[1];
  const double residual = rest[2];
  const double cosh = rest[3];
  const double reverse = rest[4] - rest[2];
  const double square = rest[5];
  const double e_logit = rest[6] * kDeviceLn2;
  const double q_logit = rest[7] * kDeviceLn2;
  const double a = static_cast<double>(sums.pivot_train);
  const double bits = a * static_cast<double>(scale) - settings.exponent;
  const double e = exp2(bits);
  const double x = (static_cast<double>(sums.pivot_infer) - a) * static_cast<double>(inverse_tau) -
                   static_cast<double>(settings.shift);
  row.pivot_logit = bits * kDeviceLn2;
  row.z = e + z;
  const double k_less_1 = expm1(-x);
  const double k = fabs(x) > 1 ? exp(-x) : 1 + k_less_1;
  const double argument = (k * q + k_less_1 * z) / row.z;
  if (!(argument > -1 + 1e-6)) return row;
  row.pivot_ratio = 0.0 - log1p(argument);
  row.delta = x - row.pivot_ratio;
  const double delta = row.delta;
  // Calls of exp and its kin are most of the time here. What follows from one by algebra:
  // e^ratio - 1, e^-delta - 1 = k / (1 + argument) - 1, and 2 (cosh t - 1) = (e^t - 1)^2 / e^t.
  const double pivot_excess = -argument / (1 + argument);
  row.pivot_excess = pivot_excess;
  row.pivot_share = e / row.z;
  const double m = (k_less_1 - argument) / (1 + argument);
  const double shrink = k / (1 + argument);
  const double linear = m * q;
  const double constant = z * ExpResidualDevice(-delta, m);
  double kl = residual + linear + constant;
  double reverse_kl = shrink * (reverse - delta * q + z * ExpResidualDevice(delta, -m / shrink));
  double reverse_chi2 = shrink * shrink * square + 2 * m * shrink * q + m * m * z;
  double chi2 = 2 * cosh / shrink - (1 / shrink - shrink) * q + z * (m * m / shrink);
  const double pivot_log_share = log1p(z / e);
  row.log_z = row.pivot_logit + pivot_log_share;
  const double entropy = e * pivot_log_share + z * row.log_z - e_logit;
  const double change =
      shrink * (q_logit - row.pivot_logit * q) + m * (e_logit - row.pivot_logit * z);
  const double ratio = row.pivot_ratio;
  const double pivot_residual = ExpResidualDevice(ratio, pivot_excess);
  const double magnitude = residual + fabs(linear) + constant;
  const double amplification = magnitude == 0 ? 0 : magnitude / fmax(kl, 0.0);
  kl += e * pivot_residual;
  reverse_kl += e * (fabs(ratio) < 1 ? ratio * pivot_excess - pivot_residual
                                     : 1 + (ratio - 1) * (pivot_excess + 1));
  reverse_chi2 += e * pivot_excess * pivot_excess;
  chi2 += e * (pivot_excess * pivot_excess * (1 + argument));
  // Before fmax and fmin, which drop NaN.
  if (!isfinite(kl + reverse_kl + chi2 + reverse_chi2 + sums.absolute + entropy + change +
                row.log_z)) {
    return row;
  }
  row.kl = fmax(0.0, kl / row.z);
  row.reverse_kl = fmax(0.0, reverse_kl / row.z);
  row.chi2 = fmax(0.0, chi2 / row.z);
  row.reverse_chi2 = fmax(0.0, reverse_chi2 / row.z);
  row.tv = fmin(1.0, 0.5 * (shrink * sums.absolute + e * fabs(pivot_excess)) / row.z);
  SetEntropies(rest, e, x, entropy / row.z, -change / row.z, &row);
  const bool accurate = IsAccurate(magnitude, amplification, kl, e * pivot_residual);
  const bool sound = !IsBelowZero(kl / row.z) && !IsBelowZero(reverse_kl / row.z) &&
                     !BreaksPinsker(row.tv, fmin(row.kl, row.reverse_kl));
  row.usable = accurate && sound && isfinite(row.infer_entropy);
  return row;
}

// logit_span, linf, l2 and their raw forms; false where a difference of sums cancelled.
__device__ inline bool PublishDistances(const EndArgs& args, int64_t row, const EndSums& sums,
                                        const RowSettings& settings) {
  const RowArgs& out = args.row;
  const double tau = out.tau;
  float lowest, highest;
  if (!ExtremesOf(sums.high, sums.low, &lowest, &highest)) return false;
  const auto low = static_cast<double>(lowest);
  const auto high = static_cast<double>(highest);
  const double sum = sums.sum[8];
  const double squares = sums.sum[9];
  const auto count = static_cast<double>(out.vocab);
  const bool shifted = settings.shifted != 0;
  const double unit = shifted ? tau : 1;  // d = unit y + offset
  const double offset = shifted ? static_cast<double>(settings.shift) * tau : 0;
  const double centred = fmax(0.0, squares - sum * sum / count);
  const double raw = unit * unit * squares + 2 * unit * offset * sum + count * offset * offset;
  out.Set(row, kCudaSpan, unit * (high - low) / tau);
  out.Set(row, kCudaLinf, 0.5 * unit * (high - low));
  out.Set(row, kCudaL2, high == low ? 0 : unit * sqrt(centred));
  out.Set(row, kCudaRawLinf, fmax(fabs(unit * high + offset), fabs(unit * low + offset)));
  out.Set(row, kCudaRawL2, sqrt(fmax(0.0, raw)));
  const double scale = unit * unit * squares + count * offset * offset;
  const double x_low = shifted ? low : low / tau - static_cast<double>(settings.shift);
  const double x_high = shifted ? high : high / tau - static_cast<double>(settings.shift);
  const bool inside =
      x_low >= -static_cast<double>(kWholeEnd) && x_high <= static_cast<double>(kWholeEnd);
  return inside && isfinite(squares) &&
         (high == low || (centred >= 0.02 * squares && raw >= 0.02 * scale));
}

__device__ inline void PublishEnd(const EndArgs& args, int64_t row, const EndSolution& solved,
                                  const EndRow& gathered, const RowSettings& settings) {
  const RowArgs& out = args.row;
  const EndSums& sums = gathered.sums;
  out.Set(row, kCudaKl, solved.kl);
  out.Set(row, kCudaReverseKl, solved.reverse_kl);
  out.Set(row, kCudaTv, solved.tv);
  out.Set(row, kCudaChi2, solved.chi2);
  const bool square = (out.wanted & kCudaWantReverseChi2) != 0;
  out.Set(row, kCudaReverseChi2, square ? solved.reverse_chi2 : nan(""));
  out.Set(row, kCudaEntropy, solved.infer_entropy);
  out.Set(row, kCudaTrainEntropy, solved.train_entropy);
  out.Set(row, kCudaEntropyGap, solved.entropy_gap);
  for (int value = kCudaJs; value < kCudaValues; ++value) out.Set(row, value, nan(""));

  const double pivot_logprob = solved.pivot_logit - solved.log_z;
  const double inverse_tau = static_cast<double>(args.sums.inverse_tau);
  struct Token {
    double ratio, logprob;
  };
  const auto is_pivot = [&](const TokenPair& at) {
    return at.train == sums.pivot_train && at.infer == sums.pivot_infer;
  };
  const auto token_of = [&](const TokenPair& at) -> Token {
    if (is_pivot(at)) return {solved.pivot_ratio, pivot_logprob};
    const auto a = static_cast<double>(at.train);
    const double d = static_cast<double>(at.infer) - a;
    const double below = a - static_cast<double>(sums.pivot_train);
    return {d * inverse_tau - static_cast<double>(settings.shift) - solved.delta,
            below * inverse_tau + pivot_logprob};
  };
  double confidence = solved.pivot_share * (1 + solved.pivot_excess);
  if (!is_pivot(gathered.infer_top)) {
    const Token top = token_of(gathered.infer_top);
    confidence = exp(top.logprob + top.ratio);
  }
  out.Set(row, kCudaConfidence, fmin(1.0, confidence));
  out.Set(row, kCudaTrainConfidence, solved.pivot_share);
  double ratio = nan(""), logprob = nan(""), train_logprob = nan("");
  int status = kCudaRowFast;
  const int token = gathered.token;
  if (token < -1 || token >= out.vocab) {
    status = kCudaRowBadToken;
  } else if (token >= 0) {
    const Token at = token_of(gathered.token_at);
    ratio = 0.0 - at.ratio;
    train_logprob = at.logprob + 0.0;
    logprob = fmin(0.0, at.logprob + at.ratio) + 0.0;
  }
  out.Set(row, kCudaLogRatio, ratio);
  out.Set(row, kCudaLogprob, logprob);
  out.Set(row, kCudaTrainLogprob, train_logprob);
  out.status[row] = status;
}

// One thread: from what was gathered to the row's values, or to the careful kernel's list.
__device__ inline void FinishRow(const EndArgs& args, int64_t at, const EndRow& gathered,
                                 const RowSettings& settings) {
  const int64_t row = args.first_row + at;
  const EndSums& sums = gathered.sums;
  if (gathered.listed != 0 && isfinite(sums.pivot_train)) {
    const EndSolution solved = SolveEnd(sums, settings, args.sums.scale, args.sums.inverse_tau);
    if (solved.usable && PublishDistances(args, row, sums, settings)) {
      PublishEnd(args, row, solved, gathered, settings);
      return;
    }
  }
  const int slot = atomicAdd(args.row.careful_rows, 1);
  args.row.careful_rows[1 + slot] = static_cast<int32_t>(at);
}

}  // namespace kcc
