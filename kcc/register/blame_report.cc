#include "kcc/register/blame_report.h"

#include <algorithm>
#include <array>
#include <map>

#include "kcc/contract/contract.h"
#include "kcc/register/blame_evidence.h"
#include "kcc/register/blame_subject.h"
#include "kcc/register/event_body.h"

namespace kcc {
namespace {

// What was promoted, judged: the evidence that a cell came from, if any.
struct Chosen {
  std::optional<StoredEvidence> evidence;
  BlameCell cell;
};

// The evidence of what went wrong. A violation is taken wherever it was recorded since the
// proposal. Without one, an incident is answered only by evidence from after it was opened, or by
// the evaluation that it names: what was recorded before cannot show what it did not see.
Result<Chosen> ChooseAfter(Register& source, const BlameSubject& subject,
                           const std::optional<Contract>& contract) {
  KCC_TRY(std::vector<StoredEvidence> all, EvidenceOfPair(source, subject.after));
  if (subject.promotion && subject.named_evaluation.empty()) {
    KCC_TRY(std::optional<StoredEvidence> joined,
            JoinedEvidence(source, subject.promotion->key.id));
    const bool known = joined && std::any_of(all.begin(), all.end(), [&](const auto& one) {
                         return one.summary && one.summary->requests == joined->summary->requests;
                       });
    if (joined && !known) all.push_back(std::move(*joined));
  }
  if (!subject.named_evaluation.empty()) {
    std::erase_if(
        all, [&](const StoredEvidence& one) { return one.evaluation != subject.named_evaluation; });
  } else if (subject.promotion) {
    std::erase_if(all, [&](const StoredEvidence& one) {
      return one.sequence <= subject.promotion->state.added;
    });
  }
  Chosen chosen;
  for (StoredEvidence& one : all) {
    BlameCell cell = JudgeForBlame(contract, one, one.stage);
    const std::optional<Verdict> verdict = cell.verdict();
    if (verdict == Verdict::kViolated) return Chosen{std::move(one), std::move(cell)};
    const bool of_incident = !subject.named_evaluation.empty() || !subject.incident ||
                             one.sequence > subject.incident_opened;
    if (!of_incident) continue;
    // The newest, unless an older one is open where the newer ones are satisfied: all must be.
    const bool first = chosen.cell.state == BlameCell::State::kAbsent;
    const bool worse =
        chosen.cell.verdict() == Verdict::kSatisfied && verdict != Verdict::kSatisfied;
    if (first || worse) chosen = {std::move(one), std::move(cell)};
  }
  return chosen;
}

class ReportMaker {
 public:
  ReportMaker(Register& source, BlameSubject subject)
      : source_(source), subject_(std::move(subject)) {}

  Result<BlameReport> Run() {
    Describe();
    KCC_TRY(new_, BlamedContract(source_, report_.after.contract));
    report_.contract_new = Identity(report_.after.contract, new_);
    if (report_.seen.contract_changed) {
      KCC_TRY(old_, BlamedContract(source_, report_.before.contract));
      report_.contract_old = Identity(report_.before.contract, old_);
    }
    KCC_TRY(after_, ChooseAfter(source_, subject_, new_));
    stage_ = after_.evidence ? after_.evidence->stage : Stage::kOffline;
    AddRow(BlameEvidence::kAfter, report_.after, after_.evidence, true,
           after_.evidence ? BlameCell::State::kJudged : BlameCell::State::kAbsent);
    KCC_TRY_VOID(AddOthers());
    KCC_TRY_VOID(AddBuild());
    DescribeBeside();
    report_.answer = Blame(report_.seen);
    AddOwners();
    if (report_.answer.cause == BlameCause::kContract && !report_.answer.under_old) {
      AddClosest();
      KCC_TRY_VOID(AddOtherContracts());
    }
    return std::move(report_);
  }

 private:
  void Describe() {
    const Entry& asked = subject_.incident ? *subject_.incident : *subject_.promotion;
    report_.about = KeyText(asked.key);
    report_.what = subject_.incident ? BodyText(asked.event.body, "what") : "";
    if (subject_.promotion) report_.promotion = subject_.promotion->key.id;
    report_.before = subject_.before;
    report_.after = subject_.after;
    BlameCase& seen = report_.seen;
    const Deployment& before = report_.before;
    const Deployment& after = report_.after;
    seen.incident = subject_.incident.has_value();
    seen.has_before = !before.empty();
    seen.model_changed = seen.has_before && before.model != after.model;
    seen.kernel_changed =
        seen.has_before && (before.train != after.train || before.infer != after.infer);
    seen.contract_changed = seen.has_before && before.contract != after.contract;
  }

  // What changed beside the triple: as the kernels declare it, else as the promotions say.
  void DescribeBeside() {
    BlameCase& seen = report_.seen;
    seen.build_hardware_changed =
        std::any_of(report_.build.begin(), report_.build.end(),
                    [](const BuildChange& change) { return change.word == "hardware"; });
    seen.hardware_changed = seen.has_before && !seen.build_hardware_changed &&
                            report_.before.hardware != report_.after.hardware;
    seen.routing_changed = seen.has_before && report_.before.routing != report_.after.routing;
  }

  static BlameContract Identity(const std::string& digest, const std::optional<Contract>& read) {
    if (!read) return {digest, "", "", ""};
    return {digest, read->name, read->version, read->owner};
  }

  // Evidence that is absent or removed makes a row without cells; `state` says which.
  void AddRow(BlameEvidence which, const Deployment& of,
              const std::optional<StoredEvidence>& evidence, bool decides, BlameCell::State state) {
    BlameTableRow row;
    row.evidence = which;
    row.of = of;
    row.decides = decides;
    row.cells.under_new.state = row.cells.under_old.state = state;
    if (evidence) {
      row.evaluation = evidence->evaluation;
      row.stage = Name(evidence->stage);
      if (evidence->summary)
        row.requests = static_cast<int64_t>(evidence->summary->requests.size());
      row.cells.under_new = JudgeForBlame(new_, *evidence, stage_);
      if (report_.seen.contract_changed) {
        row.cells.under_old = JudgeForBlame(old_, *evidence, stage_);
      }
    }
    if (decides) report_.seen.row(which) = row.cells;
    report_.table.push_back(std::move(row));
  }

  // The rows that are compared with what was promoted.
  Result<> AddOthers() {
    const BlameCase& seen = report_.seen;
    if (!seen.has_before || (!seen.model_changed && !seen.kernel_changed)) return {};
    KCC_TRY_VOID(AddCompared(BlameEvidence::kBefore, report_.before));
    if (!seen.model_changed || !seen.kernel_changed) return {};
    Deployment kernel_alone = report_.after;
    kernel_alone.model = report_.before.model;
    KCC_TRY_VOID(AddCompared(BlameEvidence::kKernelAlone, kernel_alone));
    Deployment model_alone = report_.before;
    model_alone.model = report_.after.model;
    return AddCompared(BlameEvidence::kModelAlone, model_alone);
  }

  // The newest evidence of the pair on the same requests; without one, the newest is shown.
  Result<> AddCompared(BlameEvidence which, const Deployment& of) {
    KCC_TRY(const std::vector<StoredEvidence> all, EvidenceOfPair(source_, of));
    const bool known = after_.evidence && after_.evidence->summary;
    const StoredEvidence* newest = nullptr;
    bool removed = false;
    for (const StoredEvidence& one : all) {
      removed = removed || !one.summary;
      if (!one.summary) continue;
      if (newest == nullptr) newest = &one;
      if (!known || one.summary->requests != after_.evidence->summary->requests) continue;
      AddRow(which, of, one, true, BlameCell::State::kJudged);
      return {};
    }
    if (newest != nullptr) {
      AddRow(which, of, *newest, false, BlameCell::State::kAbsent);
    } else {
      AddRow(which, of, {}, true, removed ? BlameCell::State::kRemoved : BlameCell::State::kAbsent);
    }
    if (removed) {  // it may have been on these requests
      BlameRow& row = report_.seen.row(which);
      row.under_new.state = row.under_old.state = BlameCell::State::kRemoved;
    }
    return {};
  }

  Result<> AddBuild();
  void AddOwners();
  void AddClosest();
  Result<> AddOtherContracts();

  Register& source_;
  BlameSubject subject_;
  BlameReport report_;
  std::optional<Contract> new_, old_;
  Chosen after_;
  Stage stage_ = Stage::kOffline;
};

// Words of what kernels declare that belong to one source of error.
constexpr std::array<std::pair<std::string_view, std::string_view>, 20> kSourceOfWord = {
    {{"attention", "operator"},   {"compiler", "operator"},
     {"exp", "operator"},         {"rmsnorm", "operator"},
     {"rope", "operator"},        {"swiglu", "operator"},
     {"accumulate", "precision"}, {"activations", "precision"},
     {"dtype", "precision"},      {"kv", "precision"},
     {"kvCache", "precision"},    {"lm_head", "precision"},
     {"logits", "precision"},     {"quantisation", "precision"},
     {"scale", "precision"},      {"weights", "precision"},
     {"batch", "batch"},          {"chunk", "batch"},
     {"packing", "batch"},        {"route", "route"}}};

std::string SourceOfWord(std::string_view word) {
  for (const auto& [name, source] : kSourceOfWord) {
    if (name == word) return std::string(source);
  }
  return {};
}

std::map<std::string, std::string> Declared(const std::optional<Entry>& kernel) {
  std::map<std::string, std::string> words;
  if (!kernel) return words;
  for (const char* part : {"build", "declares"}) {
    for (auto& [word, value] : BodyTexts(kernel->event.body, part)) words.emplace(word, value);
  }
  return words;
}

Result<> ReportMaker::AddBuild() {
  if (!report_.seen.kernel_changed) return {};
  const std::array<std::array<std::string, 3>, 2> sides = {
      {{"train", report_.before.train, report_.after.train},
       {"infer", report_.before.infer, report_.after.infer}}};
  for (const auto& [side, before_id, after_id] : sides) {
    if (before_id == after_id) continue;
    KCC_TRY(const auto before_kernel, source_.Find({EntryTable::kKernels, before_id}));
    KCC_TRY(const auto after_kernel, source_.Find({EntryTable::kKernels, after_id}));
    const std::map<std::string, std::string> before = Declared(before_kernel);
    std::map<std::string, std::string> words = before;  // all that either says
    const std::map<std::string, std::string> after = Declared(after_kernel);
    words.insert(after.begin(), after.end());
    for (const auto& [word, value] : words) {
      const auto was = before.find(word);
      const auto is = after.find(word);
      BuildChange change{side, word, was == before.end() ? "" : was->second,
                         is == after.end() ? "" : is->second, SourceOfWord(word)};
      if (change.before != change.after) report_.build.push_back(std::move(change));
    }
  }
  return {};
}

void ReportMaker::AddOwners() {
  const std::optional<Contract>& contract = report_.answer.under_old ? old_ : new_;
  if (!contract) return;
  const auto add = [&](std::string of, const std::string& owner) {
    const bool known = std::any_of(report_.owners.begin(), report_.owners.end(),
                                   [&](const BlameOwner& one) { return one.of == of; });
    if (!owner.empty() && !known) report_.owners.push_back({std::move(of), owner});
  };
  const BlameCause cause = report_.answer.cause;
  if (cause == BlameCause::kContract) {
    add("contract " + contract->name + " " + contract->version, contract->owner);
  }
  if (cause == BlameCause::kKernel || cause == BlameCause::kKernelAndModel) {
    for (const BuildChange& change : report_.build) {
      const auto owner = contract->owners.find(change.source);
      if (owner != contract->owners.end()) add("source " + change.source, owner->second);
    }
  }
  for (const BlameFinding& finding : report_.answer.findings) {
    const Clause* clause = contract->FindClause(finding.clause);
    if (clause != nullptr) add("clause " + clause->id, OwnerOf(*contract, *clause));
  }
}

void ReportMaker::AddClosest() {
  for (const BlameFinding& one : after_.cell.findings) {
    if (!one.headroom) continue;
    if (!report_.closest || *one.headroom < *report_.closest->headroom) report_.closest = one;
  }
}

// Other contracts of the name, the newest first: a later version may have caught it.
Result<> ReportMaker::AddOtherContracts() {
  KCC_TRY(std::vector<Entry> contracts, source_.List({.table = EntryTable::kContracts}));
  std::sort(contracts.begin(), contracts.end(),
            [](const Entry& a, const Entry& b) { return a.state.added > b.state.added; });
  for (const Entry& entry : contracts) {
    const std::string& digest = entry.key.id;
    if (digest == report_.after.contract || digest == report_.contract_old.digest) continue;
    if (BodyText(entry.event.body, "name") != report_.contract_new.name) continue;
    KCC_TRY(const std::optional<Contract> contract, BlamedContract(source_, digest));
    report_.others.push_back(
        {Identity(digest, contract), JudgeForBlame(contract, *after_.evidence, stage_)});
  }
  return {};
}

}  // namespace

Result<BlameReport> MakeBlameReport(Register& source, const std::string& name) {
  KCC_TRY(BlameSubject subject, FindBlameSubject(source, name));
  return ReportMaker(source, std::move(subject)).Run();
}

}  // namespace kcc
