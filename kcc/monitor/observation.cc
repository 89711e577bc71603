#include "kcc/monitor/observation.h"

#include <cmath>

#include "kcc/metric/token_slots.h"

namespace kcc {
namespace {

Error Unreadable(const MonitorObservation& observation, const std::string& what) {
  return InvalidError("the observation of request '" + observation.id() + "': " + what);
}

template <class T>
bool Fits(const std::vector<T>& column, size_t rows) {
  return column.empty() || column.size() == rows;
}

Result<> CheckColumn(const MonitorObservation& observation, const TokenColumn& column) {
  const size_t rows = observation.tokens.rows();
  if (column.slot >= TokenSlotCount()) {
    return Unreadable(observation, "a column of no token quantity");
  }
  const std::string name = SlotName(column.slot);
  if (column.lo.size() != rows || !Fits(column.hi, rows)) {
    return Unreadable(observation, name + " does not have one value for each of " +
                                       std::to_string(rows) + " positions");
  }
  for (size_t i = 0; i < column.hi.size(); ++i) {
    const bool missing = std::isnan(column.lo[i]) && std::isnan(column.hi[i]);
    if (!missing && !(column.lo[i] <= column.hi[i])) {
      return Unreadable(observation, name + " is an empty interval at row " + std::to_string(i));
    }
  }
  return {};
}

}  // namespace

Result<> CheckObservation(const MonitorObservation& observation) {
  if (observation.id().empty()) return InvalidError("an observation without the request's id");
  for (const auto* other : {&observation.train, &observation.asked}) {
    if (*other && (*other)->id != observation.id()) {
      return Unreadable(observation, "another record of it has the id '" + (*other)->id + "'");
    }
  }
  if (observation.broken.size() > kBrokenBytesMax) {
    return Unreadable(observation,
                      "'broken' is longer than " + std::to_string(kBrokenBytesMax) + " bytes");
  }
  if (observation.one_record && observation.train) {
    return Unreadable(observation, "one record for both sides, and another of train's");
  }
  const ObservedTokens& tokens = observation.tokens;
  const size_t rows = tokens.rows();
  bool fits = Fits(tokens.token, rows) && Fits(tokens.gold, rows) && Fits(tokens.advantage, rows);
  for (size_t side = 0; side < 2; ++side) {
    fits = fits && Fits(tokens.logprob[side], rows) && Fits(tokens.argmax[side], rows) &&
           Fits(tokens.confidence[side], rows);
  }
  for (const OwnTokenColumn& own : tokens.own) fits = fits && own.values.size() == rows;
  if (!fits) {
    return Unreadable(observation, "columns of tokens that do not have one value for each of " +
                                       std::to_string(rows) + " positions");
  }
  if (tokens.masked < 0) return Unreadable(observation, "a negative number of masked rows");
  for (size_t i = 0; i < tokens.columns.size(); ++i) {
    KCC_TRY_VOID(CheckColumn(observation, tokens.columns[i]));
    for (size_t j = 0; j < i; ++j) {
      if (tokens.columns[j].slot == tokens.columns[i].slot) {
        return Unreadable(observation, SlotName(tokens.columns[i].slot) + " stands twice");
      }
    }
  }
  for (const auto& [name, value] : observation.values) {
    if (!(value.lo <= value.hi)) {
      return Unreadable(observation, name + " is not a number or an empty interval");
    }
  }
  return {};
}

}  // namespace kcc
