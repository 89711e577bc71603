// Every command: a plain struct of its options, filled by cli.cc, and a function that does the work
// and returns an exit code (console.h). A further command is one struct and function here, one
// cmd_NAME.cc, and one declaration in cli.cc; help, completion and docs follow from that.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/kcc/console.h"
#include "apps/kcc/signing.h"
#include "kcc/author/checkpoint.h"
#include "kcc/author/propose.h"
#include "kcc/bounds/chain.h"
#include "kcc/kernel/kernel.h"
#include "kcc/report/report_formats.h"
#include "kcc/rl/correction.h"
#include "kcc/rl/dump.h"
#include "kcc/rl/training_evidence.h"
#include "kcc/trace/import.h"

namespace kcc::cli {

struct CheckOptions {
  std::vector<std::string> files;
  bool strict = false;  // a warning fails too, and more is asked
  std::string policy;   // what contracts are held against; empty: the policies among `files`
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
  bool report = false;       // of report.json instead
  bool experiment = false;   // of the figures of kcc lab instead
  bool statement = false;    // of signed statements instead
  bool policy = false;       // of promotion policies instead
  bool monitor = false;      // of monitor policies instead
  bool gateway = false;      // of gateways instead
  bool status = false;       // of a gateway's status instead
  bool verdict = false;      // of a gateway's verdict instead
  bool request = false;      // of stored requests instead
  bool observation = false;  // of the monitor's observations instead
  bool event = false;        // of the lines of a decision log instead
  bool trace = false;        // of the text files of a trace instead
};
int RunSchema(const SchemaOptions& options, Console& console);

struct MetricsOptions {
  std::string name;      // empty: all
  std::string contract;  // a file whose own metrics are listed too; empty: none
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

struct PromoteExplainOptions {
  std::string policy;
  std::string contract;
};
int RunPromoteExplain(const PromoteExplainOptions& options, Console& console);

// How to measure; the same for measure and run.
struct MeasureFlags {
  int threads = 0;           // 0: as many as there are cores
  std::string target;        // empty: the fastest the CPU has
  std::string device;        // "cuda"; empty or "cpu": the CPU
  std::string cuda_library;  // empty: where kcc/device looks
  std::string shard;         // "2/7"; empty: everything
  std::optional<double> temperature;
  bool other_model = false;
  bool verify = false;  // read every byte of the traces first, and record their digests
};

// How engines are asked; the same for measure, run, score and generate.
struct KernelFlags {
  std::string requests;    // a requests file or a trace; empty: those of the trace that is a side
  int64_t batch = 16;      // requests at a time
  int64_t repeat = 1;      // how often each is asked
  std::string sampled_by;  // a word; empty: dataset, or what the trace says
  std::optional<double> sampling_temperature;
  double start_timeout_s = 600;
  double batch_timeout_s = 600;
  std::string scratch;  // empty: the system's directory for temporary files
};

struct MeasureCommandOptions {
  std::string train;
  std::string infer;
  std::string contract;  // empty: the default plan
  std::string output;
  MeasureFlags flags;
  KernelFlags kernels;
};
int RunMeasure(const MeasureCommandOptions& options, Console& console);

struct MergeOptions {
  std::vector<std::string> files;
  std::string output;
};
int RunMerge(const MergeOptions& options, Console& console);

// Which register, and who writes to it when; the same for every command that uses one.
struct RegisterFlags {
  std::string uri;    // empty: none
  std::string actor;  // empty: the user of the process
  std::string time;   // empty: now
};

// How to judge and what to write; the same for judge and run.
struct JudgeFlags {
  std::string stage = "offline";
  std::string about;  // empty: the contract's
  std::string report;
  std::string fail_on = "L1";
  bool all = false;
  AskedFormats formats;  // written besides the usual files
  RegisterFlags record;  // where the verdict is recorded
  SigningFlags signing;  // who signs what is recorded
  std::string model;     // of what is recorded; empty: as the traces say
  // Of run: what is kept of requests where no policy says it. An empty word: nothing.
  std::string store;
  double store_sample = 0;
  std::string store_retention;
  bool store_text = false;
};

struct JudgeCommandOptions {
  std::string contract;
  std::string summary;
  std::vector<std::string> traces;  // TRAIN:INFER, for the worst tokens' context
  JudgeFlags flags;
};
int RunJudge(const JudgeCommandOptions& options, Console& console);

struct RunOptions {
  std::string contract;
  std::vector<std::string> also;  // contracts whose plans are measured too
  std::string train;
  std::string infer;
  std::string summary;  // empty: not kept
  MeasureFlags measure;
  KernelFlags kernels;
  JudgeFlags flags;
};
int RunRun(const RunOptions& options, Console& console);

struct ScoreOptions {
  std::string kernel;
  std::string output;
  KernelFlags kernels;
  Sampling sampling;  // of generate
};
int RunScore(const ScoreOptions& options, Console& console);
int RunGenerate(const ScoreOptions& options, Console& console);

struct AttributeOptions {
  std::string train;
  std::string infer;
  std::string contract;  // whose slices; empty: all tokens
  std::vector<std::string> quantities;
  int64_t requests_max = 0;
  bool first_divergence = false;
  std::string output;  // the page; empty: none
  KernelFlags kernels;
};
int RunAttribute(const AttributeOptions& options, Console& console);

struct ReplayCommandOptions {
  std::string request;  // in a register: an id, a digest or a beginning of it; else a file
  RegisterFlags record;
  std::string train;
  std::string infer;
  std::vector<std::string> quantities;  // to attribute
  bool alone = false;
  bool no_attribution = false;
  KernelFlags kernels;  // `requests` where the record has no token ids
};
int RunReplay(const ReplayCommandOptions& options, Console& console);

struct ReportOptions {
  std::string file;
  std::string output;  // empty: print alone
  bool all = false;
  AskedFormats formats;  // written besides the usual files
};
int RunReport(const ReportOptions& options, Console& console);

struct CompareOptions {
  std::string before;
  std::string after;
  bool markdown = false;
};
int RunCompare(const CompareOptions& options, Console& console);

struct BoundOptions {
  std::array<std::optional<double>, 6> drift;  // by DriftForm
  std::optional<double> reward_drift;
  std::optional<double> gradient_bias;
  std::vector<std::string> check;  // empty, or the two traces
  BoundAssumptions assumptions;
  bool temperature_given = false;
};
int RunBound(const BoundOptions& options, Console& console);

struct CalibrateOptions {
  std::string contract;
  std::vector<std::string> conforming;  // TRAIN:INFER or S.kccs
  std::vector<std::string> violating;
  MeasureFlags measure;
  JudgeFlags flags;  // stage and about
};
int RunCalibrate(const CalibrateOptions& options, Console& console);

struct AuthorOptions {
  AuthorInput input;
  std::vector<std::string> evidence;    // TRAIN:INFER or S.kccs: thresholds come from it
  std::vector<std::string> conforming;  // held out: must be accepted
  std::vector<std::string> violating;   // must be rejected
  std::string checkpoint;
  ModelFacts facts;
  std::string train_kernel;
  std::string infer_kernel;
  std::string output;
  MeasureFlags measure;
};
int RunAuthor(const AuthorOptions& options, Console& console);

struct TraceOptions {
  std::string directory;
  int64_t rows = 10;
};
int RunTraceInfo(const TraceOptions& options, Console& console);
int RunTraceHead(const TraceOptions& options, Console& console);
int RunTraceVerify(const TraceOptions& options, Console& console);

struct ImportCommandOptions {
  std::string format;
  std::vector<std::string> inputs;
  std::string output;
  std::string semantics, mode, sampled_by, side;  // words; empty: what the format says
  bool prompt = false;                            // false: what the record holds decides
  std::vector<std::string> names;                 // THEIRS=OURS, of dumps
  ImportOptions import;                           // the rest
};
int RunImport(const ImportCommandOptions& options, Console& console);

// The log-probs of a step; the same for judge, diagnose, lint, correct and replay.
struct RlStepFlags {
  std::vector<std::string> files;  // dumps, traces; of diagnose also summaries
  std::string slice_by;            // a field of requests or rows
  std::vector<std::string> names;  // THEIRS=OURS
  int threads = 1;
};
// The step's dump; what it warns of is printed.
Result<RlDump> ReadRlStep(const RlStepFlags& step, const std::vector<std::string>& files,
                          Console& console);
inline Result<RlDump> ReadRlStep(const RlStepFlags& step, Console& console) {
  return ReadRlStep(step, step.files, console);
}

struct RlJudgeOptions {
  std::string contract;
  RlStepFlags step;
  std::string summary;  // empty: not kept
  std::optional<double> temperature, sampling_temperature;
  std::string train_fingerprint, infer_fingerprint;
  JudgeFlags flags;
};
int RunRlJudge(const RlJudgeOptions& options, Console& console);

// A framework's own options.
struct RlDialectFlags {
  std::string dialect;
  std::string function;  // empty: its first
  std::string options;   // JSON
};

// A correction in canonical words or in a framework's; the same for lint and correct.
struct RlCorrectionFlags {
  std::string rule;  // JSON
  RlDialectFlags framework;
};
// The rule given, or the dialect's options translated (with its warnings printed).
Result<RlCorrection> RlCorrectionOf(const RlCorrectionFlags& flags, Console& console);

struct RlDiagnoseOptions {
  RlStepFlags step;
  std::vector<std::string> limits;  // "token.mean_k3<=0.001"
  std::string output;               // the summary; empty: not kept
};
int RunRlDiagnose(const RlDiagnoseOptions& options, Console& console);

struct RlLintOptions {
  RlStepFlags step;
  RlCorrectionFlags correction;  // empty: the step alone is linted
  bool bypass = false;           // the loss takes the rollout's log-probs as old ones
};
int RunRlLint(const RlLintOptions& options, Console& console);

int RunRlTranslate(const RlDialectFlags& options, Console& console);

struct RlDialectsOptions {
  bool markdown = false;
};
int RunRlDialects(const RlDialectsOptions& options, Console& console);

struct RlCorrectOptions {
  RlStepFlags step;
  RlCorrectionFlags correction;
  std::string output;  // weights and mask; empty: not kept
};
int RunRlCorrect(const RlCorrectOptions& options, Console& console);

struct RlReplayCommandOptions {
  RlStepFlags step;
  double kept_min = kRlKeptShareMin, ess_min = 0.3;
  bool token_advantages = false;
  double epsilon = 0.2;   // of PPO's clip
  std::string framework;  // whose settings to print; empty: none
  std::string output;     // the page; empty: none
};
int RunRlReplay(const RlReplayCommandOptions& options, Console& console);

struct RlConformOptions {
  std::vector<std::string> files;  // golden files
  bool float64 = false;
};
int RunRlConform(const RlConformOptions& options, Console& console);

struct RegisterOptions {
  RegisterFlags flags;
  std::string table;      // of list, show
  std::string id;         // of show, blame; a contract of class
  std::string subject;    // of list: only what is about it
  std::string kind;       // of log
  int64_t from = 1;       // of log
  int64_t last = 0;       // of list and log; 0: all
  std::string head;       // of verify: SEQ:DIGEST, or a file
  std::string keyring;    // of verify
  int threshold = 1;      // of verify: keys that must have signed the head
  SigningFlags signing;   // of head
  std::string directory;  // of export and import
  std::string output;     // of page, blob and head
  std::string evidence_before, requests_before, redact, reason;  // of gc
  bool dry_run = false;
};
int RunRegisterInit(const RegisterOptions& options, Console& console);
int RunRegisterHead(const RegisterOptions& options, Console& console);
int RunRegisterVerify(const RegisterOptions& options, Console& console);
int RunRegisterLog(const RegisterOptions& options, Console& console);
int RunRegisterList(const RegisterOptions& options, Console& console);
int RunRegisterShow(const RegisterOptions& options, Console& console);
int RunRegisterClass(const RegisterOptions& options, Console& console);
int RunRegisterBlame(const RegisterOptions& options, Console& console);
int RunRegisterExport(const RegisterOptions& options, Console& console);
int RunRegisterImport(const RegisterOptions& options, Console& console);
int RunRegisterGc(const RegisterOptions& options, Console& console);
int RunRegisterPage(const RegisterOptions& options, Console& console);
int RunRegisterBlob(const RegisterOptions& options, Console& console);
int RunRegisterRebuild(const RegisterOptions& options, Console& console);

struct RegisterAddOptions {
  RegisterFlags flags;
  std::string id;    // of the model, kernel or incident; a file of contract and event
  std::string name;  // of the model
  std::array<std::string, 6> build;           // of the kernel, by kKernelBuildWords
  std::string model, train, infer, contract;  // of the triple
  std::string triple, promotion, what;        // of the incident
  std::string evaluation;                     // that shows the incident; empty: none
  bool close = false;
  std::string kind;                // of the event
  std::vector<std::string> blobs;  // files
};
inline constexpr std::array<const char*, 6> kKernelBuildWords = {
    "engine", "version", "compiler", "attention", "quantisation", "hardware"};
int RunRegisterAddModel(const RegisterAddOptions& options, Console& console);
int RunRegisterAddKernel(const RegisterAddOptions& options, Console& console);
int RunRegisterAddContract(const RegisterAddOptions& options, Console& console);
int RunRegisterAddTriple(const RegisterAddOptions& options, Console& console);
int RunRegisterAddIncident(const RegisterAddOptions& options, Console& console);
int RunRegisterAddEvent(const RegisterAddOptions& options, Console& console);

// Promotions in a register. Each command reads some of it.
struct PromoteOptions {
  RegisterFlags flags;
  std::string id;
  std::string lane, policy, candidate, incumbent, routing, hardware;  // of start
  SigningFlags signing;
  std::string keyring;     // whose signatures count; empty: none is looked at
  std::string why;         // of approve, answer, freeze, unfreeze, abort
  std::string role;        // of approve
  std::string hook;        // of answer
  bool watch = false;      // of advance
  double interval_s = 10;  // between two looks
  std::string until;       // when to stop watching; empty: at its end
  bool yes = false;
  bool no = false;
};
int RunPromoteStart(const PromoteOptions& options, Console& console);
int RunPromoteStatus(const PromoteOptions& options, Console& console);
int RunPromoteAdvance(const PromoteOptions& options, Console& console);
int RunPromoteApprove(const PromoteOptions& options, Console& console);
int RunPromoteAnswer(const PromoteOptions& options, Console& console);
int RunPromoteFreeze(const PromoteOptions& options, Console& console);
int RunPromoteUnfreeze(const PromoteOptions& options, Console& console);
int RunPromoteAbort(const PromoteOptions& options, Console& console);
int RunPromoteHistory(const PromoteOptions& options, Console& console);

struct RequestsMakeOptions {
  std::string prompts;
  std::string tokenizer;  // this or `server`
  std::string server;
  std::string python = "python3";
  std::string output;
};
int RunRequestsMake(const RequestsMakeOptions& options, Console& console);

struct DoctorOptions {
  std::string server;  // empty: none is asked
  std::string python = "python3";
  std::string cuda_library;  // empty: where kcc/device looks
};
int RunDoctor(const DoctorOptions& options, Console& console);

struct CommandSpec;
struct CompletionOptions {
  std::string shell;
};
int RunCompletion(const CompletionOptions& options, const CommandSpec& root, Console& console);

std::string_view Version();
int RunVersion(Console& console);

}  // namespace kcc::cli
