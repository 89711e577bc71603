// Every command: a plain struct of its options, filled by cli.cc, and a function that does the work
// and returns an exit code (console.h). A further command is one struct and function here, one
// cmd_NAME.cc, and one declaration in cli.cc; help, completion and docs follow from that.
#pragma once

#include <string>
#include <vector>

#include "apps/kcc/console.h"

namespace kcc::cli {

struct CheckOptions {
  std::vector<std::string> files;
  bool strict = false;  // a warning fails too
};
int RunCheck(const CheckOptions& options, Console& console);

struct FmtOptions {
  std::vector<std::string> files;
  bool in_place = false;
  bool check = false;
  bool drop_comments = false;
};
int RunFmt(const FmtOptions& options, Console& console);

struct DiffOptions {
  std::string before;
  std::string after;
};
int RunDiff(const DiffOptions& options, Console& console);

struct SchemaOptions {
  bool markdown = false;
};
int RunSchema(const SchemaOptions& options, Console& console);

struct MetricsOptions {
  std::string name;  // empty: all
  bool markdown = false;
  bool names = false;
};
int RunMetrics(const MetricsOptions& options, Console& console);

struct ExplainOptions {
  std::string file;
  std::string id;  // empty: every clause
  bool ids = false;
};
int RunExplain(const ExplainOptions& options, Console& console);

struct CommandSpec;
struct CompletionOptions {
  std::string shell;
};
int RunCompletion(const CompletionOptions& options, const CommandSpec& root, Console& console);

int RunVersion(Console& console);

}  // namespace kcc::cli
