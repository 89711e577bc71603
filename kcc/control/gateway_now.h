// A gateway at one moment, for whoever asks: what the status, the verdict and the metrics are
// written from. Plain data, gathered once for each answer, so that an answer agrees with itself.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/control/evaluator.h"
#include "kcc/control/history.h"
#include "kcc/control/otlp.h"
#include "kcc/gateway/gateway_core.h"
#include "kcc/plane/plane.h"
#include "kcc/rescore/rescorer.h"

namespace kcc {

struct DocumentName {
  std::string name, version, digest;
};

// What holds as long as the process runs.
struct GatewayFacts {
  DocumentName config, contract, policy;
  Contract contract_document;
  std::string kcc_version;
  std::string model;
  std::string store;  // what of requests is kept: a word
  std::string url, admin_url;
  std::string log_path;  // of decisions
  std::string contract_path, policy_path;
  Stage stage = Stage::kFull;
  int64_t started_ms = 0;
};

struct KernelCountsNow {
  std::string name, fingerprint;
  uint64_t sent = 0, answered = 0, failed = 0, cut = 0, sampled = 0, dropped = 0, strangers = 0;
  uint64_t unasked = 0, mirrored = 0;
  std::array<uint64_t, 6> by_status{};
};
struct CountsNow {
  uint64_t came = 0, refused = 0, own = 0, retried = 0, left = 0, under_way = 0, unauditable = 0;
  uint64_t bytes_in = 0, bytes_out = 0;
  std::vector<KernelCountsNow> kernels;  // of the pool, in its order

  uint64_t sampled() const;
  uint64_t dropped() const;
  uint64_t unasked() const;
  // Sampled requests whose evidence was to be of each kernel, by its name.
  std::map<std::string, uint64_t> Offered() const;
};
CountsNow CountsOf(const GatewayCore& core);

// The promotion that drives the canary, as the register has it.
struct PromotionNow {
  std::string id, phase, reason;
  double share = 0;
  std::vector<std::string> missing;
  std::string error;  // why it is not known; empty: it is
};

// The gateways at one register in PostgreSQL, as this one sees them.
struct PeerNow {
  std::string gateway, instance;
  int64_t age_ms = 0;  // since it was heard of
};
struct PeersNow {
  bool decides = false;            // this one does
  std::string gateway;             // that decides
  std::string instance;            // of it
  std::string self;                // instance of this one
  int64_t term = 0;                // how often one began to decide
  int64_t since_ms = 0;            // it has been like that
  int64_t event = 0;               // of the register, with the route in force
  std::string error;               // why the register was not read or written; empty: it was
  std::string held;                // why nothing is released and no share grows; empty: both may be
  std::vector<PeerNow> followers;  // of the one that decides
  uint64_t waiting = 0, lost = 0;  // own evidence that waits for the register, or found no room
};

struct GatewayNow {
  std::shared_ptr<const GatewayFacts> facts;
  int64_t at_ms = 0;
  std::shared_ptr<const EvaluatorView> view;
  double silent_s = 0, lag_s = 0;
  bool silent = false;
  size_t queued = 0;
  CountsNow counts;
  double requests_per_second = 0;
  RescoreCounts scorer;
  PlaneCounts plane;
  std::optional<PromotionNow> promotion;
  std::vector<HistoryEntry> history;  // the latest, oldest first
  std::vector<RiskSample> risk;
  std::optional<OtlpCounts> otlp;  // none: nothing is exported
  uint64_t event_errors = 0;
  std::map<std::string, std::string> builds;  // of each kernel, as far as it tells
  std::optional<PeersNow> peers;              // none: this gateway shares its register with nobody
  std::string register_warning;               // RegisterLink::warning
  std::string register_error;                 // why it was not read or written; empty: it was

  const KernelStatus* FindKernel(const std::string& name) const;
  const KernelCountsNow* FindCounts(const std::string& name) const;
  EvidenceAge EvidenceOf(const std::string& kernel) const;
};

// "running", "silent" past its lease, or "log-failed"; of a gateway that follows, of the one that
// decides.
std::string_view EvaluatorState(const GatewayNow& now);

// docs/gateway-api.md.
std::string StatusJson(const GatewayNow& now);
std::string HealthJson(const GatewayNow& now);

// About one kernel of the pool: the one that a rollout is about. Never *satisfied* but on evidence
// of that kernel that is in the log, from an evaluator that lives.
struct VerdictAsked {
  std::string contract;  // empty: the gateway's
  std::string stage;     // empty: the gateway's
  std::string kernel;    // empty: the canary, else the shadow, else the first of role infer
};
struct VerdictGiven {
  Verdict verdict = Verdict::kError;
  std::string json;
};
VerdictGiven VerdictOf(const GatewayNow& now, const VerdictAsked& asked);

// Gauges of evaluator and scorer, in Prometheus' text form; what is counted on the path of requests
// is in gateway/gateway_metrics.h.
std::string ControlMetrics(const GatewayNow& now);

}  // namespace kcc
