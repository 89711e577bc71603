// --help: what the command does, its usage line, arguments, flags and examples, in as many columns
// as the terminal has. Examples are not broken into lines: they are there to be copied.
#include <algorithm>

#include "apps/kcc/command_spec.h"
#include "apps/kcc/console.h"

namespace kcc::cli {
namespace {

constexpr size_t kWidthMax = 100;  // longer lines are hard to read
constexpr size_t kWidthMin = 30;
// A flag that takes one of many words would push every explanation to the right edge. What is wider
// than this has its explanation below it instead of beside it.
constexpr size_t kLeftMax = 44;
constexpr size_t kRightMin = 28;    // columns of an explanation, before all of them stand below
constexpr size_t kBelow = 10;       // where they stand then
constexpr size_t kChoicesMax = 40;  // of an argument, before its name stands for them

struct Row {
  std::string left;
  std::string right;
};

// A flag and its words, with a line end after a bar where they do not fit into one line.
std::string WrapChoices(std::string_view text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, std::min(text.find('|'), text.size() - 1) + 1);
    if (column > indent && column + piece.size() > width) {
      out.append("\n").append(indent, ' ');
      column = indent;
    }
    out += piece;
    column += piece.size();
    text.remove_prefix(piece.size());
  }
  return out;
}

void AppendRows(std::string_view title, const std::vector<Row>& rows, size_t width,
                std::string* out) {
  if (rows.empty()) return;
  size_t widest = 0;
  for (const Row& row : rows) {
    if (row.left.size() <= kLeftMax) widest = std::max(widest, row.left.size());
  }
  const bool below = widest + 4 + kRightMin > width;
  const size_t column = below ? kBelow : widest + 4;
  out->append("\n").append(title).append(":\n");
  for (const Row& row : rows) {
    out->append("  ").append(WrapChoices(row.left, 2, width));
    if (!below && row.left.size() <= kLeftMax) {
      out->append(column - 2 - row.left.size(), ' ');
    } else {
      out->append("\n").append(column, ' ');
    }
    out->append(WrapText(row.right, column, width)).append("\n");
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
    if (!value.empty()) choices.emplace_back(value.substr(0, bar));
    if (bar == std::string_view::npos) return choices;
    value.remove_prefix(bar + 1);
  }
}

std::string UsageLine(const CommandSpec& command) {
  std::string usage = command.name;
  // A group that takes an argument too does something of its own.
  if (!command.commands.empty()) usage += command.arguments.empty() ? " COMMAND" : " [COMMAND]";
  if (!command.flags.empty()) usage += " [FLAGS]";
  for (const ArgumentSpec& argument : command.arguments) {
    const std::string text = ArgumentText(argument);
    usage.append(" ").append(argument.required ? text : "[" + text + "]");
  }
  return usage;
}

std::string HelpText(const CommandSpec& command, int columns) {
  const size_t width = std::clamp(static_cast<size_t>(std::max(columns, 1)), kWidthMin, kWidthMax);
  const std::string usage = UsageLine(command);
  constexpr std::string_view kUsage = "Usage: ";
  std::string out = WrapText(command.help, 0, width) + "\n\n";
  out.append(kUsage).append(WrapText(usage, kUsage.size(), width)).append("\n");

  std::vector<Row> rows;
  for (const CommandSpec& sub : command.commands) {
    rows.push_back({sub.name.substr(command.name.size() + 1), sub.help});
  }
  AppendRows("Commands", rows, width, &out);
  rows.clear();
  for (const ArgumentSpec& argument : command.arguments) {
    rows.push_back({ArgumentText(argument), ArgumentHelp(argument)});
  }
  AppendRows("Arguments", rows, width, &out);
  rows.clear();
  for (const FlagSpec& flag : command.flags) rows.push_back({FlagText(flag), flag.help});
  AppendRows("Flags", rows, width, &out);

  if (!command.examples.empty()) {
    out += "\nExamples:\n  ";
    for (const char c : command.examples) {
      out += c;
      if (c == '\n') out += "  ";
    }
    out += "\n";
  }
  if (!command.commands.empty()) {
    const std::string more = "'" + command.name + " COMMAND --help' says more about a command.";
    out += "\n" + WrapText(more, 0, width) + "\n";
  }
  return out;
}

}  // namespace kcc::cli
