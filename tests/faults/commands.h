// The program's commands as subjects of the fault tests: main itself, called in this process.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/faults/trials.h"

namespace kcc::faults {

class CommandSubject : public Subject {
 public:
  // `before`: files that stand in the directory of the outputs when the command starts.
  CommandSubject(const std::vector<std::string>& words, std::string out,
                 std::map<std::string, std::string> before);
  ~CommandSubject() override;
  CommandSubject(const CommandSubject&) = delete;
  CommandSubject& operator=(const CommandSubject&) = delete;

  void Reset() override;
  void Run() override;
  Outcome Take() override;
  std::map<std::string, std::string> Before() const override { return before_; }

 protected:
  std::string SaidSoFar() const;  // on standard output

 private:
  std::vector<std::string> words_;
  std::vector<char*> argv_;
  std::string out_;
  std::map<std::string, std::string> before_;
  int streams_[2] = {-1, -1};  // memory in the place of standard output and error
  int kept_[2] = {-1, -1};
  int code_ = 0;
};

// A small run of every command.
std::vector<Case> CommandCases();

}  // namespace kcc::faults
