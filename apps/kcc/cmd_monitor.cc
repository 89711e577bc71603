// kcc monitor run and replay: observations, line by line, into decisions; and a log of decisions
// decided again. What they mean is kcc/monitor's, what they look like kcc/monitorlog's.
#include <limits>
#include <memory>

#include "apps/kcc/commands.h"
#include "apps/kcc/commands_monitor.h"
#include "apps/kcc/monitoring.h"
#include "kcc/format/line_reader.h"
#include "kcc/monitorlog/log_replay.h"
#include "kcc/monitorlog/monitor_session.h"
#include "kcc/monitorlog/observation_json.h"
#include "kcc/monitorlog/status_json.h"
#include "kcc/monitorlog/unread_line.h"

namespace kcc::cli {
namespace {

// Lines of a file or of standard input. Each is handed on as soon as it is whole, so that decisions
// keep up with a pipe.
class ObservationLines {
 public:
  ObservationLines(std::string path, Console& console)
      : path_(std::move(path)), console_(console) {}

  Result<> Open() {
    if (path_ == "-") {
      room_ = std::make_unique_for_overwrite<char[]>(kRoom);
      return {};
    }
    auto file = LineReader::Open(path_, kObservationLineBytesMax);
    if (!file.has_value()) return std::move(file.error());
    file_ = std::make_unique<LineReader>(std::move(*file));
    return {};
  }
  // The next line that is not blank; false at the end. kInvalid: it is too long, and SkipRest leads
  // to the one after.
  Result<bool> Next(std::string_view* line) {
    if (file_) {
      auto more = file_->Next(line);
      number_ = file_->number();
      return more;
    }
    while (true) {
      ++number_;
      console_.in.getline(room_.get(), static_cast<std::streamsize>(kRoom));
      const auto got = static_cast<size_t>(console_.in.gcount());
      if (got == 0 && console_.in.eof()) return false;
      if (console_.in.bad()) return IoError("cannot read", Place{name()});
      if (console_.in.fail()) {
        return InvalidError("the line is longer than the limit of " +
                                std::to_string(kObservationLineBytesMax) + " bytes",
                            Place{name(), number_});
      }
      // The line end is counted where there was one.
      *line = std::string_view(room_.get(), got - (console_.in.eof() ? 0 : 1));
      if (!line->empty() && line->back() == '\r') line->remove_suffix(1);
      if (line->find_first_not_of(" \t") != std::string_view::npos) return true;
    }
  }
  Result<> SkipRest() {
    if (file_) return file_->SkipRest();
    console_.in.clear(console_.in.rdstate() & ~std::ios::failbit);
    console_.in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    if (console_.in.bad()) return IoError("cannot read", Place{name()});
    return {};
  }
  std::string name() const { return DisplayName(path_); }
  int number() const { return number_; }

 private:
  static constexpr size_t kRoom = kObservationLineBytesMax + 2;
  std::string path_;
  Console& console_;
  std::unique_ptr<LineReader> file_;
  std::unique_ptr<char[]> room_;
  int number_ = 0;
};

Style StyleOfChange(MonitorChangeKind kind) {
  switch (kind) {
    case MonitorChangeKind::kAlarm:
    case MonitorChangeKind::kProof:
    case MonitorChangeKind::kBroken:
    case MonitorChangeKind::kGuard:
    case MonitorChangeKind::kPanic:
      return Style::kRed;
    case MonitorChangeKind::kRecovered:
    case MonitorChangeKind::kRelease:
    case MonitorChangeKind::kProbationEnd:
    case MonitorChangeKind::kPanicEnd:
      return Style::kGreen;
    case MonitorChangeKind::kRenew:
    case MonitorChangeKind::kRoute:
      break;
  }
  return Style::kCyan;
}

// `observation`: null of a line that could not be read.
void PrintChanges(const MonitorObservation* observation, const MonitorDecision& decision,
                  Console& console) {
  const std::string what = observation == nullptr ? "an unread line" : observation->id();
  for (const MonitorChange& change : decision.changes) {
    if (console.json) {
      JsonWriter json(JsonWriter::Style::kCompact);
      json.BeginObject().Field("number", decision.number);
      if (observation != nullptr) {
        json.Field("request", observation->id()).Field("time_ms", observation->time_ms);
      }
      json.Key("change");
      WriteChange(change, &json);
      json.EndObject();
      console.out << json.Take();
      continue;
    }
    // A sentence that starts with the kernel's name needs it no second time.
    const bool named = change.kernel.empty() || change.reason.starts_with(change.kernel);
    const std::string kernel = named ? "" : change.kernel + ", ";
    console.out << decision.number << ' ' << what << ": "
                << Paint(StyleOfChange(change.kind), Name(change.kind), console.colour_out) << ": "
                << kernel << change.reason << '\n';
  }
  // A decision is for whoever reads along.
  if (!decision.changes.empty()) console.out.flush();
}

void PrintEnd(const MonitorSession& session, Console& console) {
  const MonitorStatus status = session.monitor().Status();
  if (console.json) {
    JsonWriter json(JsonWriter::Style::kCompact);
    json.BeginObject().Key("status");
    WriteMonitorStatus(status, &json);
    if (!session.head().empty()) json.Field("logHead", session.head());
    json.EndObject();
    console.out << json.Take();
    return;
  }
  PrintMonitorStatus(status, console);
  if (!session.head().empty()) console.out << "the log ends with " << session.head() << '\n';
}

// Lines that could not be read, and what is said of them: each of the first ones, and how many
// there were. A stream of nothing else must not bury what else a log holds.
class UnreadLines {
 public:
  explicit UnreadLines(Console& console) : console_(console) {}

  void Report(const Error& error) {
    ++count_;
    if (count_ > kReportedMax) return;
    PrintError(error, console_);
    if (count_ > 1) return;
    console_.err
        << "the line is counted as one that could not be read, and the run goes on; correct "
           "what writes it, or let --strict end the run there\n";
  }
  void ReportCount() const {
    if (count_ == 0) return;
    console_.err << Counted(static_cast<size_t>(count_), "line") << " could not be read"
                 << (count_ > kReportedMax
                         ? " (the first " + std::to_string(kReportedMax) + " are named above)"
                         : "")
                 << "; what " << (count_ == 1 ? "it" : "they")
                 << " would have said is missing for every clause, and event_conformance counts "
                 << (count_ == 1 ? "it" : "them") << '\n';
  }
  int64_t count() const { return count_; }

 private:
  static constexpr int64_t kReportedMax = 20;
  Console& console_;
  int64_t count_ = 0;
};

void PrintUnread(const UnreadLine& unread, const MonitorDecision& decision, int line,
                 Console& console) {
  if (!console.json) return;
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("number", decision.number).Field("line", line).Key("unread");
  WriteUnread(unread, &json);
  console.out << json.EndObject().Take();
}

// Folds the lines of one input, readable or not.
class Folding {
 public:
  Folding(ObservationLines& lines, OwnRows own, bool strict, MonitorSession& session,
          UnreadLines& unread, Console& console)
      : lines_(lines),
        reader_(own),
        strict_(strict),
        session_(session),
        unread_(unread),
        console_(console) {}

  Result<> All(int64_t skip) {
    std::string_view line;
    while (true) {
      auto more = lines_.Next(&line);
      const bool too_long = !more.has_value() && more.error().code() == ErrorCode::kInvalid;
      if (!more.has_value() && !too_long) return std::move(more.error());
      if (!too_long && !*more) return {};
      if (too_long) KCC_TRY_VOID(lines_.SkipRest());
      if (skip > 0) {
        --skip;
      } else if (too_long) {
        KCC_TRY_VOID(TakeUnread(std::nullopt, more.error()));
      } else {
        KCC_TRY_VOID(Take(line));
      }
    }
  }

 private:
  Result<> Take(std::string_view line) {
    const auto observation = reader_.Read(line);
    if (!observation.has_value()) return TakeUnread(line, observation.error());
    const auto decision = session_.Observe(*observation);
    if (!decision.has_value()) {
      const Error& error = decision.error();
      if (error.code() != ErrorCode::kInvalid) return error;
      return TakeUnread(line, error);
    }
    PrintChanges(&*observation, *decision, console_);
    return {};
  }

  // The error is of the line alone; the place is ours.
  Result<> TakeUnread(std::optional<std::string_view> line, const Error& error) {
    const Error placed = AtLine(error, lines_.name(), lines_.number());
    if (strict_) return placed;
    unread_.Report(placed);
    const UnreadLine unread = UnreadLineOf(line, error, session_.monitor().policy());
    KCC_TRY(const MonitorDecision decision, session_.ObserveUnread(unread));
    PrintUnread(unread, decision, lines_.number(), console_);
    PrintChanges(nullptr, decision, console_);
    return {};
  }

  ObservationLines& lines_;
  ObservationReader reader_;
  bool strict_;
  MonitorSession& session_;
  UnreadLines& unread_;
  Console& console_;
};

void PrintResumed(const MonitorSession& session, const MonitorRunOptions& options,
                  Console& console) {
  if (session.dropped_bytes() != 0) {
    console.err << options.log << ": the last line was cut after " << session.dropped_bytes()
                << " bytes and was dropped; its observation is to be given again\n";
  }
  if (session.resumed() != 0) {
    console.err << "going on after " << session.resumed() << " observations\n";
  }
}

}  // namespace

int RunMonitorRun(const MonitorRunOptions& options, Console& console) {
  int exit_code = kExitOk;
  const auto documents =
      RequireMonitorDocuments(options.contract, options.policy, console, &exit_code);
  if (!documents) return exit_code;
  ObservationLines lines(options.observations, console);
  if (auto opened = lines.Open(); !opened.has_value()) return ReportError(opened.error(), console);
  auto session =
      MonitorSession::Open(documents->contract, documents->policy,
                           {options.log, options.state, options.sync_every, options.save_every,
                            StageNamed(options.stage), std::string(Version())});
  if (!session.has_value()) return ReportError(session.error(), console);
  PrintResumed(*session, options, console);
  const auto own = documents->contract.own_rows();
  UnreadLines unread(console);
  Folding folding(lines, own, options.strict, *session, unread, console);
  const auto folded = folding.All(options.skip_folded ? session->resumed() : 0);
  // What was decided before a line that ends the run stays decided.
  const auto closed = session->Close();
  if (!folded.has_value()) return ReportError(folded.error(), console);
  if (!closed.has_value()) return ReportError(closed.error(), console);
  PrintEnd(*session, console);
  unread.ReportCount();
  if (IsBad(session->monitor().Status())) return kExitViolated;
  return unread.count() > 0 ? kExitInvalid : kExitOk;
}

int RunMonitorReplay(const MonitorReplayOptions& options, Console& console) {
  int exit_code = kExitOk;
  const auto documents =
      RequireMonitorDocuments(options.contract, options.policy, console, &exit_code);
  if (!documents) return exit_code;
  const auto replay = ReplayLog(options.logs, documents->contract, documents->policy, options.head);
  if (!replay.has_value()) return ReportError(replay.error(), console);
  const auto& difference = replay->difference;
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("equal", !difference).Field("decisions", replay->decisions);
    json.Field("believed", replay->believed);
    json.Field("head", replay->head).Field("kcc", replay->kcc);
    if (difference) {
      json.Key("difference").BeginObject().Field("file", difference->place().file);
      json.Field("line", difference->place().line);
      json.Field("column", difference->place().column).Field("message", difference->message());
      json.EndObject();
    }
    console.out << json.EndObject().Take();
  } else if (difference) {
    console.out << difference->Format() << '\n'
                << Counted(static_cast<size_t>(replay->decisions), "decision") << " before it "
                << (replay->decisions == 1 ? "is" : "are") << " equal\n";
  } else {
    if (replay->believed > 0) {
      console.out << "the files begin after decision " << replay->believed
                  << ": the state in the first line of the first is believed\n";
    }
    console.out << Counted(static_cast<size_t>(replay->decisions), "decision")
                << " decided again, each equal to the byte; the log ends with " << replay->head
                << '\n';
  }
  return difference ? kExitViolated : kExitOk;
}

}  // namespace kcc::cli
