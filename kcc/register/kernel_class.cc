#include "kcc/register/kernel_class.h"

#include <algorithm>
#include <utility>

#include "kcc/register/event_body.h"

namespace kcc {

Result<std::vector<KernelClass>> KernelClasses(Register& source, const std::string& contract) {
  KCC_TRY(const auto known, source.Find({EntryTable::kContracts, contract}));
  if (!known) return InvalidError("there is no contract " + contract + " in the register");
  KCC_TRY(const auto triples, source.List({.table = EntryTable::kTriples, .subject = contract}));
  std::map<std::pair<std::string, std::string>, KernelClass> classes;
  for (const Entry& triple : triples) {
    const std::string& body = triple.event.body;
    KernelClass& of = classes[{BodyText(body, "model"), BodyText(body, "train")}];
    of.model = BodyText(body, "model");
    of.train = BodyText(body, "train");
    ClassMember member{.kernel = BodyText(body, "infer"), .triple = triple.key.id, .stages = {}};
    KCC_TRY(const auto evaluations,
            source.List({.table = EntryTable::kEvaluations, .subject = triple.key.id}));
    for (const Entry& evaluation : evaluations) {  // the last first: it counts
      const RecordedEvaluation read = ReadRecordedEvaluation(evaluation.event.body);
      member.stages.emplace(read.stage, StageVerdict{read.verdict, evaluation.key.id});
    }
    member.interchangeable =
        !member.stages.empty() &&
        std::all_of(member.stages.begin(), member.stages.end(),
                    [](const auto& stage) { return stage.second.verdict == "satisfied"; });
    of.members.push_back(std::move(member));
  }
  std::vector<KernelClass> sorted;
  for (auto& [key, of] : classes) {
    std::sort(of.members.begin(), of.members.end(),
              [](const ClassMember& a, const ClassMember& b) { return a.kernel < b.kernel; });
    sorted.push_back(std::move(of));
  }
  return sorted;
}

}  // namespace kcc
