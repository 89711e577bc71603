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

struct DialectInput;  // rl/dialect_data.h
struct OptionValue;   // rl/dialect_options.h
struct DialectResult;
struct DialectTranslation;

// A function of a framework, and the options it knows at the top of its JSON object.
struct DialectFunction {
  std::string_view name;
  std::string_view options;  // separated by spaces
};

// All there is to know of a framework: the one row that it has. Help, docs/rl-dialects.md and the
// tests over all dialects read it; its file defines it (dialect_list.h).
struct Dialect {
  std::string_view id;                         // "verl"; also the stem of its golden file
  std::string_view aliases = "";               // "miles" for slime; separated by spaces
  std::string_view title;                      // "verl"
  std::string_view repository;                 // "verl-project/verl"
  std::string_view commit;                     // read and run at
  std::span<const DialectFunction> functions;  // the first is the default
  std::string_view oddities;                   // what is imitated though odd, in Markdown
  Result<DialectResult> (*run)(const DialectInput& in, std::string_view function,
                               const OptionValue& options);
  Result<DialectTranslation> (*translate)(std::string_view function, const OptionValue& options);
};
std::span<const Dialect* const> Dialects();
// The words of a column that separates them by spaces.
std::vector<std::string_view> DialectWords(std::string_view column);
// By id or alias, "-" and "_" alike; fails naming the nearest.
Result<const Dialect*> FindDialect(std::string_view name);

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
