// --help: what the command does, its usage line, arguments, flags and examples.
#include <algorithm>

#include "apps/kcc/command_spec.h"
#include "apps/kcc/console.h"

namespace kcc::cli {
namespace {

constexpr size_t kWidth = 100;
// A flag that takes one of many words would push every explanation to the right edge. What is wider
// than this has its explanation below it instead of beside it.
constexpr size_t kLeftMax = 44;
constexpr size_t kChoicesMax = 40;  // of an argument, before its name stands for them

struct Row {
  std::string left;
  std::string right;
};

void AppendRows(std::string_view title, const std::vector<Row>& rows, std::string* out) {
  if (rows.empty()) return;
  size_t widest = 0;
  for (const Row& row : rows) {
    if (row.left.size() <= kLeftMax) widest = std::max(widest, row.left.size());
  }
  out->append("\n").append(title).append(":\n");
  for (const Row& row : rows) {
    const size_t column = widest + 4;
    out->append("  ").append(row.left);
    if (row.left.size() <= kLeftMax) {
      out->append(column - 2 - row.left.size(), ' ');
    } else {
      out->append("\n").append(column, ' ');
    }
    out->append(WrapText(row.right, column, kWidth)).append("\n");
  }
}

std::string FlagText(const FlagSpec& flag) {
  std::string text = flag.names[0].starts_with("--") ? "    " : "";
  for (const std::string& name : flag.names) {
    if (&name != &flag.names[0]) text += ", ";
    text += name;
  }
  if (!flag.value.empty()) text += " " + flag.value;
  return text;
}

std::string ArgumentText(const ArgumentSpec& argument) {
  std::string text = argument.name;
  if (!ChoicesOf(argument.value).empty() && argument.value.size() <= kChoicesMax) {
    text = argument.value;
  }
  return argument.repeated ? text + "..." : text;
}

std::string ArgumentHelp(const ArgumentSpec& argument) {
  if (argument.value.size() <= kChoicesMax) return argument.help;
  std::string help = argument.help;
  for (const std::string& choice : ChoicesOf(argument.value)) {
    help.append(help.size() == argument.help.size() ? ": " : ", ").append(choice);
  }
  return help;
}

}  // namespace

std::vector<std::string> ChoicesOf(std::string_view value) {
  std::vector<std::string> choices;
  if (value.find('|') == std::string_view::npos) return choices;
  while (true) {
    const size_t bar = value.find('|');
    choices.emplace_back(value.substr(0, bar));
    if (bar == std::string_view::npos) return choices;
    value.remove_prefix(bar + 1);
  }
}

std::string HelpText(const CommandSpec& command) {
  std::string out = command.help + "\n\nUsage: " + command.name;
  if (!command.commands.empty()) out += " COMMAND";
  if (!command.flags.empty()) out += " [FLAGS]";
  for (const ArgumentSpec& argument : command.arguments) {
    const std::string text = ArgumentText(argument);
    out.append(" ").append(argument.required ? text : "[" + text + "]");
  }
  out += "\n";

  std::vector<Row> rows;
  for (const CommandSpec& sub : command.commands) {
    rows.push_back({sub.name.substr(command.name.size() + 1), sub.help});
  }
  AppendRows("Commands", rows, &out);
  rows.clear();
  for (const ArgumentSpec& argument : command.arguments) {
    rows.push_back({ArgumentText(argument), ArgumentHelp(argument)});
  }
  AppendRows("Arguments", rows, &out);
  rows.clear();
  for (const FlagSpec& flag : command.flags) rows.push_back({FlagText(flag), flag.help});
  AppendRows("Flags", rows, &out);

  if (!command.examples.empty()) {
    out += "\nExamples:\n  ";
    for (const char c : command.examples) {
      out += c;
      if (c == '\n') out += "  ";
    }
    out += "\n";
  }
  if (!command.commands.empty()) {
    out += "\n'" + command.name + " COMMAND --help' says more about a command.\n";
  }
  return out;
}

}  // namespace kcc::cli
