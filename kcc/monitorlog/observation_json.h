// Observations as JSON, one object per line (docs/monitor.md "Observations").
//
// Read strictly: an unknown key is an error, since a misspelt `audited` must not become the
// default. Numbers are finite; in the columns of tokens null means that a value is missing, and
// "inf" and "-inf" are what JSON has no number for. Written in one way: what was read and is
// written gives the same bytes whatever its spelling was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kcc/base/json_writer.h"
#include "kcc/base/result.h"
#include "kcc/metric/own_metric.h"
#include "kcc/monitor/observation.h"

namespace kcc {

inline constexpr size_t kObservationLineBytesMax = size_t{16} << 20;
inline constexpr size_t kObservationRowsMax = size_t{1} << 20;
inline constexpr size_t kObservationNameBytesMax = 1024;          // of ids, kernels and sessions
inline constexpr int64_t kObservationTimeMax = int64_t{1} << 53;  // and as far below 0

// Reads lines with the same memory. Not thread-safe.
class ObservationReader {
 public:
  // `own`: the contract's own metrics, which `values` and `own` may name. They must outlive it.
  explicit ObservationReader(OwnRows own = {});
  ObservationReader(ObservationReader&&) noexcept;
  ~ObservationReader();

  // A line without its end. Errors carry the column; file and line are the caller's.
  Result<MonitorObservation> Read(std::string_view line);

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

// The same error at a line of a file, with the column it has.
Error AtLine(const Error& error, const std::string& file, int line);

// Success where what is written can be read back: names, numbers and rows within what a line may
// hold. An observation that was read always passes; one made from arrays may not.
Result<> CheckWritable(const MonitorObservation& observation);
// As a value of the writer.
void WriteObservation(const MonitorObservation& observation, JsonWriter* writer);

// kcc schema --observation; docs/observation.schema.json.
std::string ObservationSchema();

}  // namespace kcc
