// Prints the tables of docs/statistics.md (Markdown) and exits with 1 where a valid test exceeds
// its error probability by more than three standard errors, or a detector its guarantee.
//   stats_error_rates [runs]      default 4000, the figures in docs/; seeds are fixed and printed
#include <cstdio>
#include <cstdlib>
#include <string>

#include "kcc/stats/error_rates.h"

namespace kcc {
namespace {

constexpr double kAlpha = 0.05;

class Verifier {
 public:
  // A share that a valid test keeps at or below alpha.
  void AtMost(const char* what, double share, double alpha, int64_t runs) {
    if (share <= ErrorBound(alpha, runs)) return;
    failed_ = true;
    std::printf("EXCEEDED: %s: %.4f > %.4f\n", what, share, ErrorBound(alpha, runs));
  }
  void AtLeast(const char* what, double value, double bound) {
    if (value >= bound) return;
    failed_ = true;
    std::printf("MISSED: %s: %.1f < %.1f\n", what, value, bound);
  }
  void Both(const char* what, const Calls& calls, double alpha) {
    AtMost(what, calls.SatisfiedShare(), alpha, calls.runs);
    AtMost(what, calls.ViolatedShare(), alpha, calls.runs);
  }
  bool failed() const { return failed_; }

 private:
  bool failed_ = false;
};

std::string Pair(const Calls& calls) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f / %.1f", 100 * calls.SatisfiedShare(),
                100 * calls.ViolatedShare());
  return text;
}

void PrintClusterRow(const char* label, int64_t requests, const ClusterCalls& c) {
  std::printf("| %s | %lld | %s | %s | %s | %s | %s |\n", label, static_cast<long long>(requests),
              Pair(c.token_exact).c_str(), Pair(c.token_ratio).c_str(),
              Pair(c.request_exact).c_str(), Pair(c.mean_betting).c_str(),
              Pair(c.mean_bernstein).c_str());
}

void PrintClusterHead(const char* title) {
  std::printf("\n%s (%% satisfied / %% violated)\n\n", title);
  std::printf(
      "| truth | requests | tokens as units | ratio e-test | requests as units | mean, betting"
      " | mean, Maurer-Pontil |\n|---|---|---|---|---|---|---|\n");
}

void CheckAtThreshold(Verifier& verifier, int64_t runs) {
  PrintClusterHead("Truth exactly at the threshold of 5 %: every call is an error");
  uint64_t seed = 100;
  for (const int64_t requests : {100, 400, 1600}) {
    for (const double icc : {0.0, 0.3, 0.9}) {
      ClusterExperiment e;
      e.truth.icc = icc;
      e.any_clause = RateOfAnyBad(e.truth);
      e.requests = requests;
      e.runs = runs;
      e.seed = ++seed;
      const ClusterCalls c = RunClusters(e);
      PrintClusterRow(("ICC " + std::to_string(icc).substr(0, 3)).c_str(), requests, c);
      verifier.Both("ratio e-test", c.token_ratio, kAlpha);
      verifier.Both("requests as units", c.request_exact, kAlpha);
      verifier.Both("mean by betting", c.mean_betting, kAlpha);
      verifier.Both("mean by Maurer-Pontil", c.mean_bernstein, kAlpha);
    }
  }
  ClusterExperiment e;
  e.truth.icc = 0.3;
  e.truth.worse_when_longer = true;
  e.runs = runs;
  e.seed = ++seed;
  const ClusterCalls c = RunClusters(e);
  verifier.Both("ratio e-test, longer is worse", c.token_ratio, kAlpha);
  std::printf(
      "\nLonger requests worse, ICC 0.3, 400 requests: tokens as units %s, ratio e-test %s"
      "; seeds 101 to %llu\n",
      Pair(c.token_exact).c_str(), Pair(c.token_ratio).c_str(),
      static_cast<unsigned long long>(seed));
}

void ReportPower(int64_t runs) {
  PrintClusterHead("Power: truth at a quarter of the threshold (should be satisfied) and at twice");
  uint64_t seed = 200;
  for (const double factor : {0.25, 2.0}) {
    for (const int64_t requests : {100, 400}) {
      for (const double icc : {0.0, 0.3, 0.9}) {
        ClusterExperiment e;
        e.truth.icc = icc;
        e.any_clause = RateOfAnyBad(e.truth);
        e.truth.rate = e.rate_clause * factor;
        e.requests = requests;
        e.runs = runs;
        e.seed = ++seed;
        char label[64];
        std::snprintf(label, sizeof label, "rate %.2f %%, ICC %.1f", 100 * e.truth.rate, icc);
        PrintClusterRow(label, requests, RunClusters(e));
      }
    }
  }
  std::printf("\nseeds 201 to %llu\n", static_cast<unsigned long long>(seed));
}

void CheckPeeking(Verifier& verifier, int64_t runs) {
  constexpr int64_t kLooks = 10000;
  constexpr double kRate = 0.05;
  constexpr uint64_t kSeed = 300;
  std::printf(
      "\nA rate exactly at 5 %%, looked at after each of %lld observations"
      " (%% of runs ever called; seeds %llu to %llu)\n\n",
      static_cast<long long>(kLooks), static_cast<unsigned long long>(kSeed),
      static_cast<unsigned long long>(kSeed) + 1);
  std::printf("| test at 5 %% | satisfied | violated |\n|---|---|---|\n");
  const auto row = [](const char* name, const Calls& c) {
    std::printf("| %s | %.2f | %.2f |\n", name, 100 * c.SatisfiedShare(), 100 * c.ViolatedShare());
  };
  const int64_t many = 5 * runs;
  const Calls betting =
      PeekAtBernoulli(BettingCriticalValues(kLooks, kRate, kAlpha), kRate, many, kSeed);
  row("betting, 0/1 values", betting);
  verifier.Both("betting under peeking", betting, kAlpha);
  const Calls means = PeekAtMeans(kRate, kLooks, runs / 2, kAlpha, kSeed + 1);
  row("betting, real values", means);
  verifier.Both("betting on means under peeking", means, kAlpha);
  const Calls sides =
      PeekAtBernoulli(BettingCriticalValues(kLooks, kRate, kAlpha / 2), kRate, many, kSeed);
  row("confidence sequence misses above / below", sides);
  verifier.AtMost("confidence sequence", sides.SatisfiedShare() + sides.ViolatedShare(), kAlpha,
                  many);
  row("repeated z-test",
      PeekAtBernoulli(ZCriticalValues(kLooks, kRate, 1.6448536269514722), kRate, many, kSeed));
  row("repeated Clopper-Pearson",
      PeekAtBernoulli(ExactCriticalValues(kLooks, kRate, kAlpha), kRate, many, kSeed));
}

void CheckDetectors(Verifier& verifier, int64_t runs) {
  constexpr double kRate = 0.05;
  constexpr double kLevel = 500;
  std::printf(
      "\nChange detectors, m = 5 %%, c = 500, 0/1 values (observations; seeds 401 to 408)\n\n");
  std::printf(
      "| detector | mean time to false alarm | false alarm by 100 | delay at 10 %% | at 20 %%"
      " | at 50 %% |\n|---|---|---|---|---|---|\n");
  uint64_t seed = 400;
  for (const DetectorKind kind : {DetectorKind::kShiryaevRoberts, DetectorKind::kCusum}) {
    const bool is_sr = kind == DetectorKind::kShiryaevRoberts;
    const AlarmTimes calm = MeasureAlarms(kind, kRate, kLevel, kRate, runs, ++seed);
    std::printf("| %s | %.0f ± %.0f | %.1f %% |", is_sr ? "e-SR" : "e-CUSUM", calm.mean,
                calm.standard_error, 100 * calm.share_by_100);
    for (const double rate : {0.1, 0.2, 0.5}) {
      std::printf(" %.1f |", MeasureAlarms(kind, kRate, kLevel, rate, runs, ++seed).mean);
    }
    std::printf("\n");
    verifier.AtLeast("mean time to false alarm", calm.mean + 3 * calm.standard_error, kLevel);
    verifier.AtMost("false alarm by 100", calm.share_by_100, 100 / kLevel, runs);
  }
}

}  // namespace
}  // namespace kcc

int main(int argc, char** argv) {
  const int64_t runs = argc > 1 ? std::atoll(argv[1]) : 4000;
  if (runs < 100) {
    std::fprintf(stderr, "stats_error_rates: runs must be at least 100\n");
    return 2;
  }
  std::printf("%lld runs per row, alpha = 5 %%\n", static_cast<long long>(runs));
  kcc::Verifier verifier;
  kcc::CheckAtThreshold(verifier, runs);
  kcc::ReportPower(runs);
  kcc::CheckPeeking(verifier, runs);
  kcc::CheckDetectors(verifier, runs);
  std::printf("\n%s\n", verifier.failed() ? "FAILED" : "every bound holds");
  return verifier.failed() ? 1 : 0;
}
