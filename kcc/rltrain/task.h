// What a policy is rewarded for: problems whose answers a program can verify.
//
//   products   three digits times one, from 100*2 to 999*9: 1 where the answer's last word is the
//              product. The lab's model works them digit by digit; 7,200 problems
//   json       a tool call against a schema: 1 where the answer parses and has the tool and exactly
//              the fields that were asked for, with their values; 4,096 problems
//   FILE       a requests file: 1 where the answer is the output that stands there
//
// The first two are written in the tokens of the shipped model: a byte is its own id. One problem
// in sixteen is held out, by the CRC-32 of its prompt, as in the corpus that the shipped model has
// learnt from (python/kcc/model/corpus.py): what is held out here it has not seen there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

struct TaskProblem {
  std::string id;
  std::vector<int32_t> prompt;
  std::string wanted;           // of products and json: the product, the call
  std::vector<int32_t> output;  // of a file: the answer
};

class RlTask {
 public:
  // Fails on a name that is neither a task nor a file, and on a file without problems.
  static Result<RlTask> Make(const std::string& name);

  const std::string& name() const { return name_; }
  const std::string& digest() const { return digest_; }  // of all problems
  std::span<const TaskProblem> train() const { return train_; }
  std::span<const TaskProblem> held_out() const { return held_out_; }
  int32_t output_tokens_max() const { return output_tokens_max_; }
  std::span<const int32_t> stop() const { return stop_; }  // ends an answer, and belongs to it

  // 0 or 1.
  double Reward(const TaskProblem& problem, std::span<const int32_t> output) const;

 private:
  enum class Kind : uint8_t { kProducts, kJson, kFile };
  Result<> ReadProblems(const std::string& path, std::vector<TaskProblem>* problems);

  Kind kind_ = Kind::kProducts;
  std::string name_, digest_;
  std::vector<TaskProblem> train_, held_out_;
  int32_t output_tokens_max_ = 0;
  std::vector<int32_t> stop_;
};

// The bytes before the end token, where every token is one and the end token is last; empty: they
// are no answer.
std::string AnswerText(std::span<const int32_t> output);

}  // namespace kcc
