// From what was judged to the events that record it: the model, the kernels, the contract and the
// triple, as far as the register lacks them, and the evaluation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/judge/verdict.h"
#include "kcc/register/register.h"
#include "kcc/summary/summary.h"

namespace kcc {

struct Triple {
  std::string model;
  std::string train;  // fingerprints
  std::string infer;
  std::string contract;  // digest
};

// SHA-256 of its canonical JSON: the same four things are the same triple everywhere.
std::string TripleId(const Triple& triple);
NewEvent TripleAdded(const Triple& triple, const std::string& actor, int64_t time_ms);

// What a kernel says of its build: engine, version, compiler, attention, quantisation and hardware,
// under these names or near ones ("quantization", "gpu"). The rest stands under `declares`.
NewEvent KernelAdded(const std::string& fingerprint,
                     const std::map<std::string, std::string>& declares, const std::string& actor,
                     int64_t time_ms);

// The contract with its canonical form, whose digest is the contract's, and its source text.
struct ContractEvent {
  NewEvent event;
  std::vector<std::string> blobs;
};
ContractEvent ContractAdded(const Contract& contract, const std::string& source,
                            const std::string& actor, int64_t time_ms);

// A request that a run keeps, to be run again (docs/replay.md).
struct RequestToKeep {
  std::string id;
  std::string store;   // "hashes" or "full"
  std::string record;  // its bytes; their digest is the entry's id
};

struct JudgedRun {
  const Contract& contract;
  std::string contract_source;
  const Summary& summary;
  const Judgement& judgement;
  std::string report;  // report.json
  std::string model;   // empty: what the traces say
  std::string kcc_version;
  std::string actor;
  int64_t time_ms = 0;
  std::vector<RequestToKeep> requests = {};
  std::optional<int64_t> requests_retention_ms = {};
  // What summary and report hold of single requests: "none", "hashes" or "full" (redaction.h);
  // empty: not said.
  std::string requests_kept = {};
  std::string live = {};       // JSON: how a gateway measured it; empty: it is of no live traffic
  std::string statement = {};  // an envelope about the evaluation (statements.h); empty: none
};

// The model, the kernels and the contract that a run is of; kInvalid where the evidence does not
// say. Fails as RecordRun does.
Result<Triple> TripleOf(const JudgedRun& run);

// The events of a judged run that the register does not hold yet, and the evaluation. Fails with
// kInvalid where the evidence does not say which model or which one pair of kernels it is of.
// Requests are added where the register does not hold the same record, or holds it for longer. The
// evaluation is the last event. `warning` gets a sentence where a kernel's fingerprint stands for
// another build in the register.
Result<Batch> RecordRun(Register& target, const JudgedRun& run, std::string* warning);

}  // namespace kcc
