#include "apps/kcc/other_words.h"

#include <algorithm>
#include <iterator>

namespace kcc::cli {
namespace {

struct Instead {
  std::string_view word;
  std::string_view text;
};

constexpr std::string_view kStatus =
    "'kcc status gateway.yaml' says how the kernels behind a running gateway stand, 'kcc report "
    "out/report.json' shows the last verdict again, 'kcc promote status --register R' where "
    "promotions are, and 'kcc doctor' says whether everything that kcc needs is there";
constexpr std::string_view kWatch =
    "'kcc monitor run' judges a kernel while it serves (docs/monitor.md), 'kcc run' what two "
    "kernels "
    "do now, and 'kcc compare before after' says what changed between two reports; kcc.Monitor in "
    "Python watches a training run (docs/python.md)";
constexpr std::string_view kRun =
    "'kcc run CONTRACT --train KERNEL --infer KERNEL' measures two kernels and judges them";
constexpr std::string_view kCheck = "'kcc check CONTRACT' validates a contract";
constexpr std::string_view kAuthor =
    "'kcc author --evidence TRAIN:INFER -o contract.yaml' proposes a contract, and contracts/ has "
    "some to copy";
constexpr std::string_view kReport =
    "'kcc report out/report.json -o DIR' shows a stored verdict and writes its pages";
constexpr std::string_view kHistory =
    "'kcc register list evaluations --register R' lists recorded verdicts, and 'kcc compare before "
    "after' says what changed between two reports";
constexpr std::string_view kDoctor = "'kcc doctor' says what works and what is missing";
constexpr std::string_view kServe =
    "'kcc gateway gateway.yaml' serves through kernels that a contract judges; kcc starts no model "
    "server but the lab's ('kcc lab serve'): it asks one that runs, named "
    "openai+http://HOST:PORT?server=NAME";
constexpr std::string_view kRollback =
    "kcc judges and orders an action; what serves your model carries it out. 'kcc report "
    "out/report.json' shows the action, and 'kcc promote freeze' or 'abort' acts on a promotion";
constexpr std::string_view kWhy =
    "'kcc gateway why TIME' says what served then and why, 'kcc gateway why REQUEST' who answered "
    "a "
    "request, and 'kcc report out/report.json' shows a verdict with its reasons";
constexpr std::string_view kTokenize =
    "'kcc requests make prompts.jsonl --tokenizer tokenizer.json' makes requests from text";

constexpr Instead kInstead[] = {
    {"state", kStatus},
    {"ps", kStatus},
    {"list", kStatus},
    {"watch", kWatch},
    {"tail", kWatch},
    {"top", kWatch},
    {"live", kWatch},
    {"follow", kWatch},
    {"alerts", kWatch},
    {"logs", kReport},
    {"history", kHistory},
    {"since", kHistory},
    {"events", kHistory},
    {"incidents", kHistory},
    {"dashboard", kReport},
    {"show", kReport},
    {"view", kReport},
    {"open", kReport},
    {"html", kReport},
    {"last", kReport},
    {"verdict", kReport},
    {"why", kWhy},
    {"test", kRun},
    {"gate", kRun},
    {"ci", kRun},
    {"eval", kRun},
    {"evaluate", kRun},
    {"start", kRun},
    {"validate", kCheck},
    {"lint", kCheck},
    {"verify", kCheck},
    {"init", kAuthor},
    {"new", kAuthor},
    {"create", kAuthor},
    {"propose", kAuthor},
    {"health", kDoctor},
    {"diagnose", kDoctor},
    {"info", kDoctor},
    {"env", kDoctor},
    {"debug", kDoctor},
    {"ping", kDoctor},
    {"selftest", kDoctor},
    {"serve", kServe},
    {"server", kServe},
    {"stop", kServe},
    {"restart", kServe},
    {"rollback", kRollback},
    {"freeze", kRollback},
    {"fallback", kRollback},
    {"guard", kRollback},
    {"proxy", kServe},
    {"route", kWhy},
    {"tokenize", kTokenize},
    {"tokenise", kTokenize},
    {"help", "'kcc --help' lists the commands, and 'kcc COMMAND --help' explains one"},
    {"version", "'kcc --version' prints it"},
    {"convert", "'kcc import FORMAT FILE -o DIR' makes a trace from what others wrote"},
    {"dump", "'kcc import FORMAT FILE -o DIR' makes a trace from what others wrote"},
};

}  // namespace

std::string_view InsteadOf(std::string_view word) {
  const auto* row = std::find_if(std::begin(kInstead), std::end(kInstead),
                                 [word](const Instead& one) { return one.word == word; });
  return row == std::end(kInstead) ? std::string_view() : row->text;
}

}  // namespace kcc::cli
