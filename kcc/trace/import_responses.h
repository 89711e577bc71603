// What the importers of server responses share. A line of the input is a response as the server
// sent it, or a wrapper {"id", "request", "response", …}: then the id and every other scalar become
// fields of the request, and the request body says temperature, prompt ids and the like.
//
// An importer turns a response into sequences; the driver checks that all of them mean the same
// thing (evidence, semantics, temperature, fingerprint) and writes the trace.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/format/json.h"
#include "kcc/trace/import.h"
#include "kcc/trace/trace.h"

namespace kcc {

inline constexpr size_t kResponseLineBytesMax = size_t{1} << 30;

struct TopEntry {
  int32_t id = 0;
  double logprob = 0;
};

struct ImportedToken {
  int64_t position = 0;
  int64_t token = -1;
  double logprob = std::numeric_limits<double>::quiet_NaN();  // NaN: the source had none
  std::vector<TopEntry> top;
  std::vector<float> logits;  // of the whole vocabulary, where the source has them
  float advantage = std::numeric_limits<float>::quiet_NaN();
  bool counts = true;
};

// One choice of one response, or one sequence of an export.
struct ImportedSequence {
  std::string id;      // empty: the line's
  std::string suffix;  // behind the line's id, where a response holds several
  std::string fingerprint;
  bool prompt = false;  // the evidence is about prompt tokens: scored on the prefill path
  LogprobSemantics semantics = LogprobSemantics::kRaw;
  std::optional<double> temperature;
  bool altered = false;  // TraceInfo::sampling_altered
  std::optional<int64_t> prompt_tokens;
  std::map<std::string, RequestValue, std::less<>> fields;
  std::vector<ImportedToken> tokens;
};

// What surrounds a response.
struct ResponseContext {
  const ImportOptions* options = nullptr;
  std::optional<json::object> request;
  // Whether to take prompt evidence, given that the response has it.
  bool WantsPrompt(bool has_prompt) const { return options->prompt.value_or(has_prompt); }
  // Prompt token ids in the request body: prompt, input_ids or token_ids.
  Result<std::vector<int64_t>> PromptIds() const;
  // Any member of the request body or of its sampling_params / parameters.
  std::optional<json::element> RequestMember(std::string_view key) const;
  // Whether the request asked for tokens from less, or other, than the whole distribution.
  bool AltersSampling() const;
  // Length of the part that is not judged, where prompt tokens are scored.
  std::optional<int64_t> scored_prompt_tokens;
  std::vector<std::string>* warnings = nullptr;
  void WarnOnce(const std::string& sentence) const;
};

// Whether a sampling parameter of this name has another value than the one that changes nothing.
// True for names that are not known.
bool AltersSamplingAs(std::string_view key, double value);

using ResponseParser = std::function<Result<std::vector<ImportedSequence>>(
    json::object response, const ResponseContext& context)>;

// The parsers of the servers that can also be asked over HTTP (kcc/kernel/server_table.h).
using ResponseSequences = Result<std::vector<ImportedSequence>>;
ResponseSequences ParseVllmResponse(json::object response, const ResponseContext& context);
ResponseSequences ParseSglangResponse(json::object response, const ResponseContext& context);
ResponseSequences ParseLlamacppResponse(json::object response, const ResponseContext& context);
ResponseSequences ParseTrtllmResponse(json::object response, const ResponseContext& context);

// One sequence from each of the response's `choices`, numbered by a suffix where there are several;
// `not_a_response` is said where there are none. The temperature is the request's.
using ChoiceReader = std::function<Result<>(json::object choice, ImportedSequence* sequence)>;
ResponseSequences ReadChoices(json::object response, const ResponseContext& context,
                              std::string_view not_a_response, const ChoiceReader& read);

// The length of the prompt: of the ids if there are any, else usage.prompt_tokens, else what the
// import was told. 0: unknown.
int64_t PromptLength(json::object response, size_t prompt_ids, const ResponseContext& context);

Result<ImportReport> ImportResponses(std::span<const std::string> inputs, const std::string& output,
                                     const ImportOptions& options, const ResponseParser& parse);

// Writes sequences into a trace whose shape the first of them decides.
class SequenceWriter {
 public:
  SequenceWriter(std::string output, const ImportOptions& options);
  ~SequenceWriter();
  Result<> Add(const std::string& id, ImportedSequence sequence);
  Result<ImportReport> Finish();
  std::vector<std::string>* warnings();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A list of integers; empty if it is not one.
std::vector<int64_t> JsonIntegers(std::optional<json::element> element);

// A log-prob as servers write it: NaN for null, a missing value and every sentinel.
double LogprobOf(std::optional<json::element> element);

// A number that must be a token id; `where` says whose.
Result<int32_t> JsonTokenId(json::element element, std::string_view where);
// A list of token ids called `name`; empty if there is none, or a list of something else than
// numbers, as a prompt may be. A number in it that is no id is an error.
Result<std::vector<int64_t>> JsonTokenIds(std::optional<json::element> element,
                                          std::string_view name);

// "token_id:123" -> 123; none for any other text.
Result<std::optional<int32_t>> TokenIdOf(std::string_view text);

// Sorts by falling log-prob (equal ones by id), drops sentinels and repetitions.
void SortTop(std::vector<TopEntry>* top);

// The error for ids of a response that do not stand where the request or response has them: it
// says "shifted by one" where that is what happened. A found id of -1 is unknown.
Error AlignmentError(std::string_view what, std::span<const int64_t> expected,
                     std::span<const int64_t> found, size_t at);
// No error if found equals expected from `offset` on.
Result<> CheckAlignment(std::string_view what, std::span<const int64_t> expected, int64_t offset,
                        std::span<const int64_t> found);

}  // namespace kcc
