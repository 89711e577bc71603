#include "kcc/contract/diff.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/contract/diff_clause.h"
#include "kcc/contract/yaml_writer.h"

namespace kcc {
namespace {

class ContractDiff {
 public:
  ContractDiff(const Contract& before, const Contract& after) : before_(before), after_(after) {}

  std::vector<Change> Run() {
    Metadata();
    Bind("model", before_.model, after_.model);
    Bind("train", before_.train, after_.train);
    Bind("infer", before_.infer, after_.infer);
    const auto set = [](const std::string& digest) {
      return digest.empty() ? Binding() : Binding{{"digest", digest}};
    };
    Bind("requests", set(before_.request_set), set(after_.request_set));
    CompareTrust();
    CompareAssumptions();
    CompareDecision();
    Metrics();
    Slices();
    Clauses();
    EscalationByLevel();
    Fallback("where the evidence does not decide", before_.escalation.on_inconclusive,
             after_.escalation.on_inconclusive);
    Fallback("where the evidence is broken", before_.escalation.on_error,
             after_.escalation.on_error);
    Map("owners", "owners", before_.owners, after_.owners);
    return std::move(changes_);
  }

 private:
  void Add(Change change) { changes_.push_back(std::move(change)); }
  void Note(std::string where, std::string what) {
    Add(MakeNote(std::move(where), std::move(what)));
  }

  void Text(std::string where, std::string_view key, const std::string& a, const std::string& b) {
    if (a == b) return;
    const std::string name(key);
    if (a.empty()) return Note(std::move(where), name + " set to " + YamlScalar(b));
    if (b.empty()) return Note(std::move(where), name + " removed, was " + YamlScalar(a));
    Note(std::move(where), name + " changed " + FromTo(YamlScalar(a), YamlScalar(b)));
  }

  // Calls `say` for each key that differs, with what happened to it in words.
  enum class KeyChange : uint8_t { kSet, kRemoved, kChanged };
  template <class Say>
  static void ForEachKey(const std::string& prefix, const Binding& a, const Binding& b, Say say) {
    std::set<std::string> keys;
    for (const auto& [key, value] : a) keys.insert(key);
    for (const auto& [key, value] : b) keys.insert(key);
    for (const std::string& key : keys) {
      const auto old_value = a.find(key);
      const auto new_value = b.find(key);
      const std::string name = prefix + "." + YamlScalar(key);
      if (old_value == a.end()) {
        say(key, KeyChange::kSet, name + " set to " + YamlScalar(new_value->second));
      } else if (new_value == b.end()) {
        say(key, KeyChange::kRemoved, name + " removed, was " + YamlScalar(old_value->second));
      } else if (old_value->second != new_value->second) {
        say(key, KeyChange::kChanged,
            name + " changed " +
                FromTo(YamlScalar(old_value->second), YamlScalar(new_value->second)));
      }
    }
  }

  void Map(const std::string& where, const std::string& prefix, const Binding& a,
           const Binding& b) {
    ForEachKey(prefix, a, b, [&](const std::string&, KeyChange, std::string what) {
      Note(where, std::move(what));
    });
  }

  // A verdict rests on what is bound: without it more evidence is admitted. A model's name is a
  // label.
  void Bind(const std::string& part, const Binding& a, const Binding& b) {
    ForEachKey(part, a, b, [&](const std::string& key, KeyChange change, std::string what) {
      if (part == "model" && key == "name") return Note("binds", std::move(what));
      if (change == KeyChange::kChanged) what += "; not comparable, so it counts as looser";
      Add(MakeChange(change != KeyChange::kSet, "binds", std::move(what)));
    });
  }

  void CompareTrust() {
    for (const std::string& field : after_.trust) {
      if (before_.Trusts(field)) continue;
      Add(MakeChange(true, "evidence", "infer's word alone is now believed for '" + field + "'"));
    }
    for (const std::string& field : before_.trust) {
      if (after_.Trusts(field)) continue;
      Add(MakeChange(false, "evidence",
                     "infer's word alone is no longer believed for '" + field + "'"));
    }
  }

  void Metadata() {
    Text("metadata", "name", before_.name, after_.name);
    Text("metadata", "version", before_.version, after_.version);
    Text("metadata", "owner", before_.owner, after_.owner);
    if (before_.description != after_.description) Note("metadata", "description changed");
    Text("metadata", "reviewBy", before_.review_by, after_.review_by);
    Map("metadata", "labels", before_.labels, after_.labels);
  }

  // What a verdict rests on: a larger bound makes a certificate harder, but admits evidence that
  // the smaller one excludes. So no change of it has an order. What only bounds read is a note.
  template <class T>
  void Assumption(std::string_view name, bool verdicts, const std::optional<T>& a,
                  const std::optional<T>& b) {
    if (a == b) return;
    const auto text = [](const std::optional<T>& value) {
      return value ? ShortestNumber(static_cast<double>(*value)) : std::string("none");
    };
    const std::string what = std::string(name) + " changed " + FromTo(text(a), text(b));
    if (verdicts) {
      Add(MakeChange(true, "assumptions",
                     what + "; verdicts rest on it in both directions, so it counts as looser"));
    } else {
      Note("assumptions", what + "; bounds only");
    }
  }

  void CompareAssumptions() {
    const Assumptions& a = before_.assumptions;
    const Assumptions& b = after_.assumptions;
    Assumption<double>("temperature", true, a.temperature, b.temperature);
    Assumption("rewardMax", true, a.reward_max, b.reward_max);
    if (a.reward_binary != b.reward_binary) {
      Add(MakeChange(
          true, "assumptions",
          std::string("rewardBinary changed ") +
              FromTo(a.reward_binary ? "true" : "false", b.reward_binary ? "true" : "false") +
              "; verdicts rest on it in both directions, so it counts as looser"));
    }
    Assumption("advantageMax", false, a.advantage_max, b.advantage_max);
    Assumption("scoreNormMax", false, a.score_norm_max, b.score_norm_max);
    Assumption("tokensMax", true, a.tokens_max, b.tokens_max);
    if (a.advantages != b.advantages) {
      Note("assumptions", "advantages changed " + FromTo(Name(a.advantages), Name(b.advantages)) +
                              "; bounds only");
    }
  }

  void CompareDecision() {
    const Decision& a = before_.decision;
    const Decision& b = after_.decision;
    if (a.about != b.about) {
      const auto text = [](const std::optional<Population>& about) {
        return about ? Name(*about) : std::string_view("what the stage gives");
      };
      Add(MakeChange(true, "decision",
                     "verdicts are about another population: changed " +
                         FromTo(text(a.about), text(b.about)) +
                         "; not comparable, so it counts as looser"));
    }
    if (a.confidence != b.confidence) {
      const bool lowered = b.confidence < a.confidence;
      Add(MakeChange(lowered, "decision",
                     std::string("confidence ") + (lowered ? "lowered " : "raised ") +
                         FromTo(ShortestNumber(a.confidence), ShortestNumber(b.confidence))));
    }
  }

  // --- Metrics of one's own.

  static const OwnDefinition* FindMetric(const Contract& contract, std::string_view name) {
    for (const OwnDefinition& definition : contract.metrics) {
      if (definition.row->id == name) return &definition;
    }
    return nullptr;
  }

  // "`a - b`, per request, in ms, lower, min 0".
  static std::string Definition(const Quantity& row) {
    std::string text = "`" + std::string(row.definition) + "`, per ";
    text.append(Name(row.level));
    if (row.unit != Unit::kPure) text.append(", in ").append(Name(row.unit));
    text.append(", ").append(Name(row.direction));
    if (std::isfinite(row.min)) text += ", min " + ShortestNumber(row.min);
    if (std::isfinite(row.max)) text += ", max " + ShortestNumber(row.max);
    if (!row.own->version.empty()) text += ", version " + YamlScalar(row.own->version);
    return text;
  }

  // A definition that no clause of the old contract reads decides nothing. One that changed has no
  // order: other values are held against the same threshold.
  void Metrics() {
    for (const OwnDefinition& was : before_.metrics) {
      const OwnDefinition* now = FindMetric(after_, was.row->id);
      const std::string where = "metric " + std::string(was.row->id);
      const bool used =
          std::any_of(before_.clauses.begin(), before_.clauses.end(),
                      [&](const Clause& clause) { return clause.metric.quantity == was.row; });
      if (now == nullptr) {
        // Clauses that used it are gone or changed, and say so.
        Note(where, "removed: " + Definition(*was.row));
      } else if (now->row != was.row) {
        const std::string what =
            "definition changed " + FromTo(Definition(*was.row), Definition(*now->row));
        if (used) {
          Add(MakeChange(true, where, what + "; not comparable, so it counts as looser"));
        } else {
          Note(where, what + "; no clause used it");
        }
      }
      if (now != nullptr && now->doc != was.doc) Note(where, "doc changed");
    }
    for (const OwnDefinition& definition : after_.metrics) {
      if (FindMetric(before_, definition.row->id) != nullptr) continue;
      Note("metric " + std::string(definition.row->id), "new: " + Definition(*definition.row));
    }
  }

  // --- Slices.

  static std::string Quoted(const Slice& slice) {
    return slice.where ? "`" + slice.where->Canonical() + "`" : "everything";
  }

  static const Slice* SameMeaning(const Slice& slice, const Contract& contract) {
    for (const Slice& candidate : contract.slices) {
      if (SliceMeaning(candidate) == SliceMeaning(slice)) return &candidate;
    }
    return nullptr;
  }

  // A slice that no clause of the old contract names decides nothing.
  bool UsedBefore(const std::string& name) const {
    return std::any_of(before_.clauses.begin(), before_.clauses.end(), [&](const Clause& clause) {
      return std::find(clause.slices.begin(), clause.slices.end(), name) != clause.slices.end();
    });
  }

  void Slices() {
    for (const Slice& slice : before_.slices) {
      const Slice* now = after_.FindSlice(slice.name);
      const std::string where = "slice " + slice.name;
      const bool used = UsedBefore(slice.name);
      if (now == nullptr) {
        SliceGone(slice, used);
      } else if (SliceMeaning(slice) != SliceMeaning(*now)) {
        const std::string what = "predicate changed " + FromTo(Quoted(slice), Quoted(*now));
        if (used) {
          Add(MakeChange(true, where, what + "; not comparable, so it counts as looser"));
        } else {
          Note(where, what + "; no clause used it");
        }
      }
    }
    for (const Slice& slice : after_.slices) {
      if (before_.FindSlice(slice.name) != nullptr) continue;
      Add({.kind = ChangeKind::kNew,
           .loosens = false,
           .where = "slice " + slice.name,
           .what = "new: " + Quoted(slice)});
    }
  }

  void SliceGone(const Slice& slice, bool used) {
    const std::string where = "slice " + slice.name;
    if (const Slice* twin = SameMeaning(slice, after_)) {
      Note(where, "is now slice " + twin->name + ", with the same predicate");
    } else if (used) {
      Add({.kind = ChangeKind::kGone,
           .loosens = true,
           .where = where,
           .what = "gone: " + Quoted(slice) + ", which clauses used"});
    } else {
      Note(where, "removed: " + Quoted(slice) + "; no clause used it");
    }
  }

  // --- Clauses.

  static std::string Summary(const Clause& clause) {
    const std::vector<std::string_view> slices(clause.slices.begin(), clause.slices.end());
    return MetricName(clause.metric) + " " + std::string(Name(clause.bound)) + " " +
           ShortestNumber(clause.threshold) + " on " + JoinWords(slices) + ", level " +
           std::string(Name(clause.level));
  }

  void Clauses() {
    std::set<std::string> taken;  // new clauses that are old ones under a new id
    for (const Clause& clause : before_.clauses) {
      if (const Clause* now = after_.FindClause(clause.id)) {
        for (Change& change : DiffClause({before_, clause}, {after_, *now})) {
          Add(std::move(change));
        }
      } else if (const Clause* renamed = Renamed(clause, taken)) {
        taken.insert(renamed->id);
        Note("clause " + clause.id, "renamed to " + renamed->id);
        if (clause.why != renamed->why) Note("clause " + clause.id, "why changed");
      } else {
        Add({.kind = ChangeKind::kGone,
             .loosens = true,
             .where = "clause " + clause.id,
             .what = "gone: " + Summary(clause)});
      }
    }
    for (const Clause& clause : after_.clauses) {
      if (before_.FindClause(clause.id) != nullptr || taken.contains(clause.id)) continue;
      Add({.kind = ChangeKind::kNew,
           .loosens = false,
           .where = "clause " + clause.id,
           .what = "new: " + Summary(clause)});
    }
  }

  const Clause* Renamed(const Clause& clause, const std::set<std::string>& taken) const {
    for (const Clause& candidate : after_.clauses) {
      if (before_.FindClause(candidate.id) != nullptr || taken.contains(candidate.id)) continue;
      if (candidate.metric != clause.metric || candidate.threshold != clause.threshold) continue;
      Clause reworded = candidate;
      reworded.why = clause.why;
      if (DiffClause({before_, clause}, {after_, reworded}).empty()) return &candidate;
    }
    return nullptr;
  }

  // --- Escalation: compared by what it orders for every family and level, so that rewriting
  // overrides to the same effect is no change of strength.

  static Action Ordered(const Escalation& escalation, Family family, ViolationLevel level) {
    Clause clause;
    clause.family = family;
    clause.level = level;
    return ActionOf(escalation, clause);
  }

  void ActionChange(const std::string& whom, Action before, Action after) {
    Add(MakeChange(after < before, "escalation",
                   "action " + whom + (after < before ? " weakened " : " strengthened ") +
                       FromTo(Name(before), Name(after))));
  }

  void EscalationByLevel() {
    constexpr std::array kFamilies = {Family::kNumerical, Family::kStatistical, Family::kRuntime,
                                      Family::kObservability};
    constexpr std::array kLevels = {ViolationLevel::kL1, ViolationLevel::kL2, ViolationLevel::kL3};
    bool any = false;
    for (const ViolationLevel level : kLevels) {
      std::array<std::pair<Action, Action>, kFamilies.size()> actions;
      for (size_t i = 0; i < kFamilies.size(); ++i) {
        actions[i] = {Ordered(before_.escalation, kFamilies[i], level),
                      Ordered(after_.escalation, kFamilies[i], level)};
      }
      const bool alike = std::all_of(actions.begin(), actions.end(),
                                     [&](const auto& pair) { return pair == actions[0]; });
      for (size_t i = 0; i < (alike ? 1 : kFamilies.size()); ++i) {
        if (actions[i].first == actions[i].second) continue;
        any = true;
        const std::string family = alike ? "" : std::string(Name(kFamilies[i])) + " ";
        ActionChange("for " + family + "clauses of level " + std::string(Name(level)),
                     actions[i].first, actions[i].second);
      }
    }
    if (!any && Rewritten()) Note("escalation", "rewritten to the same effect");
  }

  bool Rewritten() const {
    const Escalation& a = before_.escalation;
    const Escalation& b = after_.escalation;
    const auto same = [](const ActionOverride& x, const ActionOverride& y) {
      return x.family == y.family && x.level == y.level && x.action == y.action;
    };
    return a.by_level != b.by_level || !std::equal(a.overrides.begin(), a.overrides.end(),
                                                   b.overrides.begin(), b.overrides.end(), same);
  }

  void Fallback(const std::string& when, Action before, Action after) {
    if (before != after) ActionChange(when, before, after);
  }

  const Contract& before_;
  const Contract& after_;
  std::vector<Change> changes_;
};

}  // namespace

std::vector<Change> DiffContracts(const Contract& before, const Contract& after) {
  std::vector<Change> changes = ContractDiff(before, after).Run();
  SortChanges(&changes);
  return changes;
}

void SortChanges(std::vector<Change>* changes) {
  std::stable_sort(changes->begin(), changes->end(), [](const Change& a, const Change& b) {
    return std::tuple(!a.loosens, std::string_view(a.where)) <
           std::tuple(!b.loosens, std::string_view(b.where));
  });
}

std::string_view Name(ChangeKind kind) {
  constexpr std::array<std::string_view, 5> kNames = {"looser", "tighter", "new", "gone", "other"};
  return kNames[static_cast<size_t>(kind)];
}

void WriteChanges(const std::vector<Change>& changes, JsonWriter* json) {
  json->BeginArray();
  for (const Change& change : changes) {
    json->BeginObject()
        .Field("kind", Name(change.kind))
        .Field("loosens", change.loosens)
        .Field("where", change.where)
        .Field("what", change.what)
        .EndObject();
  }
  json->EndArray();
}

}  // namespace kcc
