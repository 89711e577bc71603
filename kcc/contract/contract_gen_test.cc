// The generator of contract_gen.h. It lives in a test source so that the library never sees it.
#include "kcc/contract/contract_gen.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "kcc/base/check.h"
#include "kcc/contract/draws_gen.h"

namespace kcc {
namespace {

std::string Free(bool hostile) {
  return hostile ? *GenHostileText() : Pick<std::string>({"serving", "torch-2.13", "bf16"});
}

std::map<std::string, std::string> FreeMap(bool hostile) {
  std::map<std::string, std::string> map;
  for (int64_t i = Whole(0, 2); i > 0; --i) {
    std::string key = Free(hostile);
    if (key == "digest") key += "s";  // a digest has a form of its own
    map[key] = Whole(0, 9) == 0 ? "" : Free(hostile);
  }
  if (Flip()) map["digest"] = "sha256:" + std::string(64, Pick<char>({'0', 'a', 'f'}));
  return map;
}

Predicate AnyPredicate() {
  Result<Predicate> predicate = Predicate::Parse(*GenPredicateText(2));
  KCC_CHECK(predicate.has_value());
  return *predicate;
}

// In a small world one definition, whose values are like the other quantities' there.
OwnMetric AnyOwnMetric(bool small_world) {
  const bool token = !small_world && Flip();
  const std::string from =
      small_world ? "cost"
      : token     ? Pick<std::string>({"-token.logprob", "token.position / prompt_tokens"})
                  : Pick<std::string>(
                    {"cost", "latency_ms - (ttft_ms - decode_ms)", "max(0, a, -b) * 1e3"});
  OwnMetric metric{
      small_world ? "cost" : Pick<std::string>({"tool_errors", "queue_ms", "surprise"}),
      token ? QuantityLevel::kToken : QuantityLevel::kRequest, *Expression::Parse(from)};
  if (small_world) {
    metric.min = 0;
    metric.max = 1;
    return metric;
  }
  metric.unit = Units()[*rc::gen::inRange<size_t>(0, Units().size())];
  metric.direction = Word<Direction>(3);
  if (Flip()) metric.min = Pick<double>({-3.5, 0});
  if (Flip()) metric.max = Pick<double>({1, 1e7});
  if (Flip()) metric.version = Pick<std::string>({"1", "sha256:abc", "v#2"});
  return metric;
}

void AddOwnMetric(bool small_world, const std::string& doc, Contract* contract) {
  const OwnMetric metric = AnyOwnMetric(small_world);
  if (FindOwn(contract->own_rows(), metric.name) != nullptr) return;
  contract->metrics.push_back({*OwnRow(metric), doc, {}});
}

Metric AnyMetric(const Contract& contract, bool small_world) {
  if (!contract.metrics.empty() && Whole(0, 2) == 0) {
    Metric metric;
    metric.quantity = Pick(contract.own_rows());
    metric.aggregate = small_world
                           ? Pick<Aggregate>({Aggregate::kMean, Aggregate::kP99})
                           : Aggregates()[*rc::gen::inRange<size_t>(0, Aggregates().size())];
    if (!small_world && Flip()) metric.side = Side::kTrain;
    return metric;
  }
  if (small_world) {
    return *ParseMetric(Pick<std::string>(
        {"mean_kl", "p50_kl", "p99_kl", "max_kl", "min_kl", "mean_top5_overlap", "p05_top5_overlap",
         "min_top5_overlap", "max_top5_overlap", "trace_field_coverage"}));
  }
  if (Whole(0, 4) == 1) return *ParseMetric("trace_field_coverage");  // the one with fields
  Metric metric;
  metric.quantity = &Catalog()[*rc::gen::inRange<size_t>(0, Catalog().size())];
  if (metric.quantity->sided && Flip()) metric.side = Side::kTrain;
  if (metric.quantity->level != QuantityLevel::kPopulation) {
    metric.aggregate = Aggregates()[*rc::gen::inRange<size_t>(0, Aggregates().size())];
  }
  return metric;
}

// The bound that fits; for a signed metric always the same one, so that no two clauses contradict.
BoundKind FittingBound(const Metric& metric) {
  switch (MetricDirection(metric)) {
    case Direction::kLowerIsBetter:
      return BoundKind::kAtMost;
    case Direction::kHigherIsBetter:
      return BoundKind::kAtLeast;
    default:
      return static_cast<int>(metric.aggregate) % 2 == 0 ? BoundKind::kAtMost : BoundKind::kAtLeast;
  }
}

// Neither impossible nor vacuous.
double FittingThreshold(const Metric& metric, BoundKind bound, bool small_world) {
  if (small_world) return Pick<double>({0.25, 0.5, 0.75});
  const double low = std::max(MetricMin(metric), -1e6);
  const double high = std::min(MetricMax(metric), 1e6);
  const double share = static_cast<double>(Whole(1, 999'999)) / 1e6;
  const double threshold = low + share * (high - low);
  if (Flip()) return threshold;
  return bound == BoundKind::kAtMost ? low : high;
}

void SetMetric(const Metric& metric, bool small_world, Clause* clause) {
  clause->metric = metric;
  clause->bound = FittingBound(metric);
  clause->threshold = FittingThreshold(metric, clause->bound, small_world);
  clause->fields.clear();
  if (metric.quantity->id != "trace_field_coverage") return;
  const std::vector<std::string> fields = {"seed", "tags", "kernel_fingerprint"};
  for (const std::string& field : fields) {
    if (Flip()) clause->fields.push_back(field);
  }
  if (clause->fields.empty()) clause->fields.push_back("ordinal");
}

Window AnyWindow() {
  return Pick<Window>({Window{},
                       {Window::Kind::kRequests, 2},
                       {Window::Kind::kRequests, 3},
                       {Window::Kind::kTime, 1000},
                       {Window::Kind::kTime, 1500},
                       {Window::Kind::kTime, 3600000}});
}

template <class T>
T OtherWord(T word, int count) {
  return static_cast<T>((static_cast<int>(word) + Whole(1, count - 1)) % count);
}

constexpr std::array kAllStages = {Stage::kOffline, Stage::kShadow, Stage::kCanary, Stage::kFull};

std::vector<Stage> SomeStages() {
  std::vector<Stage> stages;
  for (const Stage stage : kAllStages) {
    if (Flip()) stages.push_back(stage);
  }
  return stages.empty() ? std::vector<Stage>(kAllStages.begin(), kAllStages.end()) : stages;
}

bool Fits(const Clause& clause, const Slice& slice) {
  const bool token_slice = slice.where && slice.where->reads_token();
  return !token_slice || !OfWholeRequests(*clause.metric.quantity);
}

Clause AnyClause(const Contract& contract, const ContractGenOptions& options) {
  Clause clause;
  clause.id = Identifier();
  while (contract.FindClause(clause.id) != nullptr) clause.id += "a";
  clause.family = Word<Family>(4);
  SetMetric(AnyMetric(contract, options.small_world), options.small_world, &clause);
  for (const Slice& slice : contract.slices) {
    if (Flip() && Fits(clause, slice)) clause.slices.push_back(slice.name);
  }
  if (clause.slices.empty()) clause.slices = {"all"};
  if (Flip()) {
    clause.exceedance = Pick<double>({0.01, 0.25, 0.5, 1e-4, 0.07, 0.123456789});
    clause.window = AnyWindow();
  }
  clause.level = Word<ViolationLevel>(3);
  if (Flip()) clause.action = Word<Action>(5);
  if (Flip()) clause.min_samples = {Whole(0, 6), Whole(0, 9)};
  if (Flip()) clause.confidence = Pick<double>({0.9, 0.95, 0.999});
  clause.stages = SomeStages();
  clause.holdout = Flip();
  if (Flip()) clause.why = Free(options.hostile_texts);
  return clause;
}

Escalation AnyEscalation() {
  Escalation escalation;
  for (Action& action : escalation.by_level) action = Word<Action>(5);
  if (Flip()) escalation = Escalation();
  for (int64_t i = Whole(0, 2); i > 0; --i) {
    ActionOverride row;
    if (Flip()) row.family = Word<Family>(4);
    if (Flip()) row.level = Word<ViolationLevel>(3);
    row.action = Word<Action>(5);
    escalation.overrides.push_back(row);
  }
  if (Flip()) escalation.on_inconclusive = Word<Action>(5);
  if (Flip()) escalation.on_error = Word<Action>(5);
  return escalation;
}

Contract AnyContract(const ContractGenOptions& options) {
  Contract contract;
  contract.name = Pick<std::string>({"qwen3-8b-fp8", "1.5b", "no", "0"});
  contract.version = std::to_string(Whole(0, 12)) + ".0." + std::to_string(Whole(0, 9));
  if (Flip()) contract.owner = Free(options.hostile_texts);
  if (Flip()) contract.description = Free(options.hostile_texts);
  if (Flip()) contract.review_by = "2027-06-30";
  contract.labels = FreeMap(options.hostile_texts);
  contract.model = FreeMap(options.hostile_texts);
  contract.train = FreeMap(options.hostile_texts);
  contract.infer = FreeMap(options.hostile_texts);
  Assumptions& assumptions = contract.assumptions;
  if (Flip()) assumptions.temperature = Pick<double>({0.7, 1.0, 1e-3});
  if (Flip()) assumptions.reward_max = Pick<double>({0, 1.5});
  if (Flip()) assumptions.advantage_max = Pick<double>({0, 4});
  if (Flip()) assumptions.score_norm_max = Pick<double>({0, 8});
  if (Flip()) assumptions.tokens_max = Whole(1, 1'000'000'000);
  if (Flip()) assumptions.advantages = Word<AdvantageKind>(2);
  if (Flip()) contract.decision.about = Word<Population>(2);
  if (Flip()) contract.decision.confidence = Pick<double>({0.5, 0.9, 0.99});
  for (int64_t i = Whole(0, 2); i > 0; --i) {
    AddOwnMetric(options.small_world, Flip() ? Free(options.hostile_texts) : "", &contract);
  }
  contract.slices.push_back({"all", {}, {}});
  for (int64_t i = Whole(0, 3); i > 0; --i) {
    Slice slice{Identifier(), {}, {}};
    if (contract.FindSlice(slice.name) != nullptr) continue;
    if (Whole(0, 5) > 0) slice.where = AnyPredicate();
    contract.slices.push_back(std::move(slice));
  }
  for (int64_t i = Whole(1, 4); i > 0; --i) {
    contract.clauses.push_back(AnyClause(contract, options));
  }
  // As ReadContract orders them.
  std::stable_sort(contract.clauses.begin(), contract.clauses.end(),
                   [](const Clause& a, const Clause& b) { return a.family < b.family; });
  contract.escalation = AnyEscalation();
  if (Flip()) contract.owners["precision"] = Free(options.hostile_texts);
  return contract;
}

// --- Changes of meaning.

Clause& AnyOf(Contract* contract) {
  return contract->clauses[*rc::gen::inRange<size_t>(0, contract->clauses.size())];
}

template <class T>
bool Replace(T value, T* target) {
  if (value == *target) return false;
  *target = std::move(value);
  return true;
}

bool ChangeMap(std::map<std::string, std::string>* map) {
  if (!map->empty() && Flip()) {
    map->erase(map->begin());
  } else {
    (*map)["engine"] += "x";
  }
  return true;
}

template <class T>
bool ToggleMember(const T& value, std::vector<T>* values) {
  const auto found = std::find(values->begin(), values->end(), value);
  if (found == values->end()) {
    values->push_back(value);
    return true;
  }
  if (values->size() == 1) return false;
  values->erase(found);
  return true;
}

std::function<bool(Contract*)> OnClause(bool (*change)(const Contract&, Clause*)) {
  return [change](Contract* contract) {
    return !contract->clauses.empty() && change(*contract, &AnyOf(contract));
  };
}

// One name with another definition, for the clauses that use it too.
bool ChangeDefinition(Contract* contract) {
  if (contract->metrics.empty()) return false;
  OwnDefinition& definition = contract->metrics.back();
  OwnMetric changed = *definition.row->own;
  changed.version += "x";
  const Quantity* row = *OwnRow(changed);
  for (Clause& clause : contract->clauses) {
    if (clause.metric.quantity == definition.row) clause.metric.quantity = row;
  }
  definition.row = row;
  return true;
}

std::vector<Mutation> ContractMutations() {
  return {
      {"name", [](Contract* c) { return Replace(c->name + "x", &c->name); }},
      {"version", [](Contract* c) { return Replace<std::string>("99.0.0", &c->version); }},
      {"owner", [](Contract* c) { return Replace(c->owner + "x", &c->owner); }},
      {"reviewBy", [](Contract* c) { return Replace(std::string("2028-02-29"), &c->review_by); }},
      {"description", [](Contract* c) { return Replace(c->description + "x", &c->description); }},
      {"labels", [](Contract* c) { return ChangeMap(&c->labels); }},
      {"owners", [](Contract* c) { return !(c->owners["numerical"] += "x").empty(); }},
      {"model", [](Contract* c) { return ChangeMap(&c->model); }},
      {"train", [](Contract* c) { return ChangeMap(&c->train); }},
      {"infer", [](Contract* c) { return ChangeMap(&c->infer); }},
      {"temperature",
       [](Contract* c) {
         return Replace(Pick<double>({0.5, 1}), &c->assumptions.temperature);
       }},
      {"rewardMax",
       [](Contract* c) {
         return Replace<std::optional<double>>(Pick<double>({0.5, 1}), &c->assumptions.reward_max);
       }},
      {"rewardBinary",
       [](Contract* c) {
         return Replace(!c->assumptions.reward_binary, &c->assumptions.reward_binary);
       }},
      {"advantageMax",
       [](Contract* c) {
         return Replace<std::optional<double>>(7, &c->assumptions.advantage_max);
       }},
      {"scoreNormMax",
       [](Contract* c) {
         return Replace<std::optional<double>>(7, &c->assumptions.score_norm_max);
       }},
      {"tokensMax",
       [](Contract* c) {
         return Replace(Flip() ? std::optional<int64_t>(Whole(4, 20)) : std::nullopt,
                        &c->assumptions.tokens_max);
       }},
      {"advantages",
       [](Contract* c) { return Replace(Word<AdvantageKind>(2), &c->assumptions.advantages); }},
      {"about",
       [](Contract* c) {
         return Replace(Pick<std::optional<Population>>(
                            {std::nullopt, Population::kTraffic, Population::kEvaluationSet}),
                        &c->decision.about);
       }},
      {"confidence",
       [](Contract* c) {
         return Replace(Pick<double>({0.6, 0.97}), &c->decision.confidence);
       }},
      {"metric added",
       [](Contract* c) {
         const size_t before = c->metrics.size();
         AddOwnMetric(true, "", c);
         return c->metrics.size() > before;
       }},
      {"metric definition", ChangeDefinition},
      {"metric doc",
       [](Contract* c) {
         return !c->metrics.empty() && Replace(c->metrics.back().doc + "x", &c->metrics.back().doc);
       }},
      {"slice added",
       [](Contract* c) {
         c->slices.push_back({"added-" + std::to_string(c->slices.size()), AnyPredicate(), {}});
         return true;
       }},
      {"slice predicate",
       [](Contract* c) {
         if (c->slices.size() < 2) return false;
         Slice& slice = c->slices.back();
         const std::string before = slice.where ? slice.where->Canonical() : "";
         slice.where = AnyPredicate();
         return slice.where->Canonical() != before;
       }},
      {"clause added",
       [](Contract* c) {
         c->clauses.push_back(AnyClause(*c, {.hostile_texts = false, .small_world = true}));
         return true;
       }},
      {"clause gone",
       [](Contract* c) {
         if (c->clauses.empty()) return false;
         c->clauses.pop_back();
         return true;
       }},
      {"escalation of a level",
       [](Contract* c) {
         Action& action = c->escalation.by_level[*rc::gen::inRange<size_t>(0, 3)];
         return Replace(OtherWord(action, 5), &action);
       }},
      {"override",
       [](Contract* c) {
         ActionOverride row;
         row.family = Word<Family>(4);
         row.action = Word<Action>(5);
         c->escalation.overrides.insert(c->escalation.overrides.begin(), row);
         return true;
       }},
      {"onInconclusive",
       [](Contract* c) {
         Action& action = c->escalation.on_inconclusive;
         return Replace(OtherWord(action, 5), &action);
       }},
      {"onError",
       [](Contract* c) {
         Action& action = c->escalation.on_error;
         return Replace(OtherWord(action, 5), &action);
       }},
  };
}

bool ChangeMetric(const Contract& contract, Clause* clause) {
  const Metric before = clause->metric;
  Clause changed = *clause;
  SetMetric(AnyMetric(contract, true), true, &changed);
  const bool fits = std::all_of(
      changed.slices.begin(), changed.slices.end(),
      [&](const std::string& name) { return Fits(changed, *contract.FindSlice(name)); });
  if (!fits || changed.metric == before) return false;
  *clause = changed;
  return true;
}

bool ChangeAction(const Contract& contract, Clause* clause) {
  clause->action = OtherWord(ActionOf(contract.escalation, *clause), 5);
  return true;
}

bool ChangeConfidence(const Contract& contract, Clause* clause) {
  const double before = clause->confidence.value_or(contract.decision.confidence);
  clause->confidence = Pick<double>({0.8, 0.99});
  return *clause->confidence != before;
}

bool ChangeSlices(const Contract& contract, Clause* clause) {
  const Slice& slice = contract.slices[*rc::gen::inRange<size_t>(0, contract.slices.size())];
  return Fits(*clause, slice) && ToggleMember(slice.name, &clause->slices);
}

bool ChangeStages(const Contract&, Clause* clause) {
  const bool changed = ToggleMember(Word<Stage>(4), &clause->stages);
  std::sort(clause->stages.begin(), clause->stages.end());
  return changed;
}

bool ChangeThreshold(const Contract&, Clause* clause) {
  return Replace(FittingThreshold(clause->metric, clause->bound, true), &clause->threshold);
}

bool ChangeExceedance(const Contract&, Clause* clause) {
  const double before = clause->exceedance;
  clause->exceedance = Pick<double>({0, 0.25, 0.5, 0.75});
  if (clause->hard()) clause->window = Window();
  return clause->exceedance != before;
}

std::vector<Mutation> ClauseMutations() {
  return {
      {"clause id", OnClause([](const Contract&, Clause* clause) {
         clause->id += "x";
         return true;
       })},
      {"clause family", OnClause([](const Contract&, Clause* clause) {
         return Replace(OtherWord(clause->family, 4), &clause->family);
       })},
      {"clause metric", OnClause(ChangeMetric)},
      {"clause threshold", OnClause(ChangeThreshold)},
      {"clause slices", OnClause(ChangeSlices)},
      {"clause exceedance", OnClause(ChangeExceedance)},
      {"clause window", OnClause([](const Contract&, Clause* clause) {
         return !clause->hard() && Replace(AnyWindow(), &clause->window);
       })},
      {"clause level", OnClause([](const Contract&, Clause* clause) {
         return Replace(OtherWord(clause->level, 3), &clause->level);
       })},
      {"clause action", OnClause(ChangeAction)},
      {"clause minSamples.requests", OnClause([](const Contract&, Clause* clause) {
         return Replace(Whole(0, 6), &clause->min_samples.requests);
       })},
      {"clause minSamples.tokens", OnClause([](const Contract&, Clause* clause) {
         return Replace(Whole(0, 9), &clause->min_samples.tokens);
       })},
      {"clause confidence", OnClause(ChangeConfidence)},
      {"clause stages", OnClause(ChangeStages)},
      {"clause fields", OnClause([](const Contract&, Clause* clause) {
         return !clause->fields.empty() && ToggleMember<std::string>("tags", &clause->fields);
       })},
      {"clause holdout", OnClause([](const Contract&, Clause* clause) {
         return Replace(!clause->holdout, &clause->holdout);
       })},
      {"clause why", OnClause([](const Contract&, Clause* clause) {
         return Replace(clause->why + "x", &clause->why);
       })},
  };
}

}  // namespace

rc::Gen<Contract> GenContract(ContractGenOptions options) {
  return rc::gen::exec([options] { return AnyContract(options); });
}

const std::vector<Mutation>& Mutations() {
  static const std::vector<Mutation> kAll = [] {
    std::vector<Mutation> all = ContractMutations();
    for (Mutation& mutation : ClauseMutations()) all.push_back(std::move(mutation));
    return all;
  }();
  return kAll;
}

}  // namespace kcc
