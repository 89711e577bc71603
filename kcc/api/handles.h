// What the opaque handles of include/kcc.h hold.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "include/kcc.h"
#include "kcc/api/guard.h"
#include "kcc/contract/contract.h"
#include "kcc/measure/measure_arrays.h"
#include "kcc/monitor/monitor.h"
#include "kcc/monitorlog/observation_json.h"
#include "kcc/rl/diagnostics.h"
#include "kcc/rl/dialect.h"
#include "kcc/rl/dump.h"
#include "kcc/summary/summary.h"
#include "kcc/trace/requests.h"

struct kcc_contract {
  std::string name;  // of the file, for reports
  kcc::Contract contract;
};

struct kcc_summary {
  kcc::Summary summary;
};

// The measurement points to the requests.
struct kcc_measurement {
  std::vector<kcc::Request> requests;
  std::optional<kcc::ArrayMeasurement> measurement;  // none: finished
};

// The columns and names point into the tokens.
struct kcc_tokens {
  std::vector<std::string> records;  // JSON, by request
  std::vector<kcc::ObservedTokens> requests;
  std::vector<std::string> slot_names;
  std::vector<std::vector<kcc_column>> columns;  // by request
};

// The reader points to the metrics.
struct kcc_monitor {
  explicit kcc_monitor(kcc::Monitor made)
      : monitor(std::move(made)), own(monitor.contract().own_rows()), reader(own) {}

  kcc::Monitor monitor;
  const std::vector<const kcc::Quantity*> own;  // of the contract
  kcc::ObservationReader reader;
  // An observation was not folded to its end, since memory ran out: the state is neither the one
  // before it nor the one after it.
  bool torn = false;
};

struct kcc_rl_summary {
  kcc::RlSummary summary;
};

struct kcc_rl_dialect {
  kcc::DialectResult result;
};

// The batch and the names point into the dump.
struct kcc_rl_dump {
  kcc::RlDump dump;
  kcc::RlBatch batch;
  std::vector<const char*> slice_names;
};

namespace kcc::api {

// A handle of the summary, or its error.
inline Result<> GiveSummary(Result<Summary> summary, kcc_summary** out) {
  KCC_TRY_VOID(RequirePointer(out, "out"));
  if (!summary) return std::move(summary.error());
  *out = std::make_unique<kcc_summary>(kcc_summary{std::move(*summary)}).release();
  return {};
}

}  // namespace kcc::api
