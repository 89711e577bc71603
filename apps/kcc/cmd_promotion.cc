// kcc promote: promotions in a register, moved by evaluations, people, hooks and time. The machine
// (kcc/promotion) decides; what it orders for live traffic is printed, for whoever routes it.
#include <filesystem>

#include "apps/kcc/commands.h"
#include "apps/kcc/promote_hooks.h"
#include "apps/kcc/promoting.h"
#include "apps/kcc/registers.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/times.h"
#include "kcc/base/strings.h"
#include "kcc/contract/policy_reader.h"
#include "kcc/promotion/promotion_json.h"
#include "kcc/register/promotions.h"

namespace kcc::cli {
namespace {

constexpr size_t kPolicyBytesMax = kContractBytesMax;

Style StyleOf(Phase phase) {
  switch (phase) {
    case Phase::kFull:
      return Style::kGreen;
    case Phase::kRejected:
    case Phase::kRolledBack:
      return Style::kRed;
    case Phase::kFrozen:
      return Style::kYellow;
    case Phase::kProposed:
    case Phase::kOffline:
    case Phase::kShadow:
    case Phase::kCanary:
    case Phase::kSuperseded:
      break;
  }
  return Style::kCyan;
}

// What a command says to do, for whoever routes the traffic.
std::string Order(const Command& command) {
  switch (command.kind) {
    case CommandKind::kRoute:
      return "send " + ReadableNumber(100 * command.share) + "% of live requests to the candidate" +
             (command.mirror > 0
                  ? ", and mirror " + ReadableNumber(100 * command.mirror) + "% to it"
                  : "");
    case CommandKind::kEvaluate:
      return "collect evidence of " + std::string(Name(command.stage)) +
             " from now on (kcc run --stage " + std::string(Name(command.stage)) + " --register …)";
    case CommandKind::kRunHook:
      return "ask the hook " + command.hook;
    case CommandKind::kTellHook:
      return "tell the hook " + command.hook;
    case CommandKind::kGuard:
      return "serve by the guarded route: " + command.text;
    case CommandKind::kUnguard:
      return "the guarded route is no longer needed";
    case CommandKind::kSettle:
      return "the candidate is what serves from now on";
    case CommandKind::kStartNext:
      return "the next candidate of the lane may start";
  }
  return {};
}

void PrintState(const KeptPromotion& kept, Console& console) {
  const PromotionState& state = kept.state;
  console.out << Shown(state.id) << "  "
              << Paint(StyleOf(state.phase), Name(state.phase), console.colour_out);
  if (state.phase == Phase::kCanary) {
    console.out << ", step " << state.step + 1 << " of "
                << kept.policy.stage(Stage::kCanary).steps.size() << ", "
                << ReadableNumber(100 * CandidateShare(kept.policy, state)) << "% of traffic";
  }
  const bool over = IsOver(state.phase) && state.ended_ms > 0;
  console.out << " since " << TimeText(over ? state.ended_ms : state.progress.entered_ms) << '\n';
  console.out << "  lane " << Shown(state.lane) << " · candidate " << ShortId(kept.triple)
              << " · policy " << Shown(kept.policy.name) << ' ' << Shown(kept.policy.version)
              << '\n';
  if (!state.reason.empty()) console.out << "  " << Shown(state.reason) << '\n';
  for (const std::string& missing : state.progress.missing) {
    console.out << "  missing: " << Shown(missing) << '\n';
  }
  for (const HeldClause& held : state.progress.held) {
    console.out << "  " << Shown(held.id) << " counts as held: " << held.clean
                << " clean requests exclude a rate above " << ReadableNumber(held.excluded_rate)
                << '\n';
  }
}

void WriteKept(const KeptPromotion& kept, JsonWriter* json) {
  json->BeginObject().Field("promotion", kept.state.id).Field("phase", Name(kept.state.phase));
  json->Field("triple", kept.triple).Field("event", kept.event.sequence);
  json->Field("considered", kept.considered)
      .Field("share", CandidateShare(kept.policy, kept.state));
  json->Key("state").Raw(ToJson(kept.state)).EndObject();
}

// A look is a step for each evaluation and one for the time: where two of them wait for the same,
// it is said once.
void PrintChange(const PromotionChange& change, Console& console) {
  std::string_view said;
  for (const StepResult& step : change.steps) {
    for (const Transition& one : step.transitions) {
      console.out << Name(one.from) << " → "
                  << Paint(StyleOf(one.to), Name(one.to), console.colour_out) << ": "
                  << Shown(one.reason) << '\n';
    }
    if (step.transitions.empty() && !step.note.empty() && step.note != said) {
      console.out << Shown(step.note) << '\n';
    }
    said = step.transitions.empty() && step.commands.empty() ? std::string_view(step.note) : "";
    for (const Command& command : step.commands) {
      console.out << "  do: " << Shown(Order(command)) << '\n';
    }
  }
  if (change.started_next) {
    console.out << Shown(change.started_next->id) << " was next in its lane and has started\n";
  }
}

}  // namespace

int PromotionExitCode(const PromotionState& state) {
  if (state.phase == Phase::kRejected || state.phase == Phase::kRolledBack) return kExitViolated;
  if (state.phase == Phase::kFull && state.settled) return kExitOk;
  return kExitInconclusive;
}

void ReportChange(const PromotionChange& change, Console& console) {
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("promotion", change.state.id);
    json.Field("phase", Name(change.state.phase)).Key("steps").BeginArray();
    for (const StepResult& step : change.steps) json.Raw(ToJson(step));
    json.EndArray().EndObject();
    console.out << json.Take();
  } else {
    PrintChange(change, console);
  }
}

Result<> MakeActor(const PromoteOptions& options, const Console& console, Actor* actor) {
  KCC_TRY(const Stamp stamp, StampOf(options.flags, console));
  KCC_TRY(actor->signers, OpenSigners(options.signing));
  if (!options.keyring.empty()) {
    KCC_TRY(actor->keyring, LoadKeyring(options.keyring));
  }
  actor->by = {
      stamp.actor,
      stamp.time_ms,
      {actor->signers, actor->keyring ? &*actor->keyring : nullptr, std::string(Version())}};
  return {};
}

namespace {

// Opens the register, sends one event, runs the hooks that the step asks for, and prints.
int Send(const PromoteOptions& options, PromotionEvent event, Console& console) {
  Actor actor;
  const Result<> made = MakeActor(options, console, &actor);
  if (!made.has_value()) return ReportError(made.error(), console);
  const Proposer* by = &actor.by;
  Result<Register> target = Register::Open(options.flags.uri);
  if (!target.has_value()) return ReportError(target.error(), console);
  event.at_ms = by->time_ms;
  event.by = by->actor;
  event.text = options.why;
  Result<PromotionChange> change = SendEvent(*target, options.id, event, *by);
  if (change.has_value()) change = RunHooks(*target, std::move(*change), *by, console);
  if (!change.has_value()) return ReportError(change.error(), console);
  ReportChange(*change, console);
  return kExitOk;
}

std::string DefaultName(const PromoteOptions& options, const Proposer& by) {
  return options.id.empty() ? options.lane + "-" + std::to_string(by.time_ms) : options.id;
}

}  // namespace

int RunPromoteStart(const PromoteOptions& options, Console& console) {
  Actor actor;
  const Result<> made = MakeActor(options, console, &actor);
  if (!made.has_value()) return ReportError(made.error(), console);
  const Proposer* by = &actor.by;
  Result<std::string> text = ReadInput(options.policy, kPolicyBytesMax, console);
  if (!text.has_value()) return ReportError(text.error(), console);
  const PolicyOutcome policy = ReadPolicy(*text);
  PrintDiagnostics(policy.diagnostics, DisplayName(options.policy), *text, console);
  if (!policy.policy) return kExitInvalid;
  Result<Register> target = Register::Open(options.flags.uri);
  if (!target.has_value()) return ReportError(target.error(), console);
  PromotionStart start;
  start.id = DefaultName(options, *by);
  start.lane = options.lane;
  start.routing = options.routing;
  start.hardware = options.hardware;
  start.policy_text = std::move(*text);
  for (const auto& [name, target_id] : {std::pair{&options.candidate, &start.candidate},
                                        std::pair{&options.incumbent, &start.incumbent}}) {
    if (name->empty()) continue;
    Result<Entry> triple = FindEntry(*target, EntryTable::kTriples, *name);
    if (!triple.has_value()) return ReportError(triple.error(), console);
    *target_id = triple->key.id;
  }
  Result<PromotionChange> change = StartPromotion(*target, start, *by);
  if (change.has_value()) change = RunHooks(*target, std::move(*change), *by, console);
  if (!change.has_value()) return ReportError(change.error(), console);
  if (!console.json) console.out << "promotion " << Shown(start.id) << '\n';
  ReportChange(*change, console);
  return kExitOk;
}

int RunPromoteStatus(const PromoteOptions& options, Console& console) {
  Result<Register> source = Register::Open(options.flags.uri);
  if (!source.has_value()) return ReportError(source.error(), console);
  std::vector<KeptPromotion> shown;
  if (options.id.empty()) {
    Result<std::vector<KeptPromotion>> all = ReadPromotions(*source);
    if (!all.has_value()) return ReportError(all.error(), console);
    shown = std::move(*all);
  } else {
    Result<KeptPromotion> one = ReadPromotion(*source, options.id);
    if (!one.has_value()) return ReportError(one.error(), console);
    shown.push_back(std::move(*one));
  }
  if (console.json) {
    JsonWriter json;
    json.BeginArray();
    for (const KeptPromotion& kept : shown) WriteKept(kept, &json);
    json.EndArray();
    console.out << json.Take();
  } else if (shown.empty()) {
    console.out << "no promotion yet; `kcc promote start` begins one\n";
  } else {
    for (const KeptPromotion& kept : shown) PrintState(kept, console);
  }
  return options.id.empty() ? kExitOk : PromotionExitCode(shown[0].state);
}

int RunPromoteApprove(const PromoteOptions& options, Console& console) {
  PromotionEvent event;
  event.kind = PromotionEventKind::kApproval;
  event.role = options.role;
  return Send(options, std::move(event), console);
}

int RunPromoteAnswer(const PromoteOptions& options, Console& console) {
  PromotionEvent event;
  event.kind = PromotionEventKind::kHookAnswer;
  event.hook = options.hook;
  event.yes = options.yes;
  if (options.yes == options.no) {
    return ReportError(InvalidError("say what the hook answered: --yes or --no"), console);
  }
  return Send(options, std::move(event), console);
}

int RunPromoteFreeze(const PromoteOptions& options, Console& console) {
  PromotionEvent event;
  event.kind = PromotionEventKind::kFreeze;
  return Send(options, std::move(event), console);
}

int RunPromoteUnfreeze(const PromoteOptions& options, Console& console) {
  PromotionEvent event;
  event.kind = PromotionEventKind::kUnfreeze;
  return Send(options, std::move(event), console);
}

int RunPromoteAbort(const PromoteOptions& options, Console& console) {
  PromotionEvent event;
  event.kind = PromotionEventKind::kAbort;
  return Send(options, std::move(event), console);
}

int RunPromoteHistory(const PromoteOptions& options, Console& console) {
  Result<Register> source = Register::Open(options.flags.uri);
  if (!source.has_value()) return ReportError(source.error(), console);
  const Result<std::vector<PromotionHistoryRow>> history = ReadHistory(*source, options.id);
  if (!history.has_value()) return ReportError(history.error(), console);
  if (console.json) {
    JsonWriter json;
    json.BeginArray();
    for (const PromotionHistoryRow& record : *history) {
      json.BeginObject().Field("event", record.event.sequence);
      json.Field("time", TimeText(record.event.time_ms)).Field("actor", record.event.actor);
      json.Field("from", record.from).Field("to", record.to).Field("cause", record.cause);
      json.Field("reason", record.reason).EndObject();
    }
    json.EndArray();
    console.out << json.Take();
    return kExitOk;
  }
  for (const PromotionHistoryRow& record : *history) {
    console.out << record.event.sequence << "  " << TimeText(record.event.time_ms) << "  "
                << Shown(record.event.actor) << "  " << record.from
                << (record.from == record.to ? "" : " → " + record.to) << "  "
                << Shown(record.reason) << '\n';
  }
  return kExitOk;
}

}  // namespace kcc::cli
