#include "kcc/report/next_steps.h"

#include <array>

#include "kcc/base/strings.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

constexpr std::string_view kLab = "lab:";

bool IsLab(const std::string& input) { return input.starts_with(kLab); }

// A command grows word by word; one word that cannot be pasted makes it no command.
class Command {
 public:
  explicit Command(std::string_view start) : text_(start) {}

  Command& Flag(std::string_view flag) {
    text_.append(" ").append(flag);
    return *this;
  }
  Command& Word(std::string_view word) {
    const std::optional<std::string> quoted = ShellWord(word);
    whole_ = whole_ && quoted && !word.empty();
    if (whole_) text_.append(" ").append(*quoted);
    return *this;
  }
  // A file's name, which must not be taken for a flag.
  Command& File(std::string_view name) {
    return name.starts_with("-") ? Word("./" + std::string(name)) : Word(name);
  }

  void AddTo(std::string_view name, std::string_view question, std::vector<NextStep>* steps) const {
    if (whole_) steps->push_back({std::string(name), std::string(question), text_});
  }

 private:
  std::string text_;
  bool whole_ = true;
};

// A contract from standard input has no file to name.
bool HasFile(const ReportContract& contract) {
  return !contract.file.empty() && !contract.file.starts_with("<");
}

void AddAttribute(const ReportData& report, std::vector<NextStep>* steps) {
  const ReportInputs& inputs = report.inputs;
  if (!IsLab(inputs.train) || !IsLab(inputs.infer)) return;
  Command command("kcc attribute");
  command.Flag("--train").Word(inputs.train).Flag("--infer").Word(inputs.infer);
  if (!inputs.requests.empty()) command.Flag("--requests").File(inputs.requests);
  if (HasFile(report.contract)) command.Flag("--contract").File(report.contract.file);
  command.Flag("--max-requests 40 -o attribution.html");
  command.AddTo("attribute",
                "Which source of error brings it: operator, precision, batch or route?", steps);
}

// The flag of kcc bound that takes a quantity's value.
struct BoundFlag {
  std::string_view metric;
  std::string_view quantity;
  std::string_view flag;
};
constexpr std::array kBoundFlags = {
    BoundFlag{"max_logit_span", "logit_span", "--span"},
    BoundFlag{"max_logit_linf", "logit_linf", "--linf"},
    BoundFlag{"max_logit_l2", "logit_l2", "--l2"},
    BoundFlag{"mean_tv", "tv", "--tv"},
    BoundFlag{"max_tv", "tv", "--tv"},
    BoundFlag{"mean_kl", "kl", "--kl"},
    BoundFlag{"max_kl", "kl", "--kl"},
    BoundFlag{"mean_reverse_kl", "reverse_kl", "--kl"},
    BoundFlag{"max_reverse_kl", "reverse_kl", "--kl"},
    BoundFlag{"mean_abs_log_ratio", "abs_log_ratio", "--abs-log-ratio"}};

void AddBound(const WorstPair& worst, std::vector<NextStep>* steps) {
  if (!worst.slice->value.exact()) return;
  for (const BoundFlag& row : kBoundFlags) {
    if (row.metric != worst.clause->metric) continue;
    Command command("kcc bound");
    command.Flag(row.flag).Word(PassingNumber(BoundKind::kAtMost, worst.slice->value.hi));
    command.AddTo("bound",
                  "What could it cost, if every token had a " + std::string(row.quantity) + " of " +
                      ShortNumber(worst.slice->value.hi) + "?",
                  steps);
  }
}

// Commands that read the two traces again. A name with a colon cannot stand in TRAIN:INFER.
void AddFromTraces(const ReportData& report, std::vector<NextStep>* steps) {
  const ReportInputs& inputs = report.inputs;
  const auto is_trace = [](const std::string& input) {
    return !input.empty() && input.find(':') == std::string::npos;
  };
  if (!is_trace(inputs.train) || !is_trace(inputs.infer)) return;
  Command author("kcc author");
  author.Flag("--evidence").File(inputs.train + ":" + inputs.infer);
  author.AddTo("author", "Which thresholds would this evidence keep?", steps);
  Command replay("kcc rl replay");
  replay.File(inputs.train).File(inputs.infer).Flag("-o replay.html");
  replay.AddTo("replay", "In RL: which correction keeps what, and at which bias?", steps);
}

// The first clause that evidence left open or broken: what it needs.
void AddExplain(const ReportData& report, std::vector<NextStep>* steps) {
  if (!HasFile(report.contract)) return;
  for (const ClauseVerdict& clause : report.judgement.clauses) {
    if (clause.verdict == Verdict::kSatisfied || clause.verdict == Verdict::kViolated) continue;
    Command command("kcc explain");
    command.File(report.contract.file).File(clause.id);
    command.AddTo("explain", "Which evidence does " + OneLine(clause.id) + " need?", steps);
    return;
  }
}

}  // namespace

std::vector<NextStep> NextSteps(const ReportData& report) {
  std::vector<NextStep> steps;
  if (const std::optional<WorstPair> worst = FindWorstPair(report.judgement)) {
    AddAttribute(report, &steps);
    AddBound(*worst, &steps);
    AddFromTraces(report, &steps);
  }
  AddExplain(report, &steps);
  return steps;
}

std::optional<std::string> ShellWord(std::string_view text) {
  if (text != OneLine(text)) return std::nullopt;
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=,+@%-";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(text);
  }
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";  // ends the quote, adds one, begins again
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string KeptInput(std::string_view kernel) {
  constexpr std::string_view kTrace = "trace:";
  if (kernel.starts_with(kLab)) return std::string(kernel);
  if (kernel.starts_with(kTrace)) return std::string(kernel.substr(kTrace.size()));
  // Without a scheme it is a trace's directory, and so is a path that holds a colon after a slash.
  const size_t colon = kernel.find(':');
  const bool path = colon == std::string_view::npos ||
                    kernel.substr(0, colon).find('/') != std::string_view::npos;
  return path ? std::string(kernel) : "";
}

}  // namespace kcc
