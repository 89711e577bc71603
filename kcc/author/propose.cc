#include "kcc/author/propose.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "kcc/author/limits.h"
#include "kcc/author/margins.h"
#include "kcc/base/check.h"
#include "kcc/base/json_writer.h"
#include "kcc/base/strings.h"
#include "kcc/contract/canonical.h"
#include "kcc/contract/reader.h"

namespace kcc {
namespace {

constexpr double kRequestBudget = 0.05;
constexpr double kOverlapUnit = 0.2;  // one of five tokens

// One pass over the sources in a fixed order: evidence, tolerated costs, envelope. The order
// matters twice. A candidate may stand in for an earlier one (instead_of): sampled tokens bound no
// mean_kl, and mean_k3 then takes its place. And a bound is put on a quantity that the evidence can
// show (shows_tv_), which is known only after all candidates.
//
// What cannot be proposed becomes a note, not an error: a contract with three clauses and a note is
// of use. Only no clause at all is an error.

// What evidence is asked for, in the order of the clauses. A soft one is taken in each request.
struct Candidate {
  std::string_view family;
  std::string_view metric;
  BoundKind bound;
  bool soft;
  std::string_view instead_of;  // proposed only where that metric has no finite value
  bool shows_tv = false;        // evidence that gives it gives mean_tv too
};
constexpr Candidate kCandidates[] = {
    {"numerical", "mean_kl", BoundKind::kAtMost, false, "", true},
    {"numerical", "mean_tv", BoundKind::kAtMost, false, "mean_kl", true},
    {"numerical", "max_logit_span", BoundKind::kAtMost, true, ""},
    {"numerical", "max_tv", BoundKind::kAtMost, true, "max_logit_span"},
    {"numerical", "mean_abs_log_ratio", BoundKind::kAtMost, false, ""},
    {"numerical", "max_abs_log_ratio", BoundKind::kAtMost, true, "max_logit_span"},
    {"numerical", "mean_k3", BoundKind::kAtMost, false, "mean_kl"},
    {"statistical", "mean_top5_overlap", BoundKind::kAtLeast, false, ""},
};

// Percentiles of the span, by the share of tokens that they say nothing of.
struct TailMetric {
  std::string_view metric;
  double share;
};
constexpr TailMetric kTails[] = {{"p90_logit_span", 0.1},
                                 {"p95_logit_span", 0.05},
                                 {"p99_logit_span", 0.01},
                                 {"p999_logit_span", 0.001},
                                 {"max_logit_span", 0}};

struct Line {
  std::string family;
  std::string text;  // one clause in flow style, without its id
  std::string origin;
};

std::string Number(double value) { return ShortestNumber(value); }

// The last digit of a decimal moved until it lies on the wanted side.
double Rounded(double value, int digits, bool up) {
  if (value <= 0 || !std::isfinite(value)) return value;
  const int exponent = static_cast<int>(std::floor(std::log10(value)));
  const int shift = digits - 1 - exponent;
  auto scaled = static_cast<long long>(value * std::pow(10.0, shift));
  for (scaled -= 1;; ++scaled) {
    // Through text, so that the result is the double nearest to a short decimal.
    const auto decimal = ParseNumber(std::to_string(scaled) + "e" + std::to_string(-shift));
    const auto next = ParseNumber(std::to_string(scaled + 1) + "e" + std::to_string(-shift));
    if (up && *decimal >= value) return *decimal;
    if (!up && *next > value) return *decimal <= value ? *decimal : value;
  }
}

class Author {
 public:
  explicit Author(const AuthorInput& input) : input_(input) {}

  Result<AuthoredContract> Write() {
    for (const Candidate& candidate : kCandidates) AddFromEvidence(candidate);
    KCC_TRY_VOID(AddFromBounds(Tolerated::kRewardDrift, input_.reward_drift));
    KCC_TRY_VOID(AddFromBounds(Tolerated::kGradientBias, input_.gradient_bias));
    if (input_.flip_rate) AddFromMargins(*input_.flip_rate);
    if (input_.envelope) AddFromEnvelope(*input_.envelope);
    if (lines_.empty()) {
      std::string why;
      for (const std::string& note : notes_) why += "; " + note;
      return InvalidError(
          "nothing to propose a clause from: give --evidence, --reward-drift, --gradient-bias, "
          "--flip-rate or --checkpoint" +
          why);
    }
    return Finish();
  }

 private:
  std::optional<EvidenceLimit> LimitOf(const Candidate& candidate, const Summary& summary) const {
    const Metric metric = *ParseMetric(candidate.metric);
    if (candidate.bound == BoundKind::kAtLeast) {
      return ShareLimit(summary, metric, kOverlapUnit, input_.confidence);
    }
    return candidate.soft ? RequestLimit(summary, metric, kRequestBudget, input_.confidence)
                          : MeanLimit(summary, metric, candidate.bound, input_.confidence);
  }

  // Of several pieces of evidence the worst: all of them are to be accepted.
  std::optional<EvidenceLimit> WorstLimit(const Candidate& candidate) const {
    std::optional<EvidenceLimit> worst;
    for (const Summary* summary : input_.evidence) {
      const auto limit = LimitOf(candidate, *summary);
      // One piece that does not bound the metric leaves nothing to promise about all.
      if (!limit) return {};
      const bool worse =
          !worst || (candidate.bound == BoundKind::kAtMost ? limit->limit > worst->limit
                                                           : limit->limit < worst->limit);
      if (worse) worst = limit;
    }
    return worst;
  }

  void AddFromEvidence(const Candidate& candidate) {
    if (input_.evidence.empty()) return;
    const std::string_view other = candidate.instead_of;
    if (!other.empty() && std::find(proposed_.begin(), proposed_.end(), other) != proposed_.end()) {
      return;
    }
    const auto limit = WorstLimit(candidate);
    if (!limit) {
      notes_.push_back("no clause on " + std::string(candidate.metric) +
                       ": the evidence does not bound it");
      return;
    }
    proposed_.push_back(candidate.metric);
    shows_tv_ = shows_tv_ || candidate.shows_tv;
    double threshold = RoundedUp(input_.margin * limit->limit, 2);
    if (candidate.bound == BoundKind::kAtLeast) {
      // 1 - 0.07 is not the double of 0.93; twelve decimals are.
      threshold = 1 - RoundedUp(input_.margin * (1 - limit->limit), 2);
      threshold = std::max(0.0, std::round(threshold * 1e12) / 1e12);
      if (threshold == 0) {
        notes_.push_back("no clause on " + std::string(candidate.metric) +
                         ": with the margin it would ask for nothing");
        return;
      }
    }
    std::string why = "evidence: " + ReadableNumber(limit->estimate) + " over " +
                      std::to_string(limit->requests) + " requests, ";
    if (!candidate.soft) {
      why += "a further sample within " + ReadableNumber(limit->limit) + " at " +
             ReadableNumber(100 * input_.confidence) + "% confidence";
    } else if (limit->exact_rank) {
      why += ReadableNumber(100 * (1 - kRequestBudget)) + "% of requests within " +
             ReadableNumber(limit->limit) + " at " + ReadableNumber(100 * input_.confidence) +
             "% confidence";
    } else {
      why +=
          "the worst of them " + ReadableNumber(limit->limit) + " (too few to bound a percentile)";
    }
    why += "; times a margin of " + ReadableNumber(input_.margin);
    std::string text = "metric: " + std::string(candidate.metric) + ", " +
                       std::string(Name(candidate.bound)) + ": " + Number(threshold);
    if (candidate.soft) text += ", exceedance: 5%, window: request";
    Add(candidate.family, text + ", level: L2", why, "evidence");
  }

  // Rounded down where evidence is rounded up: a guarantee may be tighter than asked for, never
  // looser. One clause that guarantees the budget, on what the evidence can show.
  Result<> AddFromBounds(Tolerated what, const std::optional<double>& budget) {
    if (!budget) return {};
    KCC_TRY(const std::vector<ThresholdRow> rows, BackwardChain(what, *budget, input_.assumptions));
    const bool of_tv = input_.evidence.empty() || shows_tv_;
    const std::string_view wanted = CatalogName(of_tv ? DriftForm::kTv : DriftForm::kAbsLogRatio);
    const ThresholdRow* chosen = &rows.front();
    for (const ThresholdRow& row : rows) {
      if (row.quantity == wanted) chosen = &row;
    }
    const std::string name(Name(what));
    if (!std::isfinite(chosen->at_most) || (of_tv && chosen->at_most >= 1)) {
      notes_.push_back("no clause for " + name + " <= " + Number(*budget) +
                       ": it holds whatever the kernels do");
      return {};
    }
    const double threshold = RoundedDown(chosen->at_most, 4);
    std::string why = "bound: guarantees " + name + " <= " + Number(*budget) + " (";
    why += what == Tolerated::kRewardDrift
               ? "|reward| <= " + Number(*input_.assumptions.reward_max)
               : "|advantage| <= " + Number(*input_.assumptions.advantage_max) +
                     ", score norm <= " + Number(*input_.assumptions.score_norm_max);
    if (input_.assumptions.tokens) {
      why += ", up to " + std::to_string(*input_.assumptions.tokens) + " tokens";
      if (what == Tolerated::kGradientBias) {
        why += ", advantages: " + std::string(Name(input_.assumptions.advantages));
      }
    }
    why += "): " + std::string(chosen->metric) + " <= " + Number(chosen->at_most);
    Add("numerical",
        "metric: " + std::string(chosen->metric) + ", atMost: " + Number(threshold) + ", level: L3",
        why, "bound");
    return {};
  }

  // What is tolerated is asked of the evidence itself. The span clause warns before: while it
  // holds, no drift can flip more. It is proposed only where the evidence keeps to it, since a
  // kernel may break it and flip little. Part of the share is left to tokens beyond a percentile.
  void AddFromMargins(double rate) {
    Add("statistical", "metric: flip_rate, atMost: " + Number(rate) + ", level: L3",
        "tolerance: at most " + ReadableNumber(100 * rate) + "% of the tokens may flip",
        "tolerance");
    const TailMetric& tail =
        *std::find_if(std::begin(kTails), std::end(kTails),
                      [&](const TailMetric& t) { return t.share <= rate / 2; });
    const auto leave_out = [&](const std::string& why) {
      notes_.push_back("no clause on logit_span for the flip rate: " + why);
    };
    if (input_.evidence.empty()) return leave_out("margins come from --evidence");
    std::optional<MarginLimit> least;
    double span = 0;
    for (const Summary* summary : input_.evidence) {
      const auto limit = SpanFromMargins(*summary, rate - tail.share);
      const auto measured = SpanPercentile(*summary, tail.share);
      if (!limit || !measured) return leave_out("the evidence does not bound margins and span");
      if (!least || limit->span < least->span) least = limit;
      span = std::max(span, *measured);
    }
    if (!std::isfinite(least->span)) return leave_out("no token of the evidence can flip");
    const double threshold = RoundedDown(least->span / input_.assumptions.temperature, 4);
    if (threshold <= 0) return leave_out("more tokens than that are ties");
    if (span > threshold) {
      return leave_out("the margins allow " + std::string(tail.metric) +
                       " <= " + Number(threshold) + ", and the evidence has " +
                       ReadableNumber(span) + "; flip_rate is judged by itself");
    }
    std::string why = "margins: " + std::to_string(least->in_doubt) + " of " +
                      std::to_string(least->tokens) + " tokens have a margin of at most " +
                      ReadableNumber(least->span) + ", so a span within it flips no more";
    if (tail.share > 0) {
      why += "; " + ReadableNumber(100 * tail.share) + "% of the tokens may have a larger one";
    }
    why += "; together at most " + ReadableNumber(100 * rate) + "% of these tokens";
    Add("numerical",
        "metric: " + std::string(tail.metric) + ", atMost: " + Number(threshold) + ", level: L2",
        why, "margins");
  }

  void AddFromEnvelope(const EnvelopeInput& envelope) {
    const auto linf = [&](const KernelDescription& kernel, EnvelopeForm form) {
      const Envelope of = EnvelopeOf(envelope.model, kernel, form);
      return of.vacuous ? std::numeric_limits<double>::infinity() : of.linf;
    };
    const double statistical = linf(envelope.train, EnvelopeForm::kStatistical) +
                               linf(envelope.infer, EnvelopeForm::kStatistical);
    if (!std::isfinite(statistical) || statistical == 0) {
      notes_.push_back(statistical == 0
                           ? "no clause from the envelope: both kernels are described as exact"
                           : "no clause from the envelope: it is vacuous for this model");
      return;
    }
    const double worst = linf(envelope.train, EnvelopeForm::kWorstCase) +
                         linf(envelope.infer, EnvelopeForm::kWorstCase);
    std::string why = "envelope: " + envelope.origin + ": four standard deviations of " +
                      LargestSource(envelope) + " and the other sources of both kernels, " +
                      ReadableNumber(statistical) +
                      (std::isfinite(worst) ? "; worst case " + ReadableNumber(worst)
                                            : "; the worst case is vacuous") +
                      "; a ceiling, not a guarantee";
    Add("numerical",
        "metric: p999_logit_linf, atMost: " + Number(RoundedUp(statistical, 2)) + ", level: L1",
        why, "envelope");
  }

  // The one source that alone gives the widest envelope, for the clause's `why`: what to look at
  // first.
  std::string LargestSource(const EnvelopeInput& envelope) const {
    EnvelopeSource largest = EnvelopeSource::kWeights;
    double most = -1;
    for (const EnvelopeSource source :
         {EnvelopeSource::kWeights, EnvelopeSource::kActivations, EnvelopeSource::kKvCache,
          EnvelopeSource::kReduction, EnvelopeSource::kStorage, EnvelopeSource::kAngles,
          EnvelopeSource::kAttention, EnvelopeSource::kLogits}) {
      for (const KernelDescription* kernel : {&envelope.train, &envelope.infer}) {
        const Envelope of =
            EnvelopeOf(envelope.model, OnlySource(*kernel, source), EnvelopeForm::kStatistical);
        if (of.linf <= most) continue;
        most = of.linf;
        largest = source;
      }
    }
    return std::string(SourceName(largest));
  }

  void Add(std::string_view family, std::string text, const std::string& why,
           std::string_view origin) {
    text += ", why: " + JsonQuote(why);
    lines_.push_back({std::string(family), std::move(text), std::string(origin)});
  }

  std::string Spec() const {
    const BoundAssumptions& given = input_.assumptions;
    std::string text = "spec:\n  assumptions: {temperature: " + Number(given.temperature);
    if (given.reward_max) text += ", rewardMax: " + Number(*given.reward_max);
    if (given.advantage_max) text += ", advantageMax: " + Number(*given.advantage_max);
    if (given.score_norm_max) text += ", scoreNormMax: " + Number(*given.score_norm_max);
    if (given.tokens) text += ", tokensMax: " + std::to_string(*given.tokens);
    text += ", advantages: " + std::string(Name(given.advantages));
    text +=
        "}\n  decision: {about: evaluation-set, confidence: " + Number(input_.confidence) + "}\n";
    return text;
  }

  Result<AuthoredContract> Finish() {
    AuthoredContract authored;
    std::string yaml =
        "apiVersion: kcc/v1\nkind: KernelContract\nmetadata:\n  name: " + JsonQuote(input_.name) +
        "\n  version: " + JsonQuote(input_.version) + "\n";
    if (!input_.owner.empty()) yaml += "  owner: " + JsonQuote(input_.owner) + "\n";
    yaml += Spec();
    for (const std::string_view family : {"numerical", "statistical"}) {
      int number = 0;
      const std::string letter = family == "numerical" ? "N-" : "S-";
      for (const Line& line : lines_) {
        if (line.family != family) continue;
        if (number == 0) yaml += "  " + std::string(family) + ":\n";
        const std::string id = letter + std::to_string(++number);
        yaml += "    - {id: " + id + ", " + line.text + "}\n";
        authored.clauses.push_back({id, line.origin});
      }
    }
    // Through the reader, like a contract that someone wrote: what is handed out has passed every
    // check that the adopter will run.
    const ReadOutcome outcome = ReadContract(yaml);
    if (!outcome.contract) {
      return InvalidError("the proposed contract would be invalid: " +
                          outcome.diagnostics.front().message);
    }
    authored.contract = *outcome.contract;
    authored.yaml =
        "# Proposed by kcc author. Read each `why` before you adopt it (docs/author.md).\n" +
        ToYaml(authored.contract);
    authored.notes = std::move(notes_);
    return authored;
  }

  const AuthorInput& input_;
  std::vector<Line> lines_;
  std::vector<std::string_view> proposed_;
  bool shows_tv_ = false;  // one of them does
  std::vector<std::string> notes_;
};

}  // namespace

double RoundedUp(double value, int digits) { return Rounded(value, digits, true); }
double RoundedDown(double value, int digits) { return Rounded(value, digits, false); }

const Contract& ProbeContract() {
  static const Contract probe = [] {
    std::string yaml =
        "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: probe, version: 1.0.0}\n"
        "spec:\n  numerical:\n";
    int number = 0;
    for (const Candidate& candidate : kCandidates) {
      if (!candidate.soft) continue;
      yaml += "    - {id: P-" + std::to_string(++number) +
              ", metric: " + std::string(candidate.metric) +
              ", atMost: 0.5, exceedance: 5%, window: request, level: L1}\n";
    }
    // A percentile's threshold is counted by request: that of no miss at all.
    yaml += "  statistical:\n    - {id: P-S, metric: p50_top5_overlap, atLeast: 1, level: L1}\n";
    ReadOutcome outcome = ReadContract(yaml);
    KCC_CHECK(outcome.contract.has_value());
    return std::move(*outcome.contract);
  }();
  return probe;
}

Result<AuthoredContract> ProposeContract(const AuthorInput& input) { return Author(input).Write(); }

}  // namespace kcc
