// The same questions in the words of RL frameworks: their options in, their metric names and
// numbers out, oddities included (docs/rl-dialects.md), and a translation into canonical words
// that warns where a name misleads.
//
// Computed in double; decisions are those of the frameworks' float32 code wherever float32 decides
// at all. A dialect never corrects what it imitates: the canonical numbers are in diagnostics.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/rl/batch.h"
#include "kcc/rl/correction.h"

namespace kcc {

struct DialectInfo {
  std::string_view id;                          // "verl"
  std::string_view title;                       // "verl"
  std::string_view repository;                  // "verl-project/verl"
  std::string_view commit;                      // read and run at
  std::span<const std::string_view> functions;  // the first is the default
  std::string_view aliases;                     // "miles" for slime; space-separated
};
std::span<const DialectInfo> Dialects();
// By id or alias, "-" and "_" alike; fails naming the nearest.
Result<const DialectInfo*> FindDialect(std::string_view name);

// Arrays beside the batch that some functions take.
struct DialectExtras {
  RlArray sample_mask;       // [rows] (nemo)
  RlArray rewards;           // [rows] (nemo)
  RlArray tool_mask;         // as mask (trl)
  RlArray current_logprobs;  // as train (trl)
};

struct DialectArray {
  std::string name;  // "weights", "mask", "filter_mask" …
  // Row r has elements [offsets[r], offsets[r+1]); one column per token, or one per row.
  std::vector<int64_t> offsets;
  std::vector<double> values;
};

struct DialectResult {
  std::vector<std::pair<std::string, double>> metrics;  // in the framework's order
  std::vector<DialectArray> arrays;

  std::optional<double> Metric(std::string_view name) const;
  const DialectArray* Array(std::string_view name) const;
};

// Runs `function` (empty: the dialect's first) with the framework's own options as a JSON object.
// Missing options take the framework's defaults; unknown ones and those the framework refuses are
// errors that name the option.
Result<DialectResult> RunDialect(std::string_view dialect, std::string_view function,
                                 const RlBatch& batch, const DialectExtras& extras,
                                 std::string_view options_json);

// The framework's options in canonical words.
struct DialectTranslation {
  RlCorrection correction;
  // False where the canonical rules cannot say it (advantage-dependent masks, probability bands):
  // `notes` says what is missing.
  bool complete = true;
  std::vector<std::string> warnings;  // where a name misleads
  std::vector<std::string> notes;
};
Result<DialectTranslation> TranslateDialect(std::string_view dialect, std::string_view function,
                                            std::string_view options_json);

}  // namespace kcc
