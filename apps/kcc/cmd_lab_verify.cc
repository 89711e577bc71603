// kcc lab verify-exact: whether the trainer's log-probs have the bits of rollouts.
#include "apps/kcc/commands.h"
#include "apps/kcc/commands_lab.h"
#include "apps/kcc/kernels.h"
#include "apps/kcc/progress.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/shipped.h"
#include "kcc/kernel/request_source.h"
#include "kcc/lab/lab_kernel.h"
#include "kcc/report/text.h"
#include "kcc/train/verify_exact.h"

namespace kcc::cli {
namespace {

// The kernels that training needs to be exact.
constexpr std::array<std::string_view, 5> kDefaultKernels = {
    "lab:f32", "lab:bf16-invariant", "lab:fp8?batch=invariant", "lab:int4?batch=invariant",
    "lab:int3?batch=invariant"};
constexpr int64_t kQuickTokens = 4000;

struct Verified {
  std::string kernel;
  ExactResult result;
};

std::string_view VerdictWord(ExactVerdict verdict) {
  switch (verdict) {
    case ExactVerdict::kExact:
      return "exact";
    case ExactVerdict::kUnequal:
      return "unequal";
    case ExactVerdict::kBlind:
      return "blind";
    case ExactVerdict::kUnexercised:
      return "unexercised";
  }
  return "";
}

Result<std::vector<KernelRequest>> ReadPrompts(const std::string& path) {
  KCC_TRY(const auto source, OpenRequestFile(path, RequestUse::kGenerate));
  std::vector<KernelRequest> prompts;
  KernelRequest request;
  for (;;) {
    KCC_TRY(const bool more, source->Next(&request));
    if (!more) return prompts;
    prompts.push_back(std::move(request));
    request = {};
  }
}

Result<std::vector<Verified>> Verify(const LabVerifyOptions& options, Console& console) {
  std::string model = options.model;
  if (model.empty()) {
    KCC_TRY(model, ShippedModelOf(console)());
  }
  std::vector<std::string> kernels = options.kernels;
  if (kernels.empty()) kernels.assign(kDefaultKernels.begin(), kDefaultKernels.end());
  std::vector<LabSwitches> switches;
  for (const std::string& kernel : kernels) {
    KCC_TRY(const LabUri uri, ParseLabUri(kernel));
    if (!uri.model.empty()) {
      return InvalidError("'" + kernel + "' names a model; all kernels run that of --model");
    }
    KCC_TRY(switches.emplace_back(), ResolveSwitches(uri.kernel, uri.options));
  }
  KCC_TRY(const Checkpoint checkpoint, ReadCheckpoint(model));
  KCC_TRY(const std::vector<KernelRequest> prompts,
          ReadPrompts(options.requests.empty() ? model + "/eval.jsonl" : options.requests));
  VerifyOptions verify;
  verify.tokens = options.quick ? kQuickTokens : options.tokens;
  verify.output_tokens = static_cast<int32_t>(options.output_tokens);
  verify.seed = options.seed;
  verify.scratch = ScratchDirectory(options.scratch);
  const SystemClock clock;
  Progress progress(console, clock);
  std::vector<Verified> made;
  const auto all = static_cast<int64_t>(kernels.size()) * verify.tokens;
  for (size_t i = 0; i < kernels.size(); ++i) {
    verify.progress = [&](int64_t done, int64_t of) {
      progress.Show(static_cast<int64_t>(i) * of + std::min(done, of), all, 0);
    };
    KCC_TRY(ExactResult result, VerifyExact(checkpoint, switches[i], prompts, verify));
    made.push_back({kernels[i], std::move(result)});
  }
  return made;
}

int64_t Signed(uint64_t count) { return static_cast<int64_t>(count); }

// "company 3|16|64 · page 5|16|64 · …"
std::string AxesText(const ExactResult& result) {
  std::string text;
  std::string axis;
  for (const AxisTally& value : result.axes) {
    if (value.axis == axis) {
      text += "|" + value.value;
    } else {
      text += (text.empty() ? "" : " · ") + value.axis + " " + value.value;
      axis = value.axis;
    }
  }
  return text;
}

// "1: 20 · 2-3: 7"
std::string UlpText(const ExactTally& tally) {
  std::string text;
  for (size_t i = 0; i < kUlpBuckets; ++i) {
    if (tally.ulps[i] == 0) continue;
    const int64_t low = int64_t{1} << i;
    text += (text.empty() ? "" : " · ") + Grouped(low);
    if (i + 1 == kUlpBuckets) {
      text += " and more";
    } else if (i > 0) {
      text += "–" + Grouped(2 * low - 1);
    }
    text += ": " + Grouped(Signed(tally.ulps[i]));
  }
  return text;
}

void PrintUnequal(const ExactResult& result, Console& console) {
  console.out << "  units in the last place: " << UlpText(result.all) << ", largest difference "
              << ShortNumber(result.all.largest) << '\n';
  if (!result.first) return;
  const ExactMismatch& first = *result.first;
  char bits[96];
  std::snprintf(bits, sizeof bits, "%.9g in the rollout, %.9g in training",
                static_cast<double>(first.rollout), static_cast<double>(first.trainer));
  console.out << "  first: request " << Shown(first.request) << ", position " << first.position
              << ", token " << first.token << ": " << bits << "\n    " << first.round << '\n';
}

void PrintControl(const ExactControl& control, Console& console) {
  console.out << "  " << (control.holds() ? "✓" : "✗") << " control " << control.change << " ("
              << Name(control.source) << "): " << Grouped(Signed(control.tally.unequal)) << " of "
              << Grouped(Signed(control.tally.tokens)) << " unequal";
  if (control.named == ErrorSource::kNone) {
    console.out << ", and no source to name";
  } else {
    console.out << ", attribution names " << Name(control.named) << " (" << Percent(control.share)
                << "), first at " << control.first_point;
  }
  console.out << '\n';
}

std::string_view Explanation(ExactVerdict verdict) {
  switch (verdict) {
    case ExactVerdict::kBlind:
      return "  not certified: a control was not seen or not named, so that zero says nothing\n";
    case ExactVerdict::kUnexercised:
      return "  not certified: something was not varied; ask for more --tokens, longer prompts or "
             "more of them\n";
    default:
      return "";
  }
}

void Print(const std::vector<Verified>& made, Console& console) {
  for (const auto& [kernel, result] : made) {
    const ExactVerdict verdict = result.verdict();
    const bool good = verdict == ExactVerdict::kExact;
    console.out << Paint(good ? Style::kGreen : Style::kRed, good ? "✓" : "✗", console.colour_out)
                << ' ' << Shown(kernel) << "  " << VerdictWord(verdict) << ": "
                << Grouped(Signed(result.all.unequal)) << " of "
                << Grouped(Signed(result.all.tokens)) << " log-probs unequal, "
                << Grouped(Signed(result.all.unequal_rows)) << " rows of logits; "
                << Counted(result.rounds, "round") << ", "
                << Counted(result.preemptions, "preemption") << '\n';
    if (verdict == ExactVerdict::kUnequal) PrintUnequal(result, console);
    for (const ExactControl& control : result.controls) PrintControl(control, console);
    console.out << Explanation(verdict);
  }
  console.out << "\nvaried: " << WrapText(AxesText(made[0].result), 8, 100) << '\n';
}

void WriteTally(const ExactTally& tally, JsonWriter* json) {
  json->Field("tokens", tally.tokens).Field("unequal", tally.unequal);
  json->Field("unequalRows", tally.unequal_rows).Field("largest", tally.largest);
  json->Key("ulps").BeginArray();
  for (const uint64_t count : tally.ulps) json->Value(count);
  json->EndArray();
}

void WriteFirst(const std::optional<ExactMismatch>& first, JsonWriter* json) {
  json->Key("first");
  if (!first) {
    json->Null();
    return;
  }
  json->BeginObject().Field("request", first->request).Field("position", first->position);
  json->Field("token", first->token).Field("rollout", static_cast<double>(first->rollout));
  json->Field("trainer", static_cast<double>(first->trainer)).Field("round", first->round);
  json->EndObject();
}

void PrintJson(const std::vector<Verified>& made, Console& console) {
  JsonWriter json;
  json.BeginObject().Field("kccLabVerifyExact", 1).Key("kernels").BeginArray();
  for (const auto& [kernel, result] : made) {
    json.BeginObject().Field("kernel", kernel).Field("verdict", VerdictWord(result.verdict()));
    json.Field("fingerprint", result.fingerprint).Field("rounds", result.rounds);
    json.Field("preemptions", result.preemptions);
    WriteTally(result.all, &json);
    WriteFirst(result.first, &json);
    json.Key("axes").BeginArray();
    for (const AxisTally& axis : result.axes) {
      json.BeginObject().Field("axis", axis.axis).Field("value", axis.value);
      WriteTally(axis.tally, &json);
      json.EndObject();
    }
    json.EndArray().Key("controls").BeginArray();
    for (const ExactControl& control : result.controls) {
      json.BeginObject().Field("change", control.change).Field("source", Name(control.source));
      json.Field("holds", control.holds()).Field("named", Name(control.named));
      json.Field("share", control.share).Field("firstPoint", control.first_point);
      WriteTally(control.tally, &json);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  console.out << json.EndArray().EndObject().Take();
}

int ExitCodeOf(const std::vector<Verified>& made) {
  int code = kExitOk;
  for (const Verified& one : made) {
    const ExactVerdict verdict = one.result.verdict();
    if (verdict == ExactVerdict::kUnequal) return kExitViolated;
    if (verdict != ExactVerdict::kExact) code = kExitInconclusive;
  }
  return code;
}

}  // namespace

int RunLabVerify(const LabVerifyOptions& options, Console& console) {
  const Result<std::vector<Verified>> made = Verify(options, console);
  if (!made.has_value()) return ReportError(made.error(), console);
  if (console.json) {
    PrintJson(*made, console);
  } else {
    Print(*made, console);
  }
  return ExitCodeOf(*made);
}

}  // namespace kcc::cli
