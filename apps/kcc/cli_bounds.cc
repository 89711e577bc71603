// The flags of bound and author that speak of bounds: many of a kind, so they stand apart.
#include "apps/kcc/cli_bounds.h"

#include <CLI/CLI.hpp>

#include "apps/kcc/cli_checks.h"

namespace kcc::cli {
namespace {

// What bounds rest on; the same for bound and author.
void DeclareAssumptions(CLI::App* app, BoundAssumptions& given) {
  const auto add = [app](const char* name, auto& target, const char* help) {
    app->add_option(name, target, help)->type_name("X")->check(AtLeastZero());
  };
  add("--reward-max", given.reward_max, "Largest |reward|");
  app->add_flag_callback(
         "--rewards-from-zero", [&given] { given.reward_range = RewardRange::kZeroToR; },
         "Rewards lie in [0, R], not in [-R, R]")
      ->disable_flag_override();
  add("--advantage-max", given.advantage_max, "Largest |advantage|");
  add("--score-norm-max", given.score_norm_max, "Largest norm of the gradient of a log-prob");
  app->add_option_function<std::string>(
         "--advantages",
         [&given](const std::string& kind) {
           given.advantages = kind == "token" ? AdvantageKind::kToken : AdvantageKind::kOutcome;
         },
         "What an advantage may depend on: the whole answer (default; always safe), or its tokens "
         "so far")
      ->type_name("outcome|token")
      ->check(OneOf({"outcome", "token"}));
  app->add_option("--tokens", given.tokens, "Longest continuation, in tokens")
      ->type_name("N")
      ->check(Between(1, 1 << 24));
}

}  // namespace

void DeclareBoundFlags(CLI::App* app, BoundOptions& options) {
  const auto add = [app](const char* name, std::optional<double>& target, const char* help) {
    app->add_option(name, target, help)->type_name("X")->check(AtLeastZero());
  };
  const auto drift = [&](DriftForm form) -> std::optional<double>& {
    return options.drift[static_cast<size_t>(form)];
  };
  add("--span", drift(DriftForm::kSpan), "Given: logit_span, at every token");
  add("--linf", drift(DriftForm::kLinf), "Given: logit_linf");
  add("--l2", drift(DriftForm::kL2), "Given: logit_l2");
  add("--tv", drift(DriftForm::kTv), "Given: tv");
  add("--kl", drift(DriftForm::kKl), "Given: kl or reverse_kl");
  add("--abs-log-ratio", drift(DriftForm::kAbsLogRatio), "Given: mean abs_log_ratio");
  add("--reward-drift", options.reward_drift,
      "Tolerated reward drift: print thresholds that guarantee it");
  add("--gradient-bias", options.gradient_bias,
      "Tolerated gradient bias: print thresholds that guarantee it");
  app->add_option("--check", options.check, "Compare every bound with two traces")
      ->type_name("TRAIN INFER")
      ->expected(2);
  app->add_option_function<double>(
         "--temperature",
         [&options](const double& value) {
           options.assumptions.temperature = value;
           options.temperature_given = true;
         },
         "Sampling temperature; default 1, or the traces'")
      ->type_name("T")
      ->check(AboveZero());
  DeclareAssumptions(app, options.assumptions);
  app->add_option("--weight-min", options.assumptions.weights.low,
                  "Importance weights are clipped or masked below this; default 0.8")
      ->type_name("A")
      ->check(Between(1e-9, 1.0));
  app->add_option("--weight-max", options.assumptions.weights.high, "… or above this; default 1.2")
      ->type_name("C")
      ->check(Between(1.0, 1e9));
}

void DeclareAuthorInput(CLI::App* app, AuthorInput& input) {
  app->add_option("--margin", input.margin,
                  "Thresholds are the measured limit times this; default 1.5")
      ->type_name("X")
      ->check(Between(1.0, 1e6));
  app->add_option("--confidence", input.confidence, "Confidence of that limit; default 0.95")
      ->type_name("C")
      ->check(Between(0.5, 0.999999));
  const auto budget = [app](const char* name, std::optional<double>& target, const char* help) {
    app->add_option(name, target, help)->type_name("X")->check(Between(1e-12, 1e12));
  };
  budget("--reward-drift", input.reward_drift, "Tolerated reward drift: add a clause for it");
  budget("--gradient-bias", input.gradient_bias, "Tolerated gradient bias: add a clause for it");
  app->add_option("--flip-rate", input.flip_rate,
                  "Tolerated share of tokens that flip: add a clause for it, and one from margins")
      ->type_name("X")
      ->check(Between(1e-9, 0.999999));
  DeclareAssumptions(app, input.assumptions);
  app->add_option("--name", input.name, "Name of the contract")->type_name("TEXT");
  app->add_option("--contract-version", input.version, "Version of the contract; default 0.1.0")
      ->type_name("X.Y.Z");
  app->add_option("--owner", input.owner, "Owner of the contract")->type_name("TEXT");
}

}  // namespace kcc::cli
