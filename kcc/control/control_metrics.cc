// What the evaluator and the scorer know, for Prometheus.
#include <string>

#include "kcc/base/strings.h"
#include "kcc/control/gateway_now.h"

namespace kcc {
namespace {

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Prometheus' words for what is not finite.
std::string Number(double value) {
  if (value != value) return "NaN";
  const std::string text = ShortestNumber(value);
  if (text == "inf") return "+Inf";
  return text == "-inf" ? "-Inf" : text;
}

class Metrics {
 public:
  Metrics& Begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ");
    text_.append(name).append(" ").append(type).append("\n");
    return *this;
  }
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;
  Metrics& Row(Labels labels, double value) {
    text_ += name_;
    std::string inside;
    for (const auto& [key, label] : labels) {
      inside.append(inside.empty() ? "" : ",").append(key).append("=\"");
      inside.append(Escaped(label)).append("\"");
    }
    if (!inside.empty()) text_.append("{").append(inside).append("}");
    text_.append(" ").append(Number(value)).append("\n");
    return *this;
  }
  Metrics& Row(Labels labels, uint64_t value) { return Row(labels, static_cast<double>(value)); }
  std::string Take() { return std::move(text_); }

 private:
  std::string name_, text_;
};

void WriteClauses(const GatewayNow& now, Metrics* out) {
  out->Begin("kcc_clause_state", "gauge", "1 for the verdict that a clause has on a slice");
  for (const KernelStatus& kernel : now.view->status.kernels) {
    for (const PairStatus& pair : kernel.pairs) {
      for (const Verdict verdict :
           {Verdict::kSatisfied, Verdict::kInconclusive, Verdict::kError, Verdict::kViolated}) {
        out->Row({{"clause", pair.clause},
                  {"slice", pair.slice},
                  {"side", pair.of_train ? "train" : "infer"},
                  {"kernel", kernel.name},
                  {"state", Name(verdict)}},
                 pair.verdict == verdict ? 1.0 : 0.0);
      }
    }
  }
  out->Begin("kcc_clause_level", "gauge", "How far the detectors are towards an alarm, 0 to 1");
  for (const KernelStatus& kernel : now.view->status.kernels) {
    for (const PairStatus& pair : kernel.pairs) {
      out->Row({{"clause", pair.clause},
                {"slice", pair.slice},
                {"side", pair.of_train ? "train" : "infer"},
                {"kernel", kernel.name}},
               pair.level);
    }
  }
}

void WriteKernels(const GatewayNow& now, Metrics* out) {
  const auto& kernels = now.view->status.kernels;
  out->Begin("kcc_health_score", "gauge", "H of a kernel; for people, actions come from verdicts");
  for (const KernelStatus& kernel : kernels) out->Row({{"kernel", kernel.name}}, kernel.health);
  out->Begin("kcc_route_weight", "gauge", "Share of new sessions that a kernel takes");
  for (const KernelStatus& kernel : kernels) {
    out->Row({{"kernel", kernel.name}}, now.view->plan.ShareOfKernel(kernel.name));
  }
  out->Begin("kcc_kernel_guarded", "gauge", "1 while a kernel must not serve");
  for (const KernelStatus& kernel : kernels) {
    out->Row({{"kernel", kernel.name}}, kernel.state == KernelState::kGuarded ? 1.0 : 0.0);
  }
  out->Begin("kcc_escalations_total", "counter", "Times that a kernel was guarded");
  for (const KernelStatus& kernel : kernels) {
    const auto guards = now.view->guards.find(kernel.name);
    out->Row({{"kernel", kernel.name}},
             guards == now.view->guards.end() ? uint64_t{0} : guards->second);
  }
  out->Begin("kcc_alarms_total", "counter", "Alarms of a kernel's clauses");
  for (const KernelStatus& kernel : kernels) {
    int64_t alarms = 0;
    for (const PairStatus& pair : kernel.pairs) alarms += pair.alarms;
    out->Row({{"kernel", kernel.name}}, static_cast<double>(alarms));
  }
  out->Begin("kcc_audited_total", "counter", "Audited requests that counted");
  for (const KernelStatus& kernel : kernels) {
    out->Row({{"kernel", kernel.name}}, static_cast<double>(kernel.audited));
  }
  out->Begin("kcc_evidence_time_seconds", "gauge",
             "When the newest audited request of a kernel began, in Unix time");
  for (const KernelStatus& kernel : kernels) {
    const auto newest_ms = now.EvidenceOf(kernel.name).newest_ms;
    if (newest_ms) out->Row({{"kernel", kernel.name}}, static_cast<double>(*newest_ms) / 1000);
  }
  out->Begin("kcc_evidence_stale", "gauge",
             "1 while requests are sampled and none becomes evidence of the kernel");
  for (const KernelStatus& kernel : kernels) {
    out->Row({{"kernel", kernel.name}}, now.EvidenceOf(kernel.name).stale ? 1.0 : 0.0);
  }
}

void WriteScorer(const GatewayNow& now, Metrics* out) {
  const RescoreCounts& scorer = now.scorer;
  out->Begin("kcc_mirror_requests_total", "counter", "Sampled requests, by what became of them");
  out->Row({{"result", "scored"}, {"reason", ""}}, scorer.scored);
  uint64_t named = 0;
  for (const auto& [reason, count] : scorer.reasons) {
    out->Row({{"result", "lost"}, {"reason", reason}}, count);
    named += count;
  }
  if (scorer.lost > named) {
    out->Row({{"result", "lost"}, {"reason", "other"}}, scorer.lost - named);
  }
  out->Row({{"result", "lost"}, {"reason", "evaluator"}}, now.view->lost);
  out->Row({{"result", "dropped"}, {"reason", ""}}, now.counts.dropped());
  out->Row({{"result", "unasked"}, {"reason", ""}}, scorer.unasked + now.counts.unasked());
  out->Begin("kcc_mirror_waiting", "gauge", "Records that wait for the scorer");
  out->Row({}, scorer.waiting);
}

void WriteEvaluator(const GatewayNow& now, Metrics* out) {
  const EvaluatorView& view = *now.view;
  out->Begin("kcc_evaluator_lag_seconds", "gauge", "Age of the oldest evidence that waits");
  out->Row({}, now.lag_s);
  out->Begin("kcc_evaluator_silent_seconds", "gauge", "Since the evaluator was last heard of");
  out->Row({}, now.silent_s);
  out->Begin("kcc_evaluator_route_held", "gauge",
             "1 while the last route is held: the evaluator is silent, or its log fails");
  out->Row({}, now.silent || view.log_failed ? 1.0 : 0.0);
  out->Begin("kcc_decision_log_errors_total", "counter", "Times the decision log was not written");
  out->Row({}, view.log_errors);
  out->Begin("kcc_event_log_errors_total", "counter", "Lines of events that were not written");
  out->Row({}, now.event_errors);
  out->Begin("kcc_observations_total", "counter", "Observations that the monitor folded");
  out->Row({}, static_cast<double>(view.status.observations));
  out->Begin("kcc_unread_total", "counter", "Evidence that could not be read, or was lost");
  out->Row({}, static_cast<double>(view.status.unread));
  out->Begin("kcc_panic", "gauge", "1 while every kernel that could serve is guarded");
  out->Row({}, view.plan.panic ? 1.0 : 0.0);
}

}  // namespace

std::string ControlMetrics(const GatewayNow& now) {
  const GatewayFacts& facts = *now.facts;
  Metrics out;
  out.Begin("kcc_build_info", "gauge", "The program");
  out.Row({{"version", facts.kcc_version}}, 1.0);
  out.Begin("kcc_contract_info", "gauge", "What the gateway judges by");
  out.Row({{"name", facts.contract.name},
           {"version", facts.contract.version},
           {"digest", facts.contract.digest},
           {"policy", facts.policy.digest},
           {"stage", Name(facts.stage)}},
          1.0);
  WriteKernels(now, &out);
  WriteClauses(now, &out);
  WriteScorer(now, &out);
  WriteEvaluator(now, &out);
  if (now.otlp) {
    out.Begin("kcc_otlp_spans_total", "counter",
              "Spans of sampled requests, by what became of them");
    out.Row({{"result", "sent"}}, now.otlp->spans).Row({{"result", "dropped"}}, now.otlp->dropped);
    out.Begin("kcc_otlp_failures_total", "counter", "Calls that the collector did not take");
    out.Row({}, now.otlp->failures);
  }
  return out.Take();
}

}  // namespace kcc
