// The problems of the built-in tasks, and whether an answer solves one.
#pragma once

#include <string_view>
#include <vector>

#include "kcc/rltrain/task.h"

namespace kcc {

// The ids of the shipped model's tokens that are no bytes.
inline constexpr int32_t kBeginToken = 256, kEndToken = 257, kUserToken = 259,
                         kAssistantToken = 260;

std::vector<TaskProblem> ProductProblems();
bool SolvesProduct(std::string_view wanted, std::string_view answer);

std::vector<TaskProblem> JsonProblems();
// Whether both are JSON and say the same: order of keys and blanks do not count.
bool SameCall(std::string_view wanted, std::string_view answer);

}  // namespace kcc
