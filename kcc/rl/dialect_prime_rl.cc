// prime-rl's default (DPPO: drop by difference of probabilities and the advantage's sign) and IPO
// losses, with the statistics over rows that it logs.
#include <algorithm>
#include <cmath>

#include "kcc/numeric/double_math.h"
#include "kcc/rl/dialect_list.h"

namespace kcc {
namespace {

struct PrimeOptions {
  bool ipo = false;
  double low = 0.2, high = 0.2, threshold = 0.1, adv_tau = 1, kl_tau = 1e-3;
};

Result<PrimeOptions> Read(std::string_view function, const OptionValue& json) {
  OptionReader reader(json);
  PrimeOptions out;
  out.ipo = function == "ipo_loss_fn";
  if (out.ipo) {
    out.threshold = reader.Number("ipo_threshold", 0.1);
  } else {
    out.low = reader.Number("dppo_mask_low", 0.2);
    out.high = reader.Number("dppo_mask_high", 0.2);
  }
  out.adv_tau = reader.Number("adv_tau", 1);
  out.kl_tau = reader.Number("kl_tau", 1e-3);
  KCC_TRY_VOID(reader.Finish());
  return out;
}

void AddStatistics(std::string_view name, Doubles values, ResultBuilder* out) {
  const std::string prefix = std::string(name) + "/";
  out->Add(prefix + "mean", MeanOf(values));
  const double sd = SampleSd(values);
  const double low = MinOf(values), high = MaxOf(values);
  std::sort(values.begin(), values.end());
  out->Add(prefix + "median", values.empty() ? std::nan("") : values[(values.size() - 1) / 2]);
  out->Add(prefix + "std", sd);
  out->Add(prefix + "min", low);
  out->Add(prefix + "max", high);
}

struct Dropped {
  std::vector<uint8_t> any, low, high;  // before the mask
};

Dropped Drop(const DialectInput& in, const PrimeOptions& o) {
  Dropped out{in.mask, in.mask, in.mask};
  for (size_t i = 0; i < in.size(); ++i) {
    const double gap = Exp(in.train[i]) - Exp(in.rollout[i]);
    const double a = in.advantage[i];
    out.any[i] = o.ipo ? std::fabs(gap) > o.threshold : a > 0 ? gap > o.high : gap < -o.low;
    out.high[i] = a > 0 && gap > o.high;
    out.low[i] = a < 0 && gap < -o.low;
  }
  return out;
}

// The mean of x over a row's tokens that `test` picks, 0 for none; one number per row.
Doubles RowMeansWhere(const DialectInput& in, const std::function<double(size_t)>& x,
                      const std::function<bool(size_t)>& test) {
  return MapTokens(in.rows, [&](size_t r) {
    double sum = 0, count = 0;
    for (size_t i = in.begin(r); i < in.end(r); ++i) {
      if (!test(i)) continue;
      sum += x(i);
      count += 1;
    }
    return sum / std::max(1.0, count);
  });
}

Result<DialectResult> Run(const DialectInput& in, std::string_view function,
                          const OptionValue& json) {
  KCC_TRY(const PrimeOptions options, Read(function, json));
  if (in.advantage.empty() && in.size() > 0) return InvalidError("prime-rl needs advantages");
  const Dropped dropped = Drop(in, options);
  const Doubles ratio = MapValues(in.d, Exp32);
  const Doubles kl = MapTokens(
      in.size(), [&](size_t i) { return std::isinf(ratio[i]) ? ratio[i] : ExpResidual(in.d[i]); });
  const auto valid = [&](size_t i) { return in.mask[i] != 0; };
  const auto gone = [&](size_t i) { return in.mask[i] != 0 && dropped.any[i] != 0; };
  const auto kept = [&](size_t i) { return in.mask[i] != 0 && dropped.any[i] == 0; };
  ResultBuilder out;
  const auto add = [&](std::string_view name, const std::function<double(size_t)>& x,
                       const std::function<bool(size_t)>& test) {
    AddStatistics(name, RowMeansWhere(in, x, test), &out);
  };
  const auto of = [](const std::vector<uint8_t>& flags) {
    return [&flags](size_t i) { return static_cast<double>(flags[i]); };
  };
  add("is_masked", of(dropped.any), valid);
  if (!options.ipo) {
    add("is_masked_high", of(dropped.high), valid);
    add("is_masked_low", of(dropped.low), valid);
    add(
        "masked_advantage_negative", [&](size_t i) { return in.advantage[i] < 0 ? 1.0 : 0.0; },
        gone);
    add(
        "masked_advantage_positive", [&](size_t i) { return in.advantage[i] > 0 ? 1.0 : 0.0; },
        gone);
  }
  const auto kl_at = [&](size_t i) { return kl[i]; };
  add("masked_mismatch_kl", kl_at, gone);
  AddStatistics("mismatch_kl/all", in.Valid(kl), &out);
  add("unmasked_mismatch_kl", kl_at, kept);
  double loss = 0;
  Doubles mask(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    mask[i] = kept(i) ? 1 : 0;
    if (!valid(i)) continue;
    loss -= mask[i] * options.adv_tau * in.advantage[i] * ratio[i];
    loss += options.kl_tau * in.d[i] * in.d[i];
  }
  out.Add("loss", loss / std::max(1.0, in.Count()));
  out.Array("mismatch_kl", in, kl);
  out.Array("weights", in, ratio);
  out.Array("mask", in, std::move(mask));
  return out.Take();
}

Result<DialectTranslation> Translate(std::string_view function, const OptionValue& json) {
  KCC_TRY_VOID(Read(function, json));
  DialectTranslation out;
  out.correction.weight.mode = RlWeightMode::kFull;
  out.complete = false;
  out.notes.emplace_back(function == "ipo_loss_fn"
                             ? "drops tokens by the difference of probabilities"
                             : "drops tokens by the difference of probabilities and the "
                               "advantage's sign; neither has a canonical rule");
  out.warnings.emplace_back(
      "masked tokens are those whose probability moved, not whose ratio did: rare tokens are "
      "almost never dropped");
  return out;
}

constexpr DialectFunction kFunctions[] = {
    {"default_loss_fn", "dppo_mask_low dppo_mask_high adv_tau kl_tau"},
    {"ipo_loss_fn", "ipo_threshold adv_tau kl_tau"},
};

}  // namespace

constinit const Dialect kPrimeRlDialect = {
    .id = "prime_rl",
    .aliases = "prime",
    .title = "prime-rl",
    .repository = "PrimeIntellect-ai/prime-rl",
    .commit = "559b44772",
    .functions = kFunctions,
    .oddities =
        "Tokens are dropped by the difference of probabilities; at advantage 0 the low bound "
        "applies. Medians are the lower middle.",
    .run = &Run,
    .translate = &Translate,
};

}  // namespace kcc
