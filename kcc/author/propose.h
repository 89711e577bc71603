// A contract proposed: thresholds from conforming evidence, from what is tolerated (the inverse
// bounds) and from source envelopes, each with its origin in the clause's `why`.
//
// Evidence gives alarms (what this pair keeps to, times a margin: L2), bounds give guarantees (L3),
// envelopes ceilings (L1). A tolerated flip rate is a clause of its own (L3); the margins of the
// evidence give a span within which it is kept whatever the drift does (L2), if the evidence keeps
// to that. Thresholds from evidence are rounded to two digits on the looser side, those from bounds
// and margins to four on the tighter one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/bounds/chain.h"
#include "kcc/bounds/envelope.h"
#include "kcc/contract/contract.h"
#include "kcc/summary/summary.h"

namespace kcc {

struct EnvelopeInput {
  ModelDescription model;
  KernelDescription train;
  KernelDescription infer;
  std::string origin;  // "model.safetensors, 2 layers"
};

struct AuthorInput {
  std::string name = "proposed";
  std::string version = "0.1.0";
  std::string owner;
  double margin = 1.5;       // at least 1
  double confidence = 0.95;  // in [0.5, 1)
  BoundAssumptions assumptions;
  std::optional<double> reward_drift;
  std::optional<double> gradient_bias;
  std::optional<double> flip_rate;       // in (0, 1)
  std::vector<const Summary*> evidence;  // each measured by ProbeContract's plan, or any other
  std::optional<EnvelopeInput> envelope;
};

// The contract whose plan keeps what thresholds are proposed from; its own mean nothing.
const Contract& ProbeContract();

struct ProposedClause {
  std::string id;
  std::string origin;  // "evidence", "bound", "tolerance", "margins" or "envelope"
};

struct AuthoredContract {
  std::string yaml;
  Contract contract;
  std::vector<ProposedClause> clauses;  // in the contract's order
  std::vector<std::string> notes;       // what could not be proposed, and why
};

// Fails where nothing at all can be proposed, and where a tolerated cost lacks its assumptions.
Result<AuthoredContract> ProposeContract(const AuthorInput& input);

// The value with `digits` significant decimals, rounded up (down): never below (above) it.
double RoundedUp(double value, int digits);
double RoundedDown(double value, int digits);

}  // namespace kcc
