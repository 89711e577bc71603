// The lines of a decision log (docs/monitor.md "The decision log").
//
// The first says what was decided by: contract, policy, stage and kcc. Every later one holds an
// observation and what it decided, so that neither can be there without the other. Each starts with
// the SHA-256 of the line before it, its end left out. The same decisions give the same bytes.
#pragma once

#include <string>
#include <string_view>

#include "kcc/base/json_writer.h"
#include "kcc/base/result.h"
#include "kcc/monitor/monitor.h"
#include "kcc/monitorlog/observation_json.h"

namespace kcc {

inline constexpr int kMonitorLogVersion = 1;
// Holds an observation as it is written, and all that it may change.
inline constexpr size_t kLogLineBytesMax = 2 * kObservationLineBytesMax;

// What the first line says. The program's version is for people: another one that decides alike
// goes on with the log.
struct LogStart {
  std::string contract, contract_version, contract_digest;
  std::string policy, policy_version, policy_digest;
  Stage stage = Stage::kFull;
  std::string kcc;

  bool operator==(const LogStart&) const = default;
};
LogStart StartOf(const Contract& contract, const MonitorPolicy& policy, Stage stage,
                 std::string kcc_version);

// Lines without their end.
std::string StartLine(const LogStart& start);
Result<LogStart> ReadStartLine(std::string_view line);

// Fails where the observation, written out, is longer than what can be read back. Asked for before
// the observation is decided, so that nothing is decided that cannot be logged.
Result<std::string> ObservationText(const MonitorObservation& observation);
std::string DecisionLine(const std::string& previous, const std::string& observation_text,
                         const MonitorDecision& decision);

// Of a line that holds a decision: what is needed to decide it again.
struct LoggedObservation {
  std::string previous;  // digest of the line before
  MonitorObservation observation;
};
class DecisionLineReader {
 public:
  explicit DecisionLineReader(OwnRows own);
  DecisionLineReader(DecisionLineReader&&) noexcept;
  ~DecisionLineReader();
  Result<LoggedObservation> Read(std::string_view line);

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

// As a value of the writer. What is empty or 0 is left out.
void WriteChange(const MonitorChange& change, JsonWriter* writer);

// kcc schema --event; docs/monitor-event.schema.json.
std::string MonitorEventSchema();

}  // namespace kcc
