// The online monitor through the C interface.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kcc/api/document_errors.h"
#include "kcc/api/guard.h"
#include "kcc/api/handles.h"
#include "kcc/api/observation_arrays.h"
#include "kcc/api/sized.h"
#include "kcc/api/stage_name.h"
#include "kcc/contract/monitor_reader.h"
#include "kcc/contract/reader.h"
#include "kcc/monitorlog/status_json.h"

namespace kcc::api {
namespace {

Result<MonitorPolicy> PolicyOf(const char* yaml, size_t size, const char* name) {
  KCC_TRY_VOID(RequirePointer(yaml, "policy"));
  if (size > kContractBytesMax) return InvalidError("a monitor policy is at most 4 MiB");
  const std::string_view text(yaml, size);
  MonitorOutcome outcome = ReadMonitorPolicy(text);
  if (outcome.policy) return std::move(*outcome.policy);
  return InvalidError(JoinErrors(outcome.diagnostics, name == nullptr ? "policy" : name, text));
}

Result<MonitorOptions> OptionsOf(const char* stage) {
  MonitorOptions options;
  if (stage != nullptr) {
    KCC_TRY(options.stage, StageOf(stage));
  }
  return options;
}

Result<> GiveMonitor(Result<Monitor> monitor, kcc_monitor** out) {
  if (!monitor) return std::move(monitor.error());
  *out = std::make_unique<kcc_monitor>(std::move(*monitor)).release();
  return {};
}

Result<> RequireWhole(const kcc_monitor* monitor) {
  KCC_TRY_VOID(RequirePointer(monitor, "monitor"));
  if (!monitor->torn) return {};
  return InvalidError(
      "memory ran out while the monitor folded an observation; restore it from what was saved");
}

// `torn` holds from before the first change until the caller has the decision: whatever is thrown
// in between leaves it set.
Result<> Observe(kcc_monitor* monitor, const MonitorObservation& observation, kcc_text* out) {
  monitor->torn = true;
  const Result<MonitorDecision> decision = monitor->monitor.Observe(observation);
  if (!decision) {
    monitor->torn = false;  // refused before anything was changed
    return decision.error();
  }
  KCC_TRY_VOID(GiveText(DecisionJson(*decision), out));
  monitor->torn = false;
  return {};
}

}  // namespace
}  // namespace kcc::api

using kcc::InvalidError;
using kcc::Result;
using namespace kcc::api;

extern "C" {

kcc_status kcc_monitor_new(const kcc_contract* contract, const char* policy, size_t policy_size,
                           const char* policy_name, const char* stage, kcc_monitor** out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(out, "out"));
    KCC_TRY_VOID(RequirePointer(contract, "contract"));
    KCC_TRY(kcc::MonitorPolicy read, PolicyOf(policy, policy_size, policy_name));
    KCC_TRY(const kcc::MonitorOptions options, OptionsOf(stage));
    return GiveMonitor(kcc::Monitor::Make(contract->contract, std::move(read), options), out);
  });
}

kcc_status kcc_monitor_save(const kcc_monitor* monitor, kcc_text* out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequireWhole(monitor));
    return GiveText(monitor->monitor.Save(), out);
  });
}

kcc_status kcc_monitor_restore(const kcc_contract* contract, const char* policy, size_t policy_size,
                               const char* policy_name, const char* stage, const char* bytes,
                               size_t size, kcc_monitor** out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(out, "out"));
    KCC_TRY_VOID(RequirePointer(contract, "contract"));
    KCC_TRY_VOID(RequirePointer(bytes, "bytes"));
    KCC_TRY(kcc::MonitorPolicy read, PolicyOf(policy, policy_size, policy_name));
    KCC_TRY(const kcc::MonitorOptions options, OptionsOf(stage));
    return GiveMonitor(
        kcc::Monitor::Restore(contract->contract, std::move(read), {bytes, size}, options), out);
  });
}

void kcc_monitor_free(kcc_monitor* monitor) { delete monitor; }

kcc_status kcc_monitor_observe(kcc_monitor* monitor, const char* json, size_t size, kcc_text* out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequireWhole(monitor));
    KCC_TRY_VOID(RequirePointer(json, "json"));
    KCC_TRY_VOID(RequirePointer(out, "out"));
    KCC_TRY(const kcc::MonitorObservation made, monitor->reader.Read({json, size}));
    return Observe(monitor, made, out);
  });
}

kcc_status kcc_monitor_observe_tokens(kcc_monitor* monitor, const kcc_observation* observation,
                                      kcc_text* out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequireWhole(monitor));
    KCC_TRY_VOID(RequirePointer(out, "out"));
    KCC_TRY(const kcc::MonitorObservation made,
            ObservationOf(observation, monitor->monitor.contract()));
    return Observe(monitor, made, out);
  });
}

kcc_status kcc_monitor_should_audit(const kcc_monitor* monitor, const char* request,
                                    const char* session, const char* kernel, int64_t time_ms,
                                    int* out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequireWhole(monitor));
    KCC_TRY_VOID(RequirePointer(request, "request"));
    KCC_TRY_VOID(RequirePointer(kernel, "kernel"));
    KCC_TRY_VOID(RequirePointer(out, "out"));
    if (monitor->monitor.policy().FindKernel(kernel) == nullptr) {
      return InvalidError("kernel: the monitor policy lists no '" + std::string(kernel) + "'");
    }
    const std::string_view key = session == nullptr ? "" : session;
    *out = monitor->monitor.ShouldAudit(request, key, kernel, time_ms) ? 1 : 0;
    return {};
  });
}

kcc_status kcc_monitor_status(const kcc_monitor* monitor, kcc_text* out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequireWhole(monitor));
    kcc::JsonWriter json;
    kcc::WriteMonitorStatus(monitor->monitor.Status(), &json);
    return GiveText(json.Take(), out);
  });
}

kcc_status kcc_tokens_observation(const kcc_tokens* tokens, int64_t request,
                                  kcc_observation* observation) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(tokens, "tokens"));
    KCC_TRY_VOID(RequirePointer(observation, "observation"));
    const auto count = static_cast<int64_t>(tokens->requests.size());
    if (request < 0 || request >= count) {
      return InvalidError("request: " + std::to_string(request) + " of " + std::to_string(count));
    }
    const auto at = static_cast<size_t>(request);
    const kcc::ObservedTokens& from = tokens->requests[at];
    const auto ids = [](const std::vector<int32_t>& column) {
      return column.empty() ? nullptr : column.data();
    };
    kcc_observation made{};
    made.audited = 1;
    made.one_record = 1;
    made.infer_request = tokens->records[at].c_str();
    made.rows = static_cast<int64_t>(from.rows());
    made.masked = from.masked;
    made.positions = ids(from.position);
    made.tokens = ids(from.token);
    made.gold = ids(from.gold);
    made.infer_argmax = ids(from.argmax[0]);
    made.train_argmax = ids(from.argmax[1]);
    made.advantages = from.advantage.empty() ? nullptr : from.advantage.data();
    made.columns = tokens->columns[at].data();
    made.column_count = static_cast<int64_t>(tokens->columns[at].size());
    return GiveSized(made, kObservationFirstSize, "kcc_observation", observation);
  });
}

void kcc_tokens_free(kcc_tokens* tokens) { delete tokens; }

}  // extern "C"
