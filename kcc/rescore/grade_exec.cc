// `exec: PROGRAM`: a program that stays. It reads one line of JSON for each answer and writes one
// line with the grade. What it says on its standard error is quoted where it dies. A program that
// has died, or did not answer in time, is started again for the next answer, but not more often
// than every second: one that cannot run must not take the machine.
#include <utility>

#include "kcc/base/clock.h"
#include "kcc/kernel/child_process.h"
#include "kcc/kernel/command_line.h"
#include "kcc/rescore/grade.h"

namespace kcc {
namespace {

constexpr double kRestartAfterS = 1;

class ExecGrader final : public Grader {
 public:
  ExecGrader(std::string field, std::vector<std::string> command, const GraderLimits& limits)
      : field_(std::move(field)), command_(std::move(command)), limits_(limits) {}

  std::optional<RequestValue> Grade(const GradeAsk& ask, std::string* fault) override {
    if (child_ == nullptr && !Start(fault)) return std::nullopt;
    auto answer = child_->Ask(GradeLine(ask), limits_.timeout_s);
    if (!answer.has_value()) {
      *fault = answer.error().message();
      const std::string tail = child_->StderrTail();
      if (!tail.empty()) *fault += "; its last words: " + tail;
      // What it says later would be taken for the grade of another answer.
      child_ = nullptr;
      return std::nullopt;
    }
    auto value = ReadGrade(*answer, field_);
    if (value.has_value()) return std::move(*value);
    *fault = value.error().message();
    return std::nullopt;
  }

 private:
  bool Start(std::string* fault) {
    const double now_s = TheSystemClock().MonotonicSeconds();
    if (started_s_ >= 0 && now_s - started_s_ < kRestartAfterS) {
      *fault = "the grader has died and is started again soon";
      return false;
    }
    started_s_ = now_s;
    auto child = ChildProcess::Start(command_, limits_.stop_fd);
    if (!child.has_value()) {
      *fault = child.error().message();
      return false;
    }
    child_ = std::move(*child);
    return true;
  }

  const std::string field_;
  const std::vector<std::string> command_;
  const GraderLimits limits_;
  std::unique_ptr<ChildProcess> child_;
  double started_s_ = -1;
};

}  // namespace

Result<std::unique_ptr<Grader>> MakeExecGrader(const GradeHook& hook, const GraderLimits& limits) {
  KCC_TRY(std::vector<std::string> command, SplitCommand(hook.command));
  return std::unique_ptr<Grader>(
      std::make_unique<ExecGrader>(hook.field, std::move(command), limits));
}

}  // namespace kcc
