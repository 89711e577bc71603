#include "tests/faults/trials.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <random>
#include <set>
#include <span>

namespace kcc::faults {
namespace {

constexpr unsigned kHangSeconds = 60;
constexpr size_t kChunk = 100;  // runs a child
constexpr size_t kProblemsMax = 16;

// What a child tells its parent, in memory that both have.
struct Shared {
  int64_t points = 0;
  size_t reference = 0;  // a hash of the outcome without a fault, in a new process
  int64_t at = 0;        // the run under way
  size_t index = 0;      // … as an index of the chunk
  bool warming = false;
  int64_t tried = 0;
  int64_t errors = 0;
  int64_t unharmed = 0;
  size_t problem_count = 0;
  std::array<std::array<char, 400>, kProblemsMax> problems{};
};

class SharedMemory {
 public:
  SharedMemory()
      : shared_(new (::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared) {}
  ~SharedMemory() { ::munmap(shared_, sizeof(Shared)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  Shared* operator->() { return shared_; }
  Shared* get() { return shared_; }

 private:
  Shared* shared_;
};

void NoteProblem(Shared* shared, const std::string& what) {
  if (shared->problem_count < kProblemsMax) {
    std::array<char, 400>& to = shared->problems[shared->problem_count];
    std::snprintf(to.data(), to.size(), "%s", what.c_str());
  }
  ++shared->problem_count;
}

struct Run {
  Outcome outcome;
  Seen seen;
  int64_t kept = 0;  // blocks that were not freed
};

Run RunOnce(Subject* subject, Fault fault, int64_t n) {
  subject->Reset();
  ::alarm(kHangSeconds);
  Run run;
  const int64_t before = LiveAllocations();
  Arm(fault, n);
  subject->Run();
  run.seen = Disarm();
  run.kept = LiveAllocations() - before;
  ::alarm(0);
  run.outcome = subject->Take();
  return run;
}

size_t HashOf(const Outcome& outcome) {
  std::string all = std::to_string(outcome.code) + outcome.message;
  for (const auto& [name, bytes] : outcome.results) all += "\n" + name + "\n" + bytes;
  return std::hash<std::string>()(all);
}

bool Same(const Outcome& a, const Outcome& b) {
  return a.code == b.code && a.results == b.results && a.message == b.message;
}

// What is wrong with a run, or nothing.
std::string WhatIsWrong(const Subject& subject, const Run& run, const Outcome& reference) {
  const Outcome& got = run.outcome;
  if (!got.broken.empty()) return got.broken;
  if (Same(got, reference)) return "";
  if (!run.seen.failed) return "without a fault the result differs: " + got.message;
  if (!got.failed) {
    std::string what = "code " + std::to_string(got.code) + " with another result:";
    for (const auto& [name, bytes] : reference.results) {
      const auto found = got.results.find(name);
      if (found == got.results.end() || found->second != bytes) what += " " + name;
    }
    return what + ": " + got.message;
  }
  if (got.message.empty()) return "code " + std::to_string(got.code) + " without a message";
  const std::map<std::string, std::string> before = subject.Before();
  for (const auto& [name, bytes] : got.results) {
    if (name.starts_with("standard ")) continue;  // a stream may stop half way
    const auto complete = reference.results.find(name);
    const auto old = before.find(name);
    if (complete != reference.results.end() && complete->second == bytes) continue;
    if (old != before.end() && old->second == bytes) continue;
    if (complete != reference.results.end() && subject.IsStepTo(name, bytes, complete->second)) {
      continue;
    }
    return "left behind: " + name + " of " + std::to_string(bytes.size()) +
           " bytes: " + got.message;
  }
  for (const auto& [name, bytes] : before) {
    if (!got.results.contains(name)) return "lost: " + name;
  }
  return "";
}

void Judge(Subject* subject, Fault fault, int64_t n, const Run& run, const Outcome& reference,
           bool warm, Shared* shared) {
  ++shared->tried;
  ++(run.outcome.failed && run.seen.failed ? shared->errors : shared->unharmed);
  std::string wrong = WhatIsWrong(*subject, run, reference);
  const bool comparable = run.outcome.failed;  // a result that was handed out is still held
  if (wrong.empty() && warm && comparable && run.kept > 0) {
    // What is made once and kept (a cache, an error's text) does not grow a second time.
    const Run again = RunOnce(subject, fault, n);
    if (again.outcome.failed && again.kept > 0) {
      wrong = "leak of " + std::to_string(again.kept) + " blocks: " + again.outcome.message;
    }
  }
  if (!wrong.empty()) {
    NoteProblem(shared, std::string(Name(fault)) + " " + std::to_string(n) + ": " + wrong);
  }
}

// The first run is a cold one: nothing that is made once has been made. The others are warm, so
// that their blocks can be counted.
void RunChunk(const Case& subject_case, Fault fault, std::span<const int64_t> points,
              Shared* shared) {
  const std::unique_ptr<Subject> subject = subject_case.make();
  shared->index = 0;
  shared->at = points[0];
  const Run cold = RunOnce(subject.get(), fault, points[0]);
  shared->warming = true;
  (void)RunOnce(subject.get(), Fault::kNone, 0);
  const Run reference = RunOnce(subject.get(), Fault::kNone, 0);
  shared->warming = false;
  if (HashOf(reference.outcome) != shared->reference) {
    NoteProblem(shared, "after " + std::string(Name(fault)) + " " + std::to_string(points[0]) +
                            " a run without a fault differs: " + reference.outcome.message);
  }
  Judge(subject.get(), fault, points[0], cold, reference.outcome, /*warm=*/false, shared);
  for (size_t i = 1; i < points.size(); ++i) {
    shared->index = i;
    shared->at = points[i];
    const Run run = RunOnce(subject.get(), fault, points[i]);
    Judge(subject.get(), fault, points[i], run, reference.outcome, /*warm=*/true, shared);
  }
}

std::string Death(int status) {
  if (!WIFSIGNALED(status)) return "the process exited with " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return signal == SIGALRM ? "hangs" : std::string("dies of SIG") + sigabbrev_np(signal);
}

}  // namespace

int InChild(const std::function<void()>& work) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    [&]() noexcept { work(); }();  // nothing gets out of the child but by its end
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

Tally& Tally::operator+=(const Tally& other) {
  points += other.points;
  tried += other.tried;
  errors += other.errors;
  unharmed += other.unharmed;
  aborts += other.aborts;
  problems.insert(problems.end(), other.problems.begin(), other.problems.end());
  return *this;
}

std::vector<int64_t> PointsOf(int64_t points, const Extent& extent) {
  std::vector<int64_t> chosen;
  const int64_t every = std::min(points, extent.all_up_to);
  for (int64_t n = extent.first; n <= every; ++n) chosen.push_back(n);
  const int64_t rest = points - every;
  if (rest <= extent.beyond) {
    for (int64_t n = every + 1; n <= points; ++n) chosen.push_back(n);
  } else {
    std::mt19937_64 bits(extent.seed);
    std::set<int64_t> drawn;
    while (static_cast<int64_t>(drawn.size()) < extent.beyond) {
      drawn.insert(every + 1 + static_cast<int64_t>(bits() % static_cast<uint64_t>(rest)));
    }
    chosen.insert(chosen.end(), drawn.begin(), drawn.end());
  }
  const auto count = static_cast<int64_t>(chosen.size());
  if (extent.at_most <= 0 || count <= extent.at_most) return chosen;
  std::vector<int64_t> thinned;
  const auto phase = static_cast<int64_t>(extent.seed % static_cast<uint64_t>(count));
  for (int64_t i = 0; i < extent.at_most; ++i) {
    thinned.push_back(chosen[static_cast<size_t>((i * count / extent.at_most + phase) % count)]);
  }
  std::sort(thinned.begin(), thinned.end());
  return thinned;
}

Tally RunTrials(const Case& subject, Fault fault, const Extent& extent) {
  SharedMemory shared;
  Tally tally;
  const int counted = InChild([&] {
    const std::unique_ptr<Subject> one = subject.make();
    const Run run = RunOnce(one.get(), Fault::kNone, 0);
    shared->reference = HashOf(run.outcome);
    shared->points = fault == Fault::kThreadsFrom ? run.seen.threads : run.seen.allocations;
  });
  if (counted != 0) tally.problems.push_back("without a fault: " + Death(counted));
  tally.points = shared->points;
  const std::vector<int64_t> points = PointsOf(shared->points, extent);
  for (size_t begin = 0; begin < points.size();) {
    const size_t count = std::min(kChunk, points.size() - begin);
    const std::span<const int64_t> chunk(points.data() + begin, count);
    const int status = InChild([&] { RunChunk(subject, fault, chunk, shared.get()); });
    if (status == 0) {
      begin += count;
      continue;
    }
    ++tally.aborts;
    ++tally.tried;
    const std::string where = shared->warming ? "a clean run after " : "";
    if (tally.problems.size() < kProblemsMax) {
      tally.problems.push_back(where + std::string(Name(fault)) + " " + std::to_string(shared->at) +
                               ": " + Death(status));
    }
    begin += shared->index + 1;
    shared->warming = false;
  }
  tally.tried += shared->tried;
  tally.errors = shared->errors;
  tally.unharmed = shared->unharmed;
  for (size_t i = 0; i < std::min(shared->problem_count, kProblemsMax); ++i) {
    tally.problems.emplace_back(shared->problems[i].data());
  }
  if (shared->problem_count > kProblemsMax) {
    tally.problems.push_back("… " + std::to_string(shared->problem_count) + " in all");
  }
  return tally;
}

}  // namespace kcc::faults
