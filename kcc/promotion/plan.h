// A policy held against a contract, before anything is promoted: what each stage will ask, and what
// it can never decide.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/contract/diagnostic.h"
#include "kcc/contract/policy.h"

namespace kcc {

// Warnings at the contract's clauses: a clause that counts in a stage which can never call it
// satisfied or held ("undecidable-clause"). Clauses that the policy names and the contract lacks,
// and stages in which none counts, are at the document as a whole.
std::vector<Diagnostic> CheckPolicyAgainst(const PromotionPolicy& policy, const Contract& contract);

struct PlanSentence {
  std::string title;  // empty: goes on with the one before
  std::string text;
};

struct StagePlan {
  Stage stage = Stage::kOffline;
  std::vector<PlanSentence> sentences;
  std::vector<std::string> counting;     // ids of the clauses that count; with a contract
  std::vector<std::string> undecidable;  // those of them that can never be satisfied or held
};

// What each stage in force asks, in words; of the clauses of the contract, where there is one.
std::vector<StagePlan> PlanOf(const PromotionPolicy& policy, const Contract* contract);

// What holds for the whole policy: cool-down, clauses that are watched, hooks, requests kept.
std::vector<PlanSentence> PolicySentences(const PromotionPolicy& policy);

}  // namespace kcc
