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
