// The course of a row: choose origin, exponent and shift from its first block; sum every block;
// find the top tokens; take the most likely one out of the float32 sums and carry it in double;
// solve; sum |q - p|. What cancels (row_end.cc) is met by carrying the other top tokens too, and
// then by starting over with the solution's own delta as shift. All decisions rest on the data
// alone, so they are the same on every target.
#include "kcc/drift/simd.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kcc/base/check.h"
#include "kcc/drift/reference.h"
#include "kcc/drift/row_end.h"
#include "kcc/drift/row_quantities.h"
#include "kcc/drift/row_view.h"
#include "kcc/numeric/double_math.h"
#include "kcc/numeric/widen.h"

namespace kcc {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr double kLog2e = 1.4426950408889634;
constexpr double kLn2 = 0.6931471805599453;

// Weights below 2^-120 of the first block's largest are raised to that.
constexpr double kFloorBits = 120;
// The sums stay finite while no weight exceeds the first block's largest by more.
constexpr double kRoomBits = 20;
// Subtractions may enlarge the float32 error this much before the row is done another way.
constexpr double kAmplificationMax = 12;
// Origin 0 is kept while the logits are this small: the floor of the weights is then a negative
// logit.
constexpr float kPlainLogitMax = 64;
constexpr float kLogitMax = 1 << 20;
// How far ahead of the sums the row is fetched into the second cache.
constexpr size_t kReadAheadBytes = 16384;
// An easier range is taken only after this many blocks would have allowed it.
constexpr int kEasierBlocks = 16;

class RowMeasurement {
 public:
  RowMeasurement(const RowView& view, Target target, RowScratch* scratch)
      : view_(view),
        target_(target),
        kernels_(RowKernelsFor(target)),
        scratch_(*scratch),
        whole_(view.Whole()) {}

  // False: the row is not for these kernels (or not finite); the reference backend decides.
  bool Measure(const SlotSet& wanted, RowQuantities* row);

 private:
  bool Choose();
  void SetArguments(float peak);
  bool SumBlocks();
  BlockArgs ArgumentsOf(size_t block) const;
  TopTokens TopOf(const void* row, const std::vector<float>& peaks) const;
  void FindTops();
  void Carry(size_t count);
  void RedoBlock(size_t block);
  CarriedToken Carried(size_t i) const;
  RestSums Rest();
  bool Solve();
  double RestAbsolute() const;
  void Distances(RowQuantities* row) const;
  void ExactDistances(RowQuantities* row) const;
  void Token(RowQuantities* row) const;
  double InferEntropy() const;
  void OnDemand(RowQuantities* row) const;
  double Ratio(size_t i) const;
  double LogProb(size_t i) const;

  // The weight of a train logit as a power of two, before the exponent is taken off.
  double Bits(float logit) const {
    return (double{logit} - double{arguments_.origin}) * kLog2e / view_.temperature;
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
  std::vector<size_t> carried_at_;  // pivot first, then in increasing order
  CarriedToken pivot_token_;
  std::vector<CarriedToken> carried_;  // without the pivot
  RowSolution solution_;
};

// Origin, exponent and shift from the first block.
bool RowMeasurement::Choose() {
  const size_t count = std::min(whole_, kBlockEntries);
  const ScanResult first = kernels_.scan[view_.format](view_.train, view_.infer, count);
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
  arguments_.rounding = 12582912.0f - static_cast<float>(exponent_);
  arguments_.floor = static_cast<float>((exponent_ - kFloorBits) / double{arguments_.scale});
}

BlockArgs RowMeasurement::ArgumentsOf(size_t block) const {
  const size_t begin = block * kBlockEntries;
  BlockArgs args = arguments_;
  args.train = view_.At(view_.train, begin);
  args.infer = view_.At(view_.infer, begin);
  args.count = std::min(kBlockEntries, whole_ - begin);
  args.e = scratch_.e[begin / 16].at;
  args.q = scratch_.q[begin / 16].at;
  args.sums = &scratch_.blocks[block];
  args.train_peaks = &scratch_.train_peaks[begin / kSubBlockEntries];
  args.infer_peaks = &scratch_.infer_peaks[begin / kSubBlockEntries];
  // Far enough ahead that memory keeps up; past the end of the row comes the next one.
  const size_t ahead = begin + kReadAheadBytes / view_.EntryBytes();
  if (ahead < whole_) {
    args.prefetch_train = static_cast<const char*>(view_.At(view_.train, ahead));
    args.prefetch_infer = static_cast<const char*>(view_.At(view_.infer, ahead));
  } else if (view_.next != nullptr) {
    args.prefetch_train = static_cast<const char*>(view_.At(view_.next->train, ahead - whole_));
    args.prefetch_infer = static_cast<const char*>(view_.At(view_.next->infer, ahead - whole_));
  }
  return args;
}

int RangeOf(float largest) {
  int range = 0;
  while (range < kExpRanges && !(largest <= kExpRangeEnds[static_cast<size_t>(range)])) ++range;
  return range;
}

// The smallest and largest difference in a block; NaN or infinite if an entry was.
std::pair<float, float> Differences(const BlockSums& sums) {
  float low = kInf;
  float high = -kInf;
  float squares = 0;
  for (size_t lane = 0; lane < 16; ++lane) {
    low = std::min(low, sums.lanes[kMinD][lane]);
    high = std::max(high, sums.lanes[kMaxD][lane]);
    squares += sums.lanes[kSumDSquare][lane];
  }
  // The minimum of vectors may drop a NaN; the sum of squares cannot.
  return std::isfinite(squares) ? std::pair(low, high) : std::pair(-kInf, kInf);
}

bool RowMeasurement::SumBlocks() {
  scratch_.e.resize(whole_ / 16);
  scratch_.q.resize(whole_ / 16);
  scratch_.blocks.resize(Blocks());
  scratch_.ranges.resize(Blocks());
  scratch_.train_peaks.resize((whole_ + kSubBlockEntries - 1) / kSubBlockEntries);
  scratch_.infer_peaks.resize(scratch_.train_peaks.size());
  min_d_ = kInf;
  max_d_ = -kInf;
  int range = 0;
  int easier = 0;
  for (size_t block = 0; block < Blocks(); ++block) {
    const BlockArgs args = ArgumentsOf(block);
    const auto& kernels = kernels_.block[view_.format][square_ ? 1 : 0][shifted_ ? 1 : 0];
    kernels[range](args);
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
  for (size_t i = whole_; i < view_.vocab; ++i) {
    const float a = view_.Load(view_.train, i);
    const float b = view_.Load(view_.infer, i);
    if (!(std::fabs(a) < kLogitMax) || !(std::fabs(b) < kLogitMax)) return false;
    const float d = static_cast<float>((double{b} - double{a}) - arguments_.shift);
    min_d_ = std::min(min_d_, d);
    max_d_ = std::max(max_d_, d);
  }
  return std::max(-min_d_, max_d_) * arguments_.inverse_temperature <= kExpRangeEnds[kWideRange];
}

// The top tokens by position, visiting only sub-blocks whose peak can still matter.
TopTokens RowMeasurement::TopOf(const void* row, const std::vector<float>& peaks) const {
  TopTokens high_peaks;
  for (size_t i = 0; i < peaks.size(); ++i) high_peaks.Offer(peaks[i], static_cast<int32_t>(i));
  const float threshold =
      high_peaks.count < kTopTokens ? -kInf : high_peaks.entries[kTopTokens - 1].logit;
  TopTokens top;
  std::array<int32_t, kSubBlockEntries> positions;
  const auto offer = [&](size_t begin, size_t end) {
    const float least =
        top.count < kTopTokens ? threshold : std::max(threshold, top.entries[kTopTokens - 1].logit);
    const size_t count = kernels_.collect[view_.format](row, begin, end, least, positions.data());
    for (size_t i = 0; i < count; ++i) {
      top.Offer(view_.Load(row, static_cast<size_t>(positions[i])), positions[i]);
    }
  };
  for (size_t i = 0; i < peaks.size(); ++i) {
    if (peaks[i] < threshold) continue;
    if (top.count == kTopTokens && peaks[i] <= top.entries[kTopTokens - 1].logit) continue;
    offer(i * kSubBlockEntries, std::min((i + 1) * kSubBlockEntries, whole_));
  }
  offer(whole_, view_.vocab);
  return top;
}

void RowMeasurement::FindTops() {
  top_[kTrain] = TopOf(view_.train, scratch_.train_peaks);
  top_[kInfer] = TopOf(view_.infer, scratch_.infer_peaks);
  pivot_ = static_cast<size_t>(top_[kTrain].entries[0].id);
}

CarriedToken RowMeasurement::Carried(size_t i) const {
  const double train = view_.Load(view_.train, i);
  const double infer = view_.Load(view_.infer, i);
  CarriedToken token;
  const double centred = train - double{arguments_.origin};
  token.logit = (centred - double{arguments_.centre}) / view_.temperature;
  token.x = ((infer - train) - double{arguments_.shift}) / view_.temperature;
  token.e = Exp(centred / view_.temperature - exponent_ * kLn2);
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
  std::array<float, kBlockEntries / kSubBlockEntries> unused;
  BlockSums sums;
  args.train = scratch_.block_train.data();
  args.infer = scratch_.block_infer.data();
  args.train_peaks = args.infer_peaks = unused.data();
  args.sums = &sums;
  const auto range = static_cast<size_t>(scratch_.ranges[block]);
  kernels_.block[kRowF32][square_ ? 1 : 0][shifted_ ? 1 : 0][range](args);
  // The differences themselves stay those of all entries.
  for (size_t sum = 0; sum < kSumD; ++sum) {
    std::copy_n(sums.lanes[sum], 16, scratch_.blocks[block].lanes[sum]);
  }
}

double SumLanes(const double (&lanes)[16]) {
  double sum[8];
  for (size_t i = 0; i < 8; ++i) sum[i] = lanes[i] + lanes[i + 8];
  for (size_t i = 0; i < 4; ++i) sum[i] += sum[i + 4];
  return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

RestSums RowMeasurement::Rest() {
  double lanes[kSumDSquare + 1][16];
  kernels_.add(scratch_.blocks.data(), Blocks(), lanes);
  for (size_t block = 0; block < Blocks(); ++block) {
    if (scratch_.ranges[block] == kWideRange) continue;
    // x E less the residual E - x is the reverse term itself.
    const BlockSums& sums = scratch_.blocks[block];
    for (size_t lane = 0; lane < 16; ++lane) {
      lanes[kSumReverse][lane] -= double{sums.lanes[kSumResidual][lane]};
    }
  }
  RestSums rest;
  for (size_t sum = 0; sum < kSumD; ++sum) rest[sum] = SumLanes(lanes[sum]);
  sum_d_ = SumLanes(lanes[kSumD]);
  sum_d_square_ = SumLanes(lanes[kSumDSquare]);
  // The float32 scale differs from log2(e) / temperature: to first order, one factor for all.
  const double error = (kLog2e / view_.temperature - double{arguments_.scale}) * kLn2;
  const double tilt = Exp(error * (rest[kSumELogit] / rest[kSumE] + double{arguments_.centre}));
  for (double& sum : rest) sum *= tilt;
  rest[kSumELogit] /= view_.temperature;
  rest[kSumQLogit] /= view_.temperature;
  return rest;
}

// Carries as many tokens as it takes. False: the shift must change.
bool RowMeasurement::Solve() {
  for (const size_t count : {size_t{1}, kTopTokens}) {
    Carry(count);
    solution_ = SolveRow(Rest(), pivot_token_, carried_);
    if (solution_.amplification <= kAmplificationMax) return true;
  }
  return false;
}

double RowMeasurement::RestAbsolute() const {
  const auto slope = static_cast<float>(Expm1(solution_.delta));
  double lanes[16] = {};
  // Backwards: the blocks summed last are still in the nearest cache.
  for (size_t block = Blocks(); block-- > 0;) {
    const BlockArgs args = ArgumentsOf(block);
    alignas(64) float sums[16];
    kernels_.absolute(args.e, args.q, args.count, slope, sums);
    for (size_t lane = 0; lane < 16; ++lane) lanes[lane] += double{sums[lane]};
  }
  return SumLanes(lanes);
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
  // Where either form cancels, the row is visited again.
  if (centred < 0.05 * squares || raw < 0.05 * (squares + count * shift * shift)) {
    ExactDistances(row);
  }
}

void RowMeasurement::ExactDistances(RowQuantities* row) const {
  double sum = 0;
  double squares = 0;
  for (size_t i = 0; i < view_.vocab; ++i) {
    const double d = double{view_.Load(view_.infer, i)} - double{view_.Load(view_.train, i)};
    sum += d;
    squares += d * d;
  }
  const double mean = sum / static_cast<double>(view_.vocab);
  double centred = 0;
  for (size_t i = 0; i < view_.vocab; ++i) {
    const double d =
        (double{view_.Load(view_.infer, i)} - double{view_.Load(view_.train, i)}) - mean;
    centred += d * d;
  }
  row->raw_l2 = std::sqrt(squares);
  row->l2 = max_d_ == min_d_ ? 0 : std::sqrt(centred);
}

double RowMeasurement::Ratio(size_t i) const {
  return i == pivot_ ? solution_.pivot_ratio : Carried(i).x - solution_.delta;
}

// Relative to the pivot, whose own log-prob is then exact however near to 0.
double RowMeasurement::LogProb(size_t i) const {
  const double pivot_log_prob = pivot_token_.logit - solution_.log_z;
  return i == pivot_ ? pivot_log_prob : (Carried(i).logit - pivot_token_.logit) + pivot_log_prob;
}

void RowMeasurement::Token(RowQuantities* row) const {
  if (view_.token < 0) return;
  const auto i = static_cast<size_t>(view_.token);
  row->has_token = true;
  row->token.train_logprob = LogProb(i) + 0.0;
  row->token.infer_logprob = std::min(0.0, LogProb(i) + Ratio(i)) + 0.0;
  row->token.log_ratio = 0.0 - Ratio(i);
}

// By definition, entry by entry.
double RowMeasurement::InferEntropy() const {
  double entropy = 0;
  for (size_t i = 0; i < view_.vocab; ++i) {
    const double log_q = LogProb(i) + Ratio(i);
    entropy -= Exp(log_q) * std::min(0.0, log_q);
  }
  return entropy;
}

// js, hellinger and rank: entry by entry, in double.
void RowMeasurement::OnDemand(RowQuantities* row) const {
  double js = 0;
  double hellinger = 0;
  std::array<double, 2> rank{};
  const size_t token = row->has_token ? static_cast<size_t>(view_.token) : 0;
  const float token_train = view_.Load(view_.train, token);
  const float token_infer = view_.Load(view_.infer, token);
  for (size_t i = 0; i < view_.vocab; ++i) {
    const float train = view_.Load(view_.train, i);
    const float infer = view_.Load(view_.infer, i);
    rank[kTrain] += train > token_train || (train == token_train && i < token) ? 1 : 0;
    rank[kInfer] += infer > token_infer || (infer == token_infer && i < token) ? 1 : 0;
    const double p = Exp(LogProb(i));
    const double ratio = Ratio(i);
    const double root = Expm1(0.5 * ratio);
    js += p * JsTerm(ratio);
    hellinger += 0.5 * p * root * root;
  }
  row->js = std::min(js, kLn2);
  row->hellinger = std::min(hellinger, 1.0);
  row->rank = rank;
}

bool RowMeasurement::Measure(const SlotSet& wanted, RowQuantities* row) {
  if (whole_ == 0 || !Choose()) return false;
  static const size_t square_slot = TokenSlot("reverse_chi2");
  square_ = wanted[square_slot];
  bool solved = false;
  for (int attempt = 0; attempt < 4 && !solved; ++attempt) {
    if (!SumBlocks()) return false;
    FindTops();
    const float peak = top_[kTrain].entries[0].logit;
    if (!(std::fabs(peak) < kLogitMax)) return false;
    if (Bits(peak) - exponent_ > kRoomBits) {
      SetArguments(peak);
      continue;
    }
    solved = Solve();
    if (solved || !std::isfinite(solution_.delta)) break;
    arguments_.shift += static_cast<float>(solution_.delta * view_.temperature);
    SetArguments(peak);
  }
  if (!solved) return false;
  // Raised weights matter only where a large x multiplies them.
  if (max_d_ / view_.temperature > 8) {
    const ScanResult all = kernels_.scan[view_.format](view_.train, view_.infer, whole_);
    if (all.min_train - arguments_.origin < arguments_.floor) return false;
  }

  row->kl = solution_.kl;
  row->reverse_kl = solution_.reverse_kl;
  row->chi2 = solution_.chi2;
  row->reverse_chi2 = solution_.reverse_chi2;
  row->entropy = {solution_.infer_entropy_cancels ? InferEntropy() : solution_.infer_entropy,
                  solution_.train_entropy};
  row->entropy_gap = solution_.entropy_gap;
  row->tv = TotalVariation(solution_, RestAbsolute(), pivot_token_, carried_);
  Distances(row);
  Token(row);
  const auto infer_top = static_cast<size_t>(top_[kInfer].entries[0].id);
  row->confidence = {std::min(1.0, Exp(LogProb(infer_top) + Ratio(infer_top))),
                     solution_.confidence};
  if ((wanted & OnDemandSlots()).any()) OnDemand(row);
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
  KCC_TRY_VOID(CheckRowPair(pair));
  RowView view = ViewOf(pair, target, scratch);
  view.next = next;
  RowQuantities row;
  if (RowMeasurement(view, target, scratch).Measure(wanted, &row)) {
    Publish(row, wanted, out);
    return {};
  }
  row = {};
  if (LeaveOutMasked(pair, target, scratch, &view) &&
      RowMeasurement(view, target, scratch).Measure(wanted, &row)) {
    Publish(row, wanted, out);
    return {};
  }
  return MeasureRowReference(pair, wanted, out);
}

}  // namespace kcc
