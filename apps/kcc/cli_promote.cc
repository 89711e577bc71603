// The commands about promotion.
#include "apps/kcc/cli_program.h"

namespace kcc::cli {

void DeclarePromote(Program& program) {
  CLI::App* group = program.root.add_subcommand("promote", "From a proposal to all traffic");
  group->footer("kcc promote explain policies/promotion.yaml contract.yaml");
  group->require_subcommand(1);
  auto& explain = program.promote_explain;
  CLI::App* app = Declare(
      program, "explain", "Say what each stage of a policy asks of a contract, and cannot decide",
      "kcc promote explain policies/promotion.yaml contract.yaml",
      [&explain](Console& console) { return RunPromoteExplain(explain, console); }, group);
  Argument(app, "POLICY", explain.policy, kFileValue, "The promotion policy")->required();
  Argument(app, "CONTRACT", explain.contract, kFileValue, "The contract")->required();
}

}  // namespace kcc::cli
