// Whether promotions left their stages with the signed approvals that their policies ask for, by
// the states that the log has of them. Private to register/.
//
// Whoever can write to the register can write a promotion.changed. So what it says of the move,
// such as its transitions, is not asked: a move is the difference of two states that follow each
// other, and every stage between them was left.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/policy.h"
#include "kcc/promotion/promotion.h"
#include "kcc/register/register.h"

namespace kcc {

// An approval.given with a statement that holds, and what the statement says was approved.
struct SignedApproval {
  int64_t approval = 0;   // the number of the approval.given
  int64_t statement = 0;  // and of the statement.added
  std::string stage;
  std::string by;
  std::string role;
  std::string key;
  std::string triple;
  std::string policy;
  std::string contract;
};

class SignedStages {
 public:
  // `source` must outlive it.
  explicit SignedStages(Register& source) : source_(source) {}

  void Add(const std::string& promotion, SignedApproval approval) {
    approvals_[promotion].push_back(std::move(approval));
  }

  // The promotion.changed events in their order, after all approvals. What is wrong with this one,
  // as a sentence; empty: nothing.
  Result<std::string> Follow(const Event& event);

  // Whether a signed approval since the present stage was entered shows this one.
  bool Backs(const std::string& promotion, Stage stage, const Approval& approval) const;

 private:
  struct Trail {
    int64_t event = 0;    // the last one; 0: there was none
    int64_t entered = 0;  // the event with which the present stage or step was entered
    std::string triple;
    PromotionState state;
  };
  Result<std::string> CheckMove(const Event& event, const Trail& before, const Trail& now);
  int64_t Count(const Event& event, const Trail& before, const Trail& now, Stage stage,
                const ApprovalRule& rule) const;
  Result<const PromotionPolicy*> PolicyOf(const std::string& blob);

  Register& source_;
  std::map<std::string, std::vector<SignedApproval>> approvals_;    // by promotion
  std::map<std::string, Trail> trails_;                             // by promotion
  std::map<std::string, std::optional<PromotionPolicy>> policies_;  // by blob
};

std::optional<Stage> StageNamed(std::string_view name);

}  // namespace kcc
