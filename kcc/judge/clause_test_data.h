// For tests: a clause as people write it, and the smallest evidence about it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "kcc/contract/reader.h"
#include "kcc/judge/judge_test_data.h"

namespace kcc::testing {

// `spec` is what stands under `spec:` of the contract.
inline Contract Read(const std::string& spec) {
  const std::string yaml =
      "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: test, version: 1.0.0}\nspec:\n" +
      spec;
  const ReadOutcome outcome = ReadContract(yaml);
  for (const Diagnostic& diagnostic : outcome.diagnostics) {
    EXPECT_NE(diagnostic.kind, DiagnosticKind::kError)
        << FormatDiagnostic(diagnostic, "test.yaml", yaml);
  }
  return outcome.contract.value_or(Contract());
}

// A contract of one clause: "p99_kl, atMost: 0.5" and what else the case needs.
inline Contract OneClause(const std::string& clause, const std::string& spec = "") {
  return Read(spec + "  numerical:\n    - {id: C, level: L2, metric: " + clause + "}\n");
}

// One request per value, one token each.
inline Evidence Tokens(std::string_view quantity, const std::vector<double>& values) {
  Evidence evidence;
  for (const double value : values) {
    evidence.Add().tokens.push_back(JudgedToken().Set(quantity, value));
  }
  return evidence;
}

// A token measured at this temperature.
inline Evidence At(double temperature) {
  Evidence evidence = Tokens("kl", {0});
  evidence.change_source = [temperature](Source* s) { s->temperature = temperature; };
  return evidence;
}

}  // namespace kcc::testing
