// Which rows of a trace belong to which request, in order of position: what the trace kernel and
// the requests of a trace both look up. Costs 16 bytes a request where a trace's rows follow each
// other, as kcc writes them, else 8 bytes a token.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/trace/reader.h"

namespace kcc {

class TraceRows {
 public:
  // Reads the index columns of the trace once. A position that repeats is an error.
  static Result<TraceRows> Make(const TraceReader& reader);

  int64_t count(int32_t request) const { return ranges_[static_cast<size_t>(request)].count; }
  // The trace's row of the request's i-th token.
  int64_t row(int32_t request, int64_t i) const {
    const int64_t at = ranges_[static_cast<size_t>(request)].first + i;
    return listed_.empty() ? at : listed_[static_cast<size_t>(at)];
  }
  // The row of requests.jsonl with this id; -1 if there is none.
  int32_t Find(const TraceReader& reader, std::string_view id) const;

 private:
  struct Range {
    int64_t first = 0;
    int64_t count = 0;
  };
  std::vector<Range> ranges_;    // by request
  std::vector<int64_t> listed_;  // rows by request and position, unless they follow each other
  std::vector<int32_t> by_id_;   // requests in order of id
};

}  // namespace kcc
