#include "kcc/contract/policy_reader.h"

#include <algorithm>
#include <map>

#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/contract/mapping_reader.h"
#include "kcc/contract/policy_metadata.h"
#include "kcc/contract/read_document.h"
#include "kcc/contract/values.h"
#include "kcc/contract/yaml_document.h"

namespace kcc {
namespace {

std::vector<std::string> SortedTexts(const std::vector<const YamlNode*>& items) {
  std::vector<std::string> texts;
  texts.reserve(items.size());
  for (const YamlNode* item : items) texts.emplace_back(item->text);
  std::sort(texts.begin(), texts.end());
  return texts;
}

// Goes through the document once and keeps going after a mistake, as the reader of contracts does.
// A part that is wrong is left at its default, so that what is said about the rest stays true; the
// policy is handed out only if nothing was wrong.
class PolicyReader {
 public:
  PolicyReader(const YamlDocument& document, Problems* problems)
      : document_(document), problems_(*problems) {}

  PromotionPolicy Read() {
    const MappingReader root(document_, document_.root(), TableOf("policy"), &problems_);
    ReadPolicyRoot(root, &policy_, [&](const MappingReader& spec) { Spec(spec); });
    return std::move(policy_);
  }

 private:
  void Spec(const MappingReader& spec) {
    // First: the looks of every stage spend what the confidence leaves.
    policy_.confidence = spec.Number("confidence").value_or(policy_.confidence);
    policy_.cool_down_ms = spec.Duration("coolDown").value_or(policy_.cool_down_ms);
    for (const Stage stage : kStages) {
      const auto mapping = spec.Mapping(Name(stage));
      if (mapping) {
        ReadStage(*mapping, stage);
      } else if (spec.is_mapping() && (stage == Stage::kShadow || stage == Stage::kCanary)) {
        problems_.Warning(spec.node(), "stage-skipped",
                          "the policy has no " + std::string(Name(stage)) + " stage: what only " +
                              (stage == Stage::kShadow ? "mirrored" : "live") +
                              " traffic shows is not looked for",
                          "add '" + std::string(Name(stage)) + ":'");
      }
    }
    // Whether the clauses they name exist only a contract can tell (kcc/promotion/plan.h).
    EnforceRules(spec);
    Hooks(spec);
    if (const auto storage = spec.Mapping("requests")) ReadStorage(*storage);
  }

  // A rule that keeps nothing is written as none, so that it has one meaning and one digest.
  void ReadStorage(const MappingReader& mapping) {
    RequestStorage storage;
    storage.store = mapping.EnumWord<StoreRequests>("store").value_or(storage.store);
    storage.flagged = mapping.Boolean("flagged").value_or(storage.flagged);
    storage.sample = mapping.Number("sample").value_or(storage.sample);
    storage.retention_ms = mapping.Duration("retention");
    storage.text = mapping.Boolean("text").value_or(false);
    if (storage.store == StoreRequests::kNone) return;
    if (!storage.flagged && storage.sample == 0) {
      problems_.Error(mapping.node(), "keeps-nothing",
                      "requests keeps neither flagged requests nor a sample",
                      "write 'store: none', or give it 'sample: 1%'");
    }
    if (storage.text && storage.store != StoreRequests::kFull) {
      problems_.Error(*mapping.Key("text"), "text-without-full",
                      "texts are kept with 'store: full' alone", "remove 'text'");
    }
    policy_.requests = storage;
  }

  // The stages share most of their keys; what a stage has no key for was reported as unknown when
  // its mapping was made, and must not be asked for here.
  void ReadStage(const MappingReader& mapping, Stage which) {
    StagePolicy& stage = policy_.stage(which);
    stage.in_force = true;
    const bool watched = which != Stage::kOffline;  // while evidence grows
    if (const auto levels = mapping.WordList("levels")) {
      stage.levels.clear();
      for (const size_t level : *levels) stage.levels.push_back(static_cast<ViolationLevel>(level));
      std::sort(stage.levels.begin(), stage.levels.end());
    }
    // Sorted: the order in which clauses and roles are written has no meaning.
    stage.clauses = SortedTexts(mapping.IdentifierList("clauses"));
    if (!stage.clauses.empty() && mapping.Key("levels") != nullptr) {
      problems_.Error(*mapping.Key("clauses"), "levels-and-clauses",
                      std::string(Name(which)) + " has both levels and clauses",
                      "clauses stands in place of levels; keep one of them");
    }
    stage.min_requests = mapping.Integer("minRequests").value_or(0);
    stage.clean = mapping.Integer("clean");
    stage.deadline_ms = mapping.Duration("deadline");
    stage.on_deadline = mapping.EnumWord<DeadlineOutcome>("onDeadline").value_or(stage.on_deadline);
    if (which != Stage::kOffline && which != Stage::kShadow &&
        stage.on_deadline == DeadlineOutcome::kReject) {
      stage.on_deadline = DeadlineOutcome::kRollback;  // one meaning, one digest
    }
    // Not an error: a deadline may be commented out for a while.
    if (mapping.Key("onDeadline") != nullptr && mapping.Key("deadline") == nullptr) {
      problems_.Warning(*mapping.Key("onDeadline"), "no-deadline",
                        std::string(Name(which)) + " says what a deadline does and has none",
                        "add 'deadline: 24h', or remove onDeadline");
    }
    if (const auto approvals = mapping.Mapping("approvals")) {
      stage.approvals.count = approvals->Integer("count").value_or(0);
      stage.approvals.roles = SortedTexts(approvals->IdentifierList("roles"));
      ReadSigned(*approvals, &stage.approvals);
    }
    if (!watched) return;
    // Steps inherit minRequests and stabilityWindow, so those are read before them.
    stage.stability_ms = mapping.Duration("stabilityWindow").value_or(0);
    ReadLooks(mapping, which, &stage);
    if (which == Stage::kShadow) stage.mirror = mapping.Number("mirror").value_or(1);
    if (which == Stage::kCanary) ReadSteps(mapping, &stage);
    CheckDeadline(mapping, which, stage);
  }

  void ReadSigned(const MappingReader& mapping, ApprovalRule* rule) {
    rule->must_sign = mapping.Boolean("signed").value_or(false);
    rule->keyring = mapping.Text("keyring").value_or("");
    if (rule->keyring.empty()) return;
    if (!IsSha256(rule->keyring)) {
      problems_.Error(*mapping.Value("keyring"), "bad-digest",
                      "keyring is '" + rule->keyring + "', not a digest",
                      "write 'sha256:' and what sha256sum prints of the keyring file");
    }
    if (!rule->must_sign) {
      problems_.Error(*mapping.Key("keyring"), "keyring-unused",
                      "approvals name a keyring, and need not be signed",
                      "add 'signed: true', or remove keyring");
    }
  }

  // Rising sizes, so that each look continues the one before; together within 1 - confidence, so
  // that looking at all of them errs no more often than the policy says (Bonferroni).
  void ReadLooks(const MappingReader& mapping, Stage which, StagePolicy* stage) {
    stage->spending = mapping.EnumWord<Spending>("spending");
    for (const YamlNode* item : mapping.Items("looks")) {
      if (problems_.full()) return;
      ReadLook(MappingReader(document_, *item, TableOf("look"), &problems_), stage);
    }
    if (stage->spending && stage->looks.empty()) {
      problems_.Error(*mapping.Key("spending"), "nothing-to-spend",
                      std::string(Name(which)) + " says how looks spend, and plans none",
                      "add 'looks: [{requests: 1000}]', or remove spending");
    }
    Spend(mapping, which, stage);
  }

  void ReadLook(const MappingReader& row, StagePolicy* stage) {
    const auto requests = row.Integer("requests");
    const auto alpha = row.Number("alpha");
    if (!requests) return;
    if (!stage->looks.empty() && *requests <= stage->looks.back().requests) {
      problems_.Error(*row.Value("requests"), "looks-not-rising",
                      "a look at " + std::to_string(*requests) + " requests follows one at " +
                          std::to_string(stage->looks.back().requests),
                      "list looks by rising requests");
    }
    if (*requests < stage->min_requests) {
      problems_.Error(*row.Value("requests"), "look-too-early",
                      "a look at " + std::to_string(*requests) +
                          " requests cannot count: minRequests is " +
                          std::to_string(stage->min_requests),
                      "look later, or lower minRequests");
    }
    if (stage->spending && row.Key("alpha") != nullptr) {
      problems_.Error(*row.Key("alpha"), "alpha-and-spending",
                      "this look has an alpha, and spending says what it spends",
                      "remove alpha, or spending");
    }
    if (!stage->spending && row.Key("alpha") == nullptr) {
      problems_.Error(*row.Value("requests"), "missing-alpha",
                      "this look does not say how much error it may spend",
                      "add 'alpha: 1%', or 'spending: even' to the stage");
    }
    stage->looks.push_back({*requests, alpha.value_or(0)});
  }

  // Together within 1 - confidence.
  void Spend(const MappingReader& mapping, Stage which, StagePolicy* stage) {
    const double allowed = 1 - policy_.confidence;
    if (stage->spending && !problems_.any_error()) {
      std::vector<int64_t> requests;
      for (const Look& look : stage->looks) requests.push_back(look.requests);
      if (requests.empty()) return;
      const std::vector<double> alphas = SpentAlphas(*stage->spending, requests, allowed);
      constexpr double kLeastAlpha = 1e-12;  // below, a look is none
      for (size_t i = 0; i < alphas.size(); ++i) {
        stage->looks[i].alpha = alphas[i];
        if (alphas[i] >= kLeastAlpha) continue;
        problems_.Error(*mapping.Key("looks"), "look-spends-nothing",
                        "the look at " + std::to_string(requests[i]) + " requests of " +
                            std::to_string(requests.back()) + " may spend nothing by " +
                            std::string(Name(*stage->spending)),
                        "begin later, or spend evenly");
        return;
      }
      return;
    }
    double spent = 0;
    for (const Look& look : stage->looks) spent += look.alpha;
    // Sums of decimals round: 0.02 + 0.03 is a little above 1 - 0.95.
    constexpr double kRounding = 1e-12;
    if (spent <= allowed + kRounding) return;
    problems_.Error(*mapping.Key("looks"), "alpha-overspent",
                    "the looks of " + std::string(Name(which)) + " spend " + ReadableNumber(spent) +
                        ", and confidence " + ReadableNumber(policy_.confidence) + " leaves " +
                        ReadableNumber(allowed),
                    "lower their alpha, or the confidence");
  }

  // A step that does not rise would be a traffic cut that nobody asked for.
  void ReadSteps(const MappingReader& mapping, StagePolicy* stage) {
    const std::vector<const YamlNode*> items = mapping.Items("steps");
    for (const YamlNode* item : items) {
      if (problems_.full()) return;
      const MappingReader row(document_, *item, TableOf("canaryStep"), &problems_);
      CanaryStep step;
      step.mark = problems_.MarkOf(row.node());
      step.traffic = row.Number("traffic").value_or(0);
      step.min_requests = row.Integer("minRequests").value_or(stage->min_requests);
      step.stability_ms = row.Duration("stabilityWindow").value_or(stage->stability_ms);
      if (step.traffic > 0 && !stage->steps.empty() &&
          step.traffic <= stage->steps.back().traffic) {
        problems_.Error(*row.Value("traffic"), "steps-not-rising",
                        "a step of " + PercentText(step.traffic) + " follows one of " +
                            PercentText(stage->steps.back().traffic),
                        "list steps by rising traffic");
      }
      stage->steps.push_back(step);
    }
    if (items.empty() && mapping.Value("steps") != nullptr) {
      problems_.Error(*mapping.Key("steps"), "empty-list", "steps is an empty list",
                      "add '- {traffic: 1%}', or leave canary out");
    }
  }

  // Checked once all windows of the stage are known, those of its steps included.
  // A stage that must stay good for longer than it may last can only end by its deadline.
  void CheckDeadline(const MappingReader& mapping, Stage which, const StagePolicy& stage) {
    if (!stage.deadline_ms || mapping.Value("deadline") == nullptr) return;
    int64_t longest = stage.stability_ms;
    for (const CanaryStep& step : stage.steps) longest = std::max(longest, step.stability_ms);
    if (*stage.deadline_ms > longest) return;
    problems_.Error(*mapping.Value("deadline"), "deadline-too-short",
                    std::string(Name(which)) + " may last " + DurationText(*stage.deadline_ms) +
                        " and must stay satisfied for " + DurationText(longest),
                    "give it a deadline beyond its stabilityWindow");
  }

  // A rule for a clause twice would make the order of the list matter.
  void EnforceRules(const MappingReader& spec) {
    std::map<std::string, int> first;
    for (const YamlNode* item : spec.Items("enforce")) {
      if (problems_.full()) return;
      const MappingReader row(document_, *item, TableOf("enforceRule"), &problems_);
      const auto clause = row.Text("clause");
      const auto mode = row.EnumWord<Enforce>("mode");
      if (!clause || !mode) continue;
      const Mark mark = problems_.MarkOf(row.node());
      const auto [found, fresh] = first.emplace(*clause, mark.line);
      if (!fresh) {
        problems_.Error(*row.Value("clause"), "duplicate-id",
                        "clause '" + *clause + "' is listed twice",
                        "the first one is on line " + std::to_string(found->second));
      }
      policy_.enforce.push_back({*clause, *mode, mark});
    }
  }

  // Names are what answers refer to, so they are unique in the whole policy, whatever their point.
  void Hooks(const MappingReader& spec) {
    DistinctNames names("two hooks have the name", &problems_);
    for (const YamlNode* item : spec.Items("hooks")) {
      if (problems_.full()) return;
      const MappingReader row(document_, *item, TableOf("hook"), &problems_);
      PolicyHook hook;
      hook.mark = problems_.MarkOf(row.node());
      hook.point = row.EnumWord<HookPoint>("point").value_or(hook.point);
      hook.name = row.Text("name").value_or("");
      hook.exec = row.Text("exec").value_or("");
      hook.http = row.Text("http").value_or("");
      hook.timeout_ms = row.Duration("timeout").value_or(hook.timeout_ms);
      if (row.is_mapping() && hook.exec.empty() == hook.http.empty()) {
        problems_.Error(row.node(), "exec-or-http",
                        hook.exec.empty() ? "the hook has neither exec nor http"
                                          : "the hook has both exec and http",
                        "a hook is one command or one address");
      }
      if (!hook.http.empty() && !hook.http.starts_with("http://") &&
          !hook.http.starts_with("https://")) {
        problems_.Error(*row.Value("http"), "bad-address",
                        "the address does not begin with http:// or https://");
      }
      names.Add(row.Value("name"));
      policy_.hooks.push_back(std::move(hook));
    }
  }

  const YamlDocument& document_;
  Problems& problems_;
  PromotionPolicy policy_;
};

}  // namespace

PolicyOutcome ReadPolicy(std::string_view yaml) {
  PolicyOutcome outcome;
  outcome.diagnostics = ReadDocument(
      yaml,
      [](const YamlDocument& document, Problems* problems) {
        return PolicyReader(document, problems).Read();
      },
      &outcome.policy);
  return outcome;
}

}  // namespace kcc
