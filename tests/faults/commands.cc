#include "tests/faults/commands.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <regex>
#include <utility>

#include "apps/kcc/console.h"
#include "kcc/format/json.h"
#include "tests/faults/inputs.h"
#include "tests/faults/monitor_commands.h"
#include "tests/faults/register_commands.h"
#include "tests/faults/serve_commands.h"
#include "tests/faults/train_commands.h"

// apps/kcc/main.cc, whose main has this name here.
int KccMain(int argc, char** argv);

namespace kcc::faults {
namespace {

std::string ReadAll(int fd) {
  std::string bytes(static_cast<size_t>(::lseek(fd, 0, SEEK_END)), '\0');
  ::lseek(fd, 0, SEEK_SET);
  const ssize_t n = ::read(fd, bytes.data(), bytes.size());
  bytes.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return bytes;
}

}  // namespace

CommandSubject::CommandSubject(const std::vector<std::string>& words, std::string out,
                               std::map<std::string, std::string> before)
    : words_(words), out_(std::move(out)), before_(std::move(before)) {
  PrepareJson();  // which cannot fail without ending the process
  words_.insert(words_.begin(), "kcc");
  for (std::string& word : words_) argv_.push_back(word.data());
  argv_.push_back(nullptr);
  for (int i = 0; i < 2; ++i) {
    streams_[i] = ::memfd_create("stream", 0);
    kept_[i] = ::dup(i + 1);
    ::dup2(streams_[i], i + 1);
  }
}

CommandSubject::~CommandSubject() {
  for (int i = 0; i < 2; ++i) {
    ::dup2(kept_[i], i + 1);
    ::close(kept_[i]);
    ::close(streams_[i]);
  }
}

void CommandSubject::Reset() {
  std::error_code ignored;
  std::filesystem::remove_all(out_, ignored);
  std::filesystem::create_directories(out_, ignored);
  for (const auto& [name, bytes] : before_) WriteBytes(out_ + "/" + name, bytes);
  for (const int stream : streams_) {
    if (::ftruncate(stream, 0) == 0) ::lseek(stream, 0, SEEK_SET);
  }
  std::cout.clear();
  std::cerr.clear();
}

std::string CommandSubject::SaidSoFar() const {
  const off_t at = ::lseek(streams_[0], 0, SEEK_CUR);
  std::string bytes = ReadAll(streams_[0]);
  ::lseek(streams_[0], at, SEEK_SET);
  return bytes;
}

void CommandSubject::Run() { code_ = KccMain(static_cast<int>(words_.size()), argv_.data()); }

Outcome CommandSubject::Take() {
  Outcome outcome;
  outcome.code = code_;
  outcome.failed = code_ == cli::kExitInvalid || code_ == cli::kExitError;
  outcome.results = FilesOf(out_);
  // What the clock and the machine say differs from run to run.
  static const std::regex measured("\"[a-z_]+_m[sb]\": ?[-+.e0-9]+");
  for (auto& [name, bytes] : outcome.results) {
    if (name.ends_with("requests.jsonl"))
      bytes = std::regex_replace(bytes, measured, "\"measured\"");
  }
  outcome.results["standard output"] = ReadAll(streams_[0]);
  outcome.message = ReadAll(streams_[1]);
  if (code_ < 0 || code_ > cli::kExitError) {
    outcome.broken = "exits with " + std::to_string(code_) + ", which means nothing";
  }
  if (outcome.message.find("a fault of kcc") != std::string::npos) {
    outcome.broken = "takes it for a fault of its own: " + outcome.message;
  }
  if (::waitpid(-1, nullptr, WNOHANG) >= 0) {
    outcome.broken = "leaves a program that it started: " + outcome.message;
  }
  return outcome;
}

namespace {

class CaseList {
 public:
  void Add(const std::string& name, std::vector<std::string> words,
           std::map<std::string, std::string> before_from = {}) {
    cases_.push_back({name, [words = std::move(words), before_from = std::move(before_from)] {
                        std::map<std::string, std::string> before;
                        for (const auto& [to, from] : before_from) before[to] = ReadBytes(from);
                        return std::make_unique<CommandSubject>(words, TheInputs().out(), before);
                      }});
  }
  void AddSlow(const std::string& name, std::vector<std::string> words) {
    Add(name, std::move(words));
    cases_.back().slow = true;
  }
  std::vector<Case> Take() { return std::move(cases_); }

 private:
  std::vector<Case> cases_;
};

void AddContractCommands(CaseList* list) {
  const Inputs& at = TheInputs();
  const std::string contract = at.In("contract.yaml");
  const std::string looser = at.In("looser.yaml");
  list->Add("help", {"--help"});
  list->Add("help of a command", {"run", "--help"});
  list->Add("wrong usage", {"check", "--strcit", contract});
  list->Add("version", {"--version"});
  list->Add("check", {"check", contract});
  list->Add("check --json", {"check", "--json", contract});
  list->Add("check of mistakes", {"check", "tests/data/contract/ten_mistakes.yaml"});
  list->Add("fmt", {"fmt", contract});
  list->Add("fmt --json", {"fmt", "--json", contract});
  list->Add("fmt -i", {"fmt", "-i", at.out() + "/c.yaml"}, {{"c.yaml", contract}});
  list->Add("diff", {"diff", contract, looser});
  list->Add("diff --json", {"diff", "--json", contract, looser});
  list->Add("explain", {"explain", contract});
  list->Add("explain --json", {"explain", "--json", contract, "N-1"});
  const std::string policy = "policies/promotion.yaml";
  list->Add("check --strict of a policy", {"check", "--strict", contract, policy});
  list->Add("fmt of a policy", {"fmt", policy});
  list->Add("diff of policies", {"diff", policy, policy});
  list->Add("explain of a policy", {"explain", "--json", policy});
  list->Add("promote explain", {"promote", "explain", policy, contract});
  list->Add("promote explain --json", {"promote", "explain", "--json", policy, contract});
  list->Add("schema --policy", {"schema", "--policy"});
  const std::string monitor = "policies/monitor-serving.yaml";
  list->Add("check of a monitor policy", {"check", monitor});
  list->Add("fmt of a monitor policy", {"fmt", monitor});
  list->Add("diff of monitor policies", {"diff", monitor, "policies/monitor-training.yaml"});
  list->Add("explain of a monitor policy", {"explain", monitor});
  list->Add("schema --monitor", {"schema", "--monitor"});
  list->Add("schema --gateway", {"schema", "--gateway"});
  list->Add("schema", {"schema"});
  list->Add("schema --markdown", {"schema", "--markdown"});
  list->Add("schema --report", {"schema", "--report"});
  list->Add("metrics", {"metrics"});
  list->Add("metrics --json", {"metrics", "--json"});
  list->Add("metrics of a name", {"metrics", "p99_kl"});
  list->Add("completion bash", {"completion", "bash"});
  list->Add("completion zsh", {"completion", "zsh"});
}

void AddEvidenceCommands(CaseList* list) {
  const Inputs& at = TheInputs();
  const std::string contract = at.In("contract.yaml");
  const std::string train = at.In("train");
  const std::string infer = at.In("infer");
  const std::string all = at.In("all.kccs");
  const std::string pair = train + ":" + infer;
  const std::string out = at.out() + "/";
  for (const std::string threads : {"1", "3"}) {
    list->Add("measure --threads " + threads, {"measure", train, infer, "-c", contract, "-o",
                                               out + "s.kccs", "--threads", threads});
  }
  list->Add("measure --verify over an old file",
            {"measure", train, infer, "--verify", "-o", out + "s.kccs", "--threads", "1"},
            {{"s.kccs", all}});
  list->Add("merge", {"merge", at.In("part1.kccs"), at.In("part2.kccs"), "-o", out + "m.kccs"});
  list->Add("judge", {"judge", contract, all});
  list->Add("judge --json", {"judge", "--json", contract, all});
  list->Add("judge --report", {"judge", contract, all, "--report", out + "r", "--sarif"});
  list->Add("judge --traces", {"judge", contract, all, "--traces", pair, "--all"});
  list->Add("run", {"run", contract, "--train", train, "--infer", infer, "--threads", "2",
                    "--report", out + "r", "--summary", out + "s.kccs"});
  list->Add("report", {"report", at.In("report")});
  list->Add("report --json", {"report", "--json", at.In("report")});
  list->Add("report -o", {"report", at.In("report/report.json"), "-o", out + "r", "--sarif"});
  list->Add("compare", {"compare", at.In("report"), at.In("report")});
  list->Add("compare --markdown", {"compare", "--markdown", at.In("report"), at.In("report")});
  list->Add("bound", {"bound", "--linf", "0.02", "--reward-max", "1", "--advantage-max", "4"});
  list->Add("bound backwards", {"bound", "--reward-drift", "0.04", "--reward-max", "1", "--json"});
  list->Add("bound --check", {"bound", "--check", train, infer});
  list->Add("calibrate",
            {"calibrate", contract, "--conforming", pair, "--violating", all, "--threads", "1"});
  list->Add("author",
            {"author", "--evidence", pair, "--threads", "1", "-o", out + "proposed.yaml"});
  list->Add("author from tolerances", {"author", "--reward-drift", "0.02", "--reward-max", "1"});
  list->Add("author with a checkpoint",
            {"author", "--reward-drift", "0.02", "--reward-max", "1", "--checkpoint",
             at.In("model/model.safetensors"), "--heads", "2", "--context", "64", "--rms-min",
             "0.1", "--rms-max", "10", "--train-kernel", "store=bf16", "--infer-kernel",
             "weights=fp8-e4m3,store=bf16"});
  list->Add("trace info", {"trace", "info", train});
  list->Add("trace head", {"trace", "head", train, "-n", "3"});
  list->Add("trace verify", {"trace", "verify", train});
}

void AddImports(CaseList* list) {
  const std::string data = "tests/data/import/";
  const std::string out = TheInputs().out() + "/t";
  const auto add = [&](const std::string& format, std::vector<std::string> inputs,
                       std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"import", format};
    for (const std::string& input : inputs) words.push_back(data + input);
    words.insert(words.end(), {"-o", out, "--fingerprint", "x"});
    words.insert(words.end(), more.begin(), more.end());
    list->Add("import " + format + " " + inputs.back(), std::move(words));
  };
  const std::vector<std::string> vocab = {"--vocab-size", "200000", "--semantics", "raw"};
  add("npy", {"npy"});
  add("npy", {"npy/batch.npz"});
  add("vllm", {"vllm/generate.jsonl"}, vocab);
  add("vllm", {"vllm/completions_output.jsonl"}, vocab);
  add("sglang", {"sglang/generate_output.jsonl"}, vocab);
  add("llamacpp", {"llamacpp/completion.jsonl"}, vocab);
  add("llama-kld", {"llama_kld/base.kld"});
  add("prime-rl", {"prime_rl/step_3"}, vocab);
  add("vexact", {"vexact"}, {"--vocab-size", "200000"});
  add("trtllm", {"trtllm/completions.jsonl"}, vocab);
  add("tgi", {"tgi/generate.jsonl"}, vocab);
}

void AddRlCommands(CaseList* list) {
  const Inputs& at = TheInputs();
  const std::string step = "examples/rl/step.safetensors";
  const std::string npz = "examples/rl/tempered.npz";
  const std::string train = at.In("train");
  const std::string infer = at.In("infer");
  const std::string out = at.out() + "/";
  const std::string rule =
      R"({"weight": {"mode": "truncate", "high": 2}, "reject": [{"statistic": "ratio",)"
      R"( "aggregate": "token", "low": 0.5, "high": 2}]})";
  list->Add("rl diagnose", {"rl", "diagnose", step, "--threads", "1", "--limit",
                            "token.mean_k3<=0.001", "-o", out + "s.kccrl"});
  list->Add("rl diagnose --threads 3", {"rl", "diagnose", "--json", step, "--threads", "3"});
  list->Add("rl diagnose of traces", {"rl", "diagnose", train, infer, "--slice-by", "tags"});
  list->Add("rl diagnose of summaries", {"rl", "diagnose", at.In("step.kccrl")});
  list->Add("rl diagnose of exports", {"rl", "diagnose", "tests/data/rl/token_exports/step_7"});
  list->Add("rl diagnose of a DataProto",
            {"rl", "diagnose", "tests/data/rl/dumps/dataproto.pkl", "--slice-by", "data_source"});
  list->Add("rl judge", {"rl", "judge", at.In("contract.yaml"), "tests/data/rl/dumps/trl.pt",
                         "--threads", "1", "--report", out + "report"});
  list->Add("rl lint", {"rl", "lint", npz});
  list->Add("rl lint --rule", {"rl", "lint", "--json", step, "--rule", rule});
  list->Add("rl dialects", {"rl", "dialects", "--json"});
  list->Add("rl dialects --markdown", {"rl", "dialects", "--markdown"});
  list->Add("rl translate", {"rl", "translate", "verl", "--options", R"({"rollout_is": "token"})"});
  list->Add("rl correct",
            {"rl", "correct", step, "--rule", rule, "-o", out + "w.safetensors", "--threads", "1"});
  list->Add("rl correct --dialect",
            {"rl", "correct", "--json", step, "--dialect", "verl", "--options",
             R"({"rollout_is": "token", "rollout_is_threshold": 2.0})", "--threads", "2"});
  list->Add("rl replay", {"rl", "replay", step, "-o", out + "replay.html", "--threads", "1"});
  list->Add("rl replay --json", {"rl", "replay", "--json", train, infer, "--threads", "2"});
  list->Add("rl conform", {"rl", "conform", "tests/data/rl/trl.json"});
}

void AddEngineCommands(CaseList* list) {
  const Inputs& at = TheInputs();
  const std::string model = "?model=" + at.In("model");
  const std::string requests = at.In("requests.jsonl");
  const std::string out = at.out() + "/";
  list->Add("score", {"score", "lab:f32" + model, "--requests", requests, "-o", out + "t"});
  list->Add("score with threads",
            {"score", "lab:f32" + model + "&threads=3", "--requests", requests, "-o", out + "t"});
  list->AddSlow("score by a program",
                {"score", "exec:/usr/bin/python3 -S tests/kernel/toy.py none --vocab 64",
                 "--requests", requests, "-o", out + "t", "--scratch", at.out()});
  list->Add("generate", {"generate", "lab:f32" + model, "--requests", requests, "--max-tokens", "2",
                         "-o", out + "t"});
  list->Add("run of engines",
            {"run", at.In("contract.yaml"), "--train", "lab:f32" + model, "--infer",
             "lab:bf16" + model, "--requests", requests, "--scratch", at.out(), "--batch", "2"});
  list->Add("attribute --first-divergence",
            {"attribute", "--train", "lab:f32" + model, "--infer", "lab:bf16" + model,
             "--first-divergence", "--requests", requests});
  list->AddSlow("attribute", {"attribute", "--train", "lab:train" + model, "--infer",
                              "lab:fp8" + model, "--requests", requests, "--max-requests", "1"});
  list->Add("lab list", {"lab", "list"});
  list->AddSlow("lab e1",
                {"lab", "e1", "--model", at.In("model"), "--requests", requests, "--contract",
                 at.In("contract.yaml"), "--max-requests", "1", "-o", out + "e1"});
  list->AddSlow("lab e2", {"lab", "e2", "--model", at.In("model"), "--requests", requests,
                           "--contract", at.In("contract.yaml"), "--max-requests", "1", "--engine",
                           "fp8", "--length", "0", "-o", out + "e2"});
}

}  // namespace

std::vector<Case> CommandCases() {
  CaseList list;
  AddContractCommands(&list);
  AddEvidenceCommands(&list);
  AddImports(&list);
  AddRlCommands(&list);
  AddEngineCommands(&list);
  std::vector<Case> cases = list.Take();
  for (const auto& more : {RegisterCases(), MonitorCases(), ServeCases(), TrainCases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

}  // namespace kcc::faults
