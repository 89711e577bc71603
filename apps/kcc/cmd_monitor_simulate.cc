// kcc monitor simulate: the operating curves of a clause's detector, by the detector itself.
#include <array>
#include <filesystem>

#include "apps/kcc/commands_monitor.h"
#include "apps/kcc/monitoring.h"
#include "kcc/base/file.h"
#include "kcc/base/strings.h"
#include "kcc/monitor/forecast.h"
#include "kcc/monitorlog/operating_page.h"

namespace kcc::cli {
namespace {

// The first is in control.
constexpr std::array kCurveFactors = {1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0};

Error NoSuchClause(const std::string& id, const Contract& contract) {
  std::vector<std::string_view> ids;
  for (const Clause& clause : contract.clauses) ids.push_back(clause.id);
  const auto near = NearestWord(id, ids);
  return InvalidError("no clause '" + id + "' of this stage" +
                      (near && *near != id ? "; did you mean '" + std::string(*near) + "'?"
                                           : "; there are " + JoinWords(ids)));
}

Result<OperatingCurve> Simulated(const MonitorSimulateOptions& options,
                                 const MonitorDocuments& documents) {
  ForecastOptions how;
  how.stage = StageNamed(options.stage);
  how.clause = options.clause;
  how.runs = options.runs;
  how.seed = options.seed;
  how.observations_max = options.observations_max;
  KCC_TRY(MonitorForecast forecast,
          ForecastMonitor(documents.contract, documents.policy, kCurveFactors, how));
  if (forecast.pairs.empty()) return NoSuchClause(options.clause, documents.contract);
  // The slices of a clause have one detector.
  PairForecast& pair = forecast.pairs.front();
  if (pair.shifts.empty()) {
    return InvalidError("no detector watches the clause '" + options.clause +
                        "', so there is no curve; kcc monitor explain says how it is watched");
  }
  OperatingCurve curve;
  curve.contract = documents.contract.name;
  curve.policy = documents.policy.name;
  curve.in_control = pair.shifts.front();
  pair.shifts.erase(pair.shifts.begin());
  curve.pair = std::move(pair);
  curve.alarm_level = curve.pair.alarm_level;
  curve.observations_max = options.observations_max;
  curve.seed = options.seed;
  return curve;
}

void PrintCurve(const OperatingCurve& curve, Console& console) {
  console.out << curve.pair.clause << ": " << curve.pair.metric << ", limit "
              << ReadableNumber(curve.pair.limit)
              << ", alarm at c = " << ReadableNumber(curve.alarm_level) << '\n';
  for (const ShiftForecast& shift : curve.pair.shifts) {
    console.out << "  " << ReadableNumber(shift.factor)
                << " times the limit: " << (shift.unseen == 0 ? "" : "over ")
                << ReadableNumber(shift.observations)
                << " observations on average, eight runs in ten from "
                << ReadableNumber(shift.early) << " to " << ReadableNumber(shift.late);
    if (shift.unseen != 0) console.out << "; " << shift.unseen << " runs had no alarm";
    console.out << '\n';
  }
  console.out << "  at the limit: " << curve.false_alarms() << " of " << curve.in_control.runs
              << " runs of " << curve.observations_max << " had an alarm; the bound is a share of "
              << ReadableNumber(std::min(1.0, curve.false_alarms_bound())) << '\n';
}

}  // namespace

int RunMonitorSimulate(const MonitorSimulateOptions& options, Console& console) {
  int exit_code = kExitOk;
  const auto documents =
      RequireMonitorDocuments(options.contract, options.policy, console, &exit_code);
  if (!documents) return exit_code;
  const auto curve = Simulated(options, *documents);
  if (!curve.has_value()) return ReportError(curve.error(), console);
  std::error_code failed;
  std::filesystem::create_directories(options.output, failed);
  if (failed) {
    return ReportError(
        IoError("cannot make the directory: " + failed.message(), Place{options.output}), console);
  }
  const std::string figures = OperatingCurveJson(*curve);
  const std::string page = OperatingCurvePage(*curve);
  const auto written = WriteFilesTogether(
      options.output,
      std::array{NamedBytes{"operating.html", page}, NamedBytes{"operating.json", figures}});
  if (!written.has_value()) return ReportError(written.error(), console);
  if (console.json) {
    console.out << figures;
    return kExitOk;
  }
  PrintCurve(*curve, console);
  console.out << "open " << options.output << "/operating.html\n";
  return kExitOk;
}

}  // namespace kcc::cli
