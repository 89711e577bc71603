#include "tests/faults/train_commands.h"

#include <filesystem>
#include <iostream>

#include "tests/faults/commands.h"

namespace kcc::faults {
namespace {

// From the model's weights, and from random ones through another kernel.
std::vector<std::string> WordsOf(const Inputs& at, bool random, const std::string& folder) {
  std::vector<std::string> words = {
      "lab", "train", at.In("requests.jsonl"), "--steps", "2", "--save-every", "1", "-o", folder};
  const std::vector<std::string> more =
      random ? std::vector<std::string>{"--config",  at.In("model") + "/config.json",
                                        "--kernel",  "lab:int4",
                                        "--threads", "3"}
             : std::vector<std::string>{"--model", at.In("model"), "--threads", "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string Whole(bool random) { return random ? "whole-random-run" : "whole-run"; }

class TrainSubject final : public CommandSubject {
 public:
  explicit TrainSubject(bool random)
      : CommandSubject(WordsOf(TheInputs(), random, Folder()), TheInputs().out(), {}),
        random_(random) {}

  Outcome Take() override {
    Outcome outcome = CommandSubject::Take();
    if (outcome.failed && outcome.broken.empty()) outcome.broken = GoOn();
    return outcome;
  }

  // The log is appended to, and the state is one of those that the run saves on its way: GoOn tries
  // both.
  bool IsStepTo(const std::string& name, const std::string& bytes,
                const std::string& complete) const override {
    if (name == "run/state.safetensors") return true;
    return name == "run/log.jsonl" && complete.starts_with(bytes);
  }

 private:
  static std::string Folder() { return TheInputs().out() + "/run"; }

  std::string GoOn() const {
    std::vector<std::string> words = WordsOf(TheInputs(), random_, Folder());
    if (std::filesystem::exists(Folder() + "/state.safetensors")) words.push_back("--resume");
    CommandSubject again(words, TheInputs().out(), {});
    std::cout.clear();
    std::cerr.clear();
    again.Run();
    const Outcome outcome = again.Take();
    if (outcome.failed) return "a run cannot go on from what is left: " + outcome.message;
    const std::string whole = TheInputs().In(Whole(random_));
    for (const auto& entry : std::filesystem::directory_iterator(whole)) {
      const std::string name = entry.path().filename().string();
      const auto found = outcome.results.find("run/" + name);
      if (found == outcome.results.end() || found->second != ReadBytes(entry.path().string())) {
        return "a run that goes on from what is left ends with another " + name;
      }
    }
    return "";
  }

  bool random_;
};

}  // namespace

std::vector<std::vector<std::string>> TrainRecipes(const Inputs& inputs) {
  return {WordsOf(inputs, false, inputs.In(Whole(false))),
          WordsOf(inputs, true, inputs.In(Whole(true)))};
}

std::vector<Case> TrainCases() {
  return {{"lab train", [] { return std::make_unique<TrainSubject>(false); }},
          {"lab train --config --threads 3", [] { return std::make_unique<TrainSubject>(true); },
           true}};
}

}  // namespace kcc::faults
