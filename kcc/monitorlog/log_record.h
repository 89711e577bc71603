// The lines of a decision log (docs/monitor.md "The decision log").
//
// The first says what was decided by: contract, policy, stage and kcc. Every later one holds an
// observation, or that a line could not be read as one, and what it decided, so that neither can be
// there without the other. Each starts with the SHA-256 of the line before it, its end left out.
// The same decisions give the same bytes.
//
// A log may be of several files. The first line of every file but the first says what came before
// it: the digest of the last line, how many decisions there were, and the monitor's state after
// them. So each file can be decided again by itself, and all of them in their order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "kcc/base/json_writer.h"
#include "kcc/base/result.h"
#include "kcc/monitor/monitor.h"
#include "kcc/monitorlog/observation_json.h"
#include "kcc/monitorlog/unread_line.h"

namespace kcc {

inline constexpr int kMonitorLogVersion = 1;
// Holds an observation as it is written, and all that it may change.
inline constexpr size_t kLogLineBytesMax = 2 * kObservationLineBytesMax;
// Of a state that a first line holds; a larger one (its policy asks for larger filters of sessions)
// stands in no log, and such a log is of one file.
inline constexpr size_t kLoggedStateBytesMax = size_t{256} << 20;
inline constexpr size_t kLogStartBytesMax = kLoggedStateBytesMax / 3 * 4 + (size_t{1} << 20);

// Where a file of a log goes on from.
struct LogBefore {
  std::string head;       // digest of the last line before
  int64_t decisions = 0;  // up to it
  std::string state;      // Monitor::Save after them

  bool operator==(const LogBefore&) const = default;
};

// What the first line says. The program's version is for people: another one that decides alike
// goes on with the log.
struct LogStart {
  std::string contract, contract_version, contract_digest;
  std::string policy, policy_version, policy_digest;
  Stage stage = Stage::kFull;
  std::string kcc;
  std::optional<LogBefore> before = {};  // none: the log begins here

  int64_t decisions_before() const { return before ? before->decisions : 0; }
  bool operator==(const LogStart&) const = default;
};
LogStart StartOf(const Contract& contract, const MonitorPolicy& policy, Stage stage,
                 std::string kcc_version);

// Lines without their end.
std::string StartLine(const LogStart& start);
Result<LogStart> ReadStartLine(std::string_view line);

// That a kernel's evidence began anew (Monitor::Renew).
struct Renewal {
  std::string kernel;
  int64_t time_ms = 0;
  std::string reason;  // at most kUnreadReasonBytesMax bytes are kept
};

// What a decision was made of, as a member of its line.
struct LoggedMember {
  std::string_view key;  // "observation", "unread" or "renewed"
  std::string text;
};
// Fails where the observation, written out, could not be read back. Asked for before the
// observation is decided, so that nothing is decided that cannot be logged.
Result<LoggedMember> MemberOf(const MonitorObservation& observation);
LoggedMember MemberOf(const UnreadLine& line);
Result<LoggedMember> MemberOf(const Renewal& renewal);
std::string DecisionLine(const std::string& previous, const LoggedMember& member,
                         const MonitorDecision& decision);

// Of a line that holds a decision: what is needed to decide it again.
struct LoggedObservation {
  std::string previous;  // digest of the line before
  std::variant<MonitorObservation, UnreadLine, Renewal> what;
};
// Folds it; the line that the monitor decides now, which must be the one in the log.
Result<std::string> DecideAgain(const LoggedObservation& logged, Monitor* monitor);
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
