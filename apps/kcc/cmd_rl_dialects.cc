// kcc rl dialects: the frameworks whose words are known, from their rows; the tables of
// docs/rl-dialects.md are what it prints.
#include "apps/kcc/commands.h"
#include "apps/kcc/markdown.h"
#include "kcc/rl/dialect.h"
#include "kcc/rl/rl_json.h"

namespace kcc::cli {
namespace {

// "`a`, `b`" of "a b".
std::string CodeList(std::string_view words) {
  std::string out;
  for (const std::string_view word : DialectWords(words)) {
    out.append(out.empty() ? "" : ", ").append(MarkdownCode(word));
  }
  return out;
}

void PrintDialectTables(Console& console) {
  std::vector<std::vector<std::string>> rows;
  for (const Dialect* dialect : Dialects()) {
    std::string name = MarkdownCode(dialect->id);
    if (!dialect->aliases.empty()) name += ", " + CodeList(dialect->aliases);
    std::string source = std::string(dialect->repository) + " " + std::string(dialect->commit);
    for (const DialectFunction& function : dialect->functions) {
      rows.push_back({name, source, MarkdownCode(function.name), CodeList(function.options)});
      name.clear();  // of the dialect's first function alone
      source.clear();
    }
  }
  console.out << MarkdownTable({"dialect", "repository at commit", "function", "options"}, rows);
  console.out << "\n## Oddities that are reproduced\n";
  for (const Dialect* dialect : Dialects()) {
    console.out << "\n**" << dialect->title << ".** " << dialect->oddities << '\n';
  }
}

void PrintDialects(Console& console) {
  for (const Dialect* dialect : Dialects()) {
    console.out << Paint(Style::kBold, dialect->id, console.colour_out) << ": "
                << dialect->repository << " at " << dialect->commit;
    if (!dialect->aliases.empty()) console.out << ", also called " << dialect->aliases;
    console.out << '\n';
    for (const DialectFunction& function : dialect->functions) {
      console.out << "  " << function.name << ": " << function.options << '\n';
    }
  }
}

}  // namespace

int RunRlDialects(const RlDialectsOptions& options, Console& console) {
  if (console.json) {
    console.out << DialectsJson();
  } else if (options.markdown) {
    PrintDialectTables(console);
  } else {
    PrintDialects(console);
  }
  return kExitOk;
}

}  // namespace kcc::cli
