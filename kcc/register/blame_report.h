// From an incident or a promotion in the register to the table that blame.h decides from: stored
// evidence of what was promoted, of what served before, and of what is half the one and half the
// other, judged again under the contracts of both.
//
// Cells are facts about the requests of the evidence, not claims about traffic: the question is
// what happened. All rows are judged as of the stage of the incident's evidence, so that the same
// clauses are asked; rows on other requests are shown and decide nothing. What a contract binds
// (model, kernels) is left out: the question is what its clauses say about another pair.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/promotion/promotion.h"
#include "kcc/register/blame.h"
#include "kcc/register/register.h"

namespace kcc {

struct BlameContract {
  std::string digest;  // empty: there is none
  std::string name;
  std::string version;
  std::string owner;  // metadata.owner
};

// Evidence in the table.
struct BlameTableRow {
  BlameEvidence evidence = BlameEvidence::kAfter;
  Deployment of;           // model, train, infer
  std::string evaluation;  // its id; empty: joined evidence of the promotion, or none
  std::string stage;       // it was recorded in; empty: there is no such evidence
  int64_t requests = 0;
  bool decides = true;  // false: on other requests
  BlameRow cells;
};

// What one of the two kernels says of itself, before and after.
struct BuildChange {
  std::string kernel;  // "train" or "infer"
  std::string word;    // "quantisation"
  std::string before;  // empty: not said
  std::string after;
  std::string source;  // of error, "precision"; empty: the word does not tell
};

struct BlameOwner {
  std::string of;  // "clause N-1", "source precision", "contract lab 1.0.0"
  std::string owner;
};

struct OtherContract {
  BlameContract contract;
  BlameCell cell;  // of the incident's evidence
};

struct BlameReport {
  std::string about;      // "incident I-7", "promotion p-2"
  std::string what;       // the incident's words, or the promotion's last reason
  std::string promotion;  // empty: none
  Deployment before;      // empty: nothing served
  Deployment after;
  BlameContract contract_new;
  BlameContract contract_old;  // where it is another
  BlameCase seen;
  std::vector<BlameTableRow> table;
  BlameAnswer answer;
  std::vector<BuildChange> build;  // where the kernels differ
  std::vector<BlameOwner> owners;
  // Of a contract that is too loose: the clause nearest to its limit, and other contracts of the
  // same name.
  std::optional<BlameFinding> closest;
  std::vector<OtherContract> others;
};

// `name`: an incident or a promotion, or incident:NAME or promotion:NAME where both have it. Fails
// with kInvalid where there is none, and where the incident is about no triple.
Result<BlameReport> MakeBlameReport(Register& source, const std::string& name);

}  // namespace kcc
