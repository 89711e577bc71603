#include "kcc/drift/on_demand.h"

#include <algorithm>
#include <array>

#include "kcc/base/constants.h"
#include "kcc/drift/sampled_token.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

struct EntryPair {
  double log_p = 0;
  double ratio = 0;  // log q/p
};

EntryPair EntryAt(const RowView& view, const EntryArgs& args, size_t i) {
  const double train = view.Load(view.train, i);
  const double infer = view.Load(view.infer, i);
  const double x = ((infer - train) - args.shift) * args.inverse_temperature - args.delta;
  return {(train - args.origin) * args.inverse_temperature + args.log_p,
          i == args.pivot ? args.pivot_ratio : x};
}

}  // namespace

// The pivot, the tail and what differs much are added apart from the rest.
void JsAndHellinger(const RowView& view, const EntryArgs& args, Target target, RowQuantities* row) {
  EntrySums sums;
  double js = 0;
  double hellinger = 0;
  const auto add = [&](size_t i) {
    const EntryPair entry = EntryAt(view, args, i);
    const double p = Exp(entry.log_p);
    const double root = Expm1(0.5 * entry.ratio);
    js += p * JsTerm(entry.ratio);
    hellinger += p * root * root;
  };
  const auto add_range = [&](size_t first, size_t last) {
    const auto kernel = OnDemandKernelsFor(target).add[view.format];
    std::array<int32_t, kBlockEntries> far;
    for (size_t begin = first; begin < last; begin += kBlockEntries) {
      const size_t end = std::min(begin + kBlockEntries, last);
      const size_t count = kernel(args, begin, end, &sums, far.data());
      for (size_t i = 0; i < count; ++i) add(static_cast<size_t>(far[i]));
    }
  };
  const size_t whole = view.vocab / kDoubleLanes * kDoubleLanes;
  const size_t apart = std::min(args.pivot / kDoubleLanes * kDoubleLanes, whole);
  const size_t after = std::min(apart + kDoubleLanes, whole);
  add_range(0, apart);
  for (size_t i = apart; i < after; ++i) add(i);
  add_range(after, whole);
  for (size_t i = whole; i < view.vocab; ++i) add(i);
  for (size_t lane = 0; lane < kDoubleLanes; ++lane) {
    js += sums.js[lane];
    hellinger += sums.hellinger[lane];
  }
  row->js = std::min(js, kLn2);
  row->hellinger = std::min(0.5 * hellinger, 1.0);
}

double InferEntropy(const RowView& view, const EntryArgs& args) {
  double entropy = 0;
  for (size_t i = 0; i < view.vocab; ++i) {
    const EntryPair entry = EntryAt(view, args, i);
    const double log_q = entry.log_p + entry.ratio;
    entropy -= Exp(log_q) * std::min(0.0, log_q);
  }
  return entropy;
}

void RankToken(const RowView& view, Target target, RowQuantities* row) {
  const auto count = OnDemandKernelsFor(target).count[view.format];
  const auto token = static_cast<size_t>(view.token);
  for (const size_t side : {kTrain, kInfer}) {
    const void* logits = side == kTrain ? view.train : view.infer;
    const float own = view.Load(logits, token);
    // Ties by index.
    const size_t above =
        count(logits, 0, token, own, true) + count(logits, token + 1, view.vocab, own, false);
    row->rank[side] = static_cast<double>(above);
  }
}

}  // namespace kcc
