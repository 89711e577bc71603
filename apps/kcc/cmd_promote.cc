// kcc promote explain: what each stage of a policy will ask of a contract, before anything is
// promoted. Exit code 1 if a stage could never be left.
#include "apps/kcc/commands.h"
#include "apps/kcc/policy_words.h"
#include "apps/kcc/safe_output.h"
#include "kcc/contract/canonical.h"
#include "kcc/promotion/plan.h"

namespace kcc::cli {

int RunPromoteExplain(const PromoteExplainOptions& options, Console& console) {
  int exit_code = kExitOk;
  const auto policy = RequirePolicy(options.policy, console, &exit_code);
  if (!policy) return exit_code;
  const auto contract = RequireContract(options.contract, console, &exit_code);
  if (!contract) return exit_code;
  const std::vector<StagePlan> plans = PlanOf(*policy, &contract->contract);
  const std::vector<Diagnostic> warnings = CheckPolicyAgainst(*policy, contract->contract);
  const int answer = warnings.empty() ? kExitOk : kExitViolated;
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("kccPromoteExplain", 1).Key("policy").BeginObject();
    WritePolicyIdentity(*policy, DisplayName(options.policy), &json);
    json.EndObject().Key("contract").BeginObject();
    WriteContractIdentity(contract->contract, DisplayName(options.contract), &json);
    json.EndObject().Key("stages");
    WriteStagePlans(plans, &json);
    json.Field("decidable", warnings.empty()).Key("diagnostics");
    WriteDiagnostics(warnings, DisplayName(options.contract), &json);
    json.EndObject();
    console.out << json.Take();
    return answer;
  }
  console.out << Shown(contract->contract.name) << ' ' << Shown(contract->contract.version)
              << " under " << Shown(policy->name) << ' ' << Shown(policy->version) << '\n';
  PrintStagePlans(plans, console);
  PrintPlanSentences(PolicySentences(*policy), console);
  PrintDiagnostics(warnings, DisplayName(options.contract), contract->text, console);
  return answer;
}

}  // namespace kcc::cli
