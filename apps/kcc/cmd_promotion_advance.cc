// kcc promote advance: what was recorded since the last time, and the time; once, or again and
// again
// (--watch).
#include <poll.h>

#include <algorithm>

#include "apps/kcc/kernels.h"
#include "apps/kcc/promote_hooks.h"
#include "apps/kcc/promoting.h"
#include "apps/kcc/times.h"

namespace kcc::cli {
namespace {

Result<PromotionChange> Look(Register& target, const std::string& id, const Proposer& by,
                             Console& console) {
  KCC_TRY(PromotionChange change, AdvancePromotion(target, id, by));
  return RunHooks(target, std::move(change), by, console);
}

bool HasEnded(const PromotionState& state) {
  return IsOver(state.phase) || (state.phase == Phase::kFull && state.settled);
}

// Whether a look can do something although nobody wrote: a deadline has passed, a hook that said no
// is to be asked again, or one may ask for a rollback.
bool TimeMatters(const KeptPromotion& kept, int64_t now_ms) {
  const PromotionState& state = kept.state;
  for (const Stage stage : kStages) {
    const StagePolicy& asked = kept.policy.stage(stage);
    if (Name(stage) == Name(state.phase) && asked.deadline_ms && !state.settled &&
        now_ms - state.progress.entered_ms >= *asked.deadline_ms) {
      return true;
    }
  }
  const bool live = state.phase == Phase::kCanary || state.phase == Phase::kFull;
  return std::any_of(state.progress.hooks.begin(), state.progress.hooks.end(),
                     [](const HookStatus& hook) { return hook.state == HookState::kNo; }) ||
         (live &&
          std::any_of(kept.policy.hooks.begin(), kept.policy.hooks.end(),
                      [](const PolicyHook& hook) { return hook.point == HookPoint::kRollback; }));
}

// Says what moved, and what it waits for where that is another thing than the last time.
class Teller {
 public:
  explicit Teller(Console& console) : console_(console) {}

  void Tell(const PromotionChange& change) {
    const auto moved = [](const StepResult& step) {
      return !step.transitions.empty() || !step.commands.empty();
    };
    const std::string note = change.steps.empty() ? "" : change.steps.back().note;
    const bool news = std::any_of(change.steps.begin(), change.steps.end(), moved) || note != note_;
    note_ = note;
    if (!news) return;
    ReportChange(change, console_);
    console_.out.flush();  // whoever follows reads it now
  }

 private:
  Console& console_;
  std::string note_;
};

// True: a signal came, or whoever waits was told to stop.
bool Wait(int stop_fd, double seconds) {
  pollfd stop{stop_fd, POLLIN, 0};
  return ::poll(&stop, 1, static_cast<int>(std::max(seconds, 0.0) * 1000)) != 0;
}

// Every look is at a head that was read before it, so that what is written during a look is seen by
// the next one. A signal ends the waiting, never a step: steps are there as a whole or not at all.
Result<int> Watch(const PromoteOptions& options, Actor* actor, Register& target, Console& console) {
  const Clock& clock = console.clock != nullptr ? *console.clock : TheSystemClock();
  std::optional<int64_t> until;
  if (!options.until.empty()) {
    KCC_TRY(until, ParseTime(options.until));
  }
  const Interruptible interruptible(console);
  Teller teller(console);
  std::optional<Head> seen;
  while (true) {
    actor->by.time_ms = clock.NowMs();
    KCC_TRY(const Head head, target.ReadHead());
    KCC_TRY(const KeptPromotion kept, ReadPromotion(target, options.id));
    PromotionState state = kept.state;
    if (seen != head || TimeMatters(kept, actor->by.time_ms)) {
      KCC_TRY(const PromotionChange change, Look(target, options.id, actor->by, console));
      teller.Tell(change);
      state = change.state;
      seen = head;
    }
    if (HasEnded(state)) return PromotionExitCode(state);
    double seconds = options.interval_s;
    if (until) {
      seconds = std::min(seconds, static_cast<double>(*until - clock.NowMs()) / 1000);
      if (seconds <= 0) return PromotionExitCode(state);
    }
    if (Wait(interruptible.stop_fd(), seconds)) return PromotionExitCode(state);
  }
}

Result<int> Advance(const PromoteOptions& options, Console& console) {
  if (!options.watch && !options.until.empty()) {
    return InvalidError("--until says how long to --watch");
  }
  if (options.watch && !options.flags.time.empty()) {
    return InvalidError("--watch takes the time from the clock: leave --time out");
  }
  Actor actor;
  KCC_TRY_VOID(MakeActor(options, console, &actor));
  KCC_TRY(Register target, Register::Open(options.flags.uri));
  if (options.watch) return Watch(options, &actor, target, console);
  KCC_TRY(const PromotionChange change, Look(target, options.id, actor.by, console));
  ReportChange(change, console);
  return PromotionExitCode(change.state);
}

}  // namespace

int RunPromoteAdvance(const PromoteOptions& options, Console& console) {
  const Result<int> done = Advance(options, console);
  return done.has_value() ? *done : ReportError(done.error(), console);
}

}  // namespace kcc::cli
