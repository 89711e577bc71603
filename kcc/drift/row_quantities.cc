#include "kcc/drift/row_quantities.h"

#include <cmath>
#include <string>

#include "kcc/base/check.h"
#include "kcc/base/strings.h"

namespace kcc {
namespace {

struct RowSlots {
  size_t span = TokenSlot("logit_span");
  size_t linf = TokenSlot("logit_linf");
  size_t l2 = TokenSlot("logit_l2");
  size_t raw_linf = TokenSlot("raw_logit_linf");
  size_t raw_l2 = TokenSlot("raw_logit_l2");
  size_t kl = TokenSlot("kl");
  size_t reverse_kl = TokenSlot("reverse_kl");
  size_t js = TokenSlot("js");
  size_t tv = TokenSlot("tv");
  size_t hellinger = TokenSlot("hellinger");
  size_t chi2 = TokenSlot("chi2");
  size_t reverse_chi2 = TokenSlot("reverse_chi2");
  size_t entropy_gap = TokenSlot("entropy_gap");
  size_t top1 = TokenSlot("top1_overlap");
  size_t top5 = TokenSlot("top5_overlap");
  size_t top10 = TokenSlot("top10_overlap");
  std::array<size_t, 2> entropy = {TokenSlot("entropy"), TokenSlot("train_entropy")};
  std::array<size_t, 2> margin = {TokenSlot("margin"), TokenSlot("train_margin")};
  std::array<size_t, 2> rank = {TokenSlot("rank"), TokenSlot("train_rank")};
};

const RowSlots& Slots() {
  static const RowSlots slots;
  return slots;
}

bool IsLogitDType(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2;
}

}  // namespace

Result<> CheckRowPair(const RowPair& pair) {
  if (pair.vocab == 0) return BrokenEvidenceError("the vocabulary is empty: no logits to compare");
  for (const DType dtype : {pair.train_dtype, pair.infer_dtype}) {
    if (IsLogitDType(dtype)) continue;
    return BrokenEvidenceError("logits of dtype " + std::string(DTypeName(dtype)) +
                               " cannot be compared; use F32, F16, BF16, F8_E4M3 or F8_E5M2");
  }
  if (!(pair.temperature > 0) || !std::isfinite(pair.temperature)) {
    return InvalidError("temperature " + ShortestNumber(pair.temperature) +
                        " is not a positive number");
  }
  if (pair.token >= 0 && static_cast<size_t>(pair.token) >= pair.vocab) {
    return BrokenEvidenceError("sampled token " + std::to_string(pair.token) +
                               " is outside the vocabulary of " + std::to_string(pair.vocab) +
                               "; do both traces use the same tokeniser?");
  }
  KCC_CHECK(pair.train != nullptr && pair.infer != nullptr);
  return {};
}

void Publish(const RowQuantities& row, const SlotSet& wanted, TokenDrift* out) {
  const RowSlots& slots = Slots();
  const auto set = [&](size_t slot, double value) {
    if (wanted[slot]) out->Set(slot, value);
  };
  set(slots.span, row.span);
  set(slots.linf, row.linf);
  set(slots.l2, row.l2);
  set(slots.raw_linf, row.raw_linf);
  set(slots.raw_l2, row.raw_l2);
  set(slots.kl, row.kl);
  set(slots.reverse_kl, row.reverse_kl);
  set(slots.js, row.js);
  set(slots.tv, row.tv);
  set(slots.hellinger, row.hellinger);
  set(slots.chi2, row.chi2);
  set(slots.reverse_chi2, row.reverse_chi2);
  set(slots.entropy_gap, row.entropy_gap);
  set(slots.top1, Overlap(row.top[kTrain], row.top[kInfer], 1));
  set(slots.top5, Overlap(row.top[kTrain], row.top[kInfer], 5));
  set(slots.top10, Overlap(row.top[kTrain], row.top[kInfer], 10));
  for (const size_t side : {kInfer, kTrain}) {
    set(slots.entropy[side], row.entropy[side]);
    set(slots.margin[side], row.top[side].Margin());
    if (row.has_token) set(slots.rank[side], row.rank[side]);
    out->argmax[side] = row.top[side].entries[0].id;
    out->confidence[side] = row.confidence[side];
  }
  if (row.has_token) PublishSampledToken(row.token, wanted, out);
}

SlotSet AllTokenSlots() {
  SlotSet all;
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) all.set(slot);
  return all;
}

SlotSet OnDemandSlots() {
  SlotSet slots;
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    if (SlotQuantity(slot).on_demand) slots.set(slot);
  }
  return slots;
}

}  // namespace kcc
