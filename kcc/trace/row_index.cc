#include "kcc/trace/row_index.h"

#include <algorithm>
#include <tuple>

namespace kcc {

TokenCursor IndexCursor(const TraceReader& reader) {
  TokenCursor::Options options;
  options.index_only = true;
  return TokenCursor(reader, options);
}

Result<RowIndex> RowIndex::Build(const TraceReader& reader) {
  RowIndex index;
  index.extents_.resize(reader.requests().size());
  TokenCursor cursor = IndexCursor(reader);
  for (int64_t row = 0; row < reader.token_count(); ++row) {
    KCC_TRY(const TokenEvidence* token, cursor.At(row));
    Extent& extent = index.extents_[static_cast<size_t>(token->request)];
    if (extent.count == 0) extent.first = row;
    extent.last = row;
    extent.rising = extent.rising && token->position > extent.last_position;
    extent.last_position = token->position;
    ++extent.count;
  }
  int64_t listed = 0;
  for (Extent& extent : index.extents_) {
    const bool contiguous = extent.count == 0 || extent.last - extent.first + 1 == extent.count;
    if (contiguous && extent.rising) continue;
    extent.listed = listed;
    listed += extent.count;
  }
  if (listed > 0) {
    index.rows_.resize(static_cast<size_t>(listed));
    KCC_TRY_VOID(index.ListOthers(reader));
  }
  return index;
}

Result<> RowIndex::ListOthers(const TraceReader& reader) {
  std::vector<int64_t> filled(extents_.size(), 0);
  TokenCursor cursor = IndexCursor(reader);
  for (int64_t row = 0; row < reader.token_count(); ++row) {
    KCC_TRY(const TokenEvidence* token, cursor.At(row));
    const auto request = static_cast<size_t>(token->request);
    if (extents_[request].listed < 0) continue;
    rows_[static_cast<size_t>(extents_[request].listed + filled[request]++)] = {token->position,
                                                                                row};
  }
  for (const Extent& extent : extents_) {
    if (extent.listed < 0) continue;
    const auto begin = rows_.begin() + extent.listed;
    std::sort(begin, begin + extent.count, [](const Row_& a, const Row_& b) {
      return std::tie(a.position, a.row) < std::tie(b.position, b.row);
    });
  }
  return {};
}

}  // namespace kcc
