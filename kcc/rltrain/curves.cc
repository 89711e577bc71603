#include "kcc/rltrain/curves.h"

#include <algorithm>

#include "kcc/base/file.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

constexpr size_t kLogBytesMax = size_t{1} << 30;

// Numbers of the line and of the objects in it, each under its keys.
void AddNumbers(json::object object, const std::string& prefix, double step, RunCurves* run) {
  for (const auto [key, value] : object) {
    const std::string name = prefix + std::string(key);
    json::object inner;
    if (value.get(inner) == simdjson::SUCCESS) {
      if (key != "contract") AddNumbers(inner, name + " ", step, run);
    } else if (const auto number = JsonNumber(value)) {
      run->curves[name].push_back({step, *number});
    }
  }
}

void AddClauses(json::object line, double step, RunCurves* run) {
  const auto contract = JsonMember(line, "contract");
  json::object judged;
  if (!contract || contract->get(judged) != simdjson::SUCCESS) return;
  const auto clauses = JsonMember(judged, "clauses");
  json::object rows;
  if (!clauses || clauses->get(rows) != simdjson::SUCCESS) return;
  for (const auto [key, value] : rows) {
    json::object row;
    if (value.get(row) != simdjson::SUCCESS) continue;
    const std::string name(key);
    auto strip = std::find_if(run->clauses.begin(), run->clauses.end(),
                              [&](const ClauseStrip& each) { return each.name == name; });
    if (strip == run->clauses.end()) strip = run->clauses.insert(strip, {name, {}});
    strip->verdicts.emplace_back(step, std::string(JsonText(JsonMember(row, "verdict"))));
  }
}

Result<> ReadLines(const std::string& path, const std::string& prefix, RunCurves* run) {
  KCC_TRY(const std::string text, ReadRegularFile(path, kLogBytesMax));
  json::parser parser;
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    const auto parsed = ParseJson(parser, line);
    if (!parsed.has_value()) return Error(parsed.error()).At(Place{path, number});
    json::object object;
    std::optional<double> step;
    if (parsed->get(object) == simdjson::SUCCESS) {
      const auto member = JsonMember(object, "step");
      if (member) step = JsonNumber(*member);
    }
    if (!step) {
      return BrokenEvidenceError("this is no line of a run of kcc lab rl: it has no step",
                                 Place{path, number});
    }
    run->last_step = std::max(run->last_step, *step);
    AddNumbers(object, prefix, *step, run);
    AddClauses(object, *step, run);
  }
  return {};
}

}  // namespace

Result<RunCurves> ReadRunCurves(const std::string& folder, const std::string& name) {
  RunCurves run;
  run.name = name;
  KCC_TRY_VOID(ReadLines(folder + "/log.jsonl", "", &run));
  KCC_TRY_VOID(ReadLines(folder + "/held-out.jsonl", "held out ", &run));
  return run;
}

}  // namespace kcc
