// kcc bound: from a drift to what it can cost, from what is tolerated back to thresholds, and every
// bound against two traces. The mathematics is kcc/bounds (docs/bounds.md).
#include <algorithm>
#include <cmath>

#include "apps/kcc/commands.h"
#include "apps/kcc/progress.h"
#include "apps/kcc/safe_output.h"
#include "kcc/author/bound_check.h"
#include "kcc/base/strings.h"
#include "kcc/bounds/chain.h"
#include "kcc/bounds/chain_json.h"

namespace kcc::cli {
namespace {

std::string Padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

int PrintForward(DriftForm form, double value, const BoundAssumptions& given, Console& console) {
  if (console.json) {
    console.out << ForwardJson(form, value, given);
    return kExitOk;
  }
  const Chain chain = ForwardChain(form, value, given);
  console.out << "If " << CatalogName(form) << " is at most " << ShortestNumber(value)
              << (form == DriftForm::kAbsLogRatio ? " in the mean over infer's tokens"
                                                  : " at every token")
              << ", then at most:\n";
  constexpr size_t kName = 31;
  constexpr size_t kNumber = 12;
  console.out << Paint(Style::kDim,
                       "  " + Padded("", kName) + Padded("tight", kNumber) +
                           Padded("textbook", kNumber) + "formula",
                       console.colour_out)
              << '\n';
  for (const ChainRow& row : chain.rows) {
    console.out << "  " << Padded(std::string(row.name), kName)
                << Padded(ReadableNumber(row.value), kNumber)
                << Padded(row.textbook ? ReadableNumber(*row.textbook) : "", kNumber)
                << row.formula;
    if (row.textbook) console.out << "   (textbook: " << row.textbook_formula << ')';
    console.out << '\n';
  }
  if (!chain.missing.empty()) {
    console.out << "more with " << JoinWords(chain.missing) << '\n';
  }
  return kExitOk;
}

// bf16 logits of magnitude 16 to 32 are 0.125 apart (docs/bounds.md, reality check).
constexpr double kBf16Linf = 0.0625;

int PrintBackward(Tolerated what, double budget, const BoundAssumptions& given, Console& console) {
  if (console.json) {
    const Result<std::string> json = BackwardJson(what, budget, given);
    if (!json.has_value()) return ReportError(json.error(), console);
    console.out << *json;
    return kExitOk;
  }
  const auto rows = BackwardChain(what, budget, given);
  if (!rows.has_value()) return ReportError(rows.error(), console);
  console.out << "Each of these alone guarantees " << Name(what) << " <= " << ShortestNumber(budget)
              << ":\n";
  for (const ThresholdRow& row : *rows) {
    console.out << "  " << Padded(std::string(row.metric) + " <= ", 25)
                << Padded(ShortestNumber(row.at_most), 25) << row.formula << '\n';
  }
  const auto linf = std::find_if(rows->begin(), rows->end(), [](const ThresholdRow& row) {
    return row.quantity == CatalogName(DriftForm::kLinf);
  });
  if (linf != rows->end() && linf->at_most < kBf16Linf) {
    console.out << "note: bf16 stores logits of 16 and more to within " << kBf16Linf
                << " only; a logit clause below that needs kernels that keep float32 logits\n";
  }
  return kExitOk;
}

void WriteChecked(const CheckedBound& row, JsonWriter* json) {
  json->BeginObject().Field("quantity", row.quantity).Field("statement", row.statement);
  json->Field("decides", row.decides).Field("compared", row.compared);
  json->Field("violations", row.violations);
  json->Field("ratioMax", row.ratio_max).Field("ratioMean", row.ratio_mean);
  if (row.closest) {
    json->Key("closest").BeginObject();
    if (row.closest->position >= 0) {
      json->Field("request", row.closest->request).Field("position", row.closest->position);
    }
    json->Field("measured", row.closest->measured).Field("bound", row.closest->bound).EndObject();
  }
  json->EndObject();
}

constexpr size_t kStatement = 57;

void PrintCheck(const BoundCheck& check, Console& console) {
  console.out << Counted(static_cast<size_t>(check.tokens), "token") << " of "
              << Counted(static_cast<size_t>(check.requests), "request")
              << "; measured/bound, 1 where a bound is attained:\n";
  console.out << Paint(Style::kDim,
                       "  " + Padded("bound", kStatement) + Padded("tokens", 9) +
                           Padded("closest", 10) + std::string("mean"),
                       console.colour_out)
              << '\n';
  for (const CheckedBound& row : check.rows) {
    if (row.compared == 0) continue;
    console.out << "  " << Padded(std::string(row.statement), kStatement)
                << Padded(std::to_string(row.compared), 9)
                << Padded(ReadableNumber(row.ratio_max), 10) << ReadableNumber(row.ratio_mean);
    if (row.violations > 0) {
      console.out << "  "
                  << Paint(Style::kRed, std::to_string(row.violations) + " violations",
                           console.colour_out);
    } else if (!row.decides) {
      console.out << "  for comparison";
    }
    console.out << '\n';
  }
}

int RunBoundCheck(const BoundOptions& options, Console& console) {
  PairingOptions pairing;
  if (options.temperature_given) pairing.temperature = options.assumptions.temperature;
  const auto open = [&]() -> Result<PairedTraces> {
    KCC_TRY(TraceReader train, TraceReader::Open(options.check[0]));
    KCC_TRY(TraceReader infer, TraceReader::Open(options.check[1]));
    return PairedTraces::Make(std::move(train), std::move(infer), pairing);
  };
  const Result<PairedTraces> pair = open();
  if (!pair.has_value()) return ReportError(pair.error(), console);
  const SystemClock clock;
  Progress progress(console, clock);
  const auto check = CheckBounds(*pair, options.assumptions, [&](int64_t tokens) {
    progress.Show(tokens, pair->token_count(), 0);
  });
  if (!check.has_value()) return ReportError(check.error(), console);
  const CheckedBound* violated = check->violated();
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("kccBoundCheck", 1).Field("requests", check->requests);
    json.Field("tokens", check->tokens).Field("holds", violated == nullptr);
    json.Key("bounds").BeginArray();
    for (const CheckedBound& row : check->rows) WriteChecked(row, &json);
    json.EndArray().EndObject();
    console.out << json.Take();
  } else {
    PrintCheck(*check, console);
  }
  if (violated != nullptr) {
    const BoundWitness& at = *violated->closest;
    console.err << Paint(Style::kRed, "error:", console.colour_err)
                << " evidence violates a proven "
                << "bound: " << violated->statement << " at request '" << Shown(at.request)
                << "', position " << at.position << ": " << ShortestNumber(at.measured) << " > "
                << ShortestNumber(at.bound) << ".\nThis is a bug in kcc, or the traces hold "
                << "log-probs that are none; run 'kcc trace verify' on both and report it.\n";
    return kExitError;
  }
  if (check->compared() == 0) {
    console.err << "nothing was compared: the traces hold " << Name(pair->evidence())
                << " evidence, and bounds need distributions (logits, "
                << "or top-k lists)\n";
    return kExitInconclusive;
  }
  return kExitOk;
}

// The parser lets "nan" and "inf" through.
Result<> RequireFinite(const BoundOptions& options) {
  const BoundAssumptions& given = options.assumptions;
  for (const auto& value :
       {options.drift[0], options.drift[1], options.drift[2], options.drift[3], options.drift[4],
        options.drift[5], options.reward_drift, options.gradient_bias, given.reward_max,
        given.advantage_max, given.score_norm_max, std::optional(given.temperature)}) {
    if (value && !std::isfinite(*value)) {
      return InvalidError("'" + ShortestNumber(*value) +
                          "' is not a number that a bound can start from");
    }
  }
  return {};
}

}  // namespace

int RunBound(const BoundOptions& options, Console& console) {
  size_t asked = options.check.empty() ? 0 : 1;
  for (const auto& value : options.drift) asked += value ? 1 : 0;
  asked += (options.reward_drift ? 1 : 0) + (options.gradient_bias ? 1 : 0);
  if (asked != 1) {
    return ReportError(
        InvalidError("give one of --span, --linf, --l2, --tv, --kl, --abs-log-ratio (what follows "
                     "from it), --reward-drift, --gradient-bias (what guarantees it) or --check"),
        console);
  }
  if (const Result<> checked = RequireFinite(options); !checked.has_value()) {
    return ReportError(checked.error(), console);
  }
  if (!options.check.empty()) return RunBoundCheck(options, console);
  const BoundAssumptions& given = options.assumptions;
  if (options.reward_drift) {
    return PrintBackward(Tolerated::kRewardDrift, *options.reward_drift, given, console);
  }
  if (options.gradient_bias) {
    return PrintBackward(Tolerated::kGradientBias, *options.gradient_bias, given, console);
  }
  for (const DriftForm form : kDriftForms) {
    const auto& value = options.drift[static_cast<size_t>(form)];
    if (!value) continue;
    if (form == DriftForm::kTv && *value > 1) {
      return ReportError(InvalidError("--tv: a total variation is at most 1"), console);
    }
    return PrintForward(form, *value, given, console);
  }
  return kExitInvalid;
}

}  // namespace kcc::cli
