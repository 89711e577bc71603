// One plan for several contracts, so that one measurement can be judged under each of them.
#include <algorithm>
#include <map>

#include "kcc/summary/plan.h"

namespace kcc {
namespace {

// The contract with slices named as the plan of `first` can hold them: one that means what a slice
// there means takes its name, and one that means something else under a name of there gets another.
Contract RenamedFor(const Contract& first, const Contract& other, size_t number) {
  const auto meaning = [](const Slice& slice) {
    return slice.where ? slice.where->Canonical() : std::string();
  };
  Contract renamed = other;
  std::map<std::string, std::string> names;
  for (Slice& slice : renamed.slices) {
    const Slice* same_name = first.FindSlice(slice.name);
    if (same_name == nullptr || meaning(*same_name) == meaning(slice)) continue;
    const std::string name = slice.name + "@also" + std::to_string(number);
    names[slice.name] = name;
    slice.name = name;
  }
  for (Clause& clause : renamed.clauses) {
    for (std::string& slice : clause.slices) {
      if (const auto found = names.find(slice); found != names.end()) slice = found->second;
    }
  }
  return renamed;
}

}  // namespace

Plan Plan::FromContracts(const Contract& contract, std::span<const Contract> also) {
  Contract all = contract;  // slices and metrics of all of them, each once
  std::vector<Contract> others;
  for (size_t i = 0; i < also.size(); ++i) {
    others.push_back(RenamedFor(all, also[i], i + 1));
    for (const Slice& slice : others.back().slices) {
      if (all.FindSlice(slice.name) == nullptr) all.slices.push_back(slice);
    }
    // A metric that is another one there is not measured: its name would stand for two.
    std::erase_if(others.back().clauses, [&](const Clause& clause) {
      const Quantity* row = clause.metric.quantity;
      if (row->own == nullptr) return false;
      const Quantity* here = FindOwn(all.own_rows(), row->id);
      return here != nullptr && here != row;
    });
    for (const OwnDefinition& definition : others.back().metrics) {
      if (FindOwn(all.own_rows(), definition.row->id) == nullptr) {
        all.metrics.push_back(definition);
      }
    }
    for (const Clause& clause : others.back().clauses) all.clauses.push_back(clause);
  }
  Plan plan;
  plan.SetOwn(OwnSeriesOf(all));
  plan.AddSlicesOf(all);
  if (all.FindSlice("all") == nullptr) plan.AddSlice({"all", "", false});
  for (const Clause& clause : contract.clauses) plan.AddClause(clause, contract);
  const Repeats repeats = plan.repeats_;
  for (const Contract& other : others) {
    for (const Clause& clause : other.clauses) plan.AddClause(clause, other);
  }
  if (repeats != Repeats::kNone) plan.repeats_ = repeats;
  plan.Canonicalise();
  return plan;
}

}  // namespace kcc
