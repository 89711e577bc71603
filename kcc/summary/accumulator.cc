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

std::vector<size_t> SlotsOf(const Plan& plan) {
  std::vector<size_t> slots;
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    if (plan.slots()[slot]) slots.push_back(slot);
  }
  return slots;
}

}  // namespace

// A cell holds the statistics of all tokens that belong to exactly the same slices. A token is
// added to two cells, however many slices there are: that of its request, for the slices that read
// no token field, and that of its part, for those that do.
//
// Example: the slices are all, long (prompt_tokens >= 8192) and late (token.position >= 4096). A
// long request has the request cell {all, long}. Its tokens up to position 4095 are one part,
// without a token cell; the others are a second part, with the token cell {late}. In the end `long`
// is the sum of all request cells that name it, and `late` the sum of all token cells that name it.
//
// Invariant, between requests: every token so far is in one request cell, and in one token cell if
// any slice of tokens holds it. Within a request the shapes and worst tokens of what was flushed
// are there already; counts and sums wait in the parts, since windows and clusters need them
// request by request.
Accumulator::Accumulator(const Plan& plan, const AccumulatorOptions& options)
    : plan_(plan),
      options_(options),
      recorder_(plan),
      slots_(SlotsOf(plan)),
      summary_(plan),
      held_(2 * slots_.size() + plan.own_token_series().size()),
      merged_(recorder_.needs()) {
  for (size_t i = 0; i < plan.series_count(); ++i)
    indices_.push_back(std::make_shared<BucketIndex>());
  for (SliceStats& slice : summary_.slices) ShareIndices(&slice);
  for (size_t i = 0; i < plan.slices().size(); ++i) {
    (plan.slices()[i].reads_token ? token_slices_ : request_slices_).push_back(i);
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
  request_cell_ = &RequestCellFor(bits);
  parts_used_ = 0;
  held_.Clear();
  if (plan_.events()) {
    events_ = EventsOf(request_);
    request_.events = &events_;
  }
  if (plan_.repeats() == Repeats::kNone) return;
  rows_.Clear();
  rows_.by_replica = plan_.repeats() == Repeats::kByReplica;
  request_.rows = &rows_;
}

void Accumulator::AddMissingTokens(int64_t count) {
  // Any slice of tokens might have held them, so each counts them as missing: evidence that is not
  // there must never help a verdict.
  SliceBits bits = request_cell_->bits;
  for (const size_t slice : token_slices_) bits.Set(slice);
  GroupTokens& tokens = parts_[PartFor(bits)]->tokens;
  const auto missing = static_cast<uint64_t>(count);
  for (const size_t slot : slots_) tokens.missing[slot] += missing;
  for (size_t i = 0; i < plan_.own_token_series().size(); ++i) {
    tokens.missing[Plan::OwnSeriesNumber(i)] += missing;
  }
  tokens.unlabelled += missing;
  for (Cell* cell : {static_cast<Cell*>(request_cell_), parts_[PartFor(bits)]->cell}) {
    if (cell != nullptr) cell->stats.calibration.unlabelled += missing;
  }
}

void Accumulator::AddUnvouched(const Unvouched& unvouched) {
  std::string key(unvouched.field);
  switch (unvouched.why) {
    case Unvouched::Why::kInferAlone:
      break;
    case Unvouched::Why::kLent:
      key = LentOutcome(key);
      break;
    case Unvouched::Why::kRowsMissing:
      key = kLengthUnknown;
      break;
    case Unvouched::Why::kAbsent:
      key = AbsentField(key);
      break;
  }
  ++summary_.slices[unvouched.slice].unvouched[key];
}

Accumulator::Cell* Accumulator::TokenCellFor(const SliceBits& bits) {
  SliceBits of_tokens(plan_.slices().size());
  bool any = false;
  for (const size_t slice : token_slices_) {
    if (!bits.Test(slice)) continue;
    of_tokens.Set(slice);
    any = true;
  }
  if (!any) return nullptr;
  std::unique_ptr<Cell>& cell = token_cells_[of_tokens.words()];
  if (cell == nullptr) {
    cell = std::make_unique<Cell>(plan_, of_tokens, SliceStats::Kind::kTokens);
    ShareIndices(&cell->stats);
  }
  return cell.get();
}

size_t Accumulator::PartFor(const SliceBits& bits) {
  // Tokens come in long runs of one part, so the last one is tried first. Parts outlive their
  // request for the sake of their memory; parts_used_ says how many are in use.
  if (parts_used_ != 0 && parts_[last_part_]->bits == bits) return last_part_;
  for (size_t i = 0; i < parts_used_; ++i) {
    if (parts_[i]->bits == bits) return last_part_ = i;
  }
  if (parts_used_ == parts_.size()) {
    parts_.push_back(
        std::make_unique<Part>(Part{SliceBits(), nullptr, GroupTokens(recorder_.needs())}));
  }
  Part& part = *parts_[parts_used_];
  part.bits = bits;
  part.cell = TokenCellFor(bits);
  part.tokens.Clear();
  return last_part_ = parts_used_++;
}

// One value of a series that also holds intervals or lacks values.
void Accumulator::AddValue(size_t series, double lo, double hi, const TokenPlace& place,
                           Part* part) {
  const Thresholds thresholds = plan_.thresholds(series);
  const Quantity& quantity = plan_.quantity(series);
  // The judge uses the end of an interval that makes a verdict safe, so the worst tokens are listed
  // by that end too.
  GroupTokens& tokens = part->tokens;
  const double bad_end = quantity.direction == Direction::kHigherIsBetter ? lo : hi;
  for (Cell* cell : {static_cast<Cell*>(request_cell_), part->cell}) {
    if (cell == nullptr) continue;
    SeriesStats& stats = cell->stats.series[series];
    if (lo == hi) {
      stats.point.AddShape(lo);
    } else {
      stats.Ends()[0].AddShape(lo);
      stats.Ends()[1].AddShape(hi);
    }
    stats.worst.Offer(quantity, bad_end, request_.id, place.position, place.token);
  }
  if (lo == hi) {
    tokens.point[series].Add(lo, thresholds);
  } else {
    if (tokens.low.empty()) {
      tokens.low.resize(tokens.point.size());
      tokens.high.resize(tokens.point.size());
    }
    tokens.low[series].Add(lo, thresholds);
    tokens.high[series].Add(hi, thresholds);
  }
  const int values = recorder_.needs().values_index[series];
  if (values >= 0) tokens.values[static_cast<size_t>(values)].push_back({lo, hi});
}

void Accumulator::AddColumn(size_t column, size_t series) {
  const std::span<const double> low = held_.low(column);
  const std::span<const double> high = held_.high(column);
  if (!held_.exact(column)) {
    for (const TokenColumns::Run& run : held_.runs()) {
      Part& part = *parts_[run.part];
      for (size_t i = run.first; i < run.first + run.count; ++i) {
        if (!TokenColumns::IsMissing(low[i])) {
          AddValue(series, low[i], high[i], held_.places()[i], &part);
        } else if (series < TokenSlotCount() || series >= SeriesCount()) {
          ++part.tokens.missing[series];
        }
      }
    }
    return;
  }
  // From here on every value is a single number. Its bucket is looked up once for both cells: all
  // histograms of a series in this accumulator share one index.
  const Quantity& quantity = plan_.quantity(series);
  std::array<uint32_t, TokenColumns::kRoom> numbers;
  for (size_t i = 0; i < low.size(); ++i) {
    numbers[i] = indices_[series]->NumberOf(Histogram::BucketOf(low[i]));
  }
  const auto offer = [&](Cell* cell, size_t first, size_t count) {
    cell->stats.series[series].worst.OfferAll(quantity, low.subspan(first, count), request_.id,
                                              held_.places().subspan(first, count));
  };
  offer(request_cell_, 0, low.size());
  const int values = recorder_.needs().values_index[series];
  whole_shape_.Clear();
  for (const TokenColumns::Run& run : held_.runs()) {
    Part& part = *parts_[run.part];
    const std::span<const double> of_run = low.subspan(run.first, run.count);
    const auto numbers_of_run = std::span(numbers).subspan(run.first, run.count);
    part.tokens.point[series].AddAll(of_run, plan_.thresholds(series));
    shape_.Assign(of_run);
    whole_shape_.Merge(shape_);
    if (part.cell != nullptr) {
      part.cell->stats.series[series].point.AddShapes(shape_, numbers_of_run);
      offer(part.cell, run.first, run.count);
    }
    if (values < 0) continue;
    for (const double value : of_run) {
      part.tokens.values[static_cast<size_t>(values)].push_back({value, value});
    }
  }
  request_cell_->stats.series[series].point.AddShapes(whole_shape_,
                                                      std::span(numbers).first(low.size()));
}

void Accumulator::AddHeldTokens() {
  if (held_.empty()) return;
  for (size_t i = 0; i < slots_.size(); ++i) AddColumn(i, slots_[i]);
  for (size_t i = 0; i < slots_.size() && held_estimates_; ++i) {
    if (EstimableSlots()[slots_[i]]) {
      AddColumn(slots_.size() + i, EstimateSeriesOfSlot(slots_[i]));
    }
  }
  for (size_t i = 0; i < plan_.own_token_series().size(); ++i) {
    AddColumn(2 * slots_.size() + i, Plan::OwnSeriesNumber(i));
  }
  held_.Clear();
}

void Accumulator::AddCalibration(Part* part, const TokenSample& sample, const TokenDrift& drift) {
  const auto cells = {static_cast<Cell*>(request_cell_), part->cell};
  if (sample.gold < 0 || drift.argmax[0] < 0 || drift.argmax[1] < 0) {
    for (Cell* cell : cells) {
      if (cell != nullptr) ++cell->stats.calibration.unlabelled;
    }
    ++part->tokens.unlabelled;
    return;
  }
  LabelledToken token;
  for (size_t side = 0; side < 2; ++side) {
    token.confidence[side] = std::clamp(drift.confidence[side], 0.0, 1.0);
    token.correct[side] = drift.argmax[side] == sample.gold;
    for (Cell* cell : cells) {
      if (cell == nullptr) continue;
      cell->stats.calibration.sides[side].Add(token.confidence[side], token.correct[side]);
    }
  }
  if (recorder_.needs().labels) part->tokens.labelled.push_back(token);
}

void Accumulator::AddCurves(Part* part, const TokenDrift& drift) {
  static const size_t kMargin = TokenSlot("train_margin");
  static const size_t kTop1 = TokenSlot("top1_overlap");
  static const size_t kTop5 = TokenSlot("top5_overlap");
  if (!drift.known[kMargin]) return;
  // By the larger end: the reader of the curve must not see a flip as rarer than it may be.
  const double margin = drift.hi[kMargin];
  for (Cell* cell : {static_cast<Cell*>(request_cell_), part->cell}) {
    if (cell == nullptr) continue;
    SliceStats& stats = cell->stats;
    if (drift.known[kTop1] && drift.lo[kTop1] < 1) stats.top1_disagreeing.Add(margin);
    if (drift.known[kTop5] && drift.lo[kTop5] < 1) stats.top5_disagreeing.Add(margin);
  }
}

Result<> Accumulator::AddToken(const TokenSample& sample, const TokenDrift& drift,
                               const SliceBits& bits, const SampleEstimates* estimates,
                               std::span<const double> own) {
  // Everything is checked before anything is changed: a token that is refused is in no count.
  for (const size_t slot : slots_) {
    if (drift.known[slot] && !(drift.lo[slot] <= drift.hi[slot])) {
      return BrokenEvidenceError(SlotName(slot) + " is not a number or an empty interval");
    }
  }
  if (estimates != nullptr) {
    for (const size_t slot : slots_) {
      if (estimates->known[slot] && std::isnan(estimates->value[slot])) {
        return BrokenEvidenceError("the estimate of " + SlotName(slot) + " is not a number");
      }
    }
  }
  // A block holds tokens with estimates or tokens without, never both.
  if (held_.full() || held_estimates_ != (estimates != nullptr)) AddHeldTokens();
  held_estimates_ = estimates != nullptr;
  const size_t index = PartFor(bits);
  held_.Begin(index, {sample.position, sample.token});
  for (size_t i = 0; i < slots_.size(); ++i) {
    const size_t slot = slots_[i];
    if (drift.known[slot]) {
      held_.Set(i, drift.lo[slot], drift.hi[slot]);
    } else {
      held_.SetMissing(i);
    }
    if (estimates == nullptr) continue;
    if (estimates->known[slot]) {
      held_.Set(slots_.size() + i, estimates->value[slot], estimates->value[slot]);
    } else {
      held_.SetMissing(slots_.size() + i);
    }
  }
  for (size_t i = 0; i < plan_.own_token_series().size(); ++i) {
    const size_t column = 2 * slots_.size() + i;
    if (i < own.size() && std::isfinite(own[i])) {
      held_.Set(column, own[i], own[i]);
    } else {
      held_.SetMissing(column);
    }
  }
  if (plan_.repeats() != Repeats::kNone) rows_.Add(sample.token, drift.logprob);
  Part& part = *parts_[index];
  ++part.tokens.tokens;
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

// The request's tokens in each slice of tokens. Slices of few parts come first: one that holds the
// parts of the slice before adds the others to them (thresholds of a field are nested).
void Accumulator::RecordTokenSlices() {
  struct Members {
    size_t slice;
    std::vector<size_t> parts;
  };
  std::vector<Members> all;
  for (const size_t slice : token_slices_) {
    Members members{slice, {}};
    for (size_t i = 0; i < parts_used_; ++i) {
      if (parts_[i]->bits.Test(slice)) members.parts.push_back(i);
    }
    if (!members.parts.empty()) all.push_back(std::move(members));
  }
  std::stable_sort(all.begin(), all.end(), [](const Members& a, const Members& b) {
    return a.parts.size() < b.parts.size();
  });
  std::vector<size_t> merged;  // what merged_ holds
  for (const Members& members : all) {
    const GroupTokens* group = &parts_[members.parts[0]]->tokens;
    if (members.parts.size() > 1) {
      if (!std::includes(members.parts.begin(), members.parts.end(), merged.begin(),
                         merged.end())) {
        merged.clear();
      }
      if (merged.empty()) merged_.Clear();
      for (const size_t part : members.parts) {
        if (!std::binary_search(merged.begin(), merged.end(), part)) {
          merged_.Merge(parts_[part]->tokens);
        }
      }
      merged = members.parts;
      group = &merged_;
    }
    recorder_.Record(request_, *group, /*whole_request=*/false, slice_windows_[members.slice],
                     slice_tests_[members.slice], &summary_.slices[members.slice]);
  }
}

// Counted for all requests alike, in a slice or not: which window a request falls into, and when a
// window is full, must not depend on the slice.
void Accumulator::FillWindows() {
  for (WindowFill& fill : summary_.fills) {
    const Window window{Window::Kind::kRequests, fill.size};
    if (const auto index = WindowIndex(window, fill.placement, request_)) ++fill.open[*index];
  }
}

// The counts and sums of a request's tokens go to the cell once.
void Accumulator::AddTallies(const GroupTokens& tokens, SliceStats* into) {
  into->tokens += tokens.tokens;
  for (size_t s = 0; s < tokens.point.size(); ++s) {
    SeriesStats& series = into->series[s];
    series.missing += tokens.missing[s];
    series.point.tally.Merge(tokens.point[s]);
    if (!tokens.has_intervals(s)) continue;
    series.Ends()[0].tally.Merge(tokens.low[s]);
    series.Ends()[1].tally.Merge(tokens.high[s]);
  }
}

void Accumulator::EndRequest() {
  AddHeldTokens();
  // `whole` may be merged_, which RecordTokenSlices uses again: it is recorded before that.
  const GroupTokens* whole = nullptr;
  if (parts_used_ == 1) {
    whole = &parts_[0]->tokens;
  } else {
    merged_.Clear();
    for (size_t i = 0; i < parts_used_; ++i) merged_.Merge(parts_[i]->tokens);
    whole = &merged_;
  }
  RequestCell& cell = *request_cell_;
  recorder_.Record(request_, *whole, /*whole_request=*/true, cell.windows, cell.tests, &cell.stats);
  AddTallies(*whole, &cell.stats);
  RecordTokenSlices();
  for (size_t i = 0; i < parts_used_; ++i) {
    if (parts_[i]->cell != nullptr) AddTallies(parts_[i]->tokens, &parts_[i]->cell->stats);
  }
  FillWindows();
  summary_.requests.push_back(HashText(request_.id));
  if (token_cells_.size() + request_cells_.size() > options_.cells_max) ExpandCells();
  parts_used_ = 0;
}

// Only between requests: request_cell_ and the cells of the parts point into the two maps.
void Accumulator::ExpandCells() {
  std::vector<SpreadCell> of_tokens, of_requests;
  for (const auto& [bits, cell] : token_cells_) of_tokens.push_back({&cell->bits, &cell->stats});
  for (const auto& [bits, cell] : request_cells_) {
    of_requests.push_back({&cell->bits, &cell->stats});
  }
  SpreadCells(plan_, of_tokens, token_slices_, &summary_.slices);
  SpreadCells(plan_, of_requests, request_slices_, &summary_.slices);
  token_cells_.clear();
  request_cells_.clear();
}

Result<Summary> Accumulator::Finish() {
  ExpandCells();
  for (SliceStats& slice : summary_.slices) slice.UnshareIndices();
  // In one order, whatever the order of reading: the same requests give the same bytes.
  std::sort(summary_.requests.begin(), summary_.requests.end());
  KCC_TRY_VOID(summary_.FoldWindows());
  return std::move(summary_);
}

}  // namespace kcc
