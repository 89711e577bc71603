// What the opaque handles of include/kcc.h hold.
#pragma once

#include <string>

#include "include/kcc.h"
#include "kcc/contract/contract.h"
#include "kcc/rl/diagnostics.h"
#include "kcc/rl/dialect.h"
#include "kcc/rl/dump.h"
#include "kcc/summary/summary.h"

struct kcc_contract {
  std::string name;  // of the file, for reports
  kcc::Contract contract;
};

struct kcc_summary {
  kcc::Summary summary;
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
