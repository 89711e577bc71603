// The command tree as plain data, read off the CLI11 declarations. Help texts and shell completion
// are written from it, so that they cannot disagree with what the parser accepts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kcc::cli {

// What a value stands for decides how a shell completes it.
inline constexpr std::string_view kFileValue = "FILE";
inline constexpr std::string_view kMetricValue = "METRIC";
inline constexpr std::string_view kClauseValue = "ID";  // of the contract named just before it

struct FlagSpec {
  std::vector<std::string> names;  // "-i", "--in-place"
  std::string value;               // one of the above, "a|b|c", or empty for a switch
  std::string help;
};

struct ArgumentSpec {
  std::string name;
  std::string value;
  std::string help;
  bool required = false;
  bool repeated = false;
};

struct CommandSpec {
  std::string name;  // "kcc check"
  std::string help;
  std::string examples;
  std::vector<FlagSpec> flags;
  std::vector<ArgumentSpec> arguments;
  std::vector<CommandSpec> commands;
};

// "a|b|c" -> {a, b, c}, "a|" -> {a}; one of the named values gives none.
std::vector<std::string> ChoicesOf(std::string_view value);

// "kcc run [FLAGS] CONTRACT TRAIN INFER".
std::string UsageLine(const CommandSpec& command);

// In lines of at most `columns` columns, but for examples.
std::string HelpText(const CommandSpec& command, int columns);
std::string BashCompletion(const CommandSpec& root);
std::string ZshCompletion(const CommandSpec& root);

}  // namespace kcc::cli
