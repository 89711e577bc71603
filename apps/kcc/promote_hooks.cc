#include "apps/kcc/promote_hooks.h"

#include "apps/kcc/run_tool.h"
#include "apps/kcc/safe_output.h"
#include "kcc/kernel/http_pool.h"
#include "kcc/promotion/promotion_json.h"

namespace kcc::cli {
namespace {

struct HookAnswer {
  bool yes = false;
  std::string text;
};

const PolicyHook* FindHook(const PromotionPolicy& policy, const std::string& name) {
  for (const PolicyHook& hook : policy.hooks) {
    if (hook.name == name) return &hook;
  }
  return nullptr;
}

std::string Payload(const PromotionState& state, const PolicyHook& hook, const std::string& text) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("name", state.id).Field("phase", Name(state.phase));
  json.Field("point", Name(hook.point)).Field("hook", hook.name).Field("text", text);
  json.Key("state").Raw(ToJson(state)).EndObject();
  return json.Take();
}

// The program gets the payload as its first argument; exit code 0 says yes.
HookAnswer CallProgram(const PolicyHook& hook, const std::string& payload) {
  const double seconds = static_cast<double>(hook.timeout_ms) / 1000;
  const Result<ToolRun> run = RunTool({"/bin/sh", "-c", hook.exec, hook.name, payload}, seconds);
  if (!run.has_value()) return {false, run.error().message()};
  if (run->exit_code == 0) return {true, LastLine(run->out)};
  return {false, "exit code " + std::to_string(run->exit_code) + ": " + LastLine(run->err)};
}

// Status 200 says yes. One attempt: a hook may do something that must not be done twice.
HookAnswer CallAddress(const PolicyHook& hook, const std::string& payload) {
  const size_t scheme = hook.http.find("://");
  const size_t path = hook.http.find('/', scheme == std::string::npos ? 0 : scheme + 3);
  HttpOptions options;
  options.base_url = hook.http.substr(0, path);
  options.retries_max = 0;
  options.timeout_s = static_cast<double>(hook.timeout_ms) / 1000;
  options.batch_timeout_s = options.timeout_s;
  options.body_bytes_max = size_t{1} << 20;
  const auto pool = HttpPool::Open(options);
  if (!pool.has_value()) return {false, pool.error().message()};
  const std::string where = path == std::string::npos ? "/" : hook.http.substr(path);
  HookAnswer answer;
  const Result<> done = (*pool)->Run(
      1,
      [&](size_t) {
        return HttpCall{where, payload};
      },
      [&](size_t, const HttpReply&) -> Result<> {
        answer.yes = true;
        return {};
      });
  if (!done.has_value()) return {false, done.error().message()};
  return answer;
}

HookAnswer Call(const PolicyHook& hook, const std::string& payload) {
  return hook.exec.empty() ? CallAddress(hook, payload) : CallProgram(hook, payload);
}

}  // namespace

Result<PromotionChange> RunHooks(Register& target, PromotionChange change, const Proposer& by,
                                 Console& console) {
  // Steps are added while the loop runs: an answer may let the promotion enter a stage that asks
  // the next hook. A stage asks each of its hooks once, so that this ends.
  for (size_t i = 0; i < change.steps.size(); ++i) {
    const StepResult step = change.steps[i];
    for (const Command& command : step.commands) {
      const bool asks = command.kind == CommandKind::kRunHook;
      if (!asks && command.kind != CommandKind::kTellHook) continue;
      KCC_TRY(const KeptPromotion kept, ReadPromotion(target, step.state.id));
      const PolicyHook* hook = FindHook(kept.policy, command.hook);
      if (hook == nullptr) continue;
      const HookAnswer answer = Call(*hook, Payload(step.state, *hook, command.text));
      if (!answer.yes && hook->point != HookPoint::kRollback) {
        console.err << Paint(Style::kYellow, "warning:", console.colour_err) << " hook "
                    << Shown(hook->name) << " said no: " << Shown(answer.text) << '\n';
      }
      if (!asks) continue;
      PromotionEvent event;
      event.kind = PromotionEventKind::kHookAnswer;
      event.at_ms = by.time_ms;
      event.by = by.actor;
      event.hook = hook->name;
      event.yes = answer.yes;
      event.text = answer.text;
      KCC_TRY(PromotionChange more, SendEvent(target, step.state.id, event, by));
      change.state = std::move(more.state);
      for (StepResult& one : more.steps) change.steps.push_back(std::move(one));
      if (more.started_next) change.started_next = std::move(more.started_next);
    }
  }
  return change;
}

}  // namespace kcc::cli
