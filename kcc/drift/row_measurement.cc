#include "kcc/drift/row_measurement.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/constants.h"
#include "kcc/numeric/double_math.h"
#include "kcc/numeric/widen.h"

namespace kcc {
namespace {

// Weights below 2^-120 of the first entries' largest are raised to that.
constexpr double kFloorBits = 120;
// The sums stay finite while no weight exceeds the first entries' largest by more.
constexpr double kRoomBits = 56;
// Subtractions may enlarge the float32 error this much before the row is done another way.
constexpr double kAmplificationMax = 12;
// What tv may be off by, relatively, from such a kl on.
constexpr double kTvError = 3e-6;
constexpr double kLeastKl = 1e-12;
// Origin 0 is kept while the logits are this small: the floor of the weights is then a negative
// logit.
constexpr float kPlainLogitMax = 64;
constexpr float kLogitMax = 1 << 20;
// How far ahead of the sums the row is fetched into the second cache.
constexpr size_t kReadAheadBytes = 8192;
// How much of a row is looked at to choose origin, exponent and shift.
constexpr size_t kFirstEntries = 512;
// An easier range is taken only after this many blocks would have allowed it.
constexpr int kEasierBlocks = 16;

int RangeOf(float largest) {
  int range = 0;
  while (range < kExpRanges && !(largest <= kExpRangeEnds[static_cast<size_t>(range)])) ++range;
  return range;
}

// The smallest and largest difference in a block; infinite if an entry was not finite. As integers,
// by which the kernels compare, a NaN lies beyond infinity on either side.
std::pair<float, float> Differences(const BlockSums& sums) {
  const bool finite = std::isfinite(sums.min_d) && std::isfinite(sums.max_d);
  return finite ? std::pair(sums.min_d, sums.max_d) : std::pair(-kFloatInf, kFloatInf);
}

}  // namespace

// Origin, exponent and shift from the first entries.
bool RowMeasurement::Choose() {
  const size_t count = std::min(whole_, kFirstEntries);
  const ScanResult first = kernels_.scan[view_.format](view_.train, view_.infer, count, 0);
  if (!(std::fabs(first.max_train) < kLogitMax)) return false;
  if (!(std::fabs(first.min_d) < kLogitMax) || !(std::fabs(first.max_d) < kLogitMax)) return false;
  const bool straddles = first.min_d <= 0 && first.max_d >= 0;
  arguments_.shift = straddles ? 0 : 0.5f * (first.min_d + first.max_d);
  SetArguments(first.max_train);
  return true;
}

void RowMeasurement::SetArguments(float peak) {
  const bool plain = view_.temperature == 1 && std::fabs(peak) <= kPlainLogitMax;
  arguments_.origin = plain ? 0 : peak;
  arguments_.centre = plain ? peak : 0;  // entropies lose no digits to a common offset
  shifted_ = arguments_.shift != 0 || !plain;
  exponent_ = static_cast<int>(std::nearbyint(Bits(peak)));
  arguments_.inverse_temperature = static_cast<float>(1 / view_.temperature);
  arguments_.scale = static_cast<float>(kLog2e / view_.temperature);
  arguments_.rounding = kExp2Rounding - static_cast<float>(exponent_);
  arguments_.floor = static_cast<float>((exponent_ - kFloorBits) / double{arguments_.scale});
}

BlockArgs RowMeasurement::ArgumentsOf(size_t block) const {
  const size_t begin = block * kBlockEntries;
  BlockArgs args = arguments_;
  args.train = view_.At(view_.train, begin);
  args.infer = view_.At(view_.infer, begin);
  args.count = std::min(kBlockEntries, whole_ - begin);
  args.scratch = scratch_.weights[begin / 8].at;
  args.sums = &scratch_.blocks[block];
  args.peaks = &scratch_.peaks[begin / kSubBlockEntries];
  // Past the end of the row comes the next one.
  const size_t ahead = begin + kReadAheadBytes / view_.EntryBytes();
  const bool is_next = ahead >= whole_ && view_.next != nullptr;
  const size_t at = is_next ? ahead - whole_ : ahead < whole_ ? ahead : begin;
  args.prefetch_train =
      static_cast<const char*>(view_.At(is_next ? view_.next->train : view_.train, at));
  args.prefetch_infer =
      static_cast<const char*>(view_.At(is_next ? view_.next->infer : view_.infer, at));
  return args;
}

// Begins with the cheapest range of the exponential. A block that needs a wider one is summed again
// with that, and the blocks after it start there.
bool RowMeasurement::SumBlocks() {
  OpenRow& open = scratch_.open;
  if (open.entries != whole_ || open.blocks_done > 0) FinishRowSimd(&scratch_);
  scratch_.weights.resize(whole_ / 8);
  scratch_.blocks.resize(Blocks());
  scratch_.ranges.resize(Blocks());
  scratch_.peaks.resize((whole_ + kSubBlockEntries - 1) / kSubBlockEntries);
  min_d_ = kFloatInf;
  max_d_ = -kFloatInf;
  int range = 0;
  int easier = 0;
  for (size_t block = 0; block < Blocks(); ++block) {
    BlockArgs args = ArgumentsOf(block);
    args.slope = open.variation.slope;
    const auto& kernels = kernels_.block[view_.format][square_ ? 1 : 0][shifted_ ? 1 : 0];
    kernels[range](args);
    if (open.to != nullptr) open.Add(args.sums->lanes[kSumAbsolute]);
    const auto [low, high] = Differences(*args.sums);
    const int needed = RangeOf(std::max(-low, high) * arguments_.inverse_temperature);
    if (needed >= kExpRanges) return false;
    if (needed > range) kernels[needed](args);
    scratch_.ranges[block] = std::max(range, needed);
    easier = needed < range ? easier + 1 : 0;
    if (needed > range || easier >= kEasierBlocks) {
      range = needed;
      easier = 0;
    }
    min_d_ = std::min(min_d_, low);
    max_d_ = std::max(max_d_, high);
  }
  FinishRowSimd(&scratch_);
  for (size_t i = whole_; i < view_.vocab; ++i) {
    const float a = view_.Load(view_.train, i);
    const float b = view_.Load(view_.infer, i);
    if (!(std::fabs(a) < kLogitMax) || !(std::fabs(b) < kLogitMax)) return false;
    const float d = TailDifference(i);
    min_d_ = std::min(min_d_, d);
    max_d_ = std::max(max_d_, d);
  }
  return std::max(-min_d_, max_d_) * arguments_.inverse_temperature <= kExpRangeEnds[kWideRange];
}

CarriedToken RowMeasurement::Carried(size_t i) const {
  CarriedToken token;
  token.logit = LogitOf(i);
  token.x = DifferenceOf(i);
  token.e = Exp(CentredLogit(i) / view_.temperature - exponent_ * kLn2);
  return token;
}

// Takes the first `count` top tokens of both sides out of the float32 sums, with the tail.
void RowMeasurement::Carry(size_t count) {
  carried_at_.clear();
  for (const size_t side : {kTrain, kInfer}) {
    const size_t of_side = side == kInfer && count == 1 ? 0 : std::min(count, top_[side].count);
    for (size_t i = 0; i < of_side; ++i) {
      carried_at_.push_back(static_cast<size_t>(top_[side].entries[i].id));
    }
  }
  std::sort(carried_at_.begin(), carried_at_.end());
  carried_at_.erase(std::unique(carried_at_.begin(), carried_at_.end()), carried_at_.end());
  for (size_t i = 0; i < carried_at_.size(); ++i) {
    const size_t block = carried_at_[i] / kBlockEntries;
    const bool again = i > 0 && carried_at_[i - 1] / kBlockEntries == block;
    if (carried_at_[i] < whole_ && !again) RedoBlock(block);
  }
  for (size_t i = whole_; i < view_.vocab; ++i) carried_at_.push_back(i);
  std::sort(carried_at_.begin(), carried_at_.end());
  carried_at_.erase(std::unique(carried_at_.begin(), carried_at_.end()), carried_at_.end());
  pivot_token_ = Carried(pivot_);
  carried_.clear();
  for (const size_t i : carried_at_) {
    if (i != pivot_) carried_.push_back(Carried(i));
  }
}

// The block once more, its carried tokens replaced by ones of no weight; as float32, which gives
// the bits of the row's own format.
void RowMeasurement::RedoBlock(size_t block) {
  BlockArgs args = ArgumentsOf(block);
  const size_t begin = block * kBlockEntries;
  scratch_.block_train.resize(kBlockEntries);
  scratch_.block_infer.resize(kBlockEntries);
  WidenToFloat(args.train, view_.dtype(), args.count, target_, scratch_.block_train.data());
  WidenToFloat(args.infer, view_.dtype(), args.count, target_, scratch_.block_infer.data());
  const float weightless = arguments_.origin + arguments_.floor;
  for (const size_t i : carried_at_) {
    if (i < begin || i >= begin + args.count) continue;
    scratch_.block_train[i - begin] = weightless;
    scratch_.block_infer[i - begin] = weightless + arguments_.shift;
  }
  std::array<int32_t, kBlockEntries / kSubBlockEntries> unused;
  BlockSums sums;
  args.train = scratch_.block_train.data();
  args.infer = scratch_.block_infer.data();
  args.peaks = unused.data();
  args.prefetch_train = static_cast<const char*>(args.train);
  args.prefetch_infer = static_cast<const char*>(args.infer);
  args.sums = &sums;
  const auto range = static_cast<size_t>(scratch_.ranges[block]);
  kernels_.block[kRowF32][square_ ? 1 : 0][shifted_ ? 1 : 0][range](args);
  // The differences themselves stay those of all entries.
  for (size_t sum = 0; sum < kSumD; ++sum) {
    std::copy_n(sums.lanes[sum], 16, scratch_.blocks[block].lanes[sum]);
  }
}

RestSums RowMeasurement::Rest() {
  double total[kSumDSquare + 1] = {};
  constexpr std::array<std::pair<int, int>, 3> kKinds = {{{kNearestRange, kNearestRange},
                                                          {kNearestRange + 1, kWideRange - 1},
                                                          {kWideRange, kWideRange}}};
  for (const std::pair<int, int>& kind : kKinds) {
    const auto is_of_kind = [&](int range) { return range >= kind.first && range <= kind.second; };
    if (std::none_of(scratch_.ranges.begin(), scratch_.ranges.end(), is_of_kind)) continue;
    double lanes[kSumDSquare + 1][16];
    kernels_.add(scratch_.blocks.data(), scratch_.ranges.data(), Blocks(), kind.first, kind.second,
                 lanes);
    double sums[kSumDSquare + 1];
    for (size_t sum = 0; sum <= kSumDSquare; ++sum) sums[sum] = SumLanes(lanes[sum]);
    ToDefinitions(kind.first, sums);
    for (size_t sum = 0; sum <= kSumDSquare; ++sum) total[sum] += sums[sum];
  }
  RestSums rest;
  std::copy_n(total, rest.size(), rest.begin());
  sum_d_ = total[kSumD];
  sum_d_square_ = total[kSumDSquare];
  rest[kSumQLogit] -= double{arguments_.centre} * rest[kSumQ];
  // The float32 scale differs from log2(e) / temperature: to first order, one factor for all.
  const double error = (kLog2e / view_.temperature - double{arguments_.scale}) * kLn2;
  const double tilt = Exp(error * (rest[kSumELogit] / rest[kSumE] + double{arguments_.centre}));
  for (double& sum : rest) sum *= tilt;
  rest[kSumELogit] /= view_.temperature;
  rest[kSumQLogit] /= view_.temperature;
  return rest;
}

// Carries as many tokens as it takes. False: the shift must change. `strict`: for tv too.
bool RowMeasurement::Solve(bool strict) {
  for (const size_t count : {size_t{1}, kTopTokens}) {
    Carry(count);
    const RestSums rest = Rest();
    solution_ = SolveRow(rest, pivot_token_, carried_);
    if (solution_.amplification > kAmplificationMax) continue;
    if (!strict || TvHolds(rest[kSumE])) return true;
  }
  return false;
}

// tv is taken from float32 differences of e E and slope e, each with an error of 2^-24 slope e or
// so; it is no less than kl over the span of the log-ratios. Where that is too little to go by,
// about delta as the shift there is no slope.
bool RowMeasurement::TvHolds(double rest_weight) const {
  if (solution_.kl < kLeastKl) return true;
  const double span = (double{max_d_} - double{min_d_}) / view_.temperature;
  const double error = 0x1p-24 * std::fabs(Expm1(solution_.delta)) * rest_weight / solution_.z;
  return error * span <= kTvError * solution_.kl;
}

// The kernels find the differences on either side of 0 only; all on one side is rare.
void RowMeasurement::Extremes() {
  if ((min_d_ == 0) == (max_d_ == 0)) return;
  const ScanResult all =
      kernels_.scan[view_.format](view_.train, view_.infer, whole_, arguments_.shift);
  min_d_ = all.min_d;
  max_d_ = all.max_d;
  for (size_t i = whole_; i < view_.vocab; ++i) {
    const float d = TailDifference(i);
    min_d_ = std::min(min_d_, d);
    max_d_ = std::max(max_d_, d);
  }
}

void RowMeasurement::Distances(RowQuantities* row) const {
  const double count = static_cast<double>(view_.vocab);
  const double shift = arguments_.shift;
  double sum = sum_d_;
  double squares = sum_d_square_;
  for (size_t i = whole_; i < view_.vocab; ++i) {
    const double d =
        (double{view_.Load(view_.infer, i)} - double{view_.Load(view_.train, i)}) - shift;
    sum += d;
    squares += d * d;
  }
  row->span = (double{max_d_} - double{min_d_}) / view_.temperature;
  row->linf = 0.5 * (double{max_d_} - double{min_d_});
  row->raw_linf = std::max(std::fabs(max_d_ + shift), std::fabs(min_d_ + shift));
  const double centred = squares - sum * sum / count;
  const double raw = squares + 2 * shift * sum + count * shift * shift;
  row->l2 = max_d_ == min_d_ ? 0 : std::sqrt(std::max(0.0, centred));
  row->raw_l2 = std::sqrt(std::max(0.0, raw));
  // Where either form cancels, the row is visited again. A lane adds 128 squares in float32, and so
  // errs by up to 128 * 2^-24 where all are alike; the root is off by half of that, fourfold here.
  if (centred < 0.25 * squares || raw < 0.25 * (squares + count * shift * shift)) {
    ExactL2(view_, row);
    if (max_d_ == min_d_) row->l2 = 0;
  }
}

double RowMeasurement::Ratio(size_t i) const {
  return i == pivot_ ? solution_.pivot_ratio : DifferenceOf(i) - solution_.delta;
}

// Relative to the pivot, whose own log-prob is then exact however near to 0.
double RowMeasurement::LogProb(size_t i) const {
  const double pivot_log_prob = pivot_token_.logit - solution_.log_z;
  return i == pivot_ ? pivot_log_prob : (LogitOf(i) - pivot_token_.logit) + pivot_log_prob;
}

void RowMeasurement::Token(RowQuantities* row) const {
  if (view_.token < 0) return;
  const auto i = static_cast<size_t>(view_.token);
  row->has_token = true;
  row->token.train_logprob = LogProb(i) + 0.0;
  row->token.infer_logprob = std::min(0.0, LogProb(i) + Ratio(i)) + 0.0;
  row->token.log_ratio = 0.0 - Ratio(i);
}

EntryArgs RowMeasurement::Entries() const {
  EntryArgs args;
  args.train = view_.train;
  args.infer = view_.infer;
  args.origin = double{view_.Load(view_.train, pivot_)};
  args.log_p = pivot_token_.logit - solution_.log_z;
  args.shift = arguments_.shift;
  args.delta = solution_.delta;
  args.inverse_temperature = 1 / view_.temperature;
  args.pivot = pivot_;
  args.pivot_ratio = solution_.pivot_ratio;
  return args;
}

bool RowMeasurement::Measure(const SlotSet& wanted, RowQuantities* row, OpenVariation* variation) {
  if (whole_ == 0 || !Choose()) return false;
  static const size_t square_slot = TokenSlot("reverse_chi2");
  square_ = wanted[square_slot];
  bool solved = false;
  for (int attempt = 0; attempt < 4 && !solved; ++attempt) {
    if (!SumBlocks()) return false;
    top_[kTrain] = TrainTop();
    top_[kInfer] = InferTop(top_[kTrain]);
    pivot_ = static_cast<size_t>(top_[kTrain].entries[0].id);
    const float peak = top_[kTrain].entries[0].logit;
    if (!(std::fabs(peak) < kLogitMax)) return false;
    if (Bits(peak) - exponent_ > kRoomBits) {
      SetArguments(peak);
      continue;
    }
    solved = Solve(attempt == 0);
    if (solved || !std::isfinite(solution_.delta)) break;
    arguments_.shift += static_cast<float>(solution_.delta * view_.temperature);
    SetArguments(peak);
  }
  if (!solved) return false;
  // Raised weights matter only where a large x multiplies them.
  if (max_d_ / view_.temperature > 8) {
    const ScanResult all = kernels_.scan[view_.format](view_.train, view_.infer, whole_, 0);
    if (all.min_train - arguments_.origin < arguments_.floor) return false;
  }

  row->kl = solution_.kl;
  row->reverse_kl = solution_.reverse_kl;
  row->chi2 = solution_.chi2;
  row->reverse_chi2 = solution_.reverse_chi2;
  row->entropy = {
      solution_.infer_entropy_cancels ? InferEntropy(view_, Entries()) : solution_.infer_entropy,
      solution_.train_entropy};
  row->entropy_gap = solution_.entropy_gap;
  *variation = OpenVariation(solution_, pivot_token_, carried_);
  Extremes();
  Distances(row);
  Token(row);
  const auto infer_top = static_cast<size_t>(top_[kInfer].entries[0].id);
  row->confidence = {std::min(1.0, Exp(LogProb(infer_top) + Ratio(infer_top))),
                     solution_.confidence};
  static const std::array<size_t, 2> rank_slots = {TokenSlot("rank"), TokenSlot("train_rank")};
  static const std::array<size_t, 2> slow_slots = {TokenSlot("js"), TokenSlot("hellinger")};
  if (row->has_token && (wanted[rank_slots[0]] || wanted[rank_slots[1]]))
    RankToken(view_, target_, row);
  if (wanted[slow_slots[0]] || wanted[slow_slots[1]])
    JsAndHellinger(view_, Entries(), target_, row);
  row->top = top_;
  for (TopTokens& top : row->top) {
    for (size_t i = 0; i < top.count; ++i) {
      top.entries[i].id = view_.Id(static_cast<size_t>(top.entries[i].id));
    }
  }
  return true;
}

}  // namespace kcc
