#include "kcc/kernel/trace_rows.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace kcc {
namespace {

TokenCursor IndexCursor(const TraceReader& reader) {
  TokenCursor::Options options;
  options.index_only = true;
  return TokenCursor(reader, options);
}

Error Repeated(const TraceReader& reader, int32_t request, int32_t position) {
  return BrokenEvidenceError("request '" + reader.requests()[static_cast<size_t>(request)].id +
                                 "' has position " + std::to_string(position) + " twice",
                             Place{reader.directory()});
}

// All rows by request and position, for a trace that interleaves its requests.
Result<std::vector<int64_t>> SortedRows(const TraceReader& reader) {
  using Key = std::tuple<int32_t, int32_t, int64_t>;  // request, position, row
  std::vector<Key> keys;
  keys.reserve(static_cast<size_t>(reader.token_count()));
  TokenCursor cursor = IndexCursor(reader);
  for (int64_t row = 0; row < reader.token_count(); ++row) {
    KCC_TRY(const TokenEvidence* const token, cursor.At(row));
    keys.emplace_back(token->request, token->position, row);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<int64_t> rows;
  rows.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto& [request, position, row] = keys[i];
    if (i > 0 && std::get<0>(keys[i - 1]) == request && std::get<1>(keys[i - 1]) == position) {
      return Repeated(reader, request, position);
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

Result<TraceRows> TraceRows::Make(const TraceReader& reader) {
  TraceRows rows;
  const auto requests = static_cast<int32_t>(reader.requests().size());
  rows.ranges_.resize(static_cast<size_t>(requests));
  TokenCursor cursor = IndexCursor(reader);
  bool follows = true;
  int32_t last_position = -1;
  int32_t last_request = -1;
  for (int64_t row = 0; row < reader.token_count(); ++row) {
    KCC_TRY(const TokenEvidence* const token, cursor.At(row));
    if (token->request < 0 || token->request >= requests) {
      return BrokenEvidenceError(reader.RowPlace(row) + ": request row " +
                                     std::to_string(token->request) + " does not exist",
                                 Place{reader.directory()});
    }
    Range& range = rows.ranges_[static_cast<size_t>(token->request)];
    const bool next =
        range.count > 0 && token->request == last_request && token->position > last_position;
    if (range.count == 0) range.first = row;
    follows = follows && (range.count == 0 || next);
    ++range.count;
    last_position = token->position;
    last_request = token->request;
  }
  if (!follows) {
    KCC_TRY(rows.listed_, SortedRows(reader));
    int64_t first = 0;
    for (Range& range : rows.ranges_) {
      range.first = first;
      first += range.count;
    }
  }
  rows.by_id_.resize(static_cast<size_t>(requests));
  std::iota(rows.by_id_.begin(), rows.by_id_.end(), 0);
  std::sort(rows.by_id_.begin(), rows.by_id_.end(), [&](int32_t a, int32_t b) {
    return reader.requests()[static_cast<size_t>(a)].id <
           reader.requests()[static_cast<size_t>(b)].id;
  });
  return rows;
}

int32_t TraceRows::Find(const TraceReader& reader, std::string_view id) const {
  const auto& requests = reader.requests();
  const auto at =
      std::lower_bound(by_id_.begin(), by_id_.end(), id, [&](int32_t row, std::string_view wanted) {
        return requests[static_cast<size_t>(row)].id < wanted;
      });
  if (at == by_id_.end() || requests[static_cast<size_t>(*at)].id != id) return -1;
  return *at;
}

}  // namespace kcc
