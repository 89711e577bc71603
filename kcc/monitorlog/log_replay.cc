#include "kcc/monitorlog/log_replay.h"

#include <algorithm>

#include "kcc/base/file.h"
#include "kcc/monitorlog/decision_log.h"

namespace kcc {
namespace {

// What stands around the first byte in which two lines differ.
std::string Excerpt(std::string_view line, size_t at) {
  constexpr size_t kBefore = 40;
  constexpr size_t kAfter = 80;
  const size_t from = at < kBefore ? 0 : at - kBefore;
  return (from == 0 ? "" : "…") + std::string(line.substr(from, at - from + kAfter)) +
         (at + kAfter < line.size() ? "…" : "");
}

Error Difference(std::string_view logged, std::string_view now) {
  const auto end = std::mismatch(logged.begin(), logged.end(), now.begin(), now.end()).first;
  const auto at = static_cast<size_t>(end - logged.begin());
  return InvalidError("the log says\n  " + Excerpt(logged, at) +
                          "\nand its observations decide\n  " + Excerpt(now, at),
                      Place{"", 0, static_cast<int>(at) + 1});
}

Result<> SameDocument(std::string_view what, const std::string& logged, const std::string& given) {
  if (logged == given) return {};
  return InvalidError("the log was written under the " + std::string(what) + " " + logged +
                      ", not under the one given, " + given);
}

}  // namespace

Result<LogReplay> ReplayLog(const std::string& path, const Contract& contract,
                            const MonitorPolicy& policy, const std::string& head) {
  KCC_TRY(const FileDescriptor file, OpenRegularFile(path));
  LogReplay replay;
  std::optional<Monitor> monitor;
  const auto started = [&](const LogStart& start) -> Result<> {
    replay.kcc = start.kcc;
    const LogStart now = StartOf(contract, policy, start.stage, start.kcc);
    KCC_TRY_VOID(SameDocument("contract", start.contract_digest, now.contract_digest));
    KCC_TRY_VOID(SameDocument("policy", start.policy_digest, now.policy_digest));
    KCC_TRY(monitor, Monitor::Make(contract, policy, MonitorOptions{start.stage}));
    return {};
  };
  const auto visit = [&](const LogLine& line) -> Result<> {
    KCC_TRY(const std::string now, DecideAgain(line.logged, &*monitor));
    if (now != line.text) return Difference(line.text, now);
    ++replay.decisions;
    replay.head = line.digest;
    return {};
  };
  auto reading = ReadLog(file.get(), path, contract.own_rows(), started, visit);
  if (monitor) replay.status = monitor->Status();
  if (!reading.has_value()) {
    if (reading.error().code() == ErrorCode::kIo) return std::move(reading.error());
    replay.difference = std::move(reading.error());
    return replay;
  }
  replay.head = reading->head;
  const int last = static_cast<int>(reading->decisions) + 1;
  if (reading->cut_bytes != 0 || reading->head.empty()) {
    replay.difference =
        InvalidError(reading->head.empty() && reading->cut_bytes == 0
                         ? "the log is empty"
                         : "the last line is cut after " + std::to_string(reading->cut_bytes) +
                               " bytes; kcc monitor run drops it when it goes on with the log",
                     Place{path, reading->head.empty() ? 1 : last + 1});
  } else if (!head.empty() && head != replay.head) {
    replay.difference =
        InvalidError("the log ends with " + replay.head + ", not with " + head, Place{path, last});
  }
  return replay;
}

}  // namespace kcc
