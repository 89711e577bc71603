#include "kcc/summary/replay_gap.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "kcc/summary/population.h"

namespace kcc {
namespace {

// Neighbouring floats are neighbouring numbers, over zero too; -0 is 0.
int64_t OrderedFloat(double value) {
  const auto bits = static_cast<int64_t>(std::bit_cast<int32_t>(static_cast<float>(value)));
  return bits >= 0 ? bits : static_cast<int64_t>(std::numeric_limits<int32_t>::min()) - bits;
}

uint64_t HashTokens(std::span<const int32_t> tokens) {
  std::string bytes(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  const uint64_t hash = HashText(bytes);
  return hash == 0 ? 1 : hash;
}

// Merging must not depend on the order. Once two members differ in their tokens the group stays
// mixed, and a mixed group forgets its rows: whichever two came first, the same is left.
void MergeSpread(const ReplaySpread& from, ReplaySpread* into) {
  if (into->members == 0) {
    *into = from;
    return;
  }
  into->members += from.members;
  if (into->mixed || from.mixed || into->tokens != from.tokens ||
      into->least.size() != from.least.size()) {
    *into = {into->members, 0, true, {}, {}};
    return;
  }
  for (size_t i = 0; i < into->least.size(); ++i) {
    into->least[i] = std::min(into->least[i], from.least[i]);
    into->greatest[i] = std::max(into->greatest[i], from.greatest[i]);
  }
}

double Distance(double least, double greatest, bool ulp) {
  if (least == greatest) return 0;  // both may be -inf
  if (!ulp) return greatest - least;
  return static_cast<double>(OrderedFloat(greatest) - OrderedFloat(least));
}

void VisitSpread(Archive& archive, std::pair<uint64_t, ReplaySpread>& row) {
  ReplaySpread& spread = row.second;
  archive.U64(row.first);
  archive.U64(spread.members);
  archive.U64(spread.tokens);
  archive.Bool(spread.mixed);
  const auto number = [](Archive& a, double& value) { a.Double(value); };
  archive.Each(spread.least, number, sizeof(double));
  archive.Each(spread.greatest, number, sizeof(double));
  if (!archive.reading() || !archive.ok()) return;
  const bool rows = !spread.mixed && spread.tokens != 0 && !spread.least.empty() &&
                    spread.least.size() == spread.greatest.size();
  const bool none = spread.mixed && spread.tokens == 0 && spread.members > 1 &&
                    spread.least.empty() && spread.greatest.empty();
  if (spread.members == 0 || (!rows && !none))
    return archive.Fail("a group of repeats without rows");
  for (size_t i = 0; i < spread.least.size(); ++i) {
    // NaN fails it too.
    if (!(spread.least[i] <= spread.greatest[i]))
      return archive.Fail("an empty range of log-probs");
    if (spread.members == 1 && spread.least[i] != spread.greatest[i]) {
      return archive.Fail("a single request with two log-probs");
    }
  }
}

}  // namespace

void ReplayRows::Clear() {
  tokens.clear();
  for (std::vector<double>& side : logprobs) side.clear();
}

void ReplayRows::Add(int32_t token, const std::array<double, 2>& logprob) {
  tokens.push_back(token);
  for (size_t side = 0; side < logprob.size(); ++side) logprobs[side].push_back(logprob[side]);
}

void ReplaySpreads::Add(std::string_view group, std::string_view replica, const ReplayRows& rows,
                        Side side) {
  const std::vector<double>& values = rows.logprobs[static_cast<size_t>(side)];
  const bool known =
      std::none_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
  if (values.empty() || !known) return AddMissing();
  ReplaySpread single{1, HashTokens(rows.tokens), false, values, values};
  // A length before it, so that no two pairs of names are one text.
  const std::string key =
      std::to_string(group.size()) + ":" + std::string(group) + std::string(replica);
  MergeSpread(single, &groups_[HashText(key)]);
}

void ReplaySpreads::Merge(const ReplaySpreads& other) {
  missing_ += other.missing_;
  for (const auto& [key, spread] : other.groups_) MergeSpread(spread, &groups_[key]);
}

void ReplaySpreads::Visit(Archive& archive) {
  archive.U64(missing_);
  std::vector<std::pair<uint64_t, ReplaySpread>> rows(groups_.begin(), groups_.end());
  archive.Each(rows, VisitSpread);
  if (!archive.reading()) return;
  groups_ = {rows.begin(), rows.end()};
  const auto before = [](const auto& a, const auto& b) { return a.first < b.first; };
  if (!std::is_sorted(rows.begin(), rows.end(), before) || groups_.size() != rows.size()) {
    archive.Fail("groups of repeats that are not in order");
  }
}

ReplaySpreads::Gap ReplaySpreads::Largest(bool ulp) const {
  Gap gap;
  gap.missing = missing_;
  for (const auto& [key, spread] : groups_) {
    if (spread.mixed || spread.members < 2) {
      gap.missing += spread.members;
      continue;
    }
    gap.repeats += spread.members - 1;
    for (size_t i = 0; i < spread.least.size(); ++i) {
      gap.value = std::max(gap.value, Distance(spread.least[i], spread.greatest[i], ulp));
    }
  }
  return gap;
}

}  // namespace kcc
