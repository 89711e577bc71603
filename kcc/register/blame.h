// Which of three it was, after something went wrong with what was promoted: a contract that was too
// loose, a kernel build that regressed, or a model that interacts badly with the contract (the
// paper's section 4.3; docs/register.md "Blame"). Pure: verdicts in, an answer out. What it reads
// is made from stored evidence by blame_report.h.
//
// Rules that the table of cases in blame_test.cc holds it to:
//  - a change is blamed only where, on the same requests and under the same contract, what is
//    without the change satisfies what is with it violates;
//  - where hardware or routing changed beside it, no evidence tells the two apart, and neither is
//    blamed alone;
//  - a contract is called too loose only after an incident, and where its evidence satisfies it;
//  - whatever is absent, removed, inconclusive or broken is named and decides nothing.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/judge/verdict.h"

namespace kcc {

// One clause on one slice, as a fact about the requests at hand.
struct BlameFinding {
  std::string clause;
  std::string slice;
  Verdict verdict = Verdict::kInconclusive;
  std::string reason;
  // Where it is satisfied: how far from its limit, as a share of the limit.
  std::optional<double> headroom;

  bool Of(const BlameFinding& other) const {
    return clause == other.clause && slice == other.slice;
  }
};

// What stored evidence says under one contract.
struct BlameCell {
  enum class State : uint8_t {
    kAbsent,   // nobody recorded such evidence
    kRemoved,  // it was recorded, and gc or redaction took it
    kJudged,
  };
  State state = State::kAbsent;
  std::vector<BlameFinding> findings;
  // Of clauses that only other stages ask. The verdict is without them, but a contract is not too
  // loose where one of them would have caught it.
  std::vector<BlameFinding> elsewhere = {};

  // Violated where any finding is; satisfied where all are, and there is one; none where there is
  // nothing to judge.
  std::optional<Verdict> verdict() const;
};

// Evidence that an answer rests on or lacks. "New": of what was promoted; "previous": of what
// served before it.
enum class BlameEvidence : uint8_t {
  kAfter,        // new model, new kernel
  kBefore,       // previous model, previous kernel, on the same requests
  kKernelAlone,  // previous model, new kernel, on the same requests
  kModelAlone,   // new model, previous kernel, on the same requests
};
inline constexpr size_t kBlameEvidence = 4;
std::string_view Words(BlameEvidence evidence);  // "the previous model on the new kernel"

// The same evidence under the contract of what was promoted, and under that of what served before,
// which is read only where the two differ.
struct BlameRow {
  BlameCell under_new;
  BlameCell under_old;
};

struct BlameCase {
  bool incident = false;    // something went wrong, whatever the verdicts are
  bool has_before = false;  // something served before
  bool model_changed = false;
  bool kernel_changed = false;
  bool contract_changed = false;
  // With the kernels, which declare it: evidence of one kernel is evidence on its hardware.
  bool build_hardware_changed = false;
  // By the word of the promotions alone: evidence does not say what it was recorded with.
  bool hardware_changed = false;
  bool routing_changed = false;
  std::array<BlameRow, kBlameEvidence> rows;  // by BlameEvidence

  BlameRow& row(BlameEvidence evidence) { return rows[static_cast<size_t>(evidence)]; }
  const BlameRow& row(BlameEvidence evidence) const { return rows[static_cast<size_t>(evidence)]; }
};

enum class BlameCause : uint8_t {
  kContract,        // too loose
  kKernel,          // the build regressed
  kModel,           // it interacts badly with the contract
  kKernelAndModel,  // each of the two by itself
  kCombination,     // only the two together
  kNothing,         // nothing went wrong that evidence or an incident shows
  kCannotTell,
};
std::string_view Name(BlameCause cause);  // "kernel"; for --json

struct BlameMissing {
  BlameEvidence evidence = BlameEvidence::kAfter;
  bool under_old = false;  // judged under the contract of what served before
  std::string why;         // "was never recorded on these requests"
};

struct BlameAnswer {
  BlameCause cause = BlameCause::kCannotTell;
  std::string sentence;                // which it was, and why
  std::vector<BlameFinding> findings;  // what it rests on: violated, but for kContract's incident
  // Of kCannotTell: what would tell. Of kKernel and kModel: what would tell whether the other one
  // is to blame too. Empty where no evidence would help.
  std::vector<BlameMissing> missing;
  // Which contract the answer rests on, and of kContract which one is too loose: that of what
  // served before, or else that of what was promoted.
  bool under_old = false;
};

BlameAnswer Blame(const BlameCase& seen);

}  // namespace kcc
