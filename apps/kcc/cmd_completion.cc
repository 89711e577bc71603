// kcc completion: bash and zsh scripts written from the command tree. Words that depend on a file
// or on the catalog (clause ids, metric names) are asked of kcc itself when they are needed.
#include <algorithm>

#include "apps/kcc/command_spec.h"
#include "apps/kcc/commands.h"

namespace kcc::cli {
namespace {

std::string LastWord(const std::string& name) { return name.substr(name.rfind(' ') + 1); }

std::string FlagWords(const CommandSpec& command) {
  std::string words;
  for (const FlagSpec& flag : command.flags) {
    for (const std::string& name : flag.names) words += (words.empty() ? "" : " ") + name;
  }
  return words;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// A group completes as one command: the name of a member first, then what its members take.
CommandSpec Flattened(const CommandSpec& command) {
  if (command.commands.empty()) return command;
  CommandSpec flat = command;
  std::string members;
  for (const CommandSpec& member : command.commands) {
    members += (members.empty() ? "" : "|") + LastWord(member.name);
    for (const FlagSpec& flag : member.flags) {
      const bool known = std::any_of(flat.flags.begin(), flat.flags.end(),
                                     [&](const FlagSpec& row) { return row.names == flag.names; });
      if (!known) flat.flags.push_back(flag);
    }
  }
  if (command.commands.size() == 1) members += '|';  // a choice of one
  if (!command.arguments.empty())
    members.append("|").append(kFileValue);  // or what it takes itself
  flat.arguments = {{.name = "COMMAND", .value = members, .help = "", .required = true}};
  for (const ArgumentSpec& argument : command.commands.front().arguments) {
    flat.arguments.push_back(argument);
  }
  return flat;
}

// A bash statement that fills COMPREPLY with the candidates for one value.
std::string BashCandidates(const std::string& value) {
  const auto words = [](const std::string& list) {
    return "COMPREPLY=($(compgen -W \"" + list + "\" -- \"$cur\"))";
  };
  if (value == kMetricValue) return words("$(\"$program\" metrics --names 2>/dev/null)");
  if (value == kClauseValue) {
    return words("$(\"$program\" explain --ids \"${arguments[0]}\" 2>/dev/null)");
  }
  std::vector<std::string> choices = ChoicesOf(value);
  if (!choices.empty() && choices.back() == kFileValue) {
    choices.pop_back();
    return "COMPREPLY=($(compgen -f -W \"" + Joined(choices) + "\" -- \"$cur\"))";
  }
  if (!choices.empty()) return words(Joined(choices));
  return "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\"))";
}

void AppendBashCase(const CommandSpec& command, std::string* out) {
  out->append("    ").append(LastWord(command.name)).append(")\n");
  out->append("      flags='").append(FlagWords(command)).append("'\n");
  for (const FlagSpec& flag : command.flags) {
    if (flag.value.empty()) continue;
    std::string pattern;
    for (const std::string& name : flag.names) pattern += (pattern.empty() ? "" : "|") + name;
    *out += "      case $previous in " + pattern + ") " + BashCandidates(flag.value) +
            "; return ;; esac\n";
  }
  *out += "      if [[ $cur != -?* ]]; then\n        case ${#arguments[@]} in\n";
  for (size_t i = 0; i < command.arguments.size(); ++i) {
    const ArgumentSpec& argument = command.arguments[i];
    *out += "          " + (argument.repeated ? "*" : std::to_string(i)) + ") " +
            BashCandidates(argument.value) + " ;;\n";
  }
  *out += "          *) ;;\n        esac\n      fi ;;\n";
}

// Single quotes end a zsh word, colons and brackets an _arguments field.
std::string ZshEscaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      if (c == ':' || c == '[' || c == ']') out += '\\';
      out += c;
    }
  }
  return out;
}

std::string ZshAction(const std::string& value) {
  if (value == kMetricValue) return "_kcc_metrics";
  if (value == kClauseValue) return "_kcc_clauses";
  const std::vector<std::string> choices = ChoicesOf(value);
  if (choices.empty() || choices.back() == kFileValue) return "_files";
  return "(" + Joined(choices) + ")";
}

void AppendZshArguments(const CommandSpec& command, std::string* out) {
  for (const FlagSpec& flag : command.flags) {
    const std::string value =
        flag.value.empty() ? "" : ":" + ZshEscaped(flag.value) + ":" + ZshAction(flag.value);
    for (const std::string& name : flag.names) {
      out->append(" \\\n        '").append(name).append("[").append(ZshEscaped(flag.help));
      out->append("]").append(value).append("'");
    }
  }
  for (const ArgumentSpec& argument : command.arguments) {
    const std::string position = argument.repeated ? "*" : argument.required ? "" : ":";
    *out += " \\\n        '" + position + ":" + ZshEscaped(argument.name) + ":" +
            ZshAction(argument.value) + "'";
  }
  *out += '\n';
}

}  // namespace

std::string BashCompletion(const CommandSpec& root) {
  std::string commands;
  for (const CommandSpec& command : root.commands) {
    commands += (commands.empty() ? "" : " ") + LastWord(command.name);
  }
  std::string out =
      "# bash completion for kcc; load with: source <(kcc completion bash)\n"
      "_kcc() {\n"
      "  local program=${COMP_WORDS[0]} cur=${COMP_WORDS[COMP_CWORD]} "
      "previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local command='' flags='" +
      FlagWords(root) +
      "' word i\n"
      "  local -a arguments=()\n"
      "  COMPREPLY=()\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    word=${COMP_WORDS[i]}\n"
      "    if [[ $word == -?* ]]; then continue; fi\n"
      "    if [[ -z $command ]]; then command=$word; else arguments+=(\"$word\"); fi\n"
      "  done\n"
      "  case $command in\n"
      "    '') if [[ $cur != -* ]]; then COMPREPLY=($(compgen -W '" +
      commands + "' -- \"$cur\")); fi ;;\n";
  for (const CommandSpec& command : root.commands) AppendBashCase(Flattened(command), &out);
  out +=
      "    *) return ;;\n"
      "  esac\n"
      "  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\")); fi\n"
      "}\n"
      "complete -F _kcc kcc\n";
  return out;
}

std::string ZshCompletion(const CommandSpec& root) {
  std::string out =
      "#compdef kcc\n"
      "# zsh completion for kcc; put it as _kcc into a folder of $fpath\n"
      "_kcc_metrics() {\n"
      "  local -a names\n"
      "  names=(${(f)\"$(kcc metrics --names 2>/dev/null)\"})\n"
      "  compadd \"$@\" -a names\n"
      "}\n"
      "_kcc_clauses() {\n"
      "  local -a files ids\n"
      "  files=(${words[2,-1]:#-?*})\n"
      "  ids=(${(f)\"$(kcc explain --ids ${files[1]} 2>/dev/null)\"})\n"
      "  compadd \"$@\" -a ids\n"
      "}\n"
      "_kcc() {\n"
      "  local context state line\n"
      "  local -a commands\n"
      "  commands=(\n";
  for (const CommandSpec& command : root.commands) {
    out += "    '" + LastWord(command.name) + ":" + ZshEscaped(command.help) + "'\n";
  }
  out += "  )\n  _arguments -C";
  AppendZshArguments(root, &out);
  // The root takes a command and hands the rest to it.
  out.pop_back();
  out +=
      " \\\n        '1:command:->command' '*::argument:->argument'\n"
      "  case $state in\n"
      "    command) _describe command commands ;;\n"
      "    argument)\n"
      "      case $words[1] in\n";
  for (const CommandSpec& command : root.commands) {
    out += "      " + LastWord(command.name) + ")\n        _arguments";
    AppendZshArguments(Flattened(command), &out);
    out += "        ;;\n";
  }
  out +=
      "      esac ;;\n"
      "  esac\n"
      "}\n"
      "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _kcc \"$@\"; else compdef _kcc kcc; "
      "fi\n";
  return out;
}

int RunCompletion(const CompletionOptions& options, const CommandSpec& root, Console& console) {
  const std::string script = options.shell == "zsh" ? ZshCompletion(root) : BashCompletion(root);
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("shell", options.shell).Field("script", script).EndObject();
    console.out << json.Take();
  } else {
    console.out << script;
  }
  return kExitOk;
}

}  // namespace kcc::cli
