// Memory that runs out and threads that do not start, at every place in turn.
//
// KCC_FAULTS=full tries all of the first 2,000 allocations of every run and 2,000 of the others;
// without it the runs are thinned, for every day. KCC_FAULTS_ONLY=NAME keeps to the subjects whose
// names hold it, KCC_FAULTS_AT=FROM-TO to these places.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/faults/c_calls.h"
#include "tests/faults/commands.h"
#include "tests/faults/inputs.h"
#include "tests/faults/trials.h"

namespace kcc::faults {
namespace {

bool Full() {
  const char* wanted = std::getenv("KCC_FAULTS");
  return wanted != nullptr && std::string_view(wanted) == "full";
}

Extent ExtentOf(const Case& subject) {
  Extent extent;
  const char* places = std::getenv("KCC_FAULTS_AT");
  if (places != nullptr) {
    char* end = nullptr;
    extent.first = std::strtoll(places, &end, 10);
    extent.all_up_to = *end == '-' ? std::strtoll(end + 1, nullptr, 10) : extent.first;
    extent.beyond = 0;
  } else if (!Full()) {
    extent.at_most = subject.slow ? 4 : 24;
  }
  return extent;
}

// One line of counts for all subjects, and a failure for each that does not keep its promise.
void TryAll(const std::string& what, const std::vector<Case>& cases, Fault fault) {
  const char* only = std::getenv("KCC_FAULTS_ONLY");
  Tally total;
  size_t subjects = 0;
  for (const Case& subject : cases) {
    if (only != nullptr && subject.name.find(only) == std::string::npos) continue;
    ++subjects;
    const Tally tally = RunTrials(subject, fault, ExtentOf(subject));
    if (Full()) {
      std::printf("%-16s %-44s %7lld points %5lld tried %5lld errors %5lld unharmed %lld aborts\n",
                  std::string(Name(fault)).c_str(), subject.name.c_str(),
                  static_cast<long long>(tally.points), static_cast<long long>(tally.tried),
                  static_cast<long long>(tally.errors), static_cast<long long>(tally.unharmed),
                  static_cast<long long>(tally.aborts));
      std::fflush(stdout);
    }
    std::string problems;
    for (const std::string& problem : tally.problems) problems += "\n  " + problem;
    EXPECT_TRUE(tally.problems.empty()) << subject.name << problems;
    total += tally;
  }
  std::printf(
      "%s, %s: %zu subjects, %lld points, %lld tried: %lld errors, %lld unharmed, "
      "%lld aborts\n",
      what.c_str(), std::string(Name(fault)).c_str(), subjects,
      static_cast<long long>(total.points), static_cast<long long>(total.tried),
      static_cast<long long>(total.errors), static_cast<long long>(total.unharmed),
      static_cast<long long>(total.aborts));
}

TEST(Memory, OneAllocationOfACommandFails) {
  TryAll("commands", CommandCases(), Fault::kOneAllocation);
}

TEST(Memory, RunsOutInACommand) { TryAll("commands", CommandCases(), Fault::kAllocationsFrom); }

TEST(Memory, OneAllocationOfACCallFails) { TryAll("C calls", CCases(), Fault::kOneAllocation); }

TEST(Memory, RunsOutInACCall) { TryAll("C calls", CCases(), Fault::kAllocationsFrom); }

TEST(Threads, DoNotStartInACommand) { TryAll("commands", CommandCases(), Fault::kThreadsFrom); }

TEST(Threads, DoNotStartInACCall) { TryAll("C calls", CCases(), Fault::kThreadsFrom); }

}  // namespace
}  // namespace kcc::faults

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const kcc::faults::Inputs& inputs = kcc::faults::TheInputs();
  // In a child, so that every subject starts from a process in which nothing has been run.
  const int status = kcc::faults::InChild([&] {
    const std::string wrong = inputs.Make();
    if (wrong.empty()) return;
    std::fprintf(stderr, "the inputs could not be made: %s\n", wrong.c_str());
    ::_exit(1);
  });
  if (status != 0) return 1;
  return RUN_ALL_TESTS();
}
