#include "kcc/monitor/request_evidence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kcc/metric/token_slots.h"
#include "kcc/summary/plan_slices.h"
#include "kcc/trace/request_schema.h"

namespace kcc {

std::string FaultOfLine(const MonitorObservation& observation) {
  if (const auto fault = SchemaFault(observation.infer)) return *fault;
  return observation.asked ? SchemaFault(*observation.asked).value_or("") : "";
}

EventFlags EventsOfLine(const MonitorObservation& observation) {
  EventFlags flags;
  flags.conforms[static_cast<size_t>(Side::kInfer)] = FaultOfLine(observation).empty();
  if (observation.train && !observation.train->fields.empty()) {
    flags.conforms[static_cast<size_t>(Side::kTrain)] = !SchemaFault(*observation.train);
  }
  return flags;
}

Result<RequestEvidence> RequestEvidence::Make(const Plan& plan, std::vector<std::string> trusted) {
  RequestEvidence evidence;
  evidence.plan_ = &plan;
  evidence.trusted_ = std::move(trusted);
  evidence.recorder_ = std::make_unique<GroupRecorder>(plan);
  KCC_TRY(evidence.slices_, MakeSliceEvaluator(plan));
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    if (plan.slots()[slot]) evidence.series_.push_back(slot);
  }
  for (size_t i = 0; i < plan.own_token_series().size(); ++i) {
    evidence.series_.push_back(Plan::OwnSeriesNumber(i));
  }
  size_t groups = 1;
  for (const PlanSlice& slice : plan.slices()) {
    evidence.group_of_.push_back(slice.reads_token ? groups++ : 0);
  }
  evidence.groups_.assign(groups, GroupTokens(evidence.recorder_->needs()));
  evidence.rows_.resize(groups);
  return evidence;
}

Result<> RequestEvidence::Read(const MonitorObservation& observation,
                               std::string_view fingerprint) {
  if (!observation.broken.empty()) {
    return BrokenEvidenceError("request '" + observation.id() + "': " + observation.broken);
  }
  observation_ = &observation;
  population_.reset();
  const size_t count = plan_->slices().size();
  touched_.assign(count, 0);
  unvouched_.assign(count, 0);
  ReadPair(fingerprint);
  const RequestSides sides{pair_.asked,
                           pair_.train,
                           pair_.infer,
                           pair_.output_rows,
                           {pair_.LengthUnknown(Side::kInfer), pair_.LengthUnknown(Side::kTrain)}};
  KCC_TRY_VOID(slices_->ForRequest(sides, &bits_, &notes_));
  for (size_t slice = 0; slice < count; ++slice) {
    if (group_of_[slice] == 0 && bits_.Test(slice)) touched_[slice] = 1;
  }
  ReadTokens(sides);
  NoteUnvouched();
  return {};
}

void RequestEvidence::ReadUnplaced(const EventFlags& events) {
  observation_ = &nothing_;
  population_.reset();
  pair_ = RequestPair();
  nobody_.id.clear();
  pair_.infer = pair_.train = &nobody_;
  events_ = events;
  pair_.events = &events_;
  for (GroupTokens& group : groups_) group.Clear();
  const std::vector<PlanSlice>& slices = plan_->slices();
  touched_.assign(slices.size(), 0);
  unvouched_.assign(slices.size(), 1);
  for (size_t slice = 0; slice < slices.size(); ++slice) {
    if (!slices[slice].where.empty()) continue;
    touched_[slice] = 1;
    unvouched_[slice] = 0;
  }
}

// A side without a record has said nothing; it is not taken for the other one.
void RequestEvidence::ReadPair(std::string_view fingerprint) {
  const MonitorObservation& from = *observation_;
  pair_ = RequestPair();
  pair_.id = from.id();
  pair_.infer = &from.infer;
  nobody_.id = from.id();
  pair_.train = from.one_record ? &from.infer : from.train ? &*from.train : &nobody_;
  pair_.asked = from.asked ? &*from.asked : nullptr;
  pair_.infer_fingerprint = fingerprint;
  pair_.outputs = from.outputs ? &*from.outputs : nullptr;
  const auto rows = static_cast<int64_t>(from.tokens.rows()) + from.tokens.masked;
  if (rows > 0) pair_.output_rows = rows;
  double claimed = 0;
  for (const Request* side : {pair_.infer, pair_.train}) {
    claimed = std::max(claimed, side->Number("output_tokens").value_or(0));
  }
  // A request that shows values in place of tokens claims no rows.
  const bool by_values = rows == 0 && !from.values.empty();
  constexpr double kRowsMax = 0x1p31;
  const auto most = static_cast<int64_t>(std::min(claimed, kRowsMax));
  pair_.rows_missing = by_values ? 0 : std::max<int64_t>(0, most - rows);
  if (plan_->events()) {
    events_ = EventsOfLine(from);
    pair_.events = &events_;
  }
  if (plan_->repeats() == Repeats::kNone) return;
  replay_rows_.Clear();
  replay_rows_.by_replica = plan_->repeats() == Repeats::kByReplica;
  for (size_t i = 0; i < from.tokens.rows(); ++i) {
    std::array<double, 2> logprob;
    for (size_t side = 0; side < 2; ++side) {
      logprob[side] = from.tokens.logprob[side].empty() ? std::numeric_limits<double>::quiet_NaN()
                                                        : from.tokens.logprob[side][i];
    }
    replay_rows_.Add(from.tokens.token.empty() ? -1 : from.tokens.token[i], logprob);
  }
  pair_.rows = &replay_rows_;
}

void RequestEvidence::ReadTokens(const RequestSides& sides) {
  for (GroupTokens& group : groups_) group.Clear();
  for (auto& rows : rows_) rows.clear();
  token_notes_.clear();
  FillGroup(nullptr, &groups_[0]);
  const ObservedTokens& tokens = observation_->tokens;
  if (slices_->any_reads_token()) {
    TokenEvidence train, infer;
    for (size_t i = 0; i < tokens.rows(); ++i) {
      train.position = infer.position = tokens.position[i];
      train.token = infer.token = tokens.token.empty() ? -1 : tokens.token[i];
      train.gold = tokens.gold.empty() ? -1 : tokens.gold[i];
      if (!tokens.advantage.empty()) train.advantage = static_cast<float>(tokens.advantage[i]);
      const auto logprob_of = [&](Side side) {
        const std::vector<double>& column = tokens.logprob[static_cast<size_t>(side)];
        return column.empty() ? std::numeric_limits<double>::quiet_NaN() : column[i];
      };
      train.logprob = logprob_of(Side::kTrain);
      infer.logprob = logprob_of(Side::kInfer);
      token_bits_ = bits_;
      slices_->ForToken(sides, train, infer, &token_bits_, &token_notes_);
      for (size_t slice = 0; slice < group_of_.size(); ++slice) {
        if (group_of_[slice] == 0 || !token_bits_.Test(slice)) continue;
        rows_[group_of_[slice]].push_back(static_cast<uint32_t>(i));
      }
    }
    for (size_t group = 1; group < groups_.size(); ++group) {
      if (!rows_[group].empty()) FillGroup(&rows_[group], &groups_[group]);
    }
  }
  if (pair_.rows_missing > 0) AddMissingRows(pair_.rows_missing);
  for (size_t slice = 0; slice < group_of_.size(); ++slice) {
    if (group_of_[slice] == 0) continue;
    touched_[slice] = !rows_[group_of_[slice]].empty() || pair_.rows_missing > 0;
  }
}

// Which slices of tokens the missing ones belong to is not known, so all of them miss them.
void RequestEvidence::AddMissingRows(int64_t count) {
  const auto missing = static_cast<uint64_t>(count);
  for (GroupTokens& group : groups_) {
    for (const size_t series : series_) group.missing[series] += missing;
    group.unlabelled += missing;
  }
}

void RequestEvidence::FillGroup(const std::vector<uint32_t>* rows, GroupTokens* group) {
  const ObservedTokens& tokens = observation_->tokens;
  group->tokens = rows == nullptr ? tokens.rows() : rows->size();
  if (group->tokens == 0) return;
  for (const size_t series : series_) {
    const std::vector<double>* lo = nullptr;
    const std::vector<double>* hi = nullptr;
    if (series < TokenSlotCount()) {
      for (const TokenColumn& column : tokens.columns) {
        if (column.slot != series) continue;
        lo = &column.lo;
        hi = column.hi.empty() ? nullptr : &column.hi;
      }
    } else {
      for (const OwnTokenColumn& column : tokens.own) {
        if (column.name == plan_->name(series)) lo = &column.values;
      }
    }
    FillSeries(series, lo, hi, rows, group);
  }
  if (recorder_->needs().labels) FillLabels(rows, group);
}

void RequestEvidence::FillSeries(size_t series, const std::vector<double>* lo,
                                 const std::vector<double>* hi, const std::vector<uint32_t>* rows,
                                 GroupTokens* group) {
  const size_t count = group->tokens;
  if (lo == nullptr) {
    group->missing[series] += count;
    return;
  }
  const Thresholds thresholds = plan_->thresholds(series);
  const int held = recorder_->needs().values_index[series];
  std::vector<ValueInterval>* values =
      held < 0 ? nullptr : &group->values[static_cast<size_t>(held)];
  scratch_.clear();
  for (size_t i = 0; i < count; ++i) {
    const size_t row = rows == nullptr ? i : (*rows)[i];
    const double low = (*lo)[row];
    const double high = hi == nullptr ? low : (*hi)[row];
    if (std::isnan(low)) {
      ++group->missing[series];
      continue;
    }
    if (low == high) {
      scratch_.push_back(low);
    } else {
      if (group->low.empty()) {
        group->low.resize(group->point.size());
        group->high.resize(group->point.size());
      }
      group->low[series].Add(low, thresholds);
      group->high[series].Add(high, thresholds);
    }
    if (values != nullptr) values->push_back({low, high});
  }
  if (!scratch_.empty()) group->point[series].AddAll(scratch_, thresholds);
}

void RequestEvidence::FillLabels(const std::vector<uint32_t>* rows, GroupTokens* group) {
  const ObservedTokens& tokens = observation_->tokens;
  for (size_t i = 0; i < group->tokens; ++i) {
    const size_t row = rows == nullptr ? i : (*rows)[i];
    bool known = !tokens.gold.empty() && tokens.gold[row] >= 0;
    LabelledToken token;
    for (size_t side = 0; side < 2 && known; ++side) {
      known = !tokens.argmax[side].empty() && tokens.argmax[side][row] >= 0 &&
              !tokens.confidence[side].empty() && !std::isnan(tokens.confidence[side][row]);
      if (!known) break;
      token.confidence[side] = std::clamp(tokens.confidence[side][row], 0.0, 1.0);
      token.correct[side] = tokens.argmax[side][row] == tokens.gold[row];
    }
    if (known) {
      group->labelled.push_back(token);
    } else {
      ++group->unlabelled;
    }
  }
}

void RequestEvidence::NoteUnvouched() {
  for (const auto* notes : {&notes_, &token_notes_}) {
    for (const kcc::Unvouched& note : *notes) {
      const bool decides = note.why == kcc::Unvouched::Why::kInferAlone ||
                           note.why == kcc::Unvouched::Why::kRowsMissing;
      const bool trusted = note.why == kcc::Unvouched::Why::kInferAlone &&
                           std::binary_search(trusted_.begin(), trusted_.end(), note.field);
      if (decides && !trusted) unvouched_[note.slice] = 1;
    }
  }
}

const PopulationStats& RequestEvidence::Population() {
  if (!population_) {
    population_.emplace();
    population_->Add(pair_, plan_->field_sets());
  }
  return *population_;
}

}  // namespace kcc
