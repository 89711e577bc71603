// Where the rows of each request of a trace are, in order of position.
//
// A writer that goes through its requests one by one leaves each request's rows together and
// rising, and two numbers say where they are. A server that answers many at once does not; only the
// requests that need it are listed row by row. Example, with rows of (request, position):
//
//     (0, 5) (0, 6) (1, 3) (1, 4)   both requests as extents: first row 0 and first row 2
//     (0, 5) (1, 3) (0, 6) (1, 4)   both listed: 0 -> rows 0, 2 and 1 -> rows 1, 3
#pragma once

#include <cstdint>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/trace/reader.h"

namespace kcc {

// Reads request, position, token and mask alone.
TokenCursor IndexCursor(const TraceReader& reader);

class RowIndex {
 public:
  // Reads the index columns: once if every request is contiguous and in order, else twice.
  static Result<RowIndex> Build(const TraceReader& reader);

  int64_t count(int32_t request) const { return extents_[static_cast<size_t>(request)].count; }
  int64_t Row(int32_t request, int64_t i) const {
    const Extent& extent = extents_[static_cast<size_t>(request)];
    return extent.listed < 0 ? extent.first + i : rows_[static_cast<size_t>(extent.listed + i)].row;
  }

 private:
  struct Extent {
    int64_t first = -1;
    int64_t last = -1;
    int64_t count = 0;
    int64_t listed = -1;
    int32_t last_position = -1;
    bool rising = true;
  };
  struct Row_ {
    int32_t position;
    int64_t row;
  };

  Result<> ListOthers(const TraceReader& reader);

  std::vector<Extent> extents_;
  std::vector<Row_> rows_;
};

}  // namespace kcc
