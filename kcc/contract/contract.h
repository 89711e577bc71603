// The contract: the typed form of the document of docs/design.md section 4. It is the tuple
// (N, S, R, O, Pi) of the paper's eq. 8, a clause is the record of eq. 9.
//
// A Contract is only made by ReadContract (contract/reader.h), so it is always valid: metrics
// exist, slices are defined, predicates are typed, numbers are in range. Order of clauses and
// slices is kept for people; it has no meaning (contract/canonical.h).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/metric/metric.h"
#include "kcc/predicate/predicate.h"

namespace kcc {

enum class ViolationLevel : uint8_t { kL1, kL2, kL3 };
enum class Action : uint8_t { kLog, kGuard, kFreeze, kFallback, kRollback };  // in rising severity
enum class Stage : uint8_t { kOffline, kShadow, kCanary, kFull };
enum class Population : uint8_t { kEvaluationSet, kTraffic };
// What an advantage is a function of: the whole continuation (GRPO), or its token and prefix.
enum class AdvantageKind : uint8_t { kOutcome, kToken };
enum class BoundKind : uint8_t { kAtMost, kAtLeast };

// Where something stands in the source text; 0 = it was made, not read.
struct Mark {
  int line = 0;
  int column = 0;
};

// The unit over which a soft clause's metric is taken. A hard clause's is the whole slice.
struct Window {
  enum class Kind : uint8_t { kRequest, kRequests, kTime };
  Kind kind = Kind::kRequest;
  int64_t size = 1;  // requests for kRequests, milliseconds for kTime

  bool operator==(const Window&) const = default;
};

struct MinSamples {
  int64_t requests = 0;
  int64_t tokens = 0;

  bool operator==(const MinSamples&) const = default;
};

struct Slice {
  std::string name;
  std::optional<Predicate> where;  // none: everything
  Mark mark;
};

// True if the slice's predicate reads what each side has of its own (predicate/fields.h).
bool ReadsOutcome(const Slice& slice);

struct Clause {
  std::string id;
  Family family = Family::kNumerical;
  Metric metric;
  BoundKind bound = BoundKind::kAtMost;
  double threshold = 0;
  std::vector<std::string> slices;  // never empty; default {"all"}
  double exceedance = 0;            // 0: hard
  Window window;                    // read for soft clauses only
  ViolationLevel level = ViolationLevel::kL1;
  std::optional<Action> action;  // none: what the escalation policy gives
  MinSamples min_samples;
  std::optional<double> confidence;  // none: the contract's
  std::vector<Stage> stages;         // never empty; default all four
  std::vector<std::string> fields;   // trace_field_coverage only: the fields it asks for
  bool holdout = false;
  std::string why;
  Mark mark;

  bool hard() const { return exceedance == 0; }
  bool at_most() const { return bound == BoundKind::kAtMost; }
};

// A metric of the user's own: its row, and what is for people alone.
struct OwnDefinition {
  const Quantity* row = nullptr;  // its column `own` is the definition
  std::string doc;
  Mark mark;
};

struct Assumptions {
  double temperature = 1.0;
  std::optional<double> reward_max;
  bool reward_binary = false;  // a reward is 0 or reward_max
  std::optional<double> advantage_max;
  std::optional<double> score_norm_max;
  std::optional<int64_t> tokens_max;
  AdvantageKind advantages = AdvantageKind::kOutcome;  // the default holds for both kinds
};

struct Decision {
  // none: evaluation-set offline, traffic in shadow, canary and full (docs/design.md section 8).
  std::optional<Population> about;
  double confidence = 0.95;
};

struct ActionOverride {
  std::optional<Family> family;  // none: any
  std::optional<ViolationLevel> level;
  Action action = Action::kLog;
  Mark mark;
};

// Pi: what a violation orders.
struct Escalation {
  std::array<Action, 3> by_level = {Action::kLog, Action::kGuard, Action::kFallback};
  std::vector<ActionOverride> overrides;  // the first that matches wins
  Action on_inconclusive = Action::kGuard;
  Action on_error = Action::kGuard;
};

// What the contract is about: free scalar fields such as engine, dtype, digest.
using Binding = std::map<std::string, std::string>;

struct Contract {
  std::string name;
  std::string version;
  std::string owner;
  std::string description;
  std::string review_by;  // a date; empty: not stated
  std::map<std::string, std::string> labels;
  Binding model, train, infer;  // empty: not bound
  std::string request_set;      // digest of the evaluation set; empty: not bound
  // Fields that are believed though only the infer side recorded them. Sorted, distinct.
  std::vector<std::string> trust;
  Assumptions assumptions;
  Decision decision;
  std::vector<OwnDefinition> metrics;  // spec.metrics; distinct names
  std::vector<Slice> slices;           // "all" first, always
  std::vector<Clause> clauses;
  Escalation escalation;
  // By the id of a clause, a source of error or the name of a family. No verdict reads it.
  std::map<std::string, std::string> owners;

  bool Trusts(std::string_view field) const;
  const Slice* FindSlice(std::string_view name) const;
  const Clause* FindClause(std::string_view id) const;
  std::vector<const Quantity*> own_rows() const;  // of `metrics`, in their order
};

// Who answers for the clause: by its id, else by its family. Empty: the contract names nobody.
std::string OwnerOf(const Contract& contract, const Clause& clause);

// The action a violation of the clause orders: its own, else the first matching override, else
// its level's.
Action ActionOf(const Escalation& escalation, const Clause& clause);

// The words of the language, as written in YAML.
std::string_view Name(Family family);          // "numerical"
std::string_view Name(ViolationLevel level);   // "L2"
std::string_view Name(Action action);          // "fallback"
std::string_view Meaning(Action action);       // "serve from the fallback kernel"
std::string_view Name(Stage stage);            // "canary"
std::string_view Name(Population about);       // "evaluation-set"
std::string_view Name(AdvantageKind kind);     // "outcome"
std::string_view Name(BoundKind bound);        // "atMost"
std::string WindowText(const Window& window);  // "request", "100 requests", "1m"

}  // namespace kcc
