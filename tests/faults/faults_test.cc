// Memory that runs out and threads that do not start, at every place in turn.
//
// KCC_FAULTS=full tries all of the first 2,000 allocations of every run and 2,000 of the others
// (tools/faults.sh), KCC_FAULTS=N no more than N places of a run, a sixth of that where a run is
// slow; without it the runs are thinned, for every day. KCC_FAULTS_ONLY=NAME keeps to the subjects
// whose names hold it, KCC_FAULTS_AT=FROM-TO to these places, KCC_FAULTS_PART=K/N to every N-th
// subject from the K-th.
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

std::string Setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool Full() { return Setting("KCC_FAULTS") == "full"; }

// Places of a run; the number of them that is named, or that of every day.
int64_t PlacesOf(const Case& subject) {
  const int64_t wanted = std::atoll(Setting("KCC_FAULTS").c_str());
  const int64_t places = wanted > 0 ? wanted : 24;
  return subject.slow ? (places + 5) / 6 : places;
}

bool InPart(size_t subject) {
  size_t part = 1;
  size_t parts = 1;
  const std::string setting = Setting("KCC_FAULTS_PART");
  if (setting.empty()) return true;
  if (std::sscanf(setting.c_str(), "%zu/%zu", &part, &parts) != 2 || part < 1 || part > parts) {
    ADD_FAILURE() << "KCC_FAULTS_PART=" << setting << " is not K/N with K from 1 to N";
    return false;
  }
  return subject % parts == part - 1;
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
    extent.at_most = PlacesOf(subject);
  }
  return extent;
}

// One line of counts for all subjects, and a failure for each that does not keep its promise.
void TryAll(const std::string& what, const std::vector<Case>& cases, Fault fault) {
  const std::string only = Setting("KCC_FAULTS_ONLY");
  Tally total;
  size_t subjects = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& subject = cases[i];
    if (!InPart(i) || subject.name.find(only) == std::string::npos) continue;
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
