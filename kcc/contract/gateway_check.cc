// What must hold between the documents of a gateway. Evidence that cannot come is a warning, for
// then a clause stays inconclusive; what would be judged as something that it is not is an error.
#include "kcc/contract/gateway_check.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/contract/words.h"
#include "kcc/predicate/fields.h"

namespace kcc {
namespace {

// The audit kernel's word: of tokens, of what it generates itself, or of its own requests. A
// quantity of request fields that each side has alone is sided; the others compare the two.
bool NeedsAudit(const Clause& clause) {
  const Quantity& quantity = *clause.metric.quantity;
  if (quantity.evidence != EvidenceNeeded::kRequestFields) return true;
  return clause.metric.side == Side::kTrain || (!quantity.sided && quantity.own == nullptr);
}

// Request fields that a clause's metric reads.
std::vector<std::string> FieldsRead(const Clause& clause) {
  const Quantity& quantity = *clause.metric.quantity;
  if (quantity.own != nullptr) return quantity.own->from.Fields();
  std::vector<std::string> names;
  std::string_view rest = quantity.fields;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    if (end > 0) names.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  names.insert(names.end(), clause.fields.begin(), clause.fields.end());
  return names;
}

class GatewayCheck {
 public:
  GatewayCheck(const GatewayConfig& config, const MonitorPolicy& policy, const Contract& contract)
      : config_(config), policy_(policy), contract_(contract) {}

  std::vector<Diagnostic> Run() {
    Pool();
    Servers();
    Audit();
    Canary();
    Shadow();
    StageHasClauses();
    Sessions();
    for (const Slice& slice : contract_.slices) CheckSlice(slice);
    for (const Clause& clause : contract_.clauses) CheckClause(clause);
    std::stable_sort(found_.begin(), found_.end(), [](const Diagnostic& a, const Diagnostic& b) {
      return std::pair(a.mark.line, a.mark.column) < std::pair(b.mark.line, b.mark.column);
    });
    return std::move(found_);
  }

 private:
  void Say(DiagnosticKind kind, const Mark& mark, std::string code, std::string message,
           std::string hint) {
    // Several clauses may lack the same thing.
    if (!said_.insert(code + message).second) return;
    found_.push_back({kind, std::move(code), std::move(message), std::move(hint), mark, 1});
  }
  void Error(const Mark& mark, std::string code, std::string message, std::string hint) {
    Say(DiagnosticKind::kError, mark, std::move(code), std::move(message), std::move(hint));
  }
  void Warning(const Mark& mark, std::string code, std::string message, std::string hint) {
    Say(DiagnosticKind::kWarning, mark, std::move(code), std::move(message), std::move(hint));
  }

  // The two lists are of the same kernels.
  void Pool() {
    std::vector<std::string_view> names;
    for (const MonitorKernel& kernel : policy_.kernels) names.push_back(kernel.name);
    for (const GatewayKernel& kernel : config_.kernels) {
      if (policy_.FindKernel(kernel.name) != nullptr) continue;
      const auto nearest = NearestWord(kernel.name, names);
      Error(kernel.mark, "not-in-policy",
            "'" + kernel.name + "' is no kernel of the policy " + policy_.name,
            nearest ? "did you mean '" + std::string(*nearest) + "'?"
                    : "remove it, or add it to the policy, whose kernels are " + JoinWords(names));
    }
    for (const MonitorKernel& kernel : policy_.kernels) {
      if (config_.FindKernel(kernel.name) != nullptr) continue;
      Error(config_.kernels_mark, "missing-kernel",
            "the policy " + policy_.name + " has the kernel '" + kernel.name + "' of role " +
                std::string(Name(kernel.role)) + ", and no entry says where it is asked",
            "add '- {name: " + kernel.name + ", url: \"http://HOST:PORT\", server: vllm}'");
    }
  }

  // Two names for one server, asked alike. A fallback may well be what audits: it is the safest.
  void Servers() {
    const auto& rows = config_.kernels;
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t j = i + 1; j < rows.size(); ++j) {
        if (rows[i].url == rows[j].url && rows[i].model == rows[j].model) Same(rows[i], rows[j]);
      }
    }
  }

  void Same(const GatewayKernel& first, const GatewayKernel& second) {
    const MonitorKernel* a = policy_.FindKernel(first.name);
    const MonitorKernel* b = policy_.FindKernel(second.name);
    if (a == nullptr || b == nullptr) return;
    const std::string who = "'" + first.name + "' and '" + second.name + "' are the same server";
    if (a->role != KernelRole::kAudit && b->role != KernelRole::kAudit) {
      if (first.set != second.set) return;  // other sampling parameters make a guard
      Warning(second.mark, "same-server",
              who + ", asked alike: what is wrong with one is wrong with the other",
              "give it an address, a model or a 'set' of its own");
      return;
    }
    const KernelRole judged = a->role == KernelRole::kAudit ? b->role : a->role;
    if (judged == KernelRole::kFallback || judged == KernelRole::kAudit) return;
    Warning(second.mark, "judged-by-itself",
            who + ", so that nothing it does can be seen: it is compared with itself",
            "let another server audit");
  }

  // Without an audit kernel there is nobody to compare with.
  void Audit() {
    if (policy_.FirstOf(KernelRole::kAudit) != nullptr) return;
    const auto count =
        std::count_if(contract_.clauses.begin(), contract_.clauses.end(), NeedsAudit);
    if (count == 0) return;
    Warning(config_.kernels_mark, "no-audit",
            "the policy has no kernel of role audit: nothing can be rescored, and " +
                std::to_string(count) + (count == 1 ? " clause stays" : " clauses stay") +
                " inconclusive",
            "add '{name: audit, role: audit}' to the policy, and its server to kernels");
  }

  void Canary() {
    if (!config_.canary) return;
    const MonitorKernel* kernel = policy_.FindKernel(config_.canary->kernel);
    if (kernel == nullptr || kernel->role != KernelRole::kAudit) return;
    Error(config_.canary_mark, "canary-is-audit",
          "'" + kernel->name + "' has the role audit, and clients would get its answers",
          "name a kernel of role candidate");
  }

  void Shadow() {
    const MonitorKernel* kernel = policy_.FindKernel(config_.shadow);
    if (kernel != nullptr && kernel->role == KernelRole::kAudit) {
      Error(config_.shadow_mark, "shadow-is-audit",
            "'" + kernel->name + "' has the role audit: it would be compared with itself",
            "name a kernel of role candidate");
    }
    if (!config_.promotion_file.empty()) return;
    for (const GatewayKernel& row : config_.kernels) {
      const MonitorKernel* each = policy_.FindKernel(row.name);
      if (each == nullptr || each->role != KernelRole::kCandidate) continue;
      if (row.name == config_.shadow || (config_.canary && row.name == config_.canary->kernel)) {
        continue;
      }
      Warning(row.mark, "idle-candidate", "the candidate '" + row.name + "' is asked nothing",
              "add 'shadow: " + row.name + "'");
    }
  }

  // With a promotion the register says the stage.
  void StageHasClauses() {
    if (!config_.promotion_file.empty()) return;
    const auto judged = [&](const Clause& clause) {
      return std::find(clause.stages.begin(), clause.stages.end(), config_.stage) !=
             clause.stages.end();
    };
    if (std::any_of(contract_.clauses.begin(), contract_.clauses.end(), judged)) return;
    Error(config_.contract_mark, "nothing-judged",
          "no clause of the contract " + contract_.name + " is judged in stage " +
              std::string(Name(config_.stage)),
          "name another stage, or give a clause that stage");
  }

  void Sessions() {
    if (!config_.session.empty() || !policy_.audit.once_per_session) return;
    Warning(config_.policy_mark, "no-session",
            "no session is read of requests, so every request counts as independent of all others",
            "add 'session: [\"header:x-session-id\", \"body:user\"]'");
  }

  bool HasField(const std::string& name) const {
    return std::any_of(config_.fields.begin(), config_.fields.end(),
                       [&](const GatewayField& field) { return field.name == name; });
  }
  const GatewayHook* FindHook(const std::string& name) const {
    const auto found = std::find_if(config_.hooks.begin(), config_.hooks.end(),
                                    [&](const GatewayHook& hook) { return hook.field == name; });
    return found == config_.hooks.end() ? nullptr : &*found;
  }
  static bool IsGraded(const std::string& name) {
    return std::find(kGradedFieldWords.begin(), kGradedFieldWords.end(), name) !=
           kGradedFieldWords.end();
  }
  // Told by a client or by nobody: all others the gateway knows itself.
  static bool IsAsked(const std::string& name) {
    const PredicateField* known = FindPredicateField(name);
    return known == nullptr || name == "tags" || name == "seed";
  }

  // A slice is chosen by what was asked. A field of the user's own is taken for the request's, so
  // one that a hook makes of the answer would let the kernel that is judged choose its slices.
  void CheckSlice(const Slice& slice) {
    if (!slice.where) return;
    for (const std::string& name : slice.where->Fields()) {
      const GatewayHook* hook = FindHook(name);
      if (hook != nullptr && !IsGraded(name)) {
        Error(hook->mark, "slice-of-answer",
              "slice '" + slice.name + "' reads " + name +
                  ", which this hook makes of the answer: the kernel that is judged would choose",
              "choose slices by fields of the request");
      } else if (IsGraded(name) && hook == nullptr) {
        NothingGives("slice '" + slice.name + "' reads " + name, name);
      } else if (hook == nullptr && IsAsked(name) && !HasField(name)) {
        Warning(config_.contract_mark, "unread-field",
                "slice '" + slice.name + "' reads " + name + ", which is read of no request",
                "add '- {name: " + name + ", from: \"header:x-kcc-" + name + "\"}' to fields");
      }
    }
  }

  void NothingGives(const std::string& who, const std::string& name) {
    const bool number = FindPredicateField(name)->type == FieldType::kNumber;
    Warning(config_.contract_mark, "nothing-grades", who + ", and no hook gives it",
            "add '- {field: " + name + (number ? ", exec: \"python3 grade.py\"}" : ", json: any}") +
                "' to hooks");
  }

  void CheckClause(const Clause& clause) {
    const std::string who = "clause '" + clause.id + "' reads ";
    for (const std::string& name : FieldsRead(clause)) {
      if (name.starts_with(kTokenFieldPrefix)) continue;
      if (name == "replay_group") {
        if (config_.scoring.determinism_rate > 0) continue;
        Warning(config_.contract_mark, "no-repeats",
                who + "repeats of a request, and scoring.determinism is 0",
                "write 'determinism: 1%' under scoring");
      } else if (IsGraded(name)) {
        if (FindHook(name) == nullptr) NothingGives(who + name, name);
      } else if (IsOwn(name) && FindHook(name) == nullptr && !HasField(name)) {
        Warning(config_.contract_mark, "unread-field",
                who + name + ", which no field and no hook gives",
                "add '- {field: " + name + ", exec: \"python3 grade.py\"}' to hooks, or read it " +
                    "of requests");
      }
    }
  }
  // Of nobody but the user: not of the catalog's fields, nor of those that metrics read.
  static bool IsOwn(const std::string& name) {
    if (FindPredicateField(name) != nullptr) return name == "tags" || name == "seed";
    const auto rows = Catalog();
    return std::none_of(rows.begin(), rows.end(), [&](const Quantity& row) {
      const std::string fields = " " + std::string(row.fields) + " ";
      return fields.find(" " + name + " ") != std::string::npos;
    });
  }

  const GatewayConfig& config_;
  const MonitorPolicy& policy_;
  const Contract& contract_;
  std::vector<Diagnostic> found_;
  std::set<std::string> said_;
};

}  // namespace

std::vector<Diagnostic> CheckGateway(const GatewayConfig& config, const MonitorPolicy& policy,
                                     const Contract& contract) {
  return GatewayCheck(config, policy, contract).Run();
}

bool AnyError(const std::vector<Diagnostic>& diagnostics) {
  return std::any_of(diagnostics.begin(), diagnostics.end(),
                     [](const Diagnostic& row) { return row.kind == DiagnosticKind::kError; });
}

}  // namespace kcc
