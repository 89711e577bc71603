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

// A file that does not go on where the one before it ended.
Error AnotherBegin(const std::optional<LogBefore>& before, const LogReplay& replay,
                   const std::string& path) {
  const Place place{path, 1};
  if (!before) {
    return InvalidError(
        "a log begins here, and does not go on from the file before; give its files "
        "in their order",
        place);
  }
  if (before->head != replay.head || before->decisions != replay.believed + replay.decisions) {
    return InvalidError("it goes on after decision " + std::to_string(before->decisions) + ", " +
                            before->head + ", and the file before it ends with decision " +
                            std::to_string(replay.believed + replay.decisions) + ", " +
                            replay.head + "; give the files in their order",
                        place);
  }
  return InvalidError(
      "the state that it goes on from is not the one that the files before it lead to", place);
}

class Replayer {
 public:
  Replayer(const Contract& contract, const MonitorPolicy& policy)
      : contract_(contract), policy_(policy) {}

  // Fails where the file cannot be read at all; false after the first difference.
  Result<bool> Read(const std::string& path) {
    KCC_TRY(const FileDescriptor file, OpenRegularFile(path));
    const auto started = [&](const LogStart& start) { return Begin(start, path); };
    const auto visit = [&](const LogLine& line) -> Result<> {
      KCC_TRY(const std::string now, DecideAgain(line.logged, &*monitor_));
      if (now != line.text) return Difference(line.text, now);
      ++replay_.decisions;
      replay_.head = line.digest;
      return {};
    };
    auto reading = ReadLog(file.get(), path, contract_.own_rows(), started, visit);
    if (!reading.has_value()) {
      if (reading.error().code() == ErrorCode::kIo) return std::move(reading.error());
      replay_.difference = std::move(reading.error());
      return false;
    }
    const int last = static_cast<int>(reading->decisions) + 1;
    if (reading->cut_bytes == 0 && !reading->head.empty()) {
      replay_.head = reading->head;
      end_ = Place{path, last};
      return true;
    }
    replay_.difference =
        InvalidError(reading->head.empty() && reading->cut_bytes == 0
                         ? "the log is empty"
                         : "the last line is cut after " + std::to_string(reading->cut_bytes) +
                               " bytes; kcc monitor run drops it when it goes on with the log",
                     Place{path, reading->head.empty() ? 1 : last + 1});
    return false;
  }

  LogReplay Take(const std::string& head) {
    if (monitor_) replay_.status = monitor_->Status();
    if (!replay_.difference && !head.empty() && head != replay_.head) {
      replay_.difference =
          InvalidError("the log ends with " + replay_.head + ", not with " + head, end_);
    }
    return std::move(replay_);
  }

 private:
  Result<> Begin(const LogStart& start, const std::string& path) {
    const LogStart now = StartOf(contract_, policy_, start.stage, start.kcc);
    KCC_TRY_VOID(SameDocument("contract", start.contract_digest, now.contract_digest));
    KCC_TRY_VOID(SameDocument("policy", start.policy_digest, now.policy_digest));
    replay_.kcc = start.kcc;
    const MonitorOptions options{start.stage};
    if (monitor_) {
      const bool goes_on = start.before && start.before->head == replay_.head &&
                           start.before->decisions == replay_.believed + replay_.decisions &&
                           start.before->state == monitor_->Save();
      if (!goes_on) return AnotherBegin(start.before, replay_, path);
    } else if (start.before) {
      KCC_TRY(monitor_, Monitor::Restore(contract_, policy_, start.before->state, options));
      replay_.believed = start.before->decisions;
    } else {
      KCC_TRY(monitor_, Monitor::Make(contract_, policy_, options));
    }
    return {};
  }

  const Contract& contract_;
  const MonitorPolicy& policy_;
  std::optional<Monitor> monitor_;
  LogReplay replay_;
  Place end_;
};

}  // namespace

Result<LogReplay> ReplayLog(const std::vector<std::string>& paths, const Contract& contract,
                            const MonitorPolicy& policy, const std::string& head) {
  Replayer replayer(contract, policy);
  for (const std::string& path : paths) {
    KCC_TRY(const bool equal, replayer.Read(path));
    if (!equal) break;
  }
  return replayer.Take(head);
}

}  // namespace kcc
