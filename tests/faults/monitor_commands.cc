#include "tests/faults/monitor_commands.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "tests/faults/commands.h"

namespace kcc::faults {
namespace {

const char* const kLog = "d.jsonl";
const char* const kState = "d.state";

// A proof, a detector and blocks of four requests, on a slice each.
const char* const kContract = R"(apiVersion: kcc/v1
kind: KernelContract
metadata: {name: watched, version: 1.0.0}
spec:
  slices:
    - {name: odd, where: "'odd' in tags"}
  numerical:
    - {id: N-1, metric: max_kl, atMost: 4, level: L2}
    - {id: N-2, metric: max_kl, atMost: 1, exceedance: 5%, slices: [all, odd], level: L2}
    - {id: N-3, metric: mean_kl, atMost: 1, exceedance: 20%, window: 4 requests, level: L1}
  escalation: {L2: guard, L3: fallback}
)";
const char* const kPolicy = R"(apiVersion: kcc/v1
kind: MonitorPolicy
metadata: {name: pool, version: 1.0.0}
spec:
  falseAlarms: 1 per 10^5 requests
  audit: {sessionFilter: 1KiB}
  release: {rule: pass, alpha: 5%, clean: 5, probation: 4}
  panic: serve-safest
  kernels:
    - {name: fast, role: infer}
    - {name: careful, role: guard}
    - {name: safe, role: fallback}
)";
constexpr int kObservations = 40;
constexpr int kBadOne = 12;  // the proof; from here on `fast` is shown probes

// Fine, then one request that is far off, then fine probes until the kernel serves again.
std::string Observations(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const std::string id = std::to_string(i);
    lines += R"({"time_ms": )" + id + R"(, "request": "r)" + id + R"(", "kernel": "fast")";
    if (i > kBadOne && i < kBadOne + 8) lines += R"(, "probe": true)";
    if (i % 4 != 3) {
      const std::string tags = i % 2 == 0 ? "" : R"("odd")";
      lines += R"(, "audited": true, "session": "s)" + id + R"(", "infer": {"output_tokens": 2})";
      lines += R"(, "train": {"output_tokens": 2, "tags": [)" + tags + "]}";
      lines += R"(, "tokens": {"position": [0, 1], "kl": [0.25, )";
      lines += std::string(i == kBadOne ? "9" : "0.5") + "]}";
    }
    lines += "}\n";
  }
  return lines;
}

std::vector<std::string> RunWords(const Inputs& at, const std::string& observations) {
  return {"monitor",           "run",      at.In("watched.yaml"),
          at.In(observations), "--policy", at.In("pool.yaml")};
}

std::vector<std::string> With(std::vector<std::string> words, std::vector<std::string> more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The last number that begins a line: the last decision that somebody was told of.
int64_t LastTold(const std::string& output) {
  int64_t last = 0;
  for (size_t at = 0; at < output.size();) {
    const size_t end = output.find('\n', at);
    if (end == std::string::npos) break;  // a line that was cut tells nothing yet
    if (output[at] >= '0' && output[at] <= '9') last = std::stoll(output.substr(at, 20));
    at = end + 1;
  }
  return last;
}

// Decisions in a log: its whole lines but the first.
int64_t Logged(const std::string& log) {
  return std::max<int64_t>(0, std::count(log.begin(), log.end(), '\n') - 1);
}

// `monitor run` with a log, and perhaps a state.
class MonitorSubject final : public CommandSubject {
 public:
  MonitorSubject(const std::vector<std::string>& words,
                 const std::map<std::string, std::string>& before)
      : CommandSubject(words, TheInputs().out(), before) {
    const auto old = before.find(kLog);
    if (old == before.end()) return;
    old_lines_ = old->second.substr(0, old->second.find_last_of('\n') + 1);
  }

  Outcome Take() override {
    Outcome outcome = CommandSubject::Take();
    if (outcome.failed && outcome.broken.empty()) outcome.broken = WhatIsBroken(outcome);
    return outcome;
  }

  // The log is appended to line by line; the state is one of those that the run saves on its way,
  // which GoOn tries.
  bool IsStepTo(const std::string& name, const std::string& bytes,
                const std::string& complete) const override {
    if (name == kState) return bytes.starts_with("{\"kccMonitorState\"");
    const bool lines = bytes.empty() || bytes.ends_with('\n');
    return name == kLog && lines && complete.starts_with(bytes) && bytes.starts_with(old_lines_);
  }

 private:
  std::string WhatIsBroken(const Outcome& outcome) const {
    const auto log = outcome.results.find(kLog);
    const int64_t logged = log == outcome.results.end() ? 0 : Logged(log->second);
    const int64_t told = LastTold(outcome.results.at("standard output"));
    if (told > logged) {
      return "decision " + std::to_string(told) + " was told, and the log holds " +
             std::to_string(logged);
    }
    return GoOn();
  }

  // The same run once more, without a fault, from what is left.
  static std::string GoOn() {
    const Inputs& at = TheInputs();
    CommandSubject again(
        With(RunWords(at, "observed.jsonl"),
             {"--log", at.out() + "/" + kLog, "--state", at.out() + "/" + kState, "--skip-folded"}),
        at.out(), {});
    std::cout.clear();
    std::cerr.clear();
    again.Run();
    const Outcome outcome = again.Take();
    if (outcome.failed) return "a run cannot go on from what is left: " + outcome.message;
    for (const char* name : {kLog, kState}) {
      const auto found = outcome.results.find(name);
      if (found != outcome.results.end() &&
          found->second == ReadBytes(at.In(std::string("whole-") + name))) {
        continue;
      }
      return std::string("a run that goes on from what is left ends with another ") + name;
    }
    return "";
  }

  std::string old_lines_;
};

// With its input on descriptor 0.
class PipedSubject final : public CommandSubject {
 public:
  PipedSubject(const std::vector<std::string>& words, const std::string& input)
      : CommandSubject(words, TheInputs().out(), {}),
        input_(::memfd_create("input", 0)),
        kept_(::dup(0)) {
    if (::write(input_, input.data(), input.size()) != static_cast<ssize_t>(input.size())) {
      std::abort();
    }
    ::dup2(input_, 0);
  }
  ~PipedSubject() override {
    ::dup2(kept_, 0);
    ::close(kept_);
    ::close(input_);
  }
  PipedSubject(const PipedSubject&) = delete;
  PipedSubject& operator=(const PipedSubject&) = delete;

  void Reset() override {
    CommandSubject::Reset();
    std::fseek(stdin, 0, SEEK_SET);  // std::cin has no buffer of its own
    std::clearerr(stdin);
    std::cin.clear();
  }

 private:
  int input_;
  int kept_;
};

class CaseList {
 public:
  void Add(const std::string& name, std::vector<std::string> words) {
    cases_.push_back({name, [words = std::move(words)] {
                        return std::make_unique<CommandSubject>(
                            words, TheInputs().out(), std::map<std::string, std::string>{});
                      }});
  }
  // `before`: what stands there when the run begins, by name.
  void AddRun(const std::string& name, std::vector<std::string> words,
              std::function<std::map<std::string, std::string>()> before = {}) {
    cases_.push_back({name, [words = std::move(words), before = std::move(before)] {
                        return std::make_unique<MonitorSubject>(
                            words, before ? before() : std::map<std::string, std::string>{});
                      }});
  }
  void AddPiped(const std::string& name, std::vector<std::string> words, std::string input) {
    cases_.push_back({name, [words = std::move(words), input = std::move(input)] {
                        return std::make_unique<PipedSubject>(words, input);
                      }});
  }
  std::vector<Case> Take() { return std::move(cases_); }

 private:
  std::vector<Case> cases_;
};

void AddRuns(CaseList* list) {
  const Inputs& at = TheInputs();
  const std::vector<std::string> run = RunWords(at, "observed.jsonl");
  const std::vector<std::string> log = {"--log", at.out() + "/" + kLog};
  const std::vector<std::string> state = {"--state", at.out() + "/" + kState, "--save", "7"};
  list->Add("monitor run", run);
  list->Add("monitor run --json", With(run, {"--json"}));
  list->AddPiped("monitor run of standard input",
                 {"monitor", "run", at.In("watched.yaml"), "--policy", at.In("pool.yaml")},
                 Observations(kObservations));
  list->AddRun("monitor run --log", With(run, log));
  list->AddRun("monitor run --log --state", With(With(run, log), state));
  // The state lies behind the log.
  const auto half = [] {
    const Inputs& inputs = TheInputs();
    return std::map<std::string, std::string>{{kLog, ReadBytes(inputs.In("half.jsonl"))},
                                              {kState, ReadBytes(inputs.In("half.state"))}};
  };
  list->AddRun("monitor run that goes on", With(With(With(run, log), state), {"--skip-folded"}),
               half);
  list->AddRun("monitor run after a kill", With(With(run, log), {"--skip-folded"}), [] {
    const std::string bytes = ReadBytes(TheInputs().In("half.jsonl"));
    return std::map<std::string, std::string>{{kLog, bytes.substr(0, bytes.size() - 40)}};
  });
  list->Add("monitor run of a mistake", RunWords(at, "mistake.jsonl"));
}

}  // namespace

void WriteMonitorInputs(const Inputs& inputs) {
  WriteBytes(inputs.In("watched.yaml"), kContract);
  WriteBytes(inputs.In("pool.yaml"), kPolicy);
  WriteBytes(inputs.In("observed.jsonl"), Observations(kObservations));
  WriteBytes(inputs.In("observed-14.jsonl"), Observations(14));
  WriteBytes(inputs.In("observed-20.jsonl"), Observations(20));
  WriteBytes(inputs.In("mistake.jsonl"), Observations(3) + R"({"time_ms": 3, "audted": true})");
}

std::vector<std::vector<std::string>> MonitorRecipes(const Inputs& inputs) {
  const auto in = [&](const std::string& name) { return inputs.In(name); };
  const std::string whole = "whole-";
  return {
      With(RunWords(inputs, "observed.jsonl"),
           {"--log", in(whole + kLog), "--state", in(whole + kState)}),
      With(RunWords(inputs, "observed-14.jsonl"),
           {"--log", in("half.jsonl"), "--state", in("half.state")}),
      With(RunWords(inputs, "observed-20.jsonl"), {"--log", in("half.jsonl"), "--skip-folded"}),
  };
}

std::vector<Case> MonitorCases() {
  CaseList list;
  AddRuns(&list);
  const Inputs& at = TheInputs();
  const std::string contract = at.In("watched.yaml");
  const std::vector<std::string> policy = {"--policy", at.In("pool.yaml")};
  const std::string log = at.In(std::string("whole-") + kLog);
  const auto replay = With({"monitor", "replay", log, "--contract", contract}, policy);
  list.Add("monitor replay", replay);
  list.Add("monitor replay --json", With(replay, {"--json"}));
  list.Add("monitor replay of another end",
           With(replay, {"--head", "sha256:" + std::string(64, '0')}));
  const auto explain = With({"monitor", "explain", contract}, policy);
  list.Add("monitor explain", explain);
  list.Add("monitor explain --json", With(explain, {"--json"}));
  const auto simulate = With(With({"monitor", "simulate", contract, "--clause", "N-2"}, policy),
                             {"--runs", "4", "--observations", "300", "-o", at.out() + "/curves"});
  list.Add("monitor simulate", simulate);
  list.Add("monitor simulate --json", With(simulate, {"--json"}));
  return list.Take();
}

}  // namespace kcc::faults
