// Prints the tables of docs/semantics.md (Markdown) and exits with 1 where a verdict about traffic
// is wrong more often than alpha plus three standard errors.
//   judge_error_rates [runs [icc]]      default 2000 runs of each of ICC 0, 0.3 and 0.9
#include "kcc/judge/judge_error_rates.h"

#include <cstdio>
#include <cstdlib>

namespace kcc {
namespace {

constexpr double kAlpha = 0.05;

std::string Pair(const Calls& calls) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f / %.1f", 100 * calls.SatisfiedShare(),
                100 * calls.ViolatedShare());
  return text;
}

struct Column {
  const char* title;
  double rate;
  int64_t requests;
};

// Truth at the threshold, and where the verdict should be clear.
constexpr Column kColumns[] = {
    {"at the threshold, 200 requests", 0.05, 200},
    {"a quarter of it, 400 requests", 0.0125, 400},
    {"twice it, 400 requests", 0.1, 400},
};

bool Exceeds(const std::string& what, double share, double alpha, int64_t runs) {
  const double bound = alpha > 0 ? ErrorBound(alpha, runs) : 0;
  if (share <= bound) return false;
  std::printf("EXCEEDED: %s: %.4f > %.4f\n", what.c_str(), share, bound);
  return true;
}

bool RunCell(double icc, int64_t runs) {
  std::printf("\nICC %.1f, %lld evaluations (%% satisfied / %% violated)\n\n| clause form |", icc,
              static_cast<long long>(runs));
  std::vector<JudgeCalls> columns;
  for (const Column& column : kColumns) {
    JudgeExperiment e;
    e.truth.icc = icc;
    e.truth.rate = column.rate;
    e.requests = column.requests;
    e.runs = column.rate == 0.05 ? runs : runs / 10;
    e.seed = 1 + static_cast<uint64_t>(icc * 10);
    columns.push_back(RunJudge(e));
    std::printf(" %s |", column.title);
  }
  std::printf("\n|---|---|---|---|\n");
  bool failed = false;
  const auto row = [&](const std::string& label, const auto& calls_of) {
    std::printf("| %s |", label.c_str());
    for (const JudgeCalls& calls : columns) std::printf(" %s |", Pair(calls_of(calls)).c_str());
    std::printf("\n");
  };
  for (size_t i = 0; i < columns[0].forms.size(); ++i) {
    row(columns[0].forms[i].form, [&](const JudgeCalls& c) { return c.forms[i].calls; });
  }
  row("all but mean_kl as one contract", [](const JudgeCalls& c) { return c.whole; });
  row("(tokens as units)", [](const JudgeCalls& c) { return c.naive; });

  const auto check = [&](const std::string& what, const Calls& calls, double pass_alpha) {
    failed |= Exceeds(what + " satisfied", calls.SatisfiedShare(), pass_alpha, calls.runs);
    failed |= Exceeds(what + " violated", calls.ViolatedShare(), kAlpha, calls.runs);
  };
  for (const FormCalls& form : columns[0].forms) {
    check(form.form, form.calls, form.can_satisfy ? kAlpha : 0);
  }
  check("one contract", columns[0].whole, kAlpha);
  return failed;
}

}  // namespace
}  // namespace kcc

int main(int argc, char** argv) {
  const int64_t runs = argc > 1 ? std::atoll(argv[1]) : 2000;
  if (runs < 100) {
    std::fprintf(stderr, "usage: judge_error_rates [runs >= 100 [icc]]\n");
    return 2;
  }
  bool failed = false;
  for (const double icc : {0.0, 0.3, 0.9}) {
    if (argc > 2 && std::atof(argv[2]) != icc) continue;
    failed |= kcc::RunCell(icc, runs);
  }
  return failed ? 1 : 0;
}
