#include "kcc/train/verify_exact.h"

#include <algorithm>
#include <map>
#include <memory>

#include "kcc/attribution/attribution.h"
#include "kcc/attribution/divergence.h"
#include "kcc/lab/lab_kernel.h"
#include "kcc/lab/sampler.h"
#include "kcc/train/rollouts.h"

namespace kcc {
namespace {

constexpr size_t kRoundRequestsMax = 64;
constexpr size_t kAttributedRequests = 4;
constexpr size_t kAttributedTokens = 16;  // of each continuation, since sixteen corners are run
constexpr double kShareLeast = 0.9;

// What is varied. A round takes one value of every axis.
struct Axis {
  std::string_view name;
  std::vector<std::string> values;
};
enum AxisName : size_t {
  kCompany,
  kPage,
  kChunk,
  kCache,
  kThreads,
  kPacking,
  kTrainerThreads,
  kTarget
};

std::vector<Axis> Axes() {
  Axis target{"trainer target", {}};
  for (const Target one : AvailableTargets()) {
    // One lane at a time is a hundred times slower; the tests run it.
    if (one != Target::kScalar) target.values.emplace_back(TargetName(one));
  }
  if (target.values.empty()) target.values.emplace_back(TargetName(Target::kScalar));
  return {{"company", {"3", "16", "64"}},       {"page", {"5", "16", "64"}},
          {"chunk", {"7", "64", "256"}},        {"cache", {"ample", "cramped"}},
          {"threads", {"1", "2", "3"}},         {"packing", {"300", "1500", "6000"}},
          {"trainer threads", {"1", "2", "3"}}, target};
}

size_t Number(const std::string& text) { return static_cast<size_t>(std::stoul(text)); }

// The first rounds take every value of every axis; later ones put them together in other ways.
std::vector<size_t> RoundOf(const std::vector<Axis>& axes, uint64_t round) {
  std::vector<size_t> places;
  for (size_t a = 0; a < axes.size(); ++a) {
    const size_t n = axes[a].values.size();
    places.push_back((round + round / n * (a + 1)) % n);
  }
  return places;
}

class Verification {
 public:
  Verification(const Checkpoint& checkpoint, const LabSwitches& kernel,
               std::span<const KernelRequest> prompts, const VerifyOptions& options)
      : checkpoint_(checkpoint),
        kernel_(kernel),
        prompts_(prompts),
        options_(options),
        axes_(Axes()) {
    for (const Axis& axis : axes_) {
      for (const std::string& value : axis.values) {
        result_.axes.push_back({std::string(axis.name), value, {}});
      }
    }
    for (const KernelRequest& prompt : prompts) {
      longest_ = std::max(longest_, static_cast<size_t>(prompt.prompt_tokens) +
                                        static_cast<size_t>(options.output_tokens));
    }
  }

  Result<ExactResult> Run() {
    KCC_TRY(const LabModel model, LabModel::Make(checkpoint_, kernel_));
    result_.fingerprint = LabKernelInfo(model, kernel_).fingerprint;
    const auto wanted = static_cast<uint64_t>(std::max<int64_t>(1, options_.tokens));
    size_t least = 0;  // rounds, so that every value was taken
    for (const Axis& axis : axes_) least = std::max(least, axis.values.size());
    while (result_.rounds < least || result_.all.tokens < wanted) {
      KCC_TRY_VOID(Round(model, result_.rounds));
      ++result_.rounds;
      if (options_.progress) {
        options_.progress(static_cast<int64_t>(result_.all.tokens), options_.tokens);
      }
    }
    for (const ErrorSource source : kErrorSources) KCC_TRY_VOID(Control(source));
    return std::move(result_);
  }

 private:
  std::vector<KernelRequest> RoundPrompts(uint64_t round) const {
    const auto output = static_cast<size_t>(options_.output_tokens);
    const size_t count = std::clamp<size_t>(static_cast<size_t>(options_.tokens) / (4 * output), 4,
                                            kRoundRequestsMax);
    std::vector<KernelRequest> some;
    for (size_t i = 0; i < count; ++i) {
      some.push_back(prompts_[(round * count + i) % prompts_.size()]);
      // A file of few prompts is gone through again; ids decide seeds, and company of oneself is
      // none.
      if (count > prompts_.size())
        some.back().request.id += "#" + std::to_string(i / prompts_.size());
    }
    return some;
  }

  Result<GradientPass*> Trainer(size_t threads, const std::string& target) {
    KCC_TRY(const Target chosen, ParseTarget(target));
    std::unique_ptr<ForkJoin>& pool = pools_[threads];
    if (pool == nullptr) pool = std::make_unique<ForkJoin>(threads);
    std::unique_ptr<GradientPass>& pass = passes_[{threads, target}];
    if (pass == nullptr) {
      KCC_TRY(pass, GradientPass::Make(checkpoint_, kernel_, *pool, chosen));
    }
    return pass.get();
  }

  Result<> Round(const LabModel& model, uint64_t round) {
    const std::vector<size_t> places = RoundOf(axes_, round);
    const auto value = [&](AxisName axis) -> const std::string& {
      return axes_[axis].values[places[axis]];
    };
    LabSwitches switches = kernel_;
    switches.concurrency = Number(value(kCompany));
    switches.page = Number(value(kPage));
    switches.chunk = Number(value(kChunk));
    switches.threads = Number(value(kThreads));
    switches.audit = AuditLevel::kOff;
    // Room for the longest alone and half as much again, so that two that run at once press each
    // other.
    switches.kv_tokens =
        value(kCache) == "cramped" ? longest_ + longest_ / 2 + 2 * switches.page : 0;
    const std::vector<KernelRequest> prompts = RoundPrompts(round);
    KCC_TRY(const RolloutBatch batch, MakeRollouts(model, switches, prompts, options_.output_tokens,
                                                   options_.seed * 1'000'003 + round));
    result_.preemptions += batch.preemptions;
    KCC_TRY(GradientPass* const trainer, Trainer(Number(value(kTrainerThreads)), value(kTarget)));
    std::vector<const Rollout*> order;
    for (const Rollout& rollout : batch.rollouts) order.push_back(&rollout);
    for (size_t i = order.size(); i > 1; --i) {  // Fisher and Yates
      const auto j =
          static_cast<size_t>(UniformAt(options_.seed + round, i) * static_cast<double>(i));
      std::swap(order[i - 1], order[j]);
    }
    ExactTally tally;
    KCC_TRY_VOID(CompareWithTrainer(
        order, Number(value(kPacking)), *trainer,
        [&](const Rollout& rollout, size_t at, float log_prob, bool same_row) {
          tally.Add(rollout.log_probs[at], log_prob, same_row);
          const bool differs = UlpDistance(rollout.log_probs[at], log_prob) != 0 || !same_row;
          if (differs && !result_.first) result_.first = MismatchOf(rollout, at, log_prob, places);
        }));
    result_.all.Merge(tally);
    size_t first = 0;
    for (size_t a = 0; a < axes_.size(); ++a) {
      result_.axes[first + places[a]].tally.Merge(tally);
      first += axes_[a].values.size();
    }
    return {};
  }

  ExactMismatch MismatchOf(const Rollout& rollout, size_t at, float log_prob,
                           const std::vector<size_t>& places) const {
    ExactMismatch made;
    made.request = rollout.request.request.id;
    const size_t position = static_cast<size_t>(rollout.request.prompt_tokens) + at;
    made.position = static_cast<int64_t>(position);
    made.token = rollout.request.tokens[position];
    made.rollout = rollout.log_probs[at];
    made.trainer = log_prob;
    for (size_t a = 0; a < axes_.size(); ++a) {
      made.round +=
          (a == 0 ? "" : ", ") + std::string(axes_[a].name) + " " + axes_[a].values[places[a]];
    }
    return made;
  }

  // One switch of the source, set to something else than the kernel has.
  std::pair<std::string, std::string> ChangeOf(ErrorSource source) const {
    switch (source) {
      case ErrorSource::kOperator:
        // Larger than a rounding, which a kernel of 16 bits would swallow.
        return {"exp", kernel_.exp == ExpKind::kAccurate ? "fast" : "accurate"};
      case ErrorSource::kPrecision:
        return {"kv", kernel_.kv == DType::kF32    ? "bf16"
                      : kernel_.kv == DType::kBF16 ? "e4m3"
                                                   : "bf16"};
      case ErrorSource::kBatch:
        return {"batch", kernel_.dynamic_batch ? "invariant" : "dynamic"};
      default:
        return {"route", kernel_.route.kind == RouteKind::kFixed ? "shape:4" : "fixed"};
    }
  }

  Result<> Control(ErrorSource source) {
    ExactControl control;
    control.source = source;
    const auto [name, text] = ChangeOf(source);
    control.change = name + "=" + text;
    LabSwitches changed = kernel_;
    KCC_TRY_VOID(SetSwitch(name, text, &changed));
    changed.audit = AuditLevel::kOff;
    KCC_TRY(const LabModel model, LabModel::Make(checkpoint_, changed));
    KCC_TRY(GradientPass* const trainer, Trainer(1, std::string(TargetName(BestTarget()))));
    std::vector<KernelRequest> generated;
    for (uint64_t round = 0; control.tally.tokens < static_cast<uint64_t>(options_.control_tokens);
         ++round) {
      const std::vector<KernelRequest> prompts = RoundPrompts(round);
      KCC_TRY(const RolloutBatch batch,
              MakeRollouts(model, changed, prompts, options_.output_tokens,
                           options_.seed * 1'000'033 + round));
      std::vector<const Rollout*> order;
      for (const Rollout& rollout : batch.rollouts) order.push_back(&rollout);
      KCC_TRY_VOID(CompareWithTrainer(
          order, 1500, *trainer,
          [&](const Rollout& rollout, size_t at, float log_prob, bool same_row) {
            control.tally.Add(rollout.log_probs[at], log_prob, same_row);
            if (same_row || generated.size() == kAttributedRequests) return;
            const KernelRequest& request = rollout.request;
            if (!generated.empty() && generated.back().request.id == request.request.id) return;
            // Up to where it differs, and a few tokens at least: what is attributed is what was
            // seen.
            generated.push_back(request);
            generated.back().tokens.resize(std::min(
                request.tokens.size(),
                static_cast<size_t>(request.prompt_tokens) + std::max(at + 1, kAttributedTokens)));
          }));
    }
    if (!generated.empty()) KCC_TRY_VOID(NameSource(changed, generated, &control));
    result_.controls.push_back(std::move(control));
    return {};
  }

  // All sixteen corners are run: attribution is told that the kernels may differ anywhere.
  Result<> NameSource(const LabSwitches& changed, std::span<const KernelRequest> requests,
                      ExactControl* control) {
    LabSwitches from = kernel_;
    LabSwitches to = changed;
    for (LabSwitches* switches : {&from, &to}) {
      switches->path = TracePath::kDecode;  // as rollouts are computed
      switches->audit = AuditLevel::kEverything;
    }
    KCC_TRY(const std::unique_ptr<LabKernel> train, LabKernel::Make(checkpoint_, from));
    const CornerOpener open = [&](unsigned mask) -> Result<std::unique_ptr<Kernel>> {
      LabSwitches corner = from;
      for (size_t i = 0; i < kErrorSources.size(); ++i) {
        if ((mask >> i) & 1u) corner = WithSource(corner, to, kErrorSources[i]);
      }
      KCC_TRY(std::unique_ptr<LabKernel> kernel, LabKernel::Make(checkpoint_, corner));
      return std::unique_ptr<Kernel>(std::move(kernel));
    };
    AttributionOptions options;
    options.quantities = {"logit_linf"};
    options.scratch = options_.scratch;
    options.resamples = 1;
    KCC_TRY(const Attribution attribution, Attribute(*train, open, requests, options));
    const ShapleyShares& shares = attribution.cells.at(0).shapley;
    for (size_t i = 0; i < kErrorSources.size(); ++i) {
      const double share = shares.total > 0 ? shares.share[i] / shares.total : 0;
      if (share <= control->share) continue;
      control->share = share;
      control->named = kErrorSources[i];
    }
    KCC_TRY(const std::unique_ptr<LabKernel> infer, LabKernel::Make(checkpoint_, to));
    KCC_TRY(const FirstDivergence divergence, FindFirstDivergence(*train, *infer, requests));
    control->first_point = divergence.point_name;
    return {};
  }

  const Checkpoint& checkpoint_;
  const LabSwitches& kernel_;
  std::span<const KernelRequest> prompts_;
  const VerifyOptions& options_;
  std::vector<Axis> axes_;
  size_t longest_ = 0;
  std::map<size_t, std::unique_ptr<ForkJoin>> pools_;
  std::map<std::pair<size_t, std::string>, std::unique_ptr<GradientPass>> passes_;
  ExactResult result_;
};

}  // namespace

bool ExactControl::holds() const {
  return tally.unequal > 0 && named == source && share >= kShareLeast;
}

ExactVerdict ExactResult::verdict() const {
  if (all.unequal > 0 || all.unequal_rows > 0) return ExactVerdict::kUnequal;
  const bool seen = std::all_of(controls.begin(), controls.end(),
                                [](const ExactControl& c) { return c.holds(); });
  if (!seen || controls.size() != kErrorSources.size()) return ExactVerdict::kBlind;
  const bool varied =
      std::all_of(axes.begin(), axes.end(), [](const AxisTally& a) { return a.tally.tokens > 0; });
  if (!varied || preemptions == 0 || !all.exact()) return ExactVerdict::kUnexercised;
  return ExactVerdict::kExact;
}

Result<ExactResult> VerifyExact(const Checkpoint& checkpoint, const LabSwitches& kernel,
                                std::span<const KernelRequest> prompts,
                                const VerifyOptions& options) {
  KCC_TRY_VOID(CheckSwitches(kernel));
  if (prompts.empty()) return InvalidError("there is no prompt to continue");
  if (options.output_tokens < 2) return InvalidError("a rollout needs at least two tokens");
  return Verification(checkpoint, kernel, prompts, options).Run();
}

}  // namespace kcc
