#include "kcc/monitor/observation_meter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kcc/monitor/request_evidence.h"
#include "kcc/summary/accumulator.h"
#include "kcc/summary/plan_slices.h"

namespace kcc {

// The accumulator is spent when it is read, so that what was read is kept and joined with the next.
struct ObservationMeter::State {
  State(Plan its_plan, RequestEvidence its_evidence, SliceEvaluator its_slices)
      : plan(std::move(its_plan)),
        evidence(std::move(its_evidence)),
        slices(std::move(its_slices)) {}

  const Plan plan;
  RequestEvidence evidence;
  const SliceEvaluator slices;
  std::optional<Accumulator> open;
  std::optional<Summary> closed;
  uint64_t requests = 0;
  uint64_t tokens = 0;
  double advantage_abs_max = -1;
  SliceBits bits, token_bits;
  std::vector<Unvouched> notes;
  std::vector<double> own;

  void AddRows(const MonitorObservation& observation, const RequestSides& sides);
  Result<> AddRow(const ObservedTokens& tokens, size_t row);
};

namespace {

double LogprobAt(const ObservedTokens& tokens, Side side, size_t row) {
  const std::vector<double>& column = tokens.logprob[static_cast<size_t>(side)];
  return column.empty() ? std::numeric_limits<double>::quiet_NaN() : column[row];
}

TokenDrift DriftAt(const ObservedTokens& tokens, size_t row) {
  TokenDrift drift;
  for (const TokenColumn& column : tokens.columns) {
    if (std::isnan(column.lo[row])) continue;
    drift.SetInterval(column.slot, column.lo[row],
                      column.hi.empty() ? column.lo[row] : column.hi[row]);
  }
  for (size_t side = 0; side < 2; ++side) {
    if (!tokens.argmax[side].empty()) drift.argmax[side] = tokens.argmax[side][row];
    if (!tokens.confidence[side].empty()) drift.confidence[side] = tokens.confidence[side][row];
    if (!(drift.confidence[side] >= 0)) drift.argmax[side] = -1;
    drift.logprob[side] = LogprobAt(tokens, static_cast<Side>(side), row);
  }
  return drift;
}

}  // namespace

ObservationMeter::ObservationMeter(std::unique_ptr<State> state) : state_(std::move(state)) {}
ObservationMeter::ObservationMeter(ObservationMeter&&) noexcept = default;
ObservationMeter& ObservationMeter::operator=(ObservationMeter&&) noexcept = default;
ObservationMeter::~ObservationMeter() = default;

Result<ObservationMeter> ObservationMeter::Make(Plan plan, std::vector<std::string> trusted) {
  // The evidence keeps a reference to the plan, which therefore has its place first.
  auto kept = std::make_unique<Plan>(std::move(plan));
  KCC_TRY(SliceEvaluator slices, MakeSliceEvaluator(*kept));
  KCC_TRY(RequestEvidence probe, RequestEvidence::Make(*kept, trusted));
  auto state = std::make_unique<State>(*kept, std::move(probe), std::move(slices));
  KCC_TRY(state->evidence, RequestEvidence::Make(state->plan, std::move(trusted)));
  return ObservationMeter(std::move(state));
}

bool ObservationMeter::Add(const MonitorObservation& observation, std::string_view fingerprint) {
  State& state = *state_;
  if (observation.repeat || (observation.tokens.rows() == 0 && !observation.values.empty())) {
    return false;
  }
  if (!state.evidence.Read(observation, fingerprint).has_value()) return false;
  const RequestPair& pair = state.evidence.pair();
  const RequestSides sides{pair.asked,
                           pair.train,
                           pair.infer,
                           pair.output_rows,
                           {pair.LengthUnknown(Side::kInfer), pair.LengthUnknown(Side::kTrain)}};
  if (!state.slices.ForRequest(sides, &state.bits, &state.notes).has_value()) return false;
  if (!state.open) state.open.emplace(state.plan, AccumulatorOptions());
  state.open->BeginRequest(pair, state.bits);
  for (const Unvouched& note : state.notes) state.open->AddUnvouched(note);
  if (pair.rows_missing > 0) state.open->AddMissingTokens(pair.rows_missing);
  state.AddRows(observation, sides);
  state.open->EndRequest();
  ++state.requests;
  return true;
}

void ObservationMeter::State::AddRows(const MonitorObservation& observation,
                                      const RequestSides& sides) {
  const ObservedTokens& rows = observation.tokens;
  TokenEvidence train, infer;
  for (size_t i = 0; i < rows.rows(); ++i) {
    token_bits = bits;
    if (slices.any_reads_token()) {
      train.position = infer.position = rows.position[i];
      train.token = infer.token = rows.token.empty() ? -1 : rows.token[i];
      train.gold = rows.gold.empty() ? -1 : rows.gold[i];
      if (!rows.advantage.empty()) train.advantage = static_cast<float>(rows.advantage[i]);
      train.logprob = LogprobAt(rows, Side::kTrain, i);
      infer.logprob = LogprobAt(rows, Side::kInfer, i);
      notes.clear();
      slices.ForToken(sides, train, infer, &token_bits, &notes);
      for (const Unvouched& note : notes) open->AddUnvouched(note);
    }
    if (!rows.advantage.empty()) {
      advantage_abs_max = std::max(advantage_abs_max, std::fabs(rows.advantage[i]));
    }
    // A row that no kernel can mean is as one that is not there.
    if (AddRow(rows, i).has_value()) {
      ++tokens;
    } else {
      open->AddMissingTokens(1);
    }
  }
}

Result<> ObservationMeter::State::AddRow(const ObservedTokens& rows, size_t row) {
  own.clear();
  for (size_t i = 0; i < plan.own_token_series().size(); ++i) {
    double value = std::numeric_limits<double>::quiet_NaN();
    for (const OwnTokenColumn& column : rows.own) {
      if (column.name == plan.name(Plan::OwnSeriesNumber(i))) value = column.values[row];
    }
    own.push_back(value);
  }
  const TokenSample sample{rows.position[row], rows.token.empty() ? -1 : rows.token[row],
                           rows.gold.empty() ? -1 : rows.gold[row]};
  return open->AddToken(sample, DriftAt(rows, row), token_bits, nullptr, own);
}

uint64_t ObservationMeter::requests() const { return state_->requests; }
uint64_t ObservationMeter::tokens() const { return state_->tokens; }

Result<Summary> ObservationMeter::Sum() {
  State& state = *state_;
  if (state.open) {
    KCC_TRY(Summary part, state.open->Finish());
    state.open.reset();
    if (state.closed) {
      KCC_TRY_VOID(MergeInto(part, &*state.closed));
    } else {
      state.closed.emplace(std::move(part));
    }
  }
  Summary summary = state.closed ? *state.closed : Summary(state.plan);
  summary.advantage_abs_max = state.advantage_abs_max;
  return summary;
}

}  // namespace kcc
