// Runs something small again and again, with one fault at another place each time, and holds it to
// what is promised: it gives what it gives without the fault, or it fails, says so, and leaves
// nothing half made. Runs take place in child processes, so that one that dies is counted.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/faults/fault_points.h"

namespace kcc::faults {

struct Outcome {
  int code = 0;
  bool failed = false;                         // `code` is one that means failure
  std::string message;                         // what is said about the failure
  std::map<std::string, std::string> results;  // what was made, by name: complete or absent
  std::string broken;                          // a promise that did not hold, in words
};

// Does `work` in a child process; what waitpid says about its end.
int InChild(const std::function<void()>& work);

// Something that can be run.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual void Reset() = 0;    // before every run: as if nothing had been run
  virtual void Run() = 0;      // under the fault
  virtual Outcome Take() = 0;  // afterwards
  // What may stand in place of a result after a failure: an old file. Absent: nothing may.
  virtual std::map<std::string, std::string> Before() const { return {}; }
  // Whether a result may also stand between what was there and what a complete run makes: a command
  // that makes several steps, each of which is whole.
  virtual bool IsStepTo(const std::string& name, const std::string& bytes,
                        const std::string& complete) const {
    (void)name, (void)bytes, (void)complete;
    return false;
  }
};

struct Case {
  std::string name;
  std::function<std::unique_ptr<Subject>()> make;  // called in a child
  bool slow = false;                               // tenths of a second a run: fewer in short tests
};

struct Tally {
  int64_t points = 0;  // where a fault could be put
  int64_t tried = 0;
  int64_t errors = 0;
  int64_t unharmed = 0;  // the same result in spite of the fault
  int64_t aborts = 0;
  std::vector<std::string> problems;

  Tally& operator+=(const Tally& other);
};

// Which faults are tried of so many points.
struct Extent {
  int64_t first = 1;
  int64_t all_up_to = 2000;  // every one up to here
  int64_t beyond = 2000;     // so many of the others, drawn from the seed
  int64_t at_most = 0;       // above 0: evenly thinned to so many
  uint64_t seed = 20;
};
std::vector<int64_t> PointsOf(int64_t points, const Extent& extent);

Tally RunTrials(const Case& subject, Fault fault, const Extent& extent);

}  // namespace kcc::faults
