#include "kcc/summary/accumulator.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/check.h"
#include "kcc/metric/token_slots.h"
#include "kcc/summary/series.h"
#include "kcc/summary/spread.h"

namespace kcc {
namespace {

template <class Row>
std::vector<size_t> RowsThatName(const std::vector<Row>& rows, const std::string& slice) {
  std::vector<size_t> found;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (std::binary_search(rows[i].slices.begin(), rows[i].slices.end(), slice)) found.push_back(i);
  }
  return found;
}

void AddDistinct(const std::vector<size_t>& from, std::vector<size_t>* into) {
  into->insert(into->end(), from.begin(), from.end());
  std::sort(into->begin(), into->end());
  into->erase(std::unique(into->begin(), into->end()), into->end());
}

}  // namespace

Accumulator::Accumulator(const Plan& plan, const AccumulatorOptions& options)
    : plan_(plan), options_(options), recorder_(plan), summary_(plan), merged_(recorder_.needs()) {
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    if (plan.slots()[slot]) slots_.push_back(slot);
  }
  for (size_t i = 0; i < SeriesCount(); ++i) indices_.push_back(std::make_shared<BucketIndex>());
  for (SliceStats& slice : summary_.slices) ShareIndices(&slice);
  for (size_t i = 0; i < plan.slices().size(); ++i) {
    if (plan.slices()[i].reads_token) token_slices_.push_back(i);
    slice_windows_.push_back(RowsThatName(plan.windows(), plan.slices()[i].name));
    slice_tests_.push_back(RowsThatName(plan.tests(), plan.slices()[i].name));
  }
}

void Accumulator::ShareIndices(SliceStats* stats) const {
  for (size_t i = 0; i < stats->series.size(); ++i) {
    stats->series[i].point.histogram.Share(indices_[i]);
  }
}

void Accumulator::BeginRequest(const RequestPair& request, const SliceBits& bits) {
  request_ = request;
  request_bits_ = bits;
  parts_used_ = 0;
  last_part_ = nullptr;
}

Accumulator::Part& Accumulator::PartFor(const SliceBits& bits) {
  if (last_part_ != nullptr && last_part_->cell->bits == bits) return *last_part_;
  for (size_t i = 0; i < parts_used_; ++i) {
    if (parts_[i]->cell->bits == bits) return *(last_part_ = parts_[i].get());
  }
  std::unique_ptr<Cell>& cell = cells_[bits.words()];
  if (cell == nullptr) {
    cell = std::make_unique<Cell>(plan_, bits, SliceStats::Kind::kTokens);
    ShareIndices(&cell->stats);
  }
  if (parts_used_ == parts_.size()) {
    parts_.push_back(std::make_unique<Part>(Part{nullptr, GroupTokens(recorder_.needs())}));
  }
  Part& part = *parts_[parts_used_++];
  part.cell = cell.get();
  part.tokens.Clear();
  last_part_ = &part;
  return part;
}

void Accumulator::AddValue(Part* part, size_t series, double lo, double hi,
                           const TokenSample& sample) {
  SeriesStats& stats = part->cell->stats.series[series];
  const Thresholds thresholds = plan_.thresholds(series);
  const Quantity& quantity = SeriesQuantity(series);
  GroupTokens& tokens = part->tokens;
  if (lo == hi) {
    tokens.point[series].Add(lo, thresholds);
    stats.point.AddShape(lo);
  } else {
    if (tokens.low.empty()) {
      tokens.low.resize(TokenSeriesCount());
      tokens.high.resize(TokenSeriesCount());
    }
    tokens.low[series].Add(lo, thresholds);
    tokens.high[series].Add(hi, thresholds);
    stats.Ends()[0].AddShape(lo);
    stats.Ends()[1].AddShape(hi);
  }
  const double bad_end = quantity.direction == Direction::kHigherIsBetter ? lo : hi;
  stats.worst.Offer(quantity, bad_end, request_.id, sample.position, sample.token);
  const int values = recorder_.needs().values_index[series];
  if (values >= 0) tokens.values[static_cast<size_t>(values)].push_back({lo, hi});
}

void Accumulator::AddCalibration(Part* part, const TokenSample& sample, const TokenDrift& drift) {
  Calibration& calibration = part->cell->stats.calibration;
  if (sample.gold < 0 || drift.argmax[0] < 0 || drift.argmax[1] < 0) {
    ++calibration.unlabelled;
    ++part->tokens.unlabelled;
    return;
  }
  LabelledToken token;
  for (size_t side = 0; side < 2; ++side) {
    token.confidence[side] = std::clamp(drift.confidence[side], 0.0, 1.0);
    token.correct[side] = drift.argmax[side] == sample.gold;
    calibration.sides[side].Add(token.confidence[side], token.correct[side]);
  }
  if (recorder_.needs().labels) part->tokens.labelled.push_back(token);
}

void Accumulator::AddCurves(Part* part, const TokenDrift& drift) {
  static const size_t kMargin = TokenSlot("train_margin");
  static const size_t kTop1 = TokenSlot("top1_overlap");
  static const size_t kTop5 = TokenSlot("top5_overlap");
  if (!drift.known[kMargin]) return;
  SliceStats& stats = part->cell->stats;
  // By the larger end: the reader of the curve must not see a flip as rarer than it may be.
  const double margin = drift.hi[kMargin];
  if (drift.known[kTop1] && drift.lo[kTop1] < 1) stats.top1_disagreeing.Add(margin);
  if (drift.known[kTop5] && drift.lo[kTop5] < 1) stats.top5_disagreeing.Add(margin);
}

Result<> Accumulator::AddToken(const TokenSample& sample, const TokenDrift& drift,
                               const SliceBits& bits, const SampleEstimates* estimates) {
  for (const size_t slot : slots_) {
    if (drift.known[slot] && !(drift.lo[slot] <= drift.hi[slot])) {
      return BrokenEvidenceError(SlotName(slot) + " is not a number or an empty interval");
    }
  }
  Part& part = PartFor(bits);
  ++part.tokens.tokens;
  ++part.cell->stats.tokens;
  for (const size_t slot : slots_) {
    if (drift.known[slot]) {
      AddValue(&part, slot, drift.lo[slot], drift.hi[slot], sample);
    } else {
      ++part.cell->stats.series[slot].missing;
      ++part.tokens.missing[slot];
    }
  }
  if (estimates != nullptr) {
    for (const size_t slot : slots_) {
      if (!estimates->known[slot]) continue;
      const double value = estimates->value[slot];
      if (std::isnan(value)) {
        return BrokenEvidenceError("the estimate of " + SlotName(slot) + " is not a number");
      }
      AddValue(&part, EstimateSeriesOfSlot(slot), value, value, sample);
    }
  }
  AddCalibration(&part, sample, drift);
  AddCurves(&part, drift);
  return {};
}

Accumulator::RequestCell& Accumulator::RequestCellFor(const SliceBits& bits) {
  std::unique_ptr<RequestCell>& cell = request_cells_[bits.words()];
  if (cell == nullptr) {
    cell = std::make_unique<RequestCell>(plan_, bits, SliceStats::Kind::kWhole);
    ShareIndices(&cell->stats);
    for (size_t slice = 0; slice < plan_.slices().size(); ++slice) {
      if (!bits.Test(slice)) continue;
      AddDistinct(slice_windows_[slice], &cell->windows);
      AddDistinct(slice_tests_[slice], &cell->tests);
    }
  }
  return *cell;
}

void Accumulator::RecordTokenSlice(size_t slice) {
  const GroupTokens* group = nullptr;
  size_t members = 0;
  for (size_t i = 0; i < parts_used_; ++i) {
    if (!parts_[i]->cell->bits.Test(slice)) continue;
    if (++members == 1) {
      group = &parts_[i]->tokens;
      continue;
    }
    if (members == 2) {
      merged_.Clear();
      merged_.Merge(*group);
      group = &merged_;
    }
    merged_.Merge(parts_[i]->tokens);
  }
  if (members == 0) return;
  recorder_.Record(request_, *group, /*whole_request=*/false, slice_windows_[slice],
                   slice_tests_[slice], &summary_.slices[slice]);
}

void Accumulator::FillWindows() {
  for (WindowFill& fill : summary_.fills) {
    const Window window{Window::Kind::kRequests, fill.size};
    if (const auto index = WindowIndex(window, request_)) ++fill.open[*index];
  }
}

void Accumulator::EndRequest() {
  const GroupTokens* whole = nullptr;
  if (parts_used_ == 1) {
    whole = &parts_[0]->tokens;
  } else {
    merged_.Clear();
    for (size_t i = 0; i < parts_used_; ++i) merged_.Merge(parts_[i]->tokens);
    whole = &merged_;
  }
  RequestCell& cell = RequestCellFor(request_bits_);
  recorder_.Record(request_, *whole, /*whole_request=*/true, cell.windows, cell.tests, &cell.stats);
  for (const size_t slice : token_slices_) RecordTokenSlice(slice);
  for (size_t i = 0; i < parts_used_; ++i) {
    const GroupTokens& tokens = parts_[i]->tokens;
    std::vector<SeriesStats>& series = parts_[i]->cell->stats.series;
    for (size_t s = 0; s < tokens.point.size(); ++s) {
      series[s].point.tally.Merge(tokens.point[s]);
      if (!tokens.has_intervals(s)) continue;
      series[s].Ends()[0].tally.Merge(tokens.low[s]);
      series[s].Ends()[1].tally.Merge(tokens.high[s]);
    }
  }
  FillWindows();
  summary_.requests.push_back(HashText(request_.id));
  if (cells_.size() + request_cells_.size() > options_.cells_max) ExpandCells();
  parts_used_ = 0;
  last_part_ = nullptr;
}

void Accumulator::ExpandCells() {
  std::vector<SpreadCell> all;
  for (const auto& [bits, cell] : cells_) all.push_back({&cell->bits, &cell->stats});
  for (const auto& [bits, cell] : request_cells_) all.push_back({&cell->bits, &cell->stats});
  SpreadCells(plan_, all, &summary_.slices);
  cells_.clear();
  request_cells_.clear();
}

Result<Summary> Accumulator::Finish() {
  ExpandCells();
  for (SliceStats& slice : summary_.slices) slice.UnshareIndices();
  std::sort(summary_.requests.begin(), summary_.requests.end());
  KCC_TRY_VOID(summary_.FoldWindows());
  return std::move(summary_);
}

}  // namespace kcc
