// The top tokens of both sides, from what the sums noted of each sub-block: its peak, which bounds
// the train logits in it, and the block's largest difference, which bounds how much higher infer's
// can be. Only sub-blocks that can hold a top token are read again.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kcc/base/constants.h"
#include "kcc/drift/row_measurement.h"

namespace kcc {
namespace {

// t, from which the sub-blocks' peaks are read, is rounded to eighths, and to float32 where large.
constexpr double PeakSlack(double t) { return 0.07 + (t > (1 << 21) ? t * 0x1p-23 : 0); }

}  // namespace

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

}  // namespace kcc
