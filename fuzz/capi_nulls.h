// Every function of the C interface with NULL wherever a pointer must be: refused as the caller's
// mistake, with nothing written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "include/kcc.h"

namespace kcc {

[[noreturn]] inline void NullsBroken(const char* what) {
  std::fprintf(stderr, "%s; last error: %s\n", what, kcc_error());
  std::abort();
}

// Every call must have been the caller's mistake.
inline void CheckRefused(const char* what, std::span<const kcc_status> refused) {
  size_t number = 0;
  for (const kcc_status status : refused) {
    ++number;
    if (status == KCC_INVALID) continue;
    std::fprintf(stderr, "call %zu of %s was not refused: %d\n", number, what, status);
    NullsBroken("NULL was not refused");
  }
}

inline void CheckUnwritten(bool unwritten) {
  if (!unwritten) NullsBroken("a failed call wrote its output");
}

inline void CheckContractNulls(const kcc_contract* contract, const kcc_summary* summary) {
  kcc_contract* no_contract = nullptr;
  kcc_text text{};
  constexpr char kYaml[] = "kind: KernelContract\n";
  const kcc_status refused[] = {
      kcc_contract_parse(nullptr, 1, nullptr, &no_contract),
      kcc_contract_parse(kYaml, 1, nullptr, nullptr),
      kcc_contract_parse(kYaml, SIZE_MAX, nullptr, &no_contract),
      kcc_contract_read(nullptr, &no_contract),
      kcc_contract_read("", nullptr),
      kcc_contract_json(nullptr, &text),
      kcc_contract_json(contract, nullptr),
      kcc_contract_check(nullptr, 1, nullptr, &text),
      kcc_contract_check(kYaml, 1, nullptr, nullptr),
      kcc_judge(nullptr, summary, nullptr, nullptr, "json", &text),
      kcc_judge(contract, nullptr, nullptr, nullptr, "json", &text),
      kcc_judge(contract, summary, nullptr, nullptr, nullptr, &text),
      kcc_judge(contract, summary, nullptr, nullptr, "json", nullptr),
      kcc_bound(nullptr, &text),
      kcc_bound("{\"tv\": 0.1}", nullptr),
  };
  CheckRefused("contract and judge", refused);
  CheckUnwritten(no_contract == nullptr && text.data == nullptr);
}

inline void CheckMeasureNulls() {
  kcc_summary* no_summary = nullptr;
  kcc_measurement* no_measurement = nullptr;
  kcc_arrays arrays{};
  arrays.struct_size = sizeof arrays;
  const kcc_status refused[] = {
      kcc_measure_traces(nullptr, "", nullptr, 1, &no_summary),
      kcc_measure_traces("", nullptr, nullptr, 1, &no_summary),
      kcc_measure_arrays(nullptr, nullptr, 1, &no_summary),
      kcc_measure_arrays(&arrays, nullptr, 1, nullptr),
      kcc_measure_begin(nullptr, nullptr, 1, &no_measurement),
      kcc_measure_begin(&arrays, nullptr, 1, nullptr),
      kcc_measure_finish(nullptr, &no_summary),
      kcc_measure_traces_on(nullptr, "a", "b", nullptr, 1, &no_summary),
      kcc_device_load(nullptr, nullptr),
  };
  CheckRefused("measure", refused);
  CheckUnwritten(no_summary == nullptr && no_measurement == nullptr);
}

inline void CheckSummaryNulls(kcc_summary* summary) {
  kcc_summary* no_summary = nullptr;
  kcc_text text{};
  const kcc_status refused[] = {
      kcc_summary_backends(nullptr, &text),   kcc_summary_merge(nullptr, summary),
      kcc_summary_merge(summary, nullptr),    kcc_summary_encode(nullptr, &text),
      kcc_summary_encode(summary, nullptr),   kcc_summary_decode(nullptr, 1, &no_summary),
      kcc_summary_read(nullptr, &no_summary), kcc_summary_write(nullptr, "s.kccs"),
      kcc_summary_write(summary, nullptr),
  };
  CheckRefused("summary", refused);
  CheckUnwritten(no_summary == nullptr && text.data == nullptr);
}

inline void CheckRlSummaryNulls(kcc_rl_summary* rl) {
  kcc_rl_summary* no_summary = nullptr;
  kcc_rl_batch batch{};
  batch.struct_size = sizeof batch;
  kcc_text text{};
  const kcc_status refused[] = {
      kcc_rl_summary_new(nullptr),
      kcc_rl_summary_add(nullptr, &batch, 1),
      kcc_rl_summary_add(rl, nullptr, 1),
      kcc_rl_summary_merge(nullptr, rl),
      kcc_rl_summary_merge(rl, nullptr),
      kcc_rl_summary_encode(nullptr, &text),
      kcc_rl_summary_encode(rl, nullptr),
      kcc_rl_summary_decode(nullptr, 1, &no_summary),
      kcc_rl_summary_decode("", 0, nullptr),
      kcc_rl_summary_figures(nullptr, 0.95, &text),
      kcc_rl_summary_figures(rl, __builtin_nan(""), &text),
      kcc_rl_summary_figures(rl, 0.95, nullptr),
      kcc_rl_summary_judge(nullptr, "{}", 0.95, &text),
      kcc_rl_summary_judge(rl, nullptr, 0.95, &text),
      kcc_rl_summary_judge(rl, "{}", 1.0, &text),
      kcc_rl_summary_judge(rl, "{}", 0.95, nullptr),
  };
  CheckRefused("rl_summary", refused);
  CheckUnwritten(no_summary == nullptr && text.data == nullptr);
}

inline void CheckRlNulls(kcc_rl_summary* rl) {
  kcc_rl_dump* dump = nullptr;
  kcc_rl_dialect* dialect = nullptr;
  kcc_rl_batch batch{};
  batch.struct_size = sizeof batch;
  kcc_text text{};
  const double* values = nullptr;
  const char* const paths[] = {nullptr};
  const kcc_status refused[] = {
      kcc_rl_correct(nullptr, "{}", 1, nullptr, nullptr, nullptr),
      kcc_rl_correct(&batch, nullptr, 1, nullptr, nullptr, nullptr),
      kcc_rl_step(nullptr, &batch, "{}", 1, nullptr, nullptr, nullptr),
      kcc_rl_step(rl, nullptr, "{}", 1, nullptr, nullptr, nullptr),
      kcc_rl_step(rl, &batch, nullptr, 1, nullptr, nullptr, nullptr),
      kcc_rl_lint(nullptr, &text),
      kcc_rl_lint_correction(nullptr, "{}", 1, &text),
      kcc_rl_lint_correction(&batch, nullptr, 1, &text),
      kcc_rl_replay(nullptr, 1, "json", &text),
      kcc_rl_replay(&batch, 1, nullptr, &text),
      kcc_rl_dialect_run(nullptr, nullptr, &batch, nullptr, &dialect),
      kcc_rl_dialect_run("trl", nullptr, nullptr, nullptr, &dialect),
      kcc_rl_dialect_run("trl", nullptr, &batch, nullptr, nullptr),
      kcc_rl_dialect_metrics(nullptr, &text),
      kcc_rl_dialect_array(nullptr, "weights", &values, nullptr, nullptr),
      kcc_rl_dump_read(nullptr, 1, nullptr, &dump),
      kcc_rl_dump_read(paths, 1, nullptr, &dump),
      kcc_rl_dump_read(paths, 0, nullptr, nullptr),
      kcc_rl_dump_batch(nullptr, &batch),
  };
  CheckRefused("rl", refused);
  CheckUnwritten(dump == nullptr && dialect == nullptr && text.data == nullptr &&
                 values == nullptr);
}

inline void CheckMonitorNulls(const kcc_contract* contract) {
  constexpr char kPolicy[] =
      "apiVersion: kcc/v1\nkind: MonitorPolicy\nmetadata: {name: p, version: 1.0.0}\nspec:\n"
      "  falseAlarms: 1 per 10^6 requests\n  panic: serve-safest\n"
      "  kernels: [{name: a, role: infer}, {name: b, role: fallback}]\n";
  constexpr size_t kSize = sizeof kPolicy - 1;
  kcc_monitor* monitor = nullptr;
  kcc_monitor* no_monitor = nullptr;
  kcc_observation observation{};
  observation.struct_size = sizeof observation;
  kcc_summary* no_summary = nullptr;
  kcc_tokens* no_tokens = nullptr;
  kcc_text text{};
  int audit = -1;
  if (kcc_monitor_new(contract, kPolicy, kSize, nullptr, nullptr, &monitor) != KCC_OK) {
    NullsBroken("no monitor");
  }
  const kcc_status refused[] = {
      kcc_monitor_new(nullptr, kPolicy, kSize, nullptr, nullptr, &no_monitor),
      kcc_monitor_new(contract, nullptr, 1, nullptr, nullptr, &no_monitor),
      kcc_monitor_new(contract, kPolicy, SIZE_MAX, nullptr, nullptr, &no_monitor),
      kcc_monitor_new(contract, kPolicy, kSize, nullptr, nullptr, nullptr),
      kcc_monitor_restore(nullptr, kPolicy, kSize, nullptr, nullptr, "", 0, &no_monitor),
      kcc_monitor_restore(contract, nullptr, 1, nullptr, nullptr, "", 0, &no_monitor),
      kcc_monitor_restore(contract, kPolicy, kSize, nullptr, nullptr, nullptr, 0, &no_monitor),
      kcc_monitor_restore(contract, kPolicy, kSize, nullptr, nullptr, "", 0, nullptr),
      kcc_monitor_save(nullptr, &text),
      kcc_monitor_save(monitor, nullptr),
      kcc_monitor_status(nullptr, &text),
      kcc_monitor_status(monitor, nullptr),
      kcc_monitor_observe(nullptr, "{}", 2, &text),
      kcc_monitor_observe(monitor, nullptr, 2, &text),
      kcc_monitor_observe(monitor, "{}", 2, nullptr),
      kcc_monitor_observe_tokens(nullptr, &observation, &text),
      kcc_monitor_observe_tokens(monitor, nullptr, &text),
      kcc_monitor_observe_tokens(monitor, &observation, &text),
      kcc_monitor_observe_tokens(monitor, &observation, nullptr),
      kcc_monitor_should_audit(nullptr, "r", nullptr, "a", 0, &audit),
      kcc_monitor_should_audit(monitor, nullptr, nullptr, "a", 0, &audit),
      kcc_monitor_should_audit(monitor, "r", nullptr, nullptr, 0, &audit),
      kcc_monitor_should_audit(monitor, "r", nullptr, "a", 0, nullptr),
      kcc_measure_finish_tokens(nullptr, &no_summary, &no_tokens),
      kcc_tokens_observation(nullptr, 0, &observation),
  };
  CheckRefused("monitor", refused);
  CheckUnwritten(no_monitor == nullptr && text.data == nullptr && audit == -1 &&
                 no_summary == nullptr && no_tokens == nullptr);
  kcc_monitor_free(monitor);
  kcc_monitor_free(nullptr);
  kcc_tokens_free(nullptr);
}

inline void CheckNulls(const kcc_contract* contract, kcc_summary* summary) {
  kcc_rl_summary* rl = nullptr;
  if (kcc_rl_summary_new(&rl) != KCC_OK) NullsBroken("no summary");
  CheckContractNulls(contract, summary);
  CheckMeasureNulls();
  CheckSummaryNulls(summary);
  CheckRlSummaryNulls(rl);
  CheckRlNulls(rl);
  CheckMonitorNulls(contract);
  kcc_rl_summary_free(rl);
  kcc_contract_free(nullptr);
  kcc_summary_free(nullptr);
  kcc_measurement_free(nullptr);
  kcc_rl_summary_free(nullptr);
  kcc_rl_dialect_free(nullptr);
  kcc_rl_dump_free(nullptr);
  kcc_text_free(nullptr);
  if (kcc_summary_tokens(nullptr) != 0 || kcc_summary_requests(nullptr) != 0)
    NullsBroken("a count");
  if (kcc_abi_version() != KCC_ABI_VERSION || *kcc_version() == '\0') NullsBroken("no version");
}

}  // namespace kcc
