// The folder of a training run: where its state lies, and its logs, which a resumed run goes on
// with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kcc/base/descriptor.h"
#include "kcc/base/result.h"

namespace kcc {

std::string StatePath(const std::string& folder);

// Makes the folder. Fails where it holds a run and none is to be resumed, or the other way round,
// and where it holds a checkpoint that no run there has made.
Result<> PrepareRunFolder(const std::string& folder, bool resume);

// A file of lines, one for each thing that happened in the run. Lines beyond the state that a run
// resumes from are of what will happen again.
class TrainingLog {
 public:
  // Keeps the first `lines` lines. Fails where there are fewer.
  static Result<TrainingLog> Open(const std::string& path, int64_t lines);

  Result<> Append(std::string_view line);
  // Before the state says that these lines are there.
  Result<> Sync();

 private:
  TrainingLog(std::string path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  FileDescriptor file_;
};

}  // namespace kcc
