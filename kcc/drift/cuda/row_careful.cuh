// Every quantity of a row in double, by the definitions of drift/reference.cc: masks, one-sided
// -inf, differences of hundreds, any pair of formats, and js, hellinger and rank. One block a row,
// or a cluster of them where few rows are left over; three visits to it; sums by thread, then by
// one fixed tree, then block by block.
#pragma once

#include <cooperative_groups.h>

#include "kcc/drift/cuda/row_end.cuh"
#include "kcc/drift/cuda/row_sync.cuh"
#include "kcc/drift/row_rules.h"

namespace kcc {

inline constexpr int kCarefulThreads = 512;
inline constexpr int kCarefulCluster = 8;  // from sm_90
inline constexpr double kApart = 600;      // nats: e^600 still leaves room for a sum

struct CarefulShared {
  double sums[kCarefulThreads];
  int bits[kCarefulThreads];
  int ids[kCarefulThreads];
  double parts[kCarefulCluster];  // of the blocks
  int part_bits[kCarefulCluster];
  int part_ids[kCarefulCluster];
  DeviceTop top[2];
};

// The blocks that share a row.
struct CarefulCluster {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __device__ static int Blocks() {
    return static_cast<int>(cooperative_groups::this_cluster().num_blocks());
  }
  __device__ static int Rank() {
    return static_cast<int>(cooperative_groups::this_cluster().block_rank());
  }
  __device__ static void Sync() { cooperative_groups::this_cluster().sync(); }
  template <class T>
  __device__ static T Remote(T* local, int block) {
    return *cooperative_groups::this_cluster().map_shared_rank(local, block);
  }
#else
  __device__ static int Blocks() { return 1; }
  __device__ static int Rank() { return 0; }
  __device__ static void Sync() { __syncthreads(); }
  template <class T>
  __device__ static T Remote(T* local, int) {
    return *local;
  }
#endif
};

// The same value in every thread. `join` is associative enough for a fixed order.
template <class Join>
__device__ inline double ClusterReduce(double value, CarefulShared* shared, Join join) {
  __syncthreads();
  shared->sums[threadIdx.x] = value;
  for (int half = kCarefulThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < static_cast<unsigned>(half)) {
      shared->sums[threadIdx.x] = join(shared->sums[threadIdx.x], shared->sums[threadIdx.x + half]);
    }
  }
  CarefulCluster::Sync();
  const int blocks = CarefulCluster::Blocks();
  if (threadIdx.x < static_cast<unsigned>(blocks)) {
    shared->parts[threadIdx.x] =
        CarefulCluster::Remote(&shared->sums[0], static_cast<int>(threadIdx.x));
  }
  CarefulCluster::Sync();
  double total = shared->parts[0];
  for (int block = 1; block < blocks; ++block) total = join(total, shared->parts[block]);
  return total;
}

__device__ inline double RowSum(double value, CarefulShared* shared) {
  return ClusterReduce(value, shared, [](double a, double b) { return a + b; });
}

__device__ inline double RowMax(double value, CarefulShared* shared) {
  return ClusterReduce(value, shared, [](double a, double b) { return fmax(a, b); });
}

struct Best {
  int bits;
  int id;
  __device__ bool Before(const Best& other) const {
    return bits > other.bits || (bits == other.bits && id < other.id);
  }
};

__device__ inline Best RowBest(Best mine, CarefulShared* shared) {
  __syncthreads();
  shared->bits[threadIdx.x] = mine.bits;
  shared->ids[threadIdx.x] = mine.id;
  for (int half = kCarefulThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < static_cast<unsigned>(half)) {
      const Best a = {shared->bits[threadIdx.x], shared->ids[threadIdx.x]};
      const Best b = {shared->bits[threadIdx.x + half], shared->ids[threadIdx.x + half]};
      const Best best = b.Before(a) ? b : a;
      shared->bits[threadIdx.x] = best.bits;
      shared->ids[threadIdx.x] = best.id;
    }
  }
  CarefulCluster::Sync();
  const int blocks = CarefulCluster::Blocks();
  if (threadIdx.x < static_cast<unsigned>(blocks)) {
    const auto block = static_cast<int>(threadIdx.x);
    shared->part_bits[block] = CarefulCluster::Remote(&shared->bits[0], block);
    shared->part_ids[block] = CarefulCluster::Remote(&shared->ids[0], block);
  }
  CarefulCluster::Sync();
  Best best = {shared->part_bits[0], shared->part_ids[0]};
  for (int block = 1; block < blocks; ++block) {
    const Best other = {shared->part_bits[block], shared->part_ids[block]};
    if (other.Before(best)) best = other;
  }
  return best;
}

class CarefulRow {
 public:
  __device__ CarefulRow(const RowArgs& args, int64_t row, CarefulShared* shared)
      : args_(args),
        row_(row),
        shared_(*shared),
        train_(args.TrainRow(row)),
        infer_(args.InferRow(row)),
        tau_(args.tau) {}

  __device__ void Measure() {
    const int status = Scan();
    if (status != 0) return Refuse(status);
    FindTop(0);
    FindTop(1);
    __syncthreads();
    Weigh();
    Divergences();
    if (threadIdx.x != 0 || CarefulCluster::Rank() != 0) return;
    const DeviceTop& train = shared_.top[0];
    const DeviceTop& infer = shared_.top[1];
    PublishTops(
        args_, row_, train, infer,
        {OverlapOf(train, infer, 1), OverlapOf(train, infer, 5), OverlapOf(train, infer, 10)});
    PublishAll();
  }

 private:
  // The thread's entries of the row.
  __device__ static int64_t First() {
    return CarefulCluster::Rank() * kCarefulThreads + static_cast<int>(threadIdx.x);
  }
  __device__ static int64_t Step() { return CarefulCluster::Blocks() * kCarefulThreads; }

  __device__ float A(int64_t i) const { return LoadLogitAt(train_, args_.train_dtype, i); }
  __device__ float B(int64_t i) const { return LoadLogitAt(infer_, args_.infer_dtype, i); }

  __device__ void Refuse(int status) {
    __syncthreads();
    if (threadIdx.x != 0 || CarefulCluster::Rank() != 0) return;
    for (int value = 0; value < kCudaValues; ++value) args_.Set(row_, value, nan(""));
    if (args_.argmax != nullptr) {
      args_.argmax[row_] = args_.argmax[args_.value_stride + row_] = -1;
    }
    args_.status[row_] = status;
  }

  // Extremes, the pivot, and whether the row is one at all.
  __device__ int Scan() {
    double bad_train = 0, bad_infer = 0, low = kDoubleInf, high = -kDoubleInf, count = 0;
    double squares = 0;
    Best pivot = {INT_MIN, INT_MAX};
    double top_train = -kDoubleInf, top_infer = -kDoubleInf;
    for (int64_t i = First(); i < args_.vocab; i += Step()) {
      const float a = A(i);
      const float b = B(i);
      if (isnan(a) || a == kFloatInf) bad_train = 1;
      if (isnan(b) || b == kFloatInf) bad_infer = 1;
      if (a == -kFloatInf && b == -kFloatInf) continue;
      count += 1;
      top_train = fmax(top_train, static_cast<double>(a));
      top_infer = fmax(top_infer, static_cast<double>(b));
      const double d = static_cast<double>(b) - static_cast<double>(a);
      low = fmin(low, d);
      high = fmax(high, d);
      if (a == -kFloatInf || b == -kFloatInf) continue;
      squares += d * d;
      const Best here = {OrderedBits(a), static_cast<int>(i)};
      if (here.Before(pivot)) pivot = here;
    }
    if (RowMax(bad_train, &shared_) > 0) return kCudaRowBadTrain;
    if (RowMax(bad_infer, &shared_) > 0) return kCudaRowBadInfer;
    top_[0] = RowMax(top_train, &shared_);
    top_[1] = RowMax(top_infer, &shared_);
    if (top_[0] == -kDoubleInf || top_[1] == -kDoubleInf) return kCudaRowNoSupport;
    low_ = -RowMax(-low, &shared_);
    high_ = RowMax(high, &shared_);
    count_ = RowSum(count, &shared_);
    squares_ = RowSum(squares, &shared_);
    const Best best = RowBest(pivot, &shared_);
    pivot_ = best.id == INT_MAX ? -1 : best.id;
    token_ = args_.tokens == nullptr ? -1 : args_.tokens[row_];
    bad_token_ = token_ < -1 || token_ >= args_.vocab ||
                 (token_ >= 0 && A(token_) == -kFloatInf && B(token_) == -kFloatInf);
    if (bad_token_) token_ = -1;
    return 0;
  }

  // The ten best tokens: the winner of each round looks for its thread's next one.
  __device__ void FindTop(int side) {
    Best last = {INT_MAX, -1};
    const auto next_after = [&](const Best& bound) {
      Best best = {INT_MIN, INT_MAX};
      for (int64_t i = First(); i < args_.vocab; i += Step()) {
        const float value = side == 0 ? A(i) : B(i);
        if (value == -kFloatInf) continue;
        const Best here = {OrderedBits(value), static_cast<int>(i)};
        if (bound.Before(here) && here.Before(best)) best = here;
      }
      return best;
    };
    const bool lists = (args_.wanted & (kCudaWantTopK | kCudaWantOnDemand)) != 0;
    const int rounds = lists ? 10 : 2;
    Best mine = next_after(last);
    int found = 0;
    for (; found < rounds; ++found) {
      const Best winner = RowBest(mine, &shared_);
      if (winner.id == INT_MAX) break;
      if (threadIdx.x == 0) {
        shared_.top[side].bits[found] = winner.bits;
        shared_.top[side].id[found] = winner.id;
      }
      if (mine.id == winner.id) mine = next_after(winner);
    }
    if (threadIdx.x == 0) shared_.top[side].count = found;
  }

  __device__ double LogProb(int side, double z) const {
    return (z - top_[side]) / tau_ - log_others_[side];
  }

  // The masses beside the most likely tokens, and the pivot's log-ratio.
  __device__ void Weigh() {
    const int tops[2] = {shared_.top[0].id[0], shared_.top[1].id[0]};
    const bool has_pivot = pivot_ >= 0;
    const double pivot_a = has_pivot ? static_cast<double>(A(pivot_)) : 0;
    const double pivot_b = has_pivot ? static_cast<double>(B(pivot_)) : 0;
    pivot_difference_ = LogitDifference(pivot_a, pivot_b);
    double others[2] = {0, 0};
    double sum = 0, largest = 0, sum_difference = 0, low = 0, high = 0;
    for (int64_t i = First(); i < args_.vocab; i += Step()) {
      const double a = static_cast<double>(A(i));
      const double b = static_cast<double>(B(i));
      if (a == -kDoubleInf && b == -kDoubleInf) continue;
      const double weight = exp((a - top_[0]) / tau_);
      if (i != tops[0]) others[0] += weight;
      if (i != tops[1]) others[1] += exp((b - top_[1]) / tau_);
      if (i == pivot_ || !has_pivot) continue;
      if (b == -kDoubleInf) {
        sum -= weight;
        continue;
      }
      const double difference =
          a == -kDoubleInf ? kDoubleInf : LogitDifference(a, b).Less(pivot_difference_);
      const double y = difference / tau_;
      sum_difference += difference;
      low = fmin(low, difference);
      high = fmax(high, difference);
      if (y < 1) {
        sum += weight * expm1(y);
        continue;
      }
      // e^y may overflow where its product with a small weight does not; beyond kApart, y may have
      // lost the logit that counts.
      const double below_pivot = (b - pivot_b) / tau_;
      sum +=
          exp(y <= kApart ? (a - top_[0]) / tau_ + y : (pivot_a - top_[0]) / tau_ + below_pivot) -
          weight;
      largest = fmax(largest, below_pivot);
    }
    others_[0] = RowSum(others[0], &shared_);
    others_[1] = RowSum(others[1], &shared_);
    log_others_[0] = log1p(others_[0]);
    log_others_[1] = log1p(others_[1]);
    sum = RowSum(sum, &shared_);
    largest = RowMax(largest, &shared_);
    mean_difference_ = RowSum(sum_difference, &shared_) / count_;
    span_ = RowMax(high, &shared_) + RowMax(-low, &shared_);
    const double less = sum / (1 + others_[0]);  // e^-x_pivot - 1
    ratio_from_ = pivot_difference_;
    at_pivot_ = -log1p(less);
    // Where the pivot is nearly impossible on one side only, from the sides' likeliest tokens.
    if (largest > kApart || (pivot_a - top_[0]) / tau_ < -kApart || !(less > -0.999)) {
      ratio_from_ = LogitDifference(top_[0], top_[1]);
      at_pivot_ = log_others_[0] - log_others_[1];
    }
  }

  __device__ double Ratio(double a, double b) const {
    return LogitDifference(a, b).Less(ratio_from_) / tau_ + at_pivot_;
  }

  struct Sums {
    double kl = 0, reverse_kl = 0, js = 0, tv = 0, hellinger = 0, chi2 = 0, reverse_chi2 = 0;
    double logit_change = 0, far = 0, entropy[2] = {0, 0}, rank[2] = {0, 0}, centred = 0;
  };

  __device__ static double JsTermDevice(double x) {
    const double y = 0.5 * x;
    if (fabs(y) > 1) {
      const double tail = log1p(exp(-fabs(x)));
      const double smaller = kDeviceLn2 - tail;
      const double larger = kDeviceLn2 - fabs(x) - tail;
      return x > 0 ? 0.5 * (exp(x) * smaller + larger) : 0.5 * (smaller + exp(x) * larger);
    }
    // e^y (y sinh y - cosh y log cosh y).
    const double cosh_less_1 = 0.5 * CoshResidualDevice(y);
    return exp(y) * fmax(0.0, y * sinh(y) - (1 + cosh_less_1) * log1p(cosh_less_1));
  }

  __device__ void AddNear(double p, double x, double logit, bool costly, Sums* s) const {
    const double excess = expm1(x);
    const double residual = ExpResidualDevice(x);
    s->kl += p * residual;
    s->reverse_kl += p * fmax(0.0, x * excess - residual);
    s->tv += 0.5 * p * fabs(excess);
    s->chi2 += p * CoshResidualDevice(x);
    s->reverse_chi2 += p * excess * excess;
    s->logit_change += p * excess * logit;
    if (!costly) return;
    const double root = expm1(0.5 * x);
    s->js += p * JsTermDevice(x);
    s->hellinger += 0.5 * p * root * root;
  }

  // A share of 0 of whatever it is.
  __device__ static double Share(double share, double of) { return share == 0 ? 0 : share * of; }

  __device__ void AddFar(double log_p, double log_q, double x, Sums* s) const {
    s->far = 1;
    const double p = exp(log_p);
    const double q = exp(log_q);
    const double root = sqrt(p) - sqrt(q);
    const double tail = log1p(exp(-fabs(x)));
    const double log_share_p = kDeviceLn2 - tail - fmax(x, 0.0);
    const double log_share_q = kDeviceLn2 - tail + fmin(x, 0.0);
    s->kl += (q - p) - Share(p, x);
    s->reverse_kl += (p - q) + Share(q, x);
    s->js += 0.5 * (Share(p, log_share_p) + Share(q, log_share_q));
    s->tv += 0.5 * fabs(q - p);
    s->hellinger += 0.5 * root * root;
    const double shrink = expm1(-fabs(x));
    const double larger = fmax(log_p, log_q);
    const double squared = exp(larger) * shrink * shrink;
    const double magnified = exp(larger + fabs(x)) * shrink * shrink;
    s->chi2 += x > 0 ? squared : magnified;
    s->reverse_chi2 += x > 0 ? magnified : squared;
  }

  __device__ void AddOneSided(double mass, bool on_train, Sums* s) const {
    s->far = 1;
    (on_train ? s->kl : s->reverse_kl) = kDoubleInf;
    (on_train ? s->chi2 : s->reverse_chi2) = kDoubleInf;
    (on_train ? s->reverse_kl : s->kl) += mass;
    (on_train ? s->reverse_chi2 : s->chi2) += mass;
    s->js += 0.5 * mass * kDeviceLn2;
    s->tv += 0.5 * mass;
    s->hellinger += 0.5 * mass;
  }

  __device__ void Divergences() {
    const bool costly = (args_.wanted & kCudaWantOnDemand) != 0;
    const float token_a = token_ >= 0 ? A(token_) : 0;
    const float token_b = token_ >= 0 ? B(token_) : 0;
    Sums s;
    for (int64_t i = First(); i < args_.vocab; i += Step()) {
      const float a = A(i);
      const float b = B(i);
      if (a == -kFloatInf && b == -kFloatInf) continue;
      if (costly && token_ >= 0) {
        s.rank[0] += a > token_a || (a == token_a && i < token_) ? 1 : 0;
        s.rank[1] += b > token_b || (b == token_b && i < token_) ? 1 : 0;
      }
      // Seen from the pivot's: beside a huge constant the differences would be lost.
      const LogitDifference d(static_cast<double>(a), static_cast<double>(b));
      const double moved = d.Less(pivot_difference_) - mean_difference_;
      s.centred += moved * moved;
      const double log_p = LogProb(0, static_cast<double>(a));
      const double log_q = LogProb(1, static_cast<double>(b));
      const double p = exp(log_p);
      const double q = exp(log_q);
      if (p > 0) s.entropy[0] -= p * log_p;
      if (q > 0) s.entropy[1] -= q * log_q;
      if (log_p < kLogProbLeast && log_q < kLogProbLeast) continue;  // as good as masked
      if (a == -kFloatInf || b == -kFloatInf) {
        AddOneSided(a != -kFloatInf ? p : q, a != -kFloatInf, &s);
        continue;
      }
      const double x = Ratio(static_cast<double>(a), static_cast<double>(b));
      if (fabs(x) <= 1) {
        AddNear(p, x, (static_cast<double>(a) - top_[0]) / tau_, costly, &s);
      } else {
        AddFar(log_p, log_q, x, &s);
      }
    }
    double* all = reinterpret_cast<double*>(&s);
    double* to = reinterpret_cast<double*>(&total_);
    static_assert(sizeof(Sums) == 14 * sizeof(double));
    for (int k = 0; k < 14; ++k) to[k] = RowSum(all[k], &shared_);
  }

  __device__ void PublishAll() {
    const Sums& s = total_;
    const bool costly = (args_.wanted & kCudaWantOnDemand) != 0;
    const bool square = (args_.wanted & (kCudaWantReverseChi2 | kCudaWantOnDemand)) != 0;
    const auto set = [&](int value, double to) { args_.Set(row_, value, to); };
    const bool finite = low_ != -kDoubleInf && high_ != kDoubleInf;
    set(kCudaSpan, finite ? span_ / tau_ : kDoubleInf);
    set(kCudaLinf, finite ? 0.5 * span_ : kDoubleInf);
    set(kCudaRawLinf, finite ? fmax(fabs(low_), fabs(high_)) : kDoubleInf);
    set(kCudaL2, !finite ? kDoubleInf : span_ == 0 ? 0 : sqrt(s.centred));
    set(kCudaRawL2, finite ? sqrt(squares_) : kDoubleInf);
    set(kCudaKl, s.kl);
    set(kCudaReverseKl, s.reverse_kl);
    set(kCudaTv, fmin(1.0, s.tv));
    set(kCudaChi2, s.chi2);
    set(kCudaReverseChi2, square ? s.reverse_chi2 : nan(""));
    set(kCudaTrainEntropy, s.entropy[0]);
    set(kCudaEntropy, s.entropy[1]);
    set(kCudaEntropyGap,
        fabs(s.far == 0 ? s.logit_change + s.reverse_kl : s.entropy[1] - s.entropy[0]));
    set(kCudaConfidence, 1 / (1 + others_[1]));
    set(kCudaTrainConfidence, 1 / (1 + others_[0]));
    set(kCudaJs, costly ? fmin(s.js, kDeviceLn2) : nan(""));
    set(kCudaHellinger, costly ? fmin(s.hellinger, 1.0) : nan(""));
    set(kCudaRank, costly && token_ >= 0 ? s.rank[1] : nan(""));
    set(kCudaTrainRank, costly && token_ >= 0 ? s.rank[0] : nan(""));
    double ratio = nan(""), logprob = nan(""), train_logprob = nan("");
    if (token_ >= 0) {
      const double a = static_cast<double>(A(token_));
      const double b = static_cast<double>(B(token_));
      train_logprob = LogProb(0, a) + 0.0;
      logprob = LogProb(1, b) + 0.0;
      ratio = a != -kDoubleInf && b != -kDoubleInf ? 0.0 - Ratio(a, b) : train_logprob - logprob;
    }
    set(kCudaLogRatio, ratio);
    set(kCudaLogprob, logprob);
    set(kCudaTrainLogprob, train_logprob);
    const bool sound = !IsBelowZero(s.kl) && !IsBelowZero(s.reverse_kl) &&
                       !(costly && IsBelowZero(s.js)) &&
                       !BreaksPinsker(fmin(1.0, s.tv), fmin(s.kl, s.reverse_kl));
    args_.status[row_] = !sound ? kCudaRowUnsound : bad_token_ ? kCudaRowBadToken : kCudaRowCareful;
  }

  const RowArgs& args_;
  const int64_t row_;
  CarefulShared& shared_;
  const void* const train_;
  const void* const infer_;
  const double tau_;
  double top_[2] = {0, 0};
  double others_[2] = {0, 0};
  double log_others_[2] = {0, 0};
  double low_ = 0, high_ = 0, count_ = 0, squares_ = 0;
  double mean_difference_ = 0, span_ = 0;  // of the differences less the pivot's
  LogitDifference pivot_difference_;
  LogitDifference ratio_from_;
  double at_pivot_ = 0;  // the log-ratio there
  int64_t pivot_ = -1;
  int64_t token_ = -1;
  bool bad_token_ = false;  // the caller's token is none
  Sums total_;
};

// The listed rows, or all of them.
static __global__ void __launch_bounds__(kCarefulThreads)
    CarefulKernel(const __grid_constant__ RowArgs args, int64_t first_row, int64_t count,
                  bool all) {
  __shared__ CarefulShared shared;
  AwaitPreviousKernel();
  const int64_t rows = all ? count : args.careful_rows[0];
  const int blocks = CarefulCluster::Blocks();
  for (int64_t k = blockIdx.x / static_cast<unsigned>(blocks); k < rows;
       k += gridDim.x / static_cast<unsigned>(blocks)) {
    const int64_t row = first_row + (all ? k : args.careful_rows[1 + k]);
    CarefulRow(args, row, &shared).Measure();
    __syncthreads();
  }
  CarefulCluster::Sync();  // nobody leaves while a neighbour may still read here
}

}  // namespace kcc
