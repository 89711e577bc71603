// The options of the lab's commands (commands.h says what a command is).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/kcc/commands.h"
#include "apps/kcc/console.h"

namespace kcc::cli {

struct LabOptions {
  std::string model;     // a checkpoint's directory
  std::string requests;  // a requests file
  std::string contract;  // whose slices and clauses
  std::string output;    // directory of the page
  int64_t requests_max = 0;
  bool quick = false;
  std::vector<std::string> engines;  // of e2
  std::vector<size_t> lengths;
};
int RunLabList(Console& console);
int RunLabE1(const LabOptions& options, Console& console);
int RunLabE2(const LabOptions& options, Console& console);

struct LabTrainOptions {
  std::string examples;  // a requests file
  std::string kernel = "lab:f32";
  std::string model;   // a checkpoint's directory
  std::string config;  // a config.json, for random weights
  std::string output;  // the run's folder
  bool resume = false;
  int64_t steps = 0;  // 0: by epochs
  int64_t epochs = 1;
  double rate = 1e-3;
  std::string schedule = "cosine";
  double floor = 0.02;
  int64_t warmup = 0;
  double decay = 0.05;
  double clip = 1.0;
  double prompt_weight = 0.0;
  int64_t batch_tokens = 4096;
  int64_t pack_tokens = 4096;
  uint64_t seed = 1;
  int64_t save_every = 100;
  std::string dtype = "f32";
  int64_t threads = 0;  // 0: as the kernel's
};
int RunLabTrain(const LabTrainOptions& options, Console& console);

struct LabRlOptions {
  std::string task;  // products, json or a requests file
  std::string train = "lab:f32", infer = "lab:f32";
  std::string recompute;  // a kernel; empty: the one that is trained
  bool bypass = false;
  RlCorrectionFlags correction;  // empty: none
  std::string model;             // a checkpoint's directory
  std::string output;            // the run's folder
  bool resume = false;
  int64_t steps = 300;
  int64_t problems = 8;
  int64_t group = 8;
  std::string algorithm = "grpo";
  double gamma = 1, lambda = 0.95, value_rate = 1e-3;
  std::string advantages = "scaled";  // or centred
  double clip_low = 0.2, clip_high = 0.2, dual_clip = 0;
  double kl = 0;
  std::string loss_mean = "tokens";
  int64_t stale = 0;
  bool score_all = false;
  int64_t reference_every = 1;
  double rate = 1e-4;
  std::string schedule = "constant";
  double floor = 0.02;
  int64_t warmup = 0;
  double decay = 0;
  double clip = 1.0;
  int64_t pack_tokens = 4096;
  uint64_t seed = 1;
  int64_t eval_every = 25;
  int64_t eval_problems = 128;
  std::string eval_answers = "greedy";
  std::string contract;           // whose clauses are judged each step
  std::string orders = "follow";  // or log
  bool keep_steps = false;
  int64_t save_every = 25;
  std::string dtype = "f32";
  int64_t threads = 0;  // 0: as the trained kernel's
};
int RunLabRl(const LabRlOptions& options, Console& console);

struct LabCurvesOptions {
  std::vector<std::string> runs;  // folders
  std::string output;             // the page
};
int RunLabCurves(const LabCurvesOptions& options, Console& console);

struct LabE3Options {
  std::string output;  // directory of the runs and of the page
  bool list = false;
  std::string cells;              // patterns; empty: those of `make results`
  int64_t steps = 0, seeds = 0;   // 0: as the plan has them
  int64_t held_out_problems = 0;  // likewise
  bool full = false;              // the whole plan
  std::string task = "products";
  std::string model;     // a checkpoint's directory
  std::string contract;  // whose clauses are judged each step
  int64_t jobs = 1;
  int64_t threads = 2;
};
int RunLabE3(const LabE3Options& options, Console& console);

struct LabVerifyOptions {
  std::vector<std::string> kernels;  // empty: those that training needs to be exact
  std::string model;
  std::string requests;
  int64_t tokens = 1000000;
  int64_t output_tokens = 64;
  uint64_t seed = 1;
  bool quick = false;
  std::string scratch;
};
int RunLabVerify(const LabVerifyOptions& options, Console& console);

struct LabServeOptions {
  std::string kernel = "lab:f32";
  std::string model;  // a checkpoint's directory
  std::string host = "127.0.0.1";
  uint16_t port = 8000;     // 0: any
  int64_t batch_max = 0;    // 0: as the kernel's concurrency
  int64_t queue_max = 256;  // sequences that wait
  int64_t threads = 0;      // 0: as the kernel's
  bool allow_faults = false;
  uint16_t admin_port = 0;  // 0: any
};
int RunLabServe(const LabServeOptions& options, Console& console);

}  // namespace kcc::cli
