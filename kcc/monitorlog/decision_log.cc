#include "kcc/monitorlog/decision_log.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "kcc/base/check.h"
#include "kcc/base/sha256.h"
#include "kcc/monitorlog/log_files.h"

namespace kcc {
namespace {

constexpr size_t kFirstBytes = 16;  // {"kccMonitorLog"

// Lines as they are: unlike LineReader it keeps blank ones and carriage returns, which would be a
// change of the log, and tells a last line without an end from a whole one.
class RawLines {
 public:
  RawLines(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}

  // False at the end; `line` is then what follows the last line end.
  Result<bool> Next(std::string_view* line, size_t bytes_max = kLogLineBytesMax) {
    size_t scanned = 0;
    while (true) {
      const size_t end = buffer_.find('\n', begin_ + scanned);
      if (end != std::string::npos) {
        *line = std::string_view(buffer_).substr(begin_, end - begin_);
        begin_ = end + 1;
        return true;
      }
      scanned = buffer_.size() - begin_;
      if (scanned > bytes_max) return InvalidError("the line is too long for a decision log");
      KCC_TRY(const bool more, Fill());
      if (more) continue;
      *line = std::string_view(buffer_).substr(begin_);
      return false;
    }
  }

 private:
  Result<bool> Fill() {
    constexpr size_t kBlock = size_t{1} << 18;
    buffer_.erase(0, begin_);
    begin_ = 0;
    const size_t have = buffer_.size();
    buffer_.resize(have + kBlock);
    ssize_t n = 0;
    do {
      n = ::pread(descriptor_, buffer_.data() + have, kBlock, offset_);
    } while (n < 0 && errno == EINTR);
    buffer_.resize(have + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0) return LogError("cannot read", path_);
    offset_ += n;
    return n > 0;
  }

  int descriptor_;
  std::string path_;
  std::string buffer_;
  size_t begin_ = 0;
  off_t offset_ = 0;
};

Result<> CheckStart(const LogStart& logged, const LogStart& now) {
  const auto differs = [](std::string_view what, const std::string& name, const std::string& was,
                          const std::string& is) {
    return InvalidError("the log was begun by the " + std::string(what) + " " + name + ", " + was +
                        ", and this one is " + is +
                        "; begin a new log, or give the one it was begun with");
  };
  if (logged.contract_digest != now.contract_digest) {
    return differs("contract", logged.contract, logged.contract_digest, now.contract_digest);
  }
  if (logged.policy_digest != now.policy_digest) {
    return differs("policy", logged.policy, logged.policy_digest, now.policy_digest);
  }
  if (logged.stage != now.stage) {
    return InvalidError("the log was begun for the stage " + std::string(Name(logged.stage)) +
                        ", not for " + std::string(Name(now.stage)));
  }
  return {};
}

}  // namespace

Result<LogReading> ReadLog(int descriptor, const std::string& path, OwnRows own,
                           const std::function<Result<>(const LogStart&)>& started,
                           const LogVisitor& visit) {
  RawLines lines(descriptor, path);
  DecisionLineReader reader(own);
  LogReading reading;
  for (int number = 1;; ++number) {
    const Place place{path, number};
    std::string_view text;
    auto more = lines.Next(&text, number == 1 ? kLogStartBytesMax : kLogLineBytesMax);
    if (!more.has_value()) return std::move(more.error()).At(place);
    if (!*more) {
      reading.cut_bytes = static_cast<int64_t>(text.size());
      reading.cut = text.substr(0, 4096);
      return reading;
    }
    if (number == 1) {
      auto start = ReadStartLine(text);
      if (!start.has_value()) return AtLine(start.error(), path, number);
      reading.start = std::move(*start);
      auto fits = started(reading.start);
      if (!fits.has_value()) return AtLine(fits.error(), path, number);
      reading.head = Sha256Of(text);
    } else {
      LogLine line{number, text, Sha256Of(text), {}};
      auto logged = reader.Read(text);
      if (!logged.has_value()) return AtLine(logged.error(), path, number);
      line.logged = std::move(*logged);
      if (line.logged.previous != reading.head) {
        return InvalidError(
            "the chain is broken: the line before it is not the one this line was written after; "
            "a line was changed, put in or taken out",
            place);
      }
      auto visited = visit(line);
      if (!visited.has_value()) return AtLine(visited.error(), path, number);
      reading.head = std::move(line.digest);
      ++reading.decisions;
    }
    reading.whole_bytes += static_cast<int64_t>(text.size()) + 1;
    if (number == 1) reading.start_bytes = reading.whole_bytes;
  }
}

Result<DecisionLog> DecisionLog::Open(const std::string& path, const LogStart& start, OwnRows own,
                                      const StartVisitor& begun, const LogVisitor& visit) {
  DecisionLog log;
  log.path_ = path;
  KCC_TRY(log.file_, OpenLogForAppend(path));
  const auto started = [&](const LogStart& logged) -> Result<> {
    KCC_TRY_VOID(CheckStart(logged, start));
    return begun ? begun(logged) : Result<>();
  };
  KCC_TRY(const LogReading reading, ReadLog(log.file_.get(), path, own, started, visit));
  log.head_ = reading.head;
  log.decisions_ = reading.start.decisions_before() + reading.decisions;
  log.start_bytes_ = reading.start_bytes;
  log.bytes_ = reading.whole_bytes;
  const std::string first = StartLine(start);
  // What was killed in its first line left a part of ours; anything else is somebody's file.
  if (reading.head.empty() && !first.starts_with(reading.cut)) {
    return InvalidError("not a decision log, and not empty; name another file", Place{path, 1});
  }
  TidySetAside(path, log.file_.get(), log.decisions_);
  if (reading.cut_bytes != 0) {
    if (::ftruncate(log.file_.get(), reading.whole_bytes) != 0) {
      return LogError("cannot drop the cut last line", path);
    }
    log.dropped_bytes_ = reading.cut_bytes;
  }
  if (reading.head.empty()) {
    KCC_TRY_VOID(log.Write(first));
    log.start_bytes_ = log.bytes_;
  }
  if (reading.head.empty() || reading.start.before) KCC_TRY_VOID(SyncFolderOf(path));
  KCC_TRY_VOID(log.Sync());
  return log;
}

Result<> DecisionLog::BeginFrom(const std::string& path, const LogStart& start) {
  KCC_TRY(const FileDescriptor file, OpenLogForAppend(path));
  RawLines lines(file.get(), path);
  std::string_view line;
  KCC_TRY(bool more, lines.Next(&line, kLogStartBytesMax));
  int64_t decisions = -1;
  if (more) {
    auto logged = ReadStartLine(line);
    if (!logged.has_value()) return std::move(logged.error()).At(Place{path, 1});
    decisions = logged->decisions_before();
    while (true) {
      KCC_TRY(more, lines.Next(&line));
      if (!more) break;
      ++decisions;
    }
  } else if (!StartLine(start).starts_with(line.substr(0, kFirstBytes))) {
    return InvalidError("not a decision log, and not empty; name another file", Place{path, 1});
  }
  KCC_TRY(const FileDescriptor next, ReplaceLogFile(path, decisions, StartLine(start)));
  return SyncFolderOf(path);
}

Result<bool> DecisionLog::BeginNextFile(const LogStart& start, std::string* why) {
  KCC_CHECK(start.before && start.before->head == head_ && start.before->decisions == decisions_);
  KCC_TRY_VOID(Sync());
  const std::string first = StartLine(start);
  auto next = ReplaceLogFile(path_, decisions_, first);
  if (!next.has_value()) {
    *why = next.error().Format();
    return false;
  }
  file_ = std::move(*next);
  head_ = Sha256Of(first);
  start_bytes_ = bytes_ = static_cast<int64_t>(first.size()) + 1;
  KCC_TRY_VOID(SyncFolderOf(path_));
  return true;
}

Result<> DecisionLog::Write(const std::string& line) {
  KCC_TRY_VOID(WriteWholly(file_.get(), line + '\n', path_));
  head_ = Sha256Of(line);
  bytes_ += static_cast<int64_t>(line.size()) + 1;
  return {};
}

Result<> DecisionLog::Append(const LoggedMember& member, const MonitorDecision& decision) {
  KCC_TRY_VOID(Write(DecisionLine(head_, member, decision)));
  ++decisions_;
  return {};
}

Result<> DecisionLog::Sync() {
  if (::fdatasync(file_.get()) != 0) return LogError("cannot sync", path_);
  return {};
}

}  // namespace kcc
