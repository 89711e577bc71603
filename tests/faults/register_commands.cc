// A register is compared by what it says, not by the bytes of its files: SQLite may leave its
// write-ahead log behind where memory runs out, and the next reader takes it over. After every run
// the register must be sound (kcc/register/verify.h), and its log the old one or the new one.
#include "tests/faults/register_commands.h"

#include <filesystem>
#include <string>
#include <utility>

#include "kcc/register/register.h"
#include "kcc/register/verify.h"
#include "kcc/statement/signature.h"
#include "tests/faults/commands.h"
#include "tests/faults/inputs.h"

namespace kcc::faults {
namespace {

const char* const kLog = "the register's log";

// The events of a register, one a line; `broken` says what is wrong with it.
std::string LogOf(const std::string& path, std::string* broken) {
  Result<Register> source = Register::Open(path);
  if (!source.has_value()) {
    *broken = "the register cannot be opened: " + source.error().message();
    return "";
  }
  const auto check = Verify(*source);
  if (!check.has_value()) {
    *broken = "the register cannot be verified: " + check.error().message();
  } else if (!check->ok()) {
    *broken = "the register is broken: " + check->first_break->what;
  } else if (check->blobs_unnamed > 0) {
    *broken = "the register keeps a blob that no event names";
  }
  const auto events = source->ReadEvents({});
  if (!events.has_value()) {
    *broken = "the log cannot be read: " + events.error().message();
    return "";
  }
  std::string log = "version " + std::to_string(kRegisterVersion) + "\n";
  for (const Event& event : *events) {
    log += std::to_string(event.sequence) + " " + std::to_string(event.time_ms) + " " +
           event.actor + " " + event.kind + " " + event.body + " " + event.digest + "\n";
  }
  return log;
}

class RegisterSubject final : public CommandSubject {
 public:
  // `from`: the register that is there before the command, as a file of the inputs; "": none.
  RegisterSubject(const std::vector<std::string>& words, const std::string& from, bool steps)
      : CommandSubject(words, TheInputs().out(), FilesBefore(from)),
        steps_(steps),
        files_before_(FilesBefore(from)) {
    std::string broken;
    if (!from.empty()) before_[kLog] = LogOf(TheInputs().In(from), &broken);
  }

  Outcome Take() override {
    Outcome outcome = CommandSubject::Take();
    const std::string path = TheInputs().out() + "/r.db";
    const auto untouched = files_before_.find("r.db");
    const auto left = outcome.results.find("r.db");
    const bool same = untouched != files_before_.end() && left != outcome.results.end() &&
                      left->second == untouched->second && !outcome.results.contains("r.db-wal");
    for (const char* suffix : {"", "-wal", "-shm"}) {
      outcome.results.erase("r.db" + std::string(suffix));
    }
    if (!std::filesystem::exists(path)) return outcome;
    if (same) {  // the same bytes say the same, and most commands only read
      outcome.results[kLog] = before_.at(kLog);
      return outcome;
    }
    std::string broken;
    outcome.results[kLog] = LogOf(path, &broken);
    if (outcome.broken.empty()) outcome.broken = broken;
    return outcome;
  }

  std::map<std::string, std::string> Before() const override { return before_; }

  // Events are only ever added, and each line ends: a beginning of the log is the log of a step.
  bool IsStepTo(const std::string& name, const std::string& bytes,
                const std::string& complete) const override {
    const auto old = before_.find(name);
    return steps_ && name == kLog && old != before_.end() && bytes.starts_with(old->second) &&
           complete.starts_with(bytes) && bytes.ends_with('\n');
  }

 private:
  static std::map<std::string, std::string> FilesBefore(const std::string& from) {
    if (from.empty()) return {};
    return {{"r.db", ReadBytes(TheInputs().In(from))}};
  }

  bool steps_;
  std::map<std::string, std::string> files_before_;
  std::map<std::string, std::string> before_;
};

struct RegisterCase {
  std::vector<std::string> words;
  std::string from = "r.db";
  bool steps = false;  // more than one transaction
  bool slow = false;
};

class CaseList {
 public:
  // Every command gets the register, a name and a time.
  void Add(RegisterCase one) {
    std::string name;
    for (size_t i = 0; i < one.words.size() && i < 3; ++i) {
      if (one.words[i].find('/') != std::string::npos) break;
      name += (i == 0 ? "" : " ") + one.words[i];
    }
    if (one.words.back() == "--json") name += " --json";
    one.words.insert(one.words.end(), {"--register", TheInputs().out() + "/r.db", "--actor", "bob",
                                       "--time", "2026-11-18T09:00:00Z"});
    cases_.push_back(
        {name, [one] { return std::make_unique<RegisterSubject>(one.words, one.from, one.steps); },
         one.slow});
  }
  void AddPlain(const std::string& name, std::vector<std::string> words) {
    cases_.push_back({name, [words = std::move(words)] {
                        PrepareSignatures();  // see signature.h: OpenSSL loads once, or never
                        return std::make_unique<CommandSubject>(
                            words, TheInputs().out(), std::map<std::string, std::string>{});
                      }});
  }
  std::vector<Case> Take() { return std::move(cases_); }

 private:
  std::vector<Case> cases_;
};

void AddWriters(CaseList* list) {
  const Inputs& at = TheInputs();
  const std::string contract = at.In("contract.yaml");
  const std::string digest = "sha256:" + std::string(64, '1');
  list->Add({{"register", "init"}, ""});
  list->Add({{"register", "init", "--json"}});
  list->Add({{"register", "add", "model", digest, "--name", "qwen3-8b"}});
  list->Add({{"register", "add", "kernel", "k-2", "--engine", "vllm", "--version", "0.18"}});
  list->Add({{"register", "add", "contract", contract}, "empty.db"});
  list->Add({{"register", "add", "incident", "I-7", "--what", "answers repeat", "--json"}});
  list->Add({{"register", "add", "event", "incident.opened", at.In("incident.json")}});
  list->Add({{"register", "import", at.In("export")}, "empty.db"});
  list->Add({{"register", "gc", "--evidence-before", "2026-11-18T08:59:00Z"}, "twice.db", true});
  list->Add({{"register", "gc", "--dry-run", "--json"}, "twice.db"});
  list->Add({{"register", "rebuild"}, "judged.db"});
  list->Add(
      {{"run", contract, "--train", at.In("train"), "--infer", at.In("infer"), "--threads", "1"},
       "empty.db"});
  list->Add({{"judge", contract, at.In("all.kccs")}});
}

void AddReaders(CaseList* list) {
  const Inputs& at = TheInputs();
  const std::string out = at.out() + "/";
  list->Add({{"register", "head"}, "judged.db"});
  list->Add({{"register", "verify"}, "judged.db"});
  list->Add({{"register", "verify", "--json"}, "judged.db"});
  list->Add({{"register", "log"}, "judged.db"});
  list->Add({{"register", "log", "--last", "2", "--json"}, "judged.db"});
  for (const char* table : {"models", "kernels", "contracts", "triples", "evaluations",
                            "promotions", "approvals", "incidents"}) {
    list->Add({{"register", "list", table}, "judged.db"});
  }
  list->Add({{"register", "list", "evaluations", "--json"}, "judged.db"});
  list->Add({{"register", "show", "triple", "sha256:"}, "judged.db"});
  list->Add({{"register", "show", "contract", "sha256:", "--json"}, "judged.db"});
  list->Add({{"register", "class", at.In("contract.yaml")}, "judged.db"});
  list->Add({{"register", "class", at.In("contract.yaml"), "--json"}, "judged.db"});
  list->Add({{"register", "export", out + "copy"}, "judged.db"});
  list->Add({{"register", "page", "-o", out + "r.html"}, "judged.db"});
  list->Add({{"register", "blob", BlobDigest(ReadBytes(at.In("contract.yaml"))), "-o", out + "b"}});
}

void AddPromotions(CaseList* list) {
  const Inputs& at = TheInputs();
  const auto start = [&](const std::string& policy) {
    return std::vector<std::string>{"promote",  "start",       "p",           "--lane", "chat",
                                    "--policy", at.In(policy), "--candidate", "sha256:"};
  };
  list->Add({start("policy.yaml"), "r.db", true});
  list->Add({start("asking.yaml"), "r.db", true, true});
  list->Add({{"promote", "status"}, "judged.db"});
  list->Add({{"promote", "status", "p", "--json"}, "judged.db"});
  list->Add({{"promote", "history", "p"}, "judged.db"});
  list->Add({{"promote", "history", "p", "--json"}, "judged.db"});
  list->Add({{"promote", "advance", "p"}, "judged.db", true});
  list->Add({{"promote", "advance", "p", "--json"}, "offline.db", true});
  list->Add({{"promote", "approve", "p", "--role", "owner"}, "judged.db", true});
  list->Add({{"promote", "answer", "p", "--hook", "gate", "--yes"}, "refused.db", true});
  list->Add({{"promote", "freeze", "p", "--why", "holidays"}, "offline.db", true});
  list->Add({{"promote", "unfreeze", "p"}, "frozen.db", true});
  list->Add({{"promote", "abort", "p", "--why", "wrong build"}, "offline.db", true});
}

void AddStatements(CaseList* list) {
  const Inputs& at = TheInputs();
  const std::string out = at.out() + "/";
  const std::string digest = "sha256:" + std::string(64, 'a');
  const std::string time = "2026-11-18T09:30:00Z";
  list->AddPlain("register attest",
                 {"register", "attest", at.In("report"), "--key", at.In("key.pem"), "--time", time,
                  "-o", out + "e.json", "--vsa", out + "v.json", "--resource", "urn:a:b",
                  "--test-result", out + "t.json"});
  list->AddPlain("register attest --json",
                 {"register", "attest", "--json", at.In("report"), "--key", at.In("key.pem"),
                  "--time", time, "--triple", digest, "-o", out + "e.json"});
  const std::vector<std::string> verify = {"register", "verify-attestation", at.In("envelope.json"),
                                           "--keyring", at.In("keyring.yaml")};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), verify.begin(), verify.end());
    return more;
  };
  list->AddPlain("register verify-attestation", with({"--threshold", "2"}));
  list->AddPlain("register verify-attestation --json", with({"--json", "--subject", digest}));
  list->AddPlain("register stamp",
                 {"register", "stamp", at.In("model/model.safetensors"), "--contract", digest,
                  "--triple", digest, "-o", out + "m.safetensors"});
  list->AddPlain("register stamp --show",
                 {"register", "stamp", "--show", at.In("model/model.safetensors")});
}

}  // namespace

std::vector<Case> RegisterCases() {
  CaseList list;
  AddWriters(&list);
  AddReaders(&list);
  AddPromotions(&list);
  AddStatements(&list);
  return list.Take();
}

}  // namespace kcc::faults
