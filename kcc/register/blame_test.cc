// Every shape of evidence, and what may be said from it.
#include "kcc/register/blame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kcc {
namespace {

using ::testing::HasSubstr;

// A cell by one letter for each of two clause-slices: s satisfied, v violated, i inconclusive, e
// broken; "-" was not recorded, "x" is no longer stored.
BlameCell CellOf(std::string_view text) {
  if (text == "-") return {};
  if (text == "x") return {BlameCell::State::kRemoved, {}};
  BlameCell cell{BlameCell::State::kJudged, {}};
  for (const char letter : text) {
    const Verdict verdict = letter == 's'   ? Verdict::kSatisfied
                            : letter == 'v' ? Verdict::kViolated
                            : letter == 'e' ? Verdict::kError
                                            : Verdict::kInconclusive;
    const std::string clause = cell.findings.empty() ? "N-1" : "S-1";
    cell.findings.push_back({clause, "all", verdict, "", {}});
  }
  return cell;
}

// What changed: m model, k kernel, c contract, b the hardware that the kernels declare, h hardware
// and r routing as the promotions say; "!" an incident; "0" nothing served before. Rows are "new"
// or "old/new" contract, in the order after, before, kernel alone, model alone.
struct Case {
  const char* name;
  const char* changed;
  std::vector<const char*> rows;
  BlameCause cause;
  const char* says;
  std::vector<BlameEvidence> missing = {};
};

BlameCase SeenOf(const Case& one) {
  const std::string_view changed = one.changed;
  const auto has = [&](char letter) { return changed.find(letter) != std::string_view::npos; };
  BlameCase seen;
  seen.incident = has('!');
  seen.has_before = !has('0');
  seen.model_changed = has('m');
  seen.kernel_changed = has('k');
  seen.contract_changed = has('c');
  seen.build_hardware_changed = has('b');
  seen.hardware_changed = has('h');
  seen.routing_changed = has('r');
  for (size_t i = 0; i < one.rows.size(); ++i) {
    const std::string_view text = one.rows[i];
    const size_t slash = text.find('/');
    const bool two = slash != std::string_view::npos;
    seen.rows[i].under_old = CellOf(two ? text.substr(0, slash) : "-");
    seen.rows[i].under_new = CellOf(two ? text.substr(slash + 1) : text);
  }
  return seen;
}

using enum BlameCause;
constexpr BlameEvidence kAfter = BlameEvidence::kAfter;
constexpr BlameEvidence kBefore = BlameEvidence::kBefore;
constexpr BlameEvidence kKernelAlone = BlameEvidence::kKernelAlone;
constexpr BlameEvidence kModelAlone = BlameEvidence::kModelAlone;

const Case kCases[] = {
    // One thing changed.
    {"KernelRegressed", "k", {"v", "s"}, kKernel, "the previous build satisfies N-1 on all"},
    {"KernelRegressedAfterAnIncident", "k!", {"v", "s"}, kKernel, "the kernel build regressed"},
    {"KernelRegressedOnOneClauseOfTwo", "k", {"vv", "vs"}, kKernel, "satisfies S-1 on all and"},
    {"ModelOnOldKernels", "m", {"v", "s"}, kModel, "an old contract"},
    {"ModelUnderANewContract", "mc", {"-/v", "-/s"}, kModel, "with the contract: "},
    {"KernelUnderANewContract", "kc", {"s/v", "s/s"}, kKernel, "regressed"},
    // Hardware or routing changed beside it: which of the two it was is not known.
    {"KernelAndItsHardware",
     "kb",
     {"v", "s"},
     kCannotTell,
     "the kernel build and the hardware changed at once"},
    {"KernelAndHardware", "kh", {"v", "s"}, kCannotTell, "does not tell which of the two it was"},
    {"KernelAndRouting", "kr!", {"v", "s"}, kCannotTell, "the kernel build and the routing"},
    {"KernelHardwareAndRouting",
     "kbr",
     {"v", "s"},
     kCannotTell,
     "the hardware and routing changed"},
    {"ModelAndHardware", "mh", {"v", "s"}, kCannotTell, "the model and the hardware changed"},
    {"HardwareAlone", "h", {"v"}, kCannotTell, "nor contract changed but the hardware"},
    {"RoutingAlone", "r!", {"v"}, kCannotTell, "but the routing, and N-1 on all is violated"},
    {"KernelAloneWithItsHardware",
     "mkb",
     {"v", "s", "v", "s"},
     kCannotTell,
     "the kernel build and the hardware"},
    // Evidence of the previous kernels is on their hardware, so there the model is shown.
    {"ModelAloneOnThePreviousHardware", "mkb", {"v", "s", "s", "v"}, kModel, "interacts badly"},
    {"ModelAloneOnUnknownHardware",
     "mkh",
     {"v", "s", "s", "v"},
     kCannotTell,
     "the model and the hardware"},
    {"BothAndTheHardware", "mkb", {"v", "s", "v", "v"}, kCannotTell, "the kernel build and the"},
    {"TogetherAndTheHardware",
     "mkb",
     {"v", "s", "s", "s"},
     kCannotTell,
     "the model and kernel build"},
    {"TooLooseOnOtherHardware", "kb!", {"s", "s"}, kContract, "the contract is too loose"},
    // The previous one must be known on the same requests, and settled.
    {"PreviousNotRecorded", "k", {"v", "-"}, kCannotTell, "not recorded on the same", {kBefore}},
    {"PreviousRemoved", "k", {"v", "x"}, kCannotTell, "no longer stored", {kBefore}},
    {"PreviousInconclusive", "k", {"v", "i"}, kCannotTell, "does not settle N-1", {kBefore}},
    {"PreviousBroken", "m", {"v", "e"}, kCannotTell, "does not settle N-1", {kBefore}},
    {"PreviousViolatesAPartAndLeavesTheRestOpen",
     "k",
     {"vv", "vi"},
     kCannotTell,
     "does not settle S-1",
     {kBefore}},
    {"PreviousViolatesItToo", "k", {"v", "v"}, kCannotTell, "the fault is older"},
    {"NothingServedBefore", "0", {"v"}, kCannotTell, "nothing served before"},
    {"NothingServedBeforeAnIncident", "0!", {"v"}, kCannotTell, "nothing served before"},
    {"NothingChanged", "", {"v", "s"}, kCannotTell, "neither model, kernel build nor contract"},
    // What was promoted must be settled.
    {"NotRecorded",
     "k",
     {"-", "s"},
     kCannotTell,
     "what was promoted, which was not recorded",
     {kAfter}},
    {"Removed", "k!", {"x", "s"}, kCannotTell, "no longer stored", {kAfter}},
    {"Inconclusive", "k!", {"si", "s"}, kCannotTell, "does not settle S-1", {kAfter}},
    {"Broken", "k!", {"se", "s"}, kCannotTell, "does not settle S-1", {kAfter}},
    {"NoClauseAsks", "k!", {"", "s"}, kCannotTell, "by no clause", {kAfter}},
    // Everything is satisfied.
    {"TooLoose", "k!", {"ss", "ss"}, kContract, "the contract is too loose"},
    {"TooLooseForTheFirstOfItsLane", "0!", {"s"}, kContract, "the contract is too loose"},
    {"TooLooseAndLoosened",
     "kc!",
     {"v/s", "s/s"},
     kContract,
     "the previous one would have caught it by N-1"},
    {"TooLooseWhateverThePreviousSays", "kc!", {"i/s", "-/-"}, kContract, "every clause of it"},
    {"NothingToBlame", "k", {"s", "v"}, kNothing, "no incident"},
    // The contract alone changed.
    {"PreviousContractTooLoose", "c!", {"s/v"}, kContract, "the previous contract was too loose"},
    {"StricterContractWithoutAnIncident", "c", {"s/v"}, kNothing, "asks for more"},
    {"ViolatesBothContracts", "c!", {"v/v"}, kCannotTell, "older than this change"},
    {"NotMeasuredUnderThePreviousContract",
     "c!",
     {"i/v"},
     kCannotTell,
     "under the previous contract",
     {kAfter}},
    // Kernel or model and contract changed, and the previous triple violates the new contract too.
    {"BothViolateTheNewContract",
     "kc!",
     {"s/v", "s/v"},
     kContract,
     "the previous contract was too loose"},
    {"RegressedUnderThePreviousContract",
     "kc",
     {"v/v", "s/v"},
     kKernel,
     "of the previous contract"},
    {"ModelUnderThePreviousContract", "mc", {"v/v", "s/v"}, kModel, "an old contract"},
    {"BothViolateBoth", "kc", {"v/v", "v/v"}, kCannotTell, "the fault is older"},
    {"AfterOpenUnderThePrevious",
     "kc",
     {"i/v", "s/v"},
     kCannotTell,
     "under the previous contract",
     {kAfter}},
    {"BeforeOpenUnderThePrevious",
     "kc!",
     {"s/v", "i/v"},
     kCannotTell,
     "under the previous contract",
     {kBefore}},
    {"BeforeOpenWhereAfterViolatesThePrevious",
     "kc",
     {"v/v", "i/v"},
     kCannotTell,
     "under the previous contract",
     {kBefore}},
    // Model and kernel changed at once.
    {"KernelByItself", "mk", {"v", "s", "v", "s"}, kKernel, "with the previous model"},
    {"ModelByItself", "mk", {"v", "s", "s", "v"}, kModel, "on the previous kernels"},
    {"EachByItself", "mk", {"v", "s", "v", "v"}, kKernelAndModel, "each of them by itself"},
    {"OnlyTogether", "mk", {"v", "s", "s", "s"}, kCombination, "the two changes together"},
    {"KernelByItselfModelUnknown", "mk", {"v", "s", "v", "-"}, kKernel, "regressed", {kModelAlone}},
    {"ModelByItselfKernelOpen",
     "mk",
     {"v", "s", "i", "v"},
     kModel,
     "interacts badly",
     {kKernelAlone}},
    {"NeitherAlone",
     "mk",
     {"v", "s", "-", "-"},
     kCannotTell,
     "the previous model on the new kernels",
     {kKernelAlone, kModelAlone}},
    {"KernelIsNotItAndModelUnknown",
     "mk",
     {"v", "s", "s", "-"},
     kCannotTell,
     "changed at once",
     {kModelAlone}},
    {"ModelIsNotItAndKernelRemoved",
     "mk",
     {"v", "s", "x", "s"},
     kCannotTell,
     "no longer stored",
     {kKernelAlone}},
    {"KernelOpenOnOneOfTwo",
     "mk",
     {"vv", "ss", "si", "ss"},
     kCannotTell,
     "does not settle S-1",
     {kKernelAlone}},
    {"BothChangedAndPreviousUnknown",
     "mk",
     {"v", "-", "v", "s"},
     kCannotTell,
     "what served before",
     {kBefore}},
    {"BothChangedUnderThePreviousContract",
     "mkc",
     {"v/v", "s/v", "v/v", "s/v"},
     kKernel,
     "of the previous contract"},
};

class BlameCases : public ::testing::TestWithParam<Case> {};

TEST_P(BlameCases, AreToldApart) {
  const Case& one = GetParam();
  const BlameAnswer answer = Blame(SeenOf(one));
  EXPECT_EQ(answer.cause, one.cause) << answer.sentence;
  EXPECT_THAT(answer.sentence, HasSubstr(one.says));
  std::vector<BlameEvidence> missing;
  for (const BlameMissing& row : answer.missing) missing.push_back(row.evidence);
  EXPECT_EQ(missing, one.missing) << answer.sentence;
}

INSTANTIATE_TEST_SUITE_P(Table, BlameCases, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

// Judged in the stage that somebody named, the evidence may satisfy everything although a clause of
// another stage would have caught it.
TEST(Blame, AContractIsNotTooLooseWhereAClauseOfAnotherStageIsOpen) {
  BlameCase seen = SeenOf({"", "k!", {"ss", "ss"}, kContract, ""});
  BlameCell& after = seen.rows[0].under_new;
  after.elsewhere = {{"R-1", "all", Verdict::kSatisfied, "", {}}};
  EXPECT_EQ(Blame(seen).cause, kContract);
  for (const Verdict open : {Verdict::kViolated, Verdict::kInconclusive, Verdict::kError}) {
    after.elsewhere[0].verdict = open;
    EXPECT_EQ(Blame(seen).cause, kCannotTell);
    EXPECT_THAT(Blame(seen).sentence, HasSubstr("but not R-1 on all, which other stages ask"));
  }
}

// Hardware or routing beside every change × every settled or open cell: nothing is named that came
// together with them.
TEST(Blame, NeverNamesOneOfTwoChangesThatCameTogether) {
  constexpr std::array kCells = {"i", "s", "v"};
  int told = 0;
  for (int changed = 0; changed < 64; ++changed) {
    BlameCase seen;
    seen.has_before = true;
    seen.incident = (changed & 1) != 0;
    seen.model_changed = (changed & 2) != 0;
    seen.kernel_changed = (changed & 4) != 0;
    seen.build_hardware_changed = seen.kernel_changed && (changed & 8) != 0;
    seen.hardware_changed = (changed & 16) != 0;
    seen.routing_changed = (changed & 32) != 0;
    const bool said = seen.hardware_changed || seen.routing_changed;
    for (int cells = 0; cells < 81; ++cells) {
      int rest = cells;
      for (size_t row = 0; row < kBlameEvidence; ++row, rest /= 3) {
        seen.rows[row].under_new = CellOf(kCells[static_cast<size_t>(rest % 3)]);
      }
      const BlameCause cause = Blame(seen).cause;
      const bool kernel = cause == kKernel || cause == kKernelAndModel || cause == kCombination;
      const bool model = cause == kModel || cause == kKernelAndModel || cause == kCombination;
      ASSERT_FALSE(kernel && (said || seen.build_hardware_changed)) << changed << " " << cells;
      ASSERT_FALSE(model && said) << changed << " " << cells;
      told += kernel || model;
    }
  }
  EXPECT_GT(told, 0);
}

// All changes × all cells: what may never be said, whatever the evidence is.
TEST(Blame, NeverNamesWhatTheEvidenceDoesNotShow) {
  constexpr std::array kCells = {"-", "x", "i", "e", "s", "v"};
  const auto verdict = [](const BlameRow& row, bool old) {
    return (old ? row.under_old : row.under_new).verdict();
  };
  std::array<size_t, 7> said{};
  for (int changed = 0; changed < 32; ++changed) {
    BlameCase seen;
    seen.incident = (changed & 1) != 0;
    seen.has_before = (changed & 2) != 0;
    seen.model_changed = seen.has_before && (changed & 4) != 0;
    seen.kernel_changed = seen.has_before && (changed & 8) != 0;
    seen.contract_changed = seen.has_before && (changed & 16) != 0;
    const int all = seen.contract_changed ? 6 * 6 * 6 * 6 * 6 * 6 : 6 * 6 * 6 * 6;
    for (int cells = 0; cells < all; ++cells) {
      int rest = cells;
      const auto next = [&] {
        const char* text = kCells[static_cast<size_t>(rest % 6)];
        rest /= 6;
        return CellOf(text);
      };
      for (size_t row = 0; row < kBlameEvidence; ++row) seen.rows[row].under_new = next();
      for (size_t row = 0; row < 2; ++row) seen.rows[row].under_old = next();
      const BlameAnswer answer = Blame(seen);
      ++said[static_cast<size_t>(answer.cause)];
      const bool old = answer.under_old;
      const auto after = verdict(seen.row(kAfter), old);
      const auto before = verdict(seen.row(kBefore), old);
      const bool introduced = after == Verdict::kViolated && before == Verdict::kSatisfied;
      ASSERT_FALSE(old && !seen.contract_changed);
      ASSERT_FALSE(answer.sentence.empty());
      switch (answer.cause) {
        case kContract:
          ASSERT_TRUE(seen.incident);
          ASSERT_TRUE(after == Verdict::kSatisfied || (old && before == Verdict::kSatisfied));
          break;
        case kKernel:
          ASSERT_TRUE(seen.kernel_changed && introduced) << answer.sentence;
          ASSERT_TRUE(!seen.model_changed ||
                      verdict(seen.row(kKernelAlone), old) == Verdict::kViolated);
          break;
        case kModel:
          ASSERT_TRUE(seen.model_changed && introduced) << answer.sentence;
          ASSERT_TRUE(!seen.kernel_changed ||
                      verdict(seen.row(kModelAlone), old) == Verdict::kViolated);
          break;
        case kKernelAndModel:
        case kCombination:
          ASSERT_TRUE(seen.model_changed && seen.kernel_changed && introduced);
          ASSERT_EQ(verdict(seen.row(kKernelAlone), old), verdict(seen.row(kModelAlone), old));
          break;
        case kNothing:
          ASSERT_FALSE(seen.incident);
          break;
        case kCannotTell:
          break;
      }
      if (!after && !old) {
        ASSERT_EQ(answer.cause, kCannotTell);
        ASSERT_FALSE(answer.missing.empty());
      }
    }
  }
  for (const size_t count : said) EXPECT_GT(count, 0u);
}

}  // namespace
}  // namespace kcc
