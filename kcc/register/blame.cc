#include "kcc/register/blame.h"

#include <algorithm>
#include <iterator>

namespace kcc {
namespace {

using Findings = std::vector<BlameFinding>;

const BlameFinding* Find(const BlameCell& cell, const BlameFinding& like) {
  const auto found = std::find_if(cell.findings.begin(), cell.findings.end(),
                                  [&](const BlameFinding& one) { return one.Of(like); });
  return found == cell.findings.end() ? nullptr : &*found;
}

Findings ViolatedIn(const BlameCell& cell) {
  Findings violated;
  std::copy_if(cell.findings.begin(), cell.findings.end(), std::back_inserter(violated),
               [](const BlameFinding& one) { return one.verdict == Verdict::kViolated; });
  return violated;
}

// What the cell says of these clause-slices alone.
BlameCell Only(const BlameCell& cell, const Findings& these) {
  BlameCell only{cell.state, {}};
  for (const BlameFinding& one : these) {
    const BlameFinding* found = Find(cell, one);
    if (found != nullptr) {
      only.findings.push_back(*found);
    } else {
      only.findings.push_back(
          {one.clause, one.slice, Verdict::kInconclusive, "it was not judged there", {}});
    }
  }
  return only;
}

// "N-1 on long-context, S-2 on all and 3 more".
std::string ListOf(const Findings& findings) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < findings.size() && i < kShown; ++i) {
    const bool last = i + 1 == findings.size();
    text += (i == 0 ? "" : last ? " and " : ", ") + findings[i].clause + " on " + findings[i].slice;
  }
  if (findings.size() > kShown)
    text += " and " + std::to_string(findings.size() - kShown) + " more";
  return text;
}

// Why a cell decides nothing; the verdict of its first open finding says more.
std::string WhyOpen(const BlameCell& cell, bool same_requests) {
  switch (cell.state) {
    case BlameCell::State::kAbsent:
      return same_requests ? "was not recorded on the same requests" : "was not recorded";
    case BlameCell::State::kRemoved:
      return "was recorded, and its evidence is no longer stored";
    case BlameCell::State::kJudged:
      break;
  }
  for (const BlameFinding& one : cell.findings) {
    if (one.verdict != Verdict::kInconclusive && one.verdict != Verdict::kError) continue;
    return "does not settle " + one.clause + " on " + one.slice +
           (one.reason.empty() ? "" : " (" + one.reason + ")");
  }
  return "was judged by no clause of its stage";
}

class BlameDecision {
 public:
  explicit BlameDecision(const BlameCase& seen) : seen_(seen) {}

  BlameAnswer Run() {
    const std::optional<Verdict> after = Cell(BlameEvidence::kAfter).verdict();
    if (after == Verdict::kSatisfied) {
      WithinTheContract();
    } else if (after == Verdict::kViolated) {
      BeyondTheContract();
    } else {
      Lack(BlameEvidence::kAfter, Cell(BlameEvidence::kAfter));
      CannotTell("");
    }
    return std::move(answer_);
  }

 private:
  const BlameCell& Cell(BlameEvidence evidence) const {
    const BlameRow& row = seen_.row(evidence);
    return under_old_ ? row.under_old : row.under_new;
  }
  std::string Contract() const { return under_old_ ? "the previous contract" : "the contract"; }

  void Conclude(BlameCause cause, std::string sentence, Findings findings) {
    answer_.cause = cause;
    answer_.sentence = std::move(sentence);
    answer_.findings = std::move(findings);
    answer_.under_old = under_old_;
  }

  void Lack(BlameEvidence evidence, const BlameCell& cell) {
    const bool same = evidence != BlameEvidence::kAfter;
    answer_.missing.push_back({evidence, under_old_, WhyOpen(cell, same)});
  }

  // `why` stands before what is missing, or alone where no evidence would help.
  void CannotTell(const std::string& why) {
    answer_.cause = BlameCause::kCannotTell;
    answer_.sentence = "cannot tell: " + why;
    for (const BlameMissing& one : answer_.missing) {
      const bool first = &one == &answer_.missing.front();
      answer_.sentence += first ? "missing an evaluation of " : "; and one of ";
      answer_.sentence += std::string(Words(one.evidence)) +
                          (one.under_old ? " under the previous contract" : "") + ", which " +
                          one.why;
    }
  }

  // Every clause is satisfied by what was promoted.
  void WithinTheContract() {
    if (!seen_.incident) {
      return Conclude(BlameCause::kNothing,
                      "nothing to blame: what was promoted satisfies its contract, and no incident "
                      "is recorded about it",
                      {});
    }
    const BlameCell& after = Cell(BlameEvidence::kAfter);
    Findings open;
    std::copy_if(after.elsewhere.begin(), after.elsewhere.end(), std::back_inserter(open),
                 [](const auto& one) { return one.verdict != Verdict::kSatisfied; });
    if (!open.empty()) {
      return CannotTell("the evidence satisfies every clause that its stage asks, but not " +
                        ListOf(open) +
                        ", which other stages ask; record it with --stage of the stage in which it "
                        "happened");
    }
    std::string sentence =
        "the contract is too loose: the evidence of the incident satisfies every clause of it";
    const BlameCell& under_old = seen_.row(BlameEvidence::kAfter).under_old;
    if (seen_.contract_changed && under_old.verdict() == Verdict::kViolated) {
      sentence += "; the previous one would have caught it by " + ListOf(ViolatedIn(under_old));
    }
    Conclude(BlameCause::kContract, std::move(sentence), {});
  }

  void BeyondTheContract() {
    const Findings violated = ViolatedIn(Cell(BlameEvidence::kAfter));
    answer_.findings = violated;
    if (!seen_.has_before) {
      return CannotTell("nothing served before, so no change can be blamed for " +
                        ListOf(violated));
    }
    if (!seen_.model_changed && !seen_.kernel_changed) return SameTriple(violated);
    const BlameCell before = Only(Cell(BlameEvidence::kBefore), violated);
    Findings introduced;
    for (const BlameFinding& one : before.findings) {
      if (one.verdict != Verdict::kSatisfied) continue;
      introduced.push_back(*Find(Cell(BlameEvidence::kAfter), one));
    }
    if (!introduced.empty()) return Introduced(introduced);
    if (before.state == BlameCell::State::kJudged && ViolatedIn(before).size() == violated.size()) {
      return OlderThanTheChange(violated);
    }
    Lack(BlameEvidence::kBefore, before);
    CannotTell("");
  }

  // What changed beside model and contract, and evidence of `kernels` does not tell from them.
  std::string Beside(bool kernels) const {
    const bool hardware = seen_.hardware_changed || (kernels && seen_.build_hardware_changed);
    if (hardware && seen_.routing_changed) return "hardware and routing";
    return hardware ? "hardware" : seen_.routing_changed ? "routing" : "";
  }

  // Two changes came at once, and what is compared has both or neither of them.
  void OneOfTwo(const std::string& part, const std::string& beside, const Findings& these) {
    answer_.findings = these;
    answer_.under_old = under_old_;
    answer_.missing.clear();  // none of it would tell these two apart
    CannotTell("the " + part + " and the " + beside +
               " changed at once; on the same requests what is without them satisfies " +
               ListOf(these) +
               " and what is with them violates it, and the evidence does not tell "
               "which of the two it was. An evaluation of the new " +
               part + " with the previous " + beside + " would");
  }

  // Model and kernels are those that served before.
  void SameTriple(const Findings& violated) {
    if (!seen_.contract_changed && !Beside(false).empty()) {
      return CannotTell("neither model, kernel build nor contract changed but the " +
                        Beside(false) + ", and " + ListOf(violated) +
                        " is violated; evidence does not say what it was recorded with, so what "
                        "served before cannot be told from what was promoted");
    }
    if (!seen_.contract_changed) {
      return CannotTell("neither model, kernel build nor contract changed, and " +
                        ListOf(violated) +
                        " is violated; the register does not tell other changes apart");
    }
    Asks(violated, BlameEvidence::kAfter, "what serves violates ");
  }

  // What served before violates the same, so what changed is not to blame for it. Under the
  // contract before it may be to blame for something else.
  void OlderThanTheChange(const Findings& violated) {
    if (under_old_ || !seen_.contract_changed) {
      return CannotTell("what served before violates " + ListOf(violated) +
                        " on the same requests too, so the fault is older than this change; blame "
                        "the promotion that brought it");
    }
    const BlameCell& after_old = seen_.row(BlameEvidence::kAfter).under_old;
    if (after_old.verdict() == Verdict::kViolated) {
      under_old_ = true;
      return BeyondTheContract();
    }
    if (after_old.verdict() != Verdict::kSatisfied) {
      under_old_ = true;
      Lack(BlameEvidence::kAfter, after_old);
      return CannotTell("");
    }
    Asks(violated, BlameEvidence::kBefore, "what served before, on the same requests, violates ");
  }

  // `violated` is of the new contract, and no change of model or kernels explains it. What
  // `evidence` says under the previous contract tells whether that one granted it.
  void Asks(const Findings& violated, BlameEvidence evidence, const std::string& who) {
    under_old_ = true;
    const BlameCell& under_old = Cell(evidence);
    const std::string what = who + ListOf(violated) + " of the new contract";
    const std::optional<Verdict> verdict = under_old.verdict();
    if (verdict == Verdict::kViolated) {
      return CannotTell(what + ", and " + ListOf(ViolatedIn(under_old)) +
                        " of the previous one, so the fault is older than this change");
    }
    if (verdict != Verdict::kSatisfied) {
      Lack(evidence, under_old);
      return CannotTell("");
    }
    if (!seen_.incident) {
      return Conclude(BlameCause::kNothing,
                      "nothing regressed: the new contract asks for more than the previous one; " +
                          what + " and satisfies the previous one",
                      violated);
    }
    Conclude(BlameCause::kContract,
             "the previous contract was too loose: " + what + " and satisfies the previous one",
             violated);
  }

  // What served before satisfies `these` on the same requests, under the same contract.
  void Introduced(const Findings& these) {
    if (!seen_.model_changed) return Kernel(these, "the model is the same, and ");
    if (!seen_.kernel_changed) return Model(these, "the kernels are the same, and ");
    const BlameCell kernel = Only(Cell(BlameEvidence::kKernelAlone), these);
    const BlameCell model = Only(Cell(BlameEvidence::kModelAlone), these);
    const std::optional<Verdict> of_kernel = Settled(kernel);
    const std::optional<Verdict> of_model = Settled(model);
    if (!of_kernel) Lack(BlameEvidence::kKernelAlone, kernel);
    if (!of_model) Lack(BlameEvidence::kModelAlone, model);
    if (of_kernel == Verdict::kViolated && of_model == Verdict::kViolated) {
      if (!Beside(true).empty()) return OneOfTwo("kernel build", Beside(true), ViolatedIn(kernel));
      return Conclude(BlameCause::kKernelAndModel,
                      "the kernel build regressed, and the model interacts badly with " +
                          Contract() + ": each of them by itself violates " + ListOf(these) +
                          ", or a part of it, which is satisfied without both",
                      these);
    }
    if (of_kernel == Verdict::kViolated) {
      return Kernel(ViolatedIn(kernel), "with the previous model, ");
    }
    if (of_model == Verdict::kViolated) {
      return Model(ViolatedIn(model), "on the previous kernels, ");
    }
    if (of_kernel && of_model && !Beside(true).empty()) {
      return OneOfTwo("model and kernel build", Beside(true), these);
    }
    if (of_kernel && of_model) {
      return Conclude(BlameCause::kCombination,
                      "it is the two changes together: the new model on the previous kernels and "
                      "the previous model on the new ones satisfy " +
                          ListOf(these) + ", and the two together violate it",
                      these);
    }
    CannotTell("model and kernels changed at once; ");
  }

  // One violation is enough; all must be satisfied.
  static std::optional<Verdict> Settled(const BlameCell& cell) {
    const std::optional<Verdict> verdict = cell.verdict();
    if (verdict == Verdict::kSatisfied || verdict == Verdict::kViolated) return verdict;
    return {};
  }

  void Kernel(const Findings& these, const std::string& given) {
    if (!Beside(true).empty()) return OneOfTwo("kernel build", Beside(true), these);
    Conclude(BlameCause::kKernel,
             "the kernel build regressed: " + given + "on the same requests the previous build " +
                 "satisfies " + ListOf(these) + (under_old_ ? " of the previous contract" : "") +
                 " and the new one violates it",
             these);
  }

  void Model(const Findings& these, const std::string& given) {
    if (!Beside(false).empty()) return OneOfTwo("model", Beside(false), these);
    const bool old = under_old_ || !seen_.contract_changed;
    Conclude(BlameCause::kModel,
             std::string("the model interacts badly with ") +
                 (old ? "an old contract: " : "the contract: ") + given +
                 "on the same requests the previous model satisfies " + ListOf(these) +
                 " and the new one violates it",
             these);
  }

  const BlameCase& seen_;
  bool under_old_ = false;  // which contract the question is put under
  BlameAnswer answer_;
};

}  // namespace

std::optional<Verdict> BlameCell::verdict() const {
  if (state != State::kJudged || findings.empty()) return {};
  Verdict worst = Verdict::kSatisfied;
  for (const BlameFinding& one : findings) worst = std::max(worst, one.verdict);
  return worst;
}

std::string_view Words(BlameEvidence evidence) {
  switch (evidence) {
    case BlameEvidence::kAfter:
      return "what was promoted";
    case BlameEvidence::kBefore:
      return "what served before";
    case BlameEvidence::kKernelAlone:
      return "the previous model on the new kernels";
    case BlameEvidence::kModelAlone:
      return "the new model on the previous kernels";
  }
  return {};
}

std::string_view Name(BlameCause cause) {
  switch (cause) {
    case BlameCause::kContract:
      return "contract";
    case BlameCause::kKernel:
      return "kernel";
    case BlameCause::kModel:
      return "model";
    case BlameCause::kKernelAndModel:
      return "kernel-and-model";
    case BlameCause::kCombination:
      return "combination";
    case BlameCause::kNothing:
      return "nothing";
    case BlameCause::kCannotTell:
      return "cannot-tell";
  }
  return {};
}

BlameAnswer Blame(const BlameCase& seen) { return BlameDecision(seen).Run(); }

}  // namespace kcc
