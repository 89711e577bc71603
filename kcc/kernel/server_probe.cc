#include "kcc/kernel/server_probe.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

constexpr double kAboveZero = 1e-3;
constexpr double kMassSlack = 0.05;
constexpr double kSlopeSlack = 0.15;   // between 1 and 1/2 it stays undecided
constexpr double kSpreadLeast = 0.02;  // root mean square of d, below which no slope can be told
constexpr double kSame = 0.1;          // nats that two runs of one kernel may differ
constexpr size_t kListMax = 20;

const TopEntry* Find(const std::vector<TopEntry>& list, int32_t id) {
  const auto it = std::find_if(list.begin(), list.end(),
                               [id](const TopEntry& entry) { return entry.id == id; });
  return it == list.end() ? nullptr : &*it;
}

Result<> CheckAreLogprobs(const ProbeLists& lists) {
  for (const auto& list : lists) {
    double mass = 0;
    for (const TopEntry& entry : list) {
      if (entry.logprob > kAboveZero) {
        return BrokenEvidenceError("it got " + ReadableNumber(entry.logprob) +
                                   " as a log-prob: these are logits; vLLM must not run with "
                                   "--logprobs-mode raw_logits or processed_logits");
      }
      mass += std::exp(entry.logprob);
    }
    if (mass > 1 + kMassSlack) {
      return BrokenEvidenceError("the probabilities of the best tokens sum to " +
                                 ReadableNumber(mass) +
                                 ": these are no log-probs; vLLM must not run with --logprobs-mode "
                                 "raw_logits or processed_logits");
    }
  }
  return {};
}

// The last lists have the same context, whatever the last token is.
Result<> CheckAligned(const ProbeLists& plain, const ProbeLists& other) {
  const auto& mine = plain.back();
  for (size_t i = 0; i < std::min<size_t>(3, mine.size()); ++i) {
    const TopEntry* twin = Find(other.back(), mine[i].id);
    // A near tie may fall out of a short list.
    const bool at_the_end = i + 1 == mine.size() && mine.size() > 1;
    if (twin == nullptr && at_the_end) continue;
    if (twin == nullptr || std::abs(twin->logprob - mine[i].logprob) > kSame) {
      return BrokenEvidenceError(
          "the numbers at the last token change when that token is replaced by another, so they "
          "were computed with it in view: the server's lists are shifted by one");
    }
  }
  return {};
}

}  // namespace

Result<LogprobSemantics> FindSemantics(const ProbeAnswers& answers) {
  for (const ProbeLists* lists : {&answers.plain, &answers.heated, &answers.other}) {
    if (lists->empty() || lists->size() != answers.plain.size()) {
      return BrokenEvidenceError("its answers have different lengths");
    }
    KCC_TRY_VOID(CheckAreLogprobs(*lists));
  }
  KCC_TRY_VOID(CheckAligned(answers.plain, answers.other));
  double products = 0;
  double squares = 0;
  double best_moved = 0;
  int64_t pairs = 0;
  bool cut = true;
  for (size_t t = 0; t < answers.plain.size(); ++t) {
    const auto& plain = answers.plain[t];
    const auto& heated = answers.heated[t];
    cut = cut && plain.size() > 2 && heated.size() <= 2;
    const TopEntry* best = plain.empty() ? nullptr : Find(heated, plain[0].id);
    if (best == nullptr) continue;
    best_moved = std::max(best_moved, std::abs(best->logprob - plain[0].logprob));
    for (size_t i = 1; i < plain.size(); ++i) {
      const TopEntry* twin = Find(heated, plain[i].id);
      if (twin == nullptr) continue;
      const double d = plain[i].logprob - plain[0].logprob;
      products += d * (twin->logprob - best->logprob);
      squares += d * d;
      ++pairs;
    }
  }
  if (cut) return LogprobSemantics::kProcessed;
  if (pairs == 0 || std::sqrt(squares / static_cast<double>(pairs)) < kSpreadLeast) {
    return BrokenEvidenceError(
        "it cannot tell raw from temperature-scaled log-probs: the model finds its best "
        "tokens equally likely here");
  }
  const double slope = products / squares;
  if (std::abs(slope - 1) <= kSlopeSlack) {
    return best_moved <= kSame ? LogprobSemantics::kRaw : LogprobSemantics::kProcessed;
  }
  if (std::abs(slope - 1 / kProbeTemperature) <= kSlopeSlack) {
    return LogprobSemantics::kTemperatureScaled;
  }
  return BrokenEvidenceError("at temperature 2 the log-probs keep " + ReadableNumber(slope * 100) +
                             " % of their differences; raw ones keep all, temperature-scaled ones "
                             "half: this server's log-probs are neither");
}

Result<> CheckSemantics(std::string_view remedy, LogprobSemantics expected,
                        LogprobSemantics found) {
  if (expected == found) return {};
  std::string effect = "the log-probs do not change with the temperature";
  if (found == LogprobSemantics::kTemperatureScaled) {
    effect = "the log-probs shrink with the temperature";
  } else if (found == LogprobSemantics::kProcessed) {
    effect = "sampling parameters cut or renormalise the log-probs";
  }
  return BrokenEvidenceError("wrong semantics: asked for are " + std::string(Name(expected)) +
                             " log-probs, the server gives " + std::string(Name(found)) +
                             " ones (" + effect + "); " + std::string(remedy) +
                             ", or say semantics=" + std::string(Name(found)) +
                             " if that is what is to be compared");
}

std::vector<TopEntry> ProbeList(const ImportedToken& token) {
  std::vector<TopEntry> list = token.top;
  if (!token.logits.empty()) {
    double largest = token.logits[0];
    for (const float logit : token.logits) largest = std::max(largest, double{logit});
    double sum = 0;
    for (const float logit : token.logits) sum += std::exp(double{logit} - largest);
    list.clear();
    for (size_t id = 0; id < token.logits.size(); ++id) {
      list.push_back({static_cast<int32_t>(id), token.logits[id] - largest - std::log(sum)});
    }
  }
  SortTop(&list);
  if (list.size() > kListMax) list.resize(kListMax);
  return list;
}

}  // namespace kcc
