// Searches for counterexamples to every bound, and measures how close the worst case comes.
//
//   bounds_search [--random N] [--ascents N] [--seed N] [--family token|norm|sequence|report]
//                 [--part I/N]
//   bounds_search --envelopes
//   bounds_search --false    (what was stated once and is false; exits 1 unless each is refuted)
//
// Prints a Markdown table (kept in docs/results/bounds.md). Exits 1 on a counterexample or on a
// bound claimed tight whose best everyday case (no saturation) stays below 0.99 of it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bench/bounds/claims.h"
#include "bench/bounds/envelope_check.h"

namespace kcc::bench {
namespace {

constexpr double kTightEnough = 0.99;

// Returns how many rows fail.
int PrintTable(const char* title, const std::vector<Finding>& findings) {
  std::printf("\n### %s\n\n", title);
  std::printf(
      "| bound | statement | random | best | ascents | best | everyday best | claimed | at | "
      "violations |\n");
  std::printf("|---|---|---:|---:|---:|---:|---:|---|---|---:|\n");
  int failures = 0;
  for (const Finding& f : findings) {
    std::string statement;  // a bar would end the cell
    for (const char ch : f.statement) statement += ch == '|' ? "\\|" : std::string(1, ch);
    std::printf("| %s | %s | %lld | %.6f | %lld | %.9f | %.6f | %s | %s | %lld |\n", f.name.c_str(),
                statement.c_str(), static_cast<long long>(f.random_cases), f.best_random,
                static_cast<long long>(f.ascents), f.best, f.best_everyday,
                f.tight ? "tight" : "bound", f.best_at.c_str(),
                static_cast<long long>(f.violations));
    if (f.violations > 0) {
      std::fprintf(stderr, "counterexample: %s at %s\n", f.name.c_str(), f.violation_at.c_str());
    }
    const bool too_loose = f.tight && f.best_everyday < kTightEnough;
    if (too_loose)
      std::fprintf(stderr, "not tight: %s reaches %.4f\n", f.name.c_str(), f.best_everyday);
    failures += f.violations > 0 || too_loose;
  }
  std::fflush(stdout);
  return failures;
}

// The I-th of N runs of consecutive rows, so that a long search can be run in pieces.
template <class Case>
std::vector<Claim<Case>> Part(const std::vector<Claim<Case>>& claims, int part, int parts) {
  const auto n = static_cast<int>(claims.size());
  return {claims.begin() + n * (part - 1) / parts, claims.begin() + n * part / parts};
}

int PrintFalse() {
  SearchOptions options;
  options.random_cases = 20'000;
  options.ascents = 100;
  const std::vector<Finding> findings = Search(FalseReportClaims(), options);
  PrintTable("False statements", findings);
  int survivors = 0;
  for (const Finding& f : findings) survivors += f.violations == 0;
  return survivors == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  SearchOptions options;
  std::string family;  // empty: all
  int part = 1;
  int parts = 1;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--envelopes") == 0) return PrintEnvelopes(40, 1);
    if (std::strcmp(argv[i], "--false") == 0) return PrintFalse();
    if (has_value && std::strcmp(argv[i], "--random") == 0) {
      options.random_cases = std::atoll(argv[++i]);
    } else if (has_value && std::strcmp(argv[i], "--ascents") == 0) {
      options.ascents = std::atoll(argv[++i]);
    } else if (has_value && std::strcmp(argv[i], "--seed") == 0) {
      options.seed = static_cast<uint64_t>(std::atoll(argv[++i]));
    } else if (has_value && std::strcmp(argv[i], "--family") == 0) {
      family = argv[++i];
    } else if (has_value && std::strcmp(argv[i], "--part") == 0 &&
               std::sscanf(argv[i + 1], "%d/%d", &part, &parts) == 2 && part >= 1 &&
               part <= parts) {
      ++i;
    } else {
      std::fprintf(stderr,
                   "usage: %s [--random N] [--ascents N] [--seed N] [--family F] [--part I/N] | "
                   "--envelopes | --false\n",
                   argv[0]);
      return 2;
    }
  }
  int failures = 0;
  bool known = family.empty();
  const auto wanted = [&](const char* name) {
    known = known || family == name;
    return family.empty() || family == name;
  };
  if (wanted("token"))
    failures += PrintTable("One token", Search(Part(TokenClaims(), part, parts), options));
  if (wanted("norm"))
    failures += PrintTable("Norms and order", Search(Part(LogitClaims(), part, parts), options));
  if (wanted("sequence")) {
    failures += PrintTable("Sequences (every continuation enumerated)",
                           Search(Part(TreeClaims(), part, parts), options));
  }
  if (wanted("report")) {
    failures += PrintTable("Reports (what implies and kcc bound state, against what is measured)",
                           Search(Part(ReportClaims(), part, parts), options));
  }
  if (!known) {
    std::fprintf(stderr, "unknown family '%s': one of token, norm, sequence, report\n",
                 family.c_str());
    return 2;
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kcc::bench

int main(int argc, char** argv) { return kcc::bench::Main(argc, argv); }
