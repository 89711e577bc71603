#include "tests/faults/c_calls.h"

#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

#include "include/kcc.h"
#include "kcc/report/report_formats.h"
#include "kcc/rl/dialect.h"
#include "tests/faults/inputs.h"

namespace kcc::faults {
namespace {

constexpr int kRows = 4, kColumns = 8, kVocab = 8;
const char* const kRequests = "{\"id\": \"a\", \"tags\": [\"odd\"]}\n{\"id\": \"b\"}\n";
const char* const kPolicy =
    "apiVersion: kcc/v1\nkind: MonitorPolicy\nmetadata: {name: pool, version: 1.0.0}\nspec:\n"
    "  falseAlarms: 1 per 10^6 requests\n  panic: serve-safest\n  audit: {sessionFilter: 1KiB}\n"
    "  kernels: [{name: fast, role: infer}, {name: safe, role: fallback}]\n";
const size_t kPolicySize = std::string_view(kPolicy).size();
const char* const kObserved =
    R"({"time_ms": 1, "request": "r1", "kernel": "fast", "audited": true, "train": {},)"
    R"( "tokens": {"position": [0, 1], "kl": [0.25, 9], "abs_log_ratio": [0.1, 3]}})";
const char* const kRule =
    R"({"weight": {"mode": "truncate", "high": 1.01}, "reject": [{"statistic": "ratio",)"
    R"( "aggregate": "token", "low": 0.5, "high": 2}]})";

// What the calls are made with, and what they make.
struct World {
  World();
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void ClearMade();

  // Inputs that no call changes.
  std::string contract_text, contract_path, summary_path, out_path;
  std::array<std::string, 2> traces;
  kcc_contract* contract = nullptr;
  kcc_summary* summary = nullptr;
  kcc_summary* other_summary = nullptr;
  kcc_rl_summary* rl_summary = nullptr;
  kcc_rl_dialect* dialect = nullptr;
  kcc_rl_dump* dump = nullptr;
  kcc_monitor* monitor = nullptr;  // has folded one observation
  std::string summary_bytes, rl_bytes, monitor_bytes;
  std::array<float, kRows * kColumns> train{}, rollout{};
  std::array<float, kRows * kVocab> train_logits{}, infer_logits{};
  std::array<int64_t, 2> first{}, counts{};
  std::array<int32_t, kRows> slice_of_row = {0, 1, 0, 1};
  std::array<const char*, 2> slice_names = {"code", "math"};
  kcc_rl_batch batch{};
  kcc_arrays logprobs{}, logits{};

  // What a call changes or makes.
  kcc_summary* into = nullptr;
  kcc_rl_summary* rl_into = nullptr;
  kcc_text text{};
  kcc_contract* made_contract = nullptr;
  kcc_summary* made_summary = nullptr;
  kcc_rl_summary* made_rl_summary = nullptr;
  kcc_rl_dialect* made_dialect = nullptr;
  kcc_rl_dump* made_dump = nullptr;
  kcc_rl_batch made_batch{};
  kcc_monitor* made_monitor = nullptr;
  const double* values = nullptr;
  std::array<float, kRows * kColumns> weights{};
  std::array<uint8_t, kRows * kColumns> mask{};
};

std::string TakeText(kcc_status status, kcc_text* text) {
  if (status != KCC_OK) std::abort();  // without a fault
  std::string bytes(text->data, text->size);
  kcc_text_free(text);
  return bytes;
}

std::string Encoded(const kcc_summary* summary) {
  kcc_text text{};
  return TakeText(kcc_summary_encode(summary, &text), &text);
}

std::string Encoded(const kcc_rl_summary* summary) {
  kcc_text text{};
  return TakeText(kcc_rl_summary_encode(summary, &text), &text);
}

void Must(kcc_status status) {
  if (status != KCC_OK) {
    std::fprintf(stderr, "%s\n", kcc_error());
    std::abort();
  }
}

World::World() {
  const Inputs& at = TheInputs();
  contract_path = at.In("contract.yaml");
  contract_text = ReadBytes(contract_path);
  summary_path = at.In("part1.kccs");
  out_path = at.out() + "/made.kccs";
  traces = {at.In("train"), at.In("infer")};
  Must(kcc_contract_read(contract_path.c_str(), &contract));
  Must(kcc_summary_read(summary_path.c_str(), &summary));
  Must(kcc_summary_read(at.In("part2.kccs").c_str(), &other_summary));
  summary_bytes = Encoded(summary);
  for (size_t i = 0; i < train.size(); ++i) {
    rollout[i] = -1.0f - 0.1f * static_cast<float>(i % kColumns);
    train[i] = rollout[i] + 0.01f * static_cast<float>(i % 3);
  }
  for (size_t i = 0; i < train_logits.size(); ++i) {
    train_logits[i] = static_cast<float>(i % 5);
    infer_logits[i] = train_logits[i] + 0.01f * static_cast<float>(i % 3);
  }
  batch.struct_size = sizeof batch;
  batch.rows = kRows;
  batch.columns = kColumns;
  batch.train = {train.data(), KCC_F32, 0};
  batch.rollout = {rollout.data(), KCC_F32, 0};
  batch.slice_of_row = slice_of_row.data();
  batch.slice_names = slice_names.data();
  batch.slice_count = 2;
  first = {0, 2};
  counts = {2, 2};
  for (kcc_arrays* arrays : {&logprobs, &logits}) {
    arrays->struct_size = sizeof(kcc_arrays);
    arrays->rows = kRows;
    arrays->temperature = 1.0;
    arrays->requests_jsonl = kRequests;
    arrays->requests_jsonl_size = std::string_view(kRequests).size();
    arrays->requests = 2;
    arrays->first_rows = first.data();
    arrays->row_counts = counts.data();
  }
  logprobs.train_logprobs = {train.data(), KCC_F32, 0};
  logprobs.infer_logprobs = {rollout.data(), KCC_F32, 0};
  logits.vocab_size = kVocab;
  logits.train_logits = {train_logits.data(), KCC_F32, 0};
  logits.infer_logits = {infer_logits.data(), KCC_F32, 0};
  Must(kcc_rl_summary_new(&rl_summary));
  Must(kcc_rl_summary_add(rl_summary, &batch, 1));
  rl_bytes = Encoded(rl_summary);
  Must(kcc_rl_dialect_run("verl", nullptr, &batch, R"({"rollout_is": "token"})", &dialect));
  const char* paths[] = {traces[0].c_str(), traces[1].c_str()};
  Must(kcc_rl_dump_read(paths, 2, "tags", &dump));
  Must(kcc_monitor_new(contract, kPolicy, kPolicySize, nullptr, nullptr, &monitor));
  kcc_text decision{}, saved{};
  Must(kcc_monitor_observe(monitor, kObserved, std::string_view(kObserved).size(), &decision));
  kcc_text_free(&decision);
  monitor_bytes = TakeText(kcc_monitor_save(monitor, &saved), &saved);
}

World::~World() {
  ClearMade();
  kcc_contract_free(contract);
  kcc_summary_free(summary);
  kcc_summary_free(other_summary);
  kcc_rl_summary_free(rl_summary);
  kcc_rl_dialect_free(dialect);
  kcc_rl_dump_free(dump);
  kcc_monitor_free(monitor);
}

void World::ClearMade() {
  kcc_text_free(&text);
  kcc_contract_free(made_contract);
  kcc_summary_free(made_summary);
  kcc_rl_summary_free(made_rl_summary);
  kcc_rl_dialect_free(made_dialect);
  kcc_rl_dump_free(made_dump);
  kcc_summary_free(into);
  kcc_rl_summary_free(rl_into);
  made_contract = nullptr;
  made_summary = into = nullptr;
  made_rl_summary = rl_into = nullptr;
  made_dialect = nullptr;
  made_dump = nullptr;
  kcc_monitor_free(made_monitor);
  made_monitor = nullptr;
  made_batch = {};
  made_batch.struct_size = sizeof made_batch;
  values = nullptr;
  weights = {};
  mask = {};
}

using Call = std::function<kcc_status(World&)>;

class CallSubject final : public Subject {
 public:
  explicit CallSubject(Call call) : call_(std::move(call)) {}

  void Reset() override {
    std::error_code ignored;
    std::filesystem::remove(world_.out_path, ignored);
    world_.ClearMade();
    Must(
        kcc_summary_decode(world_.summary_bytes.data(), world_.summary_bytes.size(), &world_.into));
    Must(kcc_rl_summary_decode(world_.rl_bytes.data(), world_.rl_bytes.size(), &world_.rl_into));
  }

  void Run() override { status_ = call_(world_); }

  Outcome Take() override {
    Outcome outcome;
    outcome.code = status_;
    outcome.failed = status_ != KCC_OK;
    if (outcome.failed) outcome.message = kcc_error();
    const World& w = world_;
    const bool made = w.text.data != nullptr || w.made_contract || w.made_summary ||
                      w.made_rl_summary || w.made_dialect || w.made_dump || w.made_monitor ||
                      w.values;
    if (outcome.failed && made) outcome.broken = "failed, but an output was touched";
    outcome.results = FilesOf(TheInputs().out());
    outcome.results["into"] = Encoded(w.into);
    outcome.results["rl into"] = Encoded(w.rl_into);
    if (outcome.failed &&
        (outcome.results["into"] != w.summary_bytes || outcome.results["rl into"] != w.rl_bytes)) {
      outcome.broken = "failed, but the handle has changed";
    }
    if (w.text.data != nullptr) outcome.results["text"] = std::string(w.text.data, w.text.size);
    if (w.made_summary != nullptr) outcome.results["summary"] = Encoded(w.made_summary);
    if (w.made_rl_summary != nullptr) outcome.results["rl summary"] = Encoded(w.made_rl_summary);
    return outcome;
  }

  std::map<std::string, std::string> Before() const override {
    return {{"into", world_.summary_bytes}, {"rl into", world_.rl_bytes}};
  }

 private:
  World world_;
  Call call_;
  kcc_status status_ = KCC_OK;
};

void Add(std::vector<Case>* cases, const std::string& name, Call call) {
  cases->push_back(
      {name, [call = std::move(call)] { return std::make_unique<CallSubject>(call); }});
}

void AddContractsAndSummaries(std::vector<Case>* cases) {
  Add(cases, "kcc_contract_parse", [](World& w) {
    return kcc_contract_parse(w.contract_text.data(), w.contract_text.size(), "c.yaml",
                              &w.made_contract);
  });
  Add(cases, "kcc_contract_parse of a mistake", [](World& w) {
    return kcc_contract_parse("apiVersion: kcc/v1\nkind: KernelContact\n", 38, nullptr,
                              &w.made_contract);
  });
  Add(cases, "kcc_contract_read",
      [](World& w) { return kcc_contract_read(w.contract_path.c_str(), &w.made_contract); });
  Add(cases, "kcc_contract_json", [](World& w) { return kcc_contract_json(w.contract, &w.text); });
  Add(cases, "kcc_contract_check", [](World& w) {
    return kcc_contract_check(w.contract_text.data(), w.contract_text.size(), nullptr, &w.text);
  });
  for (const int threads : {1, 3}) {
    const std::string suffix = ", threads " + std::to_string(threads);
    Add(cases, "kcc_measure_traces" + suffix, [threads](World& w) {
      return kcc_measure_traces(w.traces[0].c_str(), w.traces[1].c_str(), w.contract, threads,
                                &w.made_summary);
    });
    Add(cases, "kcc_measure_arrays of log-probs" + suffix, [threads](World& w) {
      return kcc_measure_arrays(&w.logprobs, w.contract, threads, &w.made_summary);
    });
    Add(cases, "kcc_measure_arrays of logits" + suffix, [threads](World& w) {
      return kcc_measure_arrays(&w.logits, w.contract, threads, &w.made_summary);
    });
  }
  Add(cases, "kcc_measure_begin and kcc_measure_finish", [](World& w) {
    kcc_measurement* measurement = nullptr;
    kcc_status status = kcc_measure_begin(&w.logits, w.contract, 2, &measurement);
    if (status == KCC_OK) status = kcc_measure_finish(measurement, &w.made_summary);
    kcc_measurement_free(measurement);
    return status;
  });
  Add(cases, "kcc_summary_backends",
      [](World& w) { return kcc_summary_backends(w.summary, &w.text); });
  Add(cases, "kcc_summary_merge",
      [](World& w) { return kcc_summary_merge(w.into, w.other_summary); });
  Add(cases, "kcc_summary_merge of the same", [](World& w) {
    return kcc_summary_merge(w.into, w.summary);  // refused
  });
  Add(cases, "kcc_summary_encode", [](World& w) { return kcc_summary_encode(w.summary, &w.text); });
  Add(cases, "kcc_summary_decode", [](World& w) {
    return kcc_summary_decode(w.summary_bytes.data(), w.summary_bytes.size(), &w.made_summary);
  });
  Add(cases, "kcc_summary_read",
      [](World& w) { return kcc_summary_read(w.summary_path.c_str(), &w.made_summary); });
  Add(cases, "kcc_summary_read of no file",
      [](World& w) { return kcc_summary_read("/no/such/file", &w.made_summary); });
  Add(cases, "kcc_summary_write",
      [](World& w) { return kcc_summary_write(w.summary, w.out_path.c_str()); });
  Add(cases, "kcc_summary_tokens", [](World& w) {
    return kcc_summary_tokens(w.summary) > 0 && kcc_summary_requests(w.summary) > 0 ? KCC_OK
                                                                                    : KCC_INTERNAL;
  });
  for (const ReportFormat& row : ReportFormats()) {
    const char* format = row.name.data();
    Add(cases, std::string("kcc_judge ") + format, [format](World& w) {
      return kcc_judge(w.contract, w.summary, nullptr, nullptr, format, &w.text);
    });
  }
  Add(cases, "kcc_bound",
      [](World& w) { return kcc_bound(R"({"linf": 0.05, "reward_max": 1})", &w.text); });
}

void AddMonitor(std::vector<Case>* cases) {
  Add(cases, "kcc_monitor_new", [](World& w) {
    return kcc_monitor_new(w.contract, kPolicy, kPolicySize, nullptr, nullptr, &w.made_monitor);
  });
  // A monitor of its own: where memory runs out it is torn, says so, and takes nothing more.
  Add(cases, "kcc_monitor_observe", [](World& w) {
    kcc_monitor* monitor = nullptr;
    kcc_status status =
        kcc_monitor_new(w.contract, kPolicy, kPolicySize, nullptr, nullptr, &monitor);
    if (status == KCC_OK) {
      status = kcc_monitor_observe(monitor, kObserved, std::string_view(kObserved).size(), &w.text);
    }
    kcc_monitor_free(monitor);
    return status;
  });
  Add(cases, "kcc_monitor_observe_tokens", [](World& w) {
    const std::array<double, 2> kl = {0.25, 9};
    const kcc_column column = {"kl", kl.data(), nullptr};
    kcc_observation observation{};
    observation.struct_size = sizeof observation;
    observation.kernel = "fast";
    observation.audited = 1;
    observation.infer_request = observation.train_request = R"({"id": "r1"})";
    observation.rows = kl.size();
    observation.columns = &column;
    observation.column_count = 1;
    kcc_monitor* monitor = nullptr;
    kcc_status status =
        kcc_monitor_new(w.contract, kPolicy, kPolicySize, nullptr, nullptr, &monitor);
    if (status == KCC_OK) status = kcc_monitor_observe_tokens(monitor, &observation, &w.text);
    kcc_monitor_free(monitor);
    return status;
  });
  Add(cases, "kcc_monitor_save", [](World& w) { return kcc_monitor_save(w.monitor, &w.text); });
  Add(cases, "kcc_monitor_restore", [](World& w) {
    return kcc_monitor_restore(w.contract, kPolicy, kPolicySize, nullptr, nullptr,
                               w.monitor_bytes.data(), w.monitor_bytes.size(), &w.made_monitor);
  });
  Add(cases, "kcc_monitor_should_audit", [](World& w) {
    int audit = -1;
    return kcc_monitor_should_audit(w.monitor, "r2", "session", "fast", 2, &audit);
  });
  Add(cases, "kcc_monitor_status", [](World& w) { return kcc_monitor_status(w.monitor, &w.text); });
  Add(cases, "kcc_measure_finish_tokens and kcc_tokens_observation", [](World& w) {
    kcc_measurement* measurement = nullptr;
    kcc_tokens* tokens = nullptr;
    kcc_summary* summary = nullptr;
    kcc_observation observation{};
    observation.struct_size = sizeof observation;
    kcc_status status = kcc_measure_begin(&w.logits, w.contract, 2, &measurement);
    if (status == KCC_OK) status = kcc_measure_finish_tokens(measurement, &summary, &tokens);
    if (status == KCC_OK) status = kcc_tokens_observation(tokens, 1, &observation);
    if (status == KCC_OK) std::swap(summary, w.made_summary);
    kcc_summary_free(summary);
    kcc_tokens_free(tokens);
    kcc_measurement_free(measurement);
    return status;
  });
}

void AddRl(std::vector<Case>* cases) {
  Add(cases, "kcc_rl_summary_new", [](World& w) { return kcc_rl_summary_new(&w.made_rl_summary); });
  for (const int threads : {1, 3}) {
    const std::string suffix = ", threads " + std::to_string(threads);
    Add(cases, "kcc_rl_summary_add" + suffix,
        [threads](World& w) { return kcc_rl_summary_add(w.rl_into, &w.batch, threads); });
    Add(cases, "kcc_rl_correct" + suffix, [threads](World& w) {
      return kcc_rl_correct(&w.batch, kRule, threads, w.weights.data(), w.mask.data(), &w.text);
    });
    Add(cases, "kcc_rl_step" + suffix, [threads](World& w) {
      return kcc_rl_step(w.rl_into, &w.batch, kRule, threads, w.weights.data(), w.mask.data(),
                         &w.text);
    });
    Add(cases, "kcc_rl_replay" + suffix,
        [threads](World& w) { return kcc_rl_replay(&w.batch, threads, "json", &w.text); });
    Add(cases, "kcc_rl_lint_correction" + suffix,
        [threads](World& w) { return kcc_rl_lint_correction(&w.batch, kRule, threads, &w.text); });
  }
  Add(cases, "kcc_rl_summary_merge",
      [](World& w) { return kcc_rl_summary_merge(w.rl_into, w.rl_summary); });
  Add(cases, "kcc_rl_summary_encode",
      [](World& w) { return kcc_rl_summary_encode(w.rl_summary, &w.text); });
  Add(cases, "kcc_rl_summary_decode", [](World& w) {
    return kcc_rl_summary_decode(w.rl_bytes.data(), w.rl_bytes.size(), &w.made_rl_summary);
  });
  Add(cases, "kcc_rl_summary_figures",
      [](World& w) { return kcc_rl_summary_figures(w.rl_summary, 0.95, &w.text); });
  Add(cases, "kcc_rl_summary_judge", [](World& w) {
    return kcc_rl_summary_judge(w.rl_summary, R"({"token.tv": 0.01})", 0.95, &w.text);
  });
  Add(cases, "kcc_rl_lint", [](World& w) { return kcc_rl_lint(&w.batch, &w.text); });
  Add(cases, "kcc_rl_replay html",
      [](World& w) { return kcc_rl_replay(&w.batch, 1, "html", &w.text); });
  for (const Dialect* dialect : Dialects()) {
    const std::string id(dialect->id);
    Add(cases, "kcc_rl_dialect_run " + id, [id](World& w) {
      return kcc_rl_dialect_run(id.c_str(), nullptr, &w.batch, nullptr, &w.made_dialect);
    });
  }
  Add(cases, "kcc_rl_dialect_metrics",
      [](World& w) { return kcc_rl_dialect_metrics(w.dialect, &w.text); });
  Add(cases, "kcc_rl_dialect_array", [](World& w) {
    return kcc_rl_dialect_array(w.dialect, "weights", &w.values, nullptr, nullptr);
  });
  Add(cases, "kcc_rl_dialect_array of no name", [](World& w) {
    return kcc_rl_dialect_array(w.dialect, "no such array", &w.values, nullptr, nullptr);
  });
  const std::vector<std::string> dumps = {
      "examples/rl/step.safetensors", "examples/rl/tempered.npz",
      "tests/data/import/vexact/all_logprobs.pt", "tests/data/rl/token_exports/step_7"};
  for (const std::string& path : dumps) {
    Add(cases, "kcc_rl_dump_read " + path, [path](World& w) {
      const char* paths[] = {path.c_str()};
      return kcc_rl_dump_read(paths, 1, nullptr, &w.made_dump);
    });
  }
  Add(cases, "kcc_rl_dump_read of traces", [](World& w) {
    const char* paths[] = {w.traces[0].c_str(), w.traces[1].c_str()};
    return kcc_rl_dump_read(paths, 2, "tags", &w.made_dump);
  });
  Add(cases, "kcc_rl_dump_batch",
      [](World& w) { return kcc_rl_dump_batch(w.dump, &w.made_batch); });
}

}  // namespace

std::vector<Case> CCases() {
  std::vector<Case> cases;
  AddContractsAndSummaries(&cases);
  AddMonitor(&cases);
  AddRl(&cases);
  return cases;
}

}  // namespace kcc::faults
