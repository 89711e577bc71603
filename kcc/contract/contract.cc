#include "kcc/contract/contract.h"

#include <algorithm>

#include "kcc/base/check.h"
#include "kcc/contract/words.h"
#include "kcc/predicate/fields.h"

namespace kcc {
bool ReadsOutcome(const Slice& slice) {
  if (!slice.where) return false;
  const std::vector<std::string> fields = slice.where->Fields();
  return std::any_of(fields.begin(), fields.end(), [](const std::string& field) {
    return OriginOf(field) == FieldOrigin::kOutcome;
  });
}

bool Contract::Trusts(std::string_view field) const {
  return std::find(trust.begin(), trust.end(), field) != trust.end();
}

const Slice* Contract::FindSlice(std::string_view wanted) const {
  const auto found = std::find_if(slices.begin(), slices.end(),
                                  [&](const Slice& slice) { return slice.name == wanted; });
  return found == slices.end() ? nullptr : &*found;
}

const Clause* Contract::FindClause(std::string_view id) const {
  const auto found = std::find_if(clauses.begin(), clauses.end(),
                                  [&](const Clause& clause) { return clause.id == id; });
  return found == clauses.end() ? nullptr : &*found;
}

std::vector<const Quantity*> Contract::own_rows() const {
  std::vector<const Quantity*> rows;
  for (const OwnDefinition& definition : metrics) rows.push_back(definition.row);
  return rows;
}

std::string OwnerOf(const Contract& contract, const Clause& clause) {
  for (const std::string& key : {clause.id, std::string(Name(clause.family))}) {
    const auto found = contract.owners.find(key);
    if (found != contract.owners.end()) return found->second;
  }
  return {};
}

Action ActionOf(const Escalation& escalation, const Clause& clause) {
  if (clause.action) return *clause.action;
  for (const ActionOverride& row : escalation.overrides) {
    const bool family_fits = !row.family || *row.family == clause.family;
    const bool level_fits = !row.level || *row.level == clause.level;
    if (family_fits && level_fits) return row.action;
  }
  return escalation.by_level[static_cast<size_t>(clause.level)];
}

std::string_view Name(Family family) { return kFamilyWords[static_cast<size_t>(family)]; }
std::string_view Name(ViolationLevel level) { return kLevelWords[static_cast<size_t>(level)]; }
std::string_view Name(Action action) { return kActionWords[static_cast<size_t>(action)]; }
std::string_view Meaning(Action action) {
  switch (action) {
    case Action::kLog:
      return "record it and carry on";
    case Action::kGuard:
      return "serve on the guarded route until it is settled";
    case Action::kFreeze:
      return "stop promotions and updates; serve what is there";
    case Action::kFallback:
      return "serve from the fallback kernel";
    case Action::kRollback:
      break;
  }
  return "put back the last promoted triple at once";
}
std::string_view Name(Stage stage) { return kStageWords[static_cast<size_t>(stage)]; }
std::string_view Name(Population about) {
  return about == Population::kTraffic ? "traffic" : "evaluation-set";
}
std::string_view Name(AdvantageKind kind) {
  return kind == AdvantageKind::kToken ? "token" : "outcome";
}
std::string_view Name(BoundKind bound) {
  return bound == BoundKind::kAtMost ? "atMost" : "atLeast";
}

std::string WindowText(const Window& window) {
  switch (window.kind) {
    case Window::Kind::kRequest:
      return "request";
    case Window::Kind::kRequests:
      return std::to_string(window.size) + " requests";
    case Window::Kind::kTime:
      break;
  }
  struct Unit {
    int64_t ms;
    std::string_view suffix;
  };
  constexpr std::array kUnits = {Unit{3600000, "h"}, Unit{60000, "m"}, Unit{1000, "s"},
                                 Unit{1, "ms"}};
  for (const Unit& unit : kUnits) {
    if (window.size % unit.ms == 0) {
      return std::to_string(window.size / unit.ms).append(unit.suffix);
    }
  }
  KCC_CHECK(false);
  return {};
}

}  // namespace kcc
