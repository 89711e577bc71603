// One side's full logits made ready to face the other side's list: every token's probability and
// log-prob in double, the likeliest tokens, entropy and ranks. Internal to row_and_list.cc.
#pragma once

#include <string_view>
#include <vector>

#include "kcc/drift/top_list_view.h"
#include "kcc/drift/top_tokens.h"

namespace kcc {

class FullRow {
 public:
  // Vectors are kept from one row to the next. Fails on NaN, +inf and a row without a finite logit;
  // `side` stands in errors.
  Result<> Read(const void* logits, DType dtype, size_t vocab, double divisor,
                std::string_view side);

  size_t vocab() const { return p_.size(); }
  // 0 for masked tokens alone: a probability that no double can hold is the least one.
  const std::vector<double>& probabilities() const { return p_; }
  double Logprob(int32_t id) const;  // -inf: masked
  // The probability as rounding leaves it.
  Interval Box(double p) const;
  Interval BoxOf(int32_t id) const { return Box(p_[static_cast<size_t>(id)]); }
  // Of a sum of up to all of the probabilities, and how wrong any such sum is, relatively.
  Interval SumBox(double sum) const;
  double error() const { return error_; }

  double entropy() const { return entropy_; }
  const TopTokens& top() const { return top_; }
  // The first ten, in an order that is known: nothing ties with the last.
  SideView FirstTokens() const;
  // Exact, but for a masked token: after all that can occur and, among those that the other side
  // may have, by id.
  Interval RankOf(int32_t id) const;

 private:
  std::vector<double> logits_;
  std::vector<double> p_;
  double divisor_ = 1;
  double top_logit_ = 0;
  double log_mass_ = 0;
  double entropy_ = 0;
  double error_ = 0;     // of a probability, relatively
  size_t possible_ = 0;  // tokens that are not masked
  TopTokens top_;
};

}  // namespace kcc
