#include "kcc/drift/row_view.h"

#include <cmath>

#include "kcc/base/constants.h"
#include "kcc/numeric/widen.h"

namespace kcc {
bool LeaveOutMasked(const RowPair& pair, Target target, RowScratch* scratch, RowView* view) {
  std::vector<float>& train = scratch->train;
  std::vector<float>& infer = scratch->infer;
  train.resize(pair.vocab);
  infer.resize(pair.vocab);
  WidenToFloat(pair.train, pair.train_dtype, pair.vocab, target, train.data());
  WidenToFloat(pair.infer, pair.infer_dtype, pair.vocab, target, infer.data());
  scratch->ids.clear();
  size_t left = 0;
  view->token = -1;
  for (size_t i = 0; i < pair.vocab; ++i) {
    if (train[i] == -kFloatInf && infer[i] == -kFloatInf) continue;
    if (!std::isfinite(train[i]) || !std::isfinite(infer[i])) return false;
    if (pair.token == static_cast<int64_t>(i)) view->token = static_cast<int64_t>(left);
    train[left] = train[i];
    infer[left] = infer[i];
    scratch->ids.push_back(static_cast<int32_t>(i));
    ++left;
  }
  if (left == pair.vocab || (pair.token >= 0 && view->token < 0)) return false;
  view->train = train.data();
  view->infer = infer.data();
  view->format = kRowF32;
  view->vocab = left;
  view->ids = scratch->ids.data();
  return true;
}

RowView ViewOf(const RowPair& pair, Target target, RowScratch* scratch) {
  RowView view;
  view.vocab = pair.vocab;
  view.temperature = pair.temperature;
  view.token = pair.token;
  const bool same = pair.train_dtype == pair.infer_dtype;
  if (same && (pair.train_dtype == DType::kF32 || pair.train_dtype == DType::kBF16)) {
    view.format = pair.train_dtype == DType::kF32 ? kRowF32 : kRowBF16;
    view.train = pair.train;
    view.infer = pair.infer;
    return view;
  }
  const auto widen = [&](const void* row, DType dtype, std::vector<float>* to) -> const void* {
    if (dtype == DType::kF32) return row;
    to->resize(pair.vocab);
    WidenToFloat(row, dtype, pair.vocab, target, to->data());
    return to->data();
  };
  view.train = widen(pair.train, pair.train_dtype, &scratch->train);
  view.infer = widen(pair.infer, pair.infer_dtype, &scratch->infer);
  return view;
}

void ExactL2(const RowView& view, RowQuantities* row) {
  double sum = 0;
  double squares = 0;
  for (size_t i = 0; i < view.vocab; ++i) {
    const double d = double{view.Load(view.infer, i)} - double{view.Load(view.train, i)};
    sum += d;
    squares += d * d;
  }
  const double mean = sum / static_cast<double>(view.vocab);
  double centred = 0;
  for (size_t i = 0; i < view.vocab; ++i) {
    const double d = (double{view.Load(view.infer, i)} - double{view.Load(view.train, i)}) - mean;
    centred += d * d;
  }
  row->raw_l2 = std::sqrt(squares);
  row->l2 = std::sqrt(centred);
}

}  // namespace kcc
