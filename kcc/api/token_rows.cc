#include "kcc/api/token_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kcc::api {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// Upper ends are kept from the first interval on: nearly always there is none.
void AddValue(const TokenDrift& drift, TokenColumn* column) {
  const bool known = drift.known[column->slot];
  const double low = known ? drift.lo[column->slot] : kMissing;
  const double high = known ? drift.hi[column->slot] : kMissing;
  if (column->hi.empty() && known && low != high) column->hi = column->lo;
  const bool intervals = !column->hi.empty() || (known && low != high);
  column->lo.push_back(low);
  if (intervals) column->hi.push_back(high);
}

template <class T>
void DropUnless(bool known, std::vector<T>* column) {
  if (!known) std::vector<T>().swap(*column);
}

bool AnyNumber(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return !std::isnan(value); });
}

bool AnyId(const std::vector<int32_t>& ids) {
  return std::any_of(ids.begin(), ids.end(), [](int32_t id) { return id >= 0; });
}

}  // namespace

TokenRows::TokenRows(const ArrayPair& pair, const Plan& plan)
    : pair_(pair), requests_(pair.requests.size()) {
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    if (plan.slots()[slot]) slots_.push_back(slot);
  }
  for (const OwnSeries& own : plan.own_token_series()) own_.push_back(own.name);
}

void TokenRows::Begin(size_t request, const RequestPair& pair) {
  ObservedTokens& to = requests_[request];
  to.masked = std::max<int64_t>(0, pair.output_rows);  // less those that are taken
  for (const size_t slot : slots_) to.columns.push_back({slot, {}, {}});
  for (const std::string& name : own_) to.own.push_back({name, {}});
}

void TokenRows::Take(size_t request, const MeasuredToken& token) {
  ObservedTokens& to = requests_[request];
  const TokenDrift& drift = token.reading.drift;
  to.position.push_back(token.position);
  to.token.push_back(token.token);
  to.gold.push_back(token.reading.gold);
  for (size_t side = 0; side < 2; ++side) {
    to.logprob[side].push_back(drift.logprob[side]);
    to.argmax[side].push_back(drift.argmax[side]);
    to.confidence[side].push_back(drift.argmax[side] < 0 ? kMissing : drift.confidence[side]);
  }
  for (TokenColumn& column : to.columns) AddValue(drift, &column);
  for (size_t i = 0; i < to.own.size(); ++i) to.own[i].values.push_back(token.own[i]);
}

std::vector<ObservedTokens> TokenRows::Finish() {
  for (size_t r = 0; r < requests_.size(); ++r) {
    ObservedTokens& to = requests_[r];
    to.masked = std::max<int64_t>(0, to.masked - static_cast<int64_t>(to.rows()));
    // In the order of the rows that count, which is the order in which they were taken.
    for (int64_t i = 0; i < pair_.row_counts[r] && !pair_.advantages.empty(); ++i) {
      const auto row = static_cast<size_t>(pair_.first_rows[r] + i);
      if (!pair_.mask.empty() && pair_.mask[row] == 0) continue;
      to.advantage.push_back(static_cast<double>(pair_.advantages[row]));
    }
    DropUnless(AnyId(to.token), &to.token);
    DropUnless(AnyId(to.gold), &to.gold);
    for (size_t side = 0; side < 2; ++side) {
      DropUnless(AnyNumber(to.logprob[side]), &to.logprob[side]);
      DropUnless(AnyId(to.argmax[side]), &to.argmax[side]);
      DropUnless(AnyNumber(to.confidence[side]), &to.confidence[side]);
    }
    // A column of nothing says no more than none.
    std::erase_if(to.columns, [](const TokenColumn& column) { return !AnyNumber(column.lo); });
    std::erase_if(to.own, [](const OwnTokenColumn& column) { return !AnyNumber(column.values); });
  }
  return std::move(requests_);
}

}  // namespace kcc::api
