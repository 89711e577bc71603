#include "kcc/rltrain/task.h"

#include <algorithm>
#include <filesystem>

#include "kcc/base/sha256.h"
#include "kcc/rltrain/task_problems.h"
#include "kcc/train/examples.h"

namespace kcc {
namespace {

constexpr int32_t kProductTokensMax = 48;  // the longest answer that is right has 38
constexpr int32_t kJsonTokensMax = 112;
constexpr uint32_t kHeldOutOf = 16;

// CRC-32 (ISO 3309), as zlib.crc32 computes it.
uint32_t Crc32(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

std::string BytesOf(const std::vector<int32_t>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(int32_t)};
}

}  // namespace

std::string AnswerText(std::span<const int32_t> output) {
  if (output.empty() || output.back() != kEndToken) return "";
  std::string text;
  for (const int32_t token : output.first(output.size() - 1)) {
    if (token < 0 || token > 255) return "";
    text += static_cast<char>(token);
  }
  return text;
}

Result<> RlTask::ReadProblems(const std::string& path, std::vector<TaskProblem>* problems) {
  KCC_TRY(const ExampleSet set, ReadExamples(path));
  for (const TrainExample& example : set.examples) {
    const auto begin = example.tokens.begin();
    const auto prompt_end = begin + static_cast<std::ptrdiff_t>(example.prompt);
    TaskProblem problem;
    problem.id = example.id;
    problem.prompt.assign(begin, prompt_end);
    problem.output.assign(prompt_end, example.tokens.end());
    output_tokens_max_ = std::max(output_tokens_max_, static_cast<int32_t>(problem.output.size()));
    if (std::find(stop_.begin(), stop_.end(), problem.output.back()) == stop_.end())
      stop_.push_back(problem.output.back());
    problems->push_back(std::move(problem));
  }
  return {};
}

Result<RlTask> RlTask::Make(const std::string& name) {
  RlTask task;
  task.name_ = name;
  task.stop_ = {kEndToken};
  std::vector<TaskProblem> problems;
  std::error_code unknown;
  if (name == "products") {
    problems = ProductProblems();
    task.output_tokens_max_ = kProductTokensMax;
  } else if (name == "json") {
    task.kind_ = Kind::kJson;
    problems = JsonProblems();
    task.output_tokens_max_ = kJsonTokensMax;
  } else if (std::filesystem::exists(name, unknown)) {
    task.kind_ = Kind::kFile;
    task.name_ = std::filesystem::path(name).filename().string();
    task.stop_.clear();
    KCC_TRY_VOID(task.ReadProblems(name, &problems));
  } else {
    return InvalidError("there is no task '" + name +
                        "', and no file of that name; tasks are products and json, and a requests "
                        "file is one whose outputs are the answers");
  }
  Sha256 hash;
  for (TaskProblem& problem : problems) {
    const std::string text = task.kind_ == Kind::kFile ? BytesOf(problem.prompt) : problem.id;
    hash.Update(std::to_string(problem.id.size()) + "\n" + problem.id + problem.wanted + "\n");
    hash.Update(BytesOf(problem.prompt) + "\n" + BytesOf(problem.output) + "\n");
    auto& part = Crc32(text) % kHeldOutOf == 0 ? task.held_out_ : task.train_;
    part.push_back(std::move(problem));
  }
  task.digest_ = hash.Finish();
  if (task.train_.empty()) {
    return InvalidError("all problems are held out (one in sixteen is, by its prompt); give more",
                        Place{name});
  }
  return task;
}

double RlTask::Reward(const TaskProblem& problem, std::span<const int32_t> output) const {
  switch (kind_) {
    case Kind::kProducts:
      return SolvesProduct(problem.wanted, AnswerText(output)) ? 1 : 0;
    case Kind::kJson:
      return SameCall(problem.wanted, AnswerText(output)) ? 1 : 0;
    case Kind::kFile:
      return std::equal(output.begin(), output.end(), problem.output.begin(), problem.output.end())
                 ? 1
                 : 0;
  }
  return 0;
}

}  // namespace kcc
