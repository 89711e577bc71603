// The course of a row: choose origin, exponent and shift from its first block; sum every block;
// find the top tokens; take the most likely one out of the float32 sums and carry it in double;
// solve; sum |q - p|, while the next row is summed. What cancels (row_end.cc) is met by carrying
// the other top tokens too, and then by starting over with the solution's own delta as shift. All
// decisions rest on the data alone, so they are the same on every target.
#include "kcc/drift/simd.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kcc/base/check.h"
#include "kcc/base/constants.h"
#include "kcc/drift/on_demand.h"
#include "kcc/drift/reference.h"
#include "kcc/drift/row_check.h"
#include "kcc/drift/row_end.h"
#include "kcc/drift/row_quantities.h"
#include "kcc/drift/row_view.h"
#include "kcc/numeric/double_math.h"
#include "kcc/numeric/widen.h"

namespace kcc {
namespace {

constexpr double kLog2e = 1.4426950408889634;

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
// t, from which the sub-blocks' peaks are read, is rounded to eighths, and to float32 where large.
constexpr double PeakSlack(double t) { return 0.07 + (t > (1 << 21) ? t * 0x1p-23 : 0); }
// An easier range is taken only after this many blocks would have allowed it.
constexpr int kEasierBlocks = 16;

class RowMeasurement {
 public:
  RowMeasurement(const RowView& view, Target target, RowScratch* scratch)
      : view_(view),
        target_(target),
        kernels_(RowKernelsFor(target)),
        scratch_(*scratch),
        whole_(view.Whole()),
        carried_at_(scratch->carried_at),
        carried_(scratch->carried) {}

  // All but tv, which `variation` leaves open. False: the row is not for these kernels (or not
  // finite); the reference backend decides.
  bool Measure(const SlotSet& wanted, RowQuantities* row, OpenVariation* variation);
  size_t whole() const { return whole_; }

 private:
  bool Choose();
  void SetArguments(float peak);
  bool SumBlocks();
  BlockArgs ArgumentsOf(size_t block) const;
  int32_t PeakOf(double logit) const;
  float LeastOf(int32_t peak) const;
  void FetchSubBlock(size_t i) const;
  void OfferRange(const void* row, size_t begin, size_t end, float least, TopTokens* top) const;
  TopTokens TrainTop() const;
  TopTokens InferTop(const TopTokens& train_top) const;
  void Carry(size_t count);
  void RedoBlock(size_t block);
  CarriedToken Carried(size_t i) const;
  RestSums Rest();
  bool Solve(bool strict);
  bool TvHolds(double rest_weight) const;
  void Extremes();
  void Distances(RowQuantities* row) const;
  void Token(RowQuantities* row) const;
  EntryArgs Entries() const;
  double Ratio(size_t i) const;
  double LogProb(size_t i) const;

  // The weight of a train logit as a power of two, before the exponent is taken off.
  double Bits(float logit) const {
    return (double{logit} - double{arguments_.origin}) * kLog2e / view_.temperature;
  }
  double CentredLogit(size_t i) const {
    return double{view_.Load(view_.train, i)} - double{arguments_.origin};
  }
  double LogitOf(size_t i) const {
    return (CentredLogit(i) - double{arguments_.centre}) / view_.temperature;
  }
  double DifferenceOf(size_t i) const {
    const double d = double{view_.Load(view_.infer, i)} - double{view_.Load(view_.train, i)};
    return (d - double{arguments_.shift}) / view_.temperature;
  }
  float TailDifference(size_t i) const {
    const double d = double{view_.Load(view_.infer, i)} - double{view_.Load(view_.train, i)};
    return static_cast<float>(d - double{arguments_.shift});
  }
  size_t Blocks() const { return (whole_ + kBlockEntries - 1) / kBlockEntries; }

  const RowView& view_;
  const Target target_;
  const RowKernels& kernels_;
  RowScratch& scratch_;
  const size_t whole_;
  BlockArgs arguments_;  // what all blocks share
  bool shifted_ = false;
  bool square_ = true;  // whether reverse_chi2 is wanted
  int exponent_ = 0;
  float min_d_ = 0;
  float max_d_ = 0;
  double sum_d_ = 0;  // over the whole groups
  double sum_d_square_ = 0;
  std::array<TopTokens, 2> top_;  // by position, not id
  size_t pivot_ = 0;
  std::vector<size_t>& carried_at_;  // in increasing order
  CarriedToken pivot_token_;
  std::vector<CarriedToken>& carried_;  // without the pivot
  RowSolution solution_;
};

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

size_t TvSlot() {
  static const size_t slot = TokenSlot("tv");
  return slot;
}

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

void RowMeasurement::OfferRange(const void* row, size_t begin, size_t end, float least,
                                TopTokens* top) const {
  if (top->count == kTopTokens) least = std::max(least, top->entries[kTopTokens - 1].logit);
  std::array<int32_t, kSubBlockEntries> positions;
  const size_t count = kernels_.collect[view_.format](row, begin, end, least, positions.data());
  for (size_t i = 0; i < count; ++i) {
    top->Offer(view_.Load(row, static_cast<size_t>(positions[i])), positions[i]);
  }
}

// A train logit that an entry with such a peak is no less than; -inf where weights were raised.
float RowMeasurement::LeastOf(int32_t peak) const {
  const double t = double{std::bit_cast<float>(peak)} - PeakSlack(std::bit_cast<float>(peak));
  const double power = t - double{arguments_.rounding};
  const double scale = double{arguments_.scale};
  if (power <= double{arguments_.floor} * scale + 1) return -kFloatInf;
  const double logit = power / scale + double{arguments_.origin};
  return static_cast<float>(logit - 1e-6 * std::fabs(logit));
}

// A sub-block whose peak is less has no train logit as large.
int32_t RowMeasurement::PeakOf(double logit) const {
  const double t =
      (logit - double{arguments_.origin}) * double{arguments_.scale} + double{arguments_.rounding};
  const double least = t - PeakSlack(t);
  return least > 0 ? std::bit_cast<int32_t>(static_cast<float>(least)) : 0;
}

// Both rows of a sub-block that is about to be searched: the misses of all then overlap.
void RowMeasurement::FetchSubBlock(size_t i) const {
  const size_t bytes = kSubBlockEntries * view_.EntryBytes();
  for (const void* row : {view_.train, view_.infer}) {
    const char* from = static_cast<const char*>(row) + i * bytes;
    for (size_t line = 0; line < bytes; line += 64) __builtin_prefetch(from + line);
  }
}

// The top tokens by position, visiting only sub-blocks that can hold one: at least ten entries have
// a t as large as the tenth largest peak.
TopTokens RowMeasurement::TrainTop() const {
  std::array<int32_t, kTopTokens> high{};  // largest first
  for (const int32_t peak : scratch_.peaks) {
    if (peak <= high[kTopTokens - 1]) continue;
    size_t at = kTopTokens - 1;
    for (; at > 0 && peak > high[at - 1]; --at) high[at] = high[at - 1];
    high[at] = peak;
  }
  const int32_t least = high[kTopTokens - 1];
  const float least_logit = LeastOf(least);
  for (size_t i = 0; i < scratch_.peaks.size(); ++i) {
    if (scratch_.peaks[i] >= least) FetchSubBlock(i);
  }
  TopTokens top;
  for (size_t i = 0; i < scratch_.peaks.size(); ++i) {
    if (scratch_.peaks[i] < least) continue;
    const size_t begin = i * kSubBlockEntries;
    OfferRange(view_.train, begin, std::min(begin + kSubBlockEntries, whole_), least_logit, &top);
  }
  OfferRange(view_.train, whole_, view_.vocab, least_logit, &top);
  return top;
}

// The infer side's are at least as large as the least of the train side's top tokens there, and no
// further from their train logit than the block's largest difference.
TopTokens RowMeasurement::InferTop(const TopTokens& train_top) const {
  float least = kFloatInf;
  for (size_t i = 0; i < train_top.count; ++i) {
    least = std::min(least, view_.Load(view_.infer, static_cast<size_t>(train_top.entries[i].id)));
  }
  TopTokens top;
  constexpr size_t kPeaks = kBlockEntries / kSubBlockEntries;
  for (size_t block = 0; block < Blocks(); ++block) {
    const double reach = double{scratch_.blocks[block].max_d} + double{arguments_.shift};
    const int32_t needed = PeakOf(double{least} - reach);
    const size_t end = std::min((block + 1) * kPeaks, scratch_.peaks.size());
    for (size_t i = block * kPeaks; i < end; ++i) {
      if (scratch_.peaks[i] < needed) continue;
      const size_t begin = i * kSubBlockEntries;
      OfferRange(view_.infer, begin, std::min(begin + kSubBlockEntries, whole_), least, &top);
    }
  }
  OfferRange(view_.infer, whole_, view_.vocab, least, &top);
  return top;
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

}  // namespace

Result<> MeasureRowSimd(const RowPair& pair, const SlotSet& wanted, Target target,
                        RowScratch* scratch, TokenDrift* out, const RowPair* next) {
  KCC_TRY_VOID(BeginRowSimd(pair, wanted, target, scratch, out, next));
  FinishRowSimd(scratch);
  return CheckRow(*out) ? Result<>() : MeasureRowReference(pair, wanted, out);
}

Result<> BeginRowSimd(const RowPair& pair, const SlotSet& wanted, Target target,
                      RowScratch* scratch, TokenDrift* out, const RowPair* next) {
  KCC_TRY_VOID(CheckRowPair(pair));
  RowView view = ViewOf(pair, target, scratch);
  view.next = next;
  for (const bool masked : {false, true}) {
    if (masked && !LeaveOutMasked(pair, target, scratch, &view)) break;
    RowQuantities row;
    OpenVariation variation;
    RowMeasurement measurement(view, target, scratch);
    if (!measurement.Measure(wanted, &row, &variation)) continue;
    Publish(row, wanted, out);
    if (!CheckRow(*out)) break;
    if (wanted[TvSlot()]) scratch->open = {out, target, measurement.whole(), 0, variation, {}};
    return {};
  }
  FinishRowSimd(scratch);
  return MeasureRowReference(pair, wanted, out);
}

void FinishRowSimd(RowScratch* scratch) {
  OpenRow& open = scratch->open;
  if (open.to == nullptr) return;
  const RowKernels& kernels = RowKernelsFor(open.target);
  for (size_t begin = open.blocks_done * kBlockEntries; begin < open.entries;
       begin += kBlockEntries) {
    alignas(64) float lanes[16];
    kernels.absolute(scratch->weights[begin / 8].at, std::min(kBlockEntries, open.entries - begin),
                     open.variation.slope, lanes);
    open.Add(lanes);
  }
  open.to->Set(TvSlot(), open.variation.Close(SumLanes(open.lanes)));
  open.to = nullptr;
}

}  // namespace kcc
