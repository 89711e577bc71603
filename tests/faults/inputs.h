// The material of the fault tests: a model of a few thousand weights, requests, the traces that it
// makes of them, summaries, reports and dumps, in a directory of their own.
#pragma once

#include <map>
#include <string>

namespace kcc::faults {

class Inputs {
 public:
  Inputs();   // an empty directory
  ~Inputs();  // removes it
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  // Fills the directory; runs commands, so that it belongs into a child process. What is wrong, or
  // "".
  std::string Make() const;

  std::string In(const std::string& name) const { return root_ + "/in/" + name; }
  std::string out() const { return root_ + "/out"; }

 private:
  std::string root_;
};

// The one that all tests share.
const Inputs& TheInputs();

// Every file below a directory, by its path from there.
std::map<std::string, std::string> FilesOf(const std::string& directory);
void WriteBytes(const std::string& path, const std::string& bytes);
std::string ReadBytes(const std::string& path);

}  // namespace kcc::faults
