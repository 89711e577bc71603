#include "kcc/rl/dump_import.h"

#include <array>

#include "kcc/base/strings.h"
#include "kcc/rl/dump.h"
#include "kcc/rl/dump_rows.h"
#include "kcc/trace/import_responses.h"

namespace kcc {
namespace {

// The row's tokens up to its last that counts, behind the prompt.
Result<ImportedSequence> SequenceOf(const RlDump& dump, const RlBatch& batch, int64_t row,
                                    const ImportOptions& options) {
  const RlDump::Array* tokens = dump.Find("tokens");
  const RlDump::Array* mask = dump.Find("mask");
  const RlDump::Array* side = dump.Find(*options.side == ImportSide::kTrain ? "train" : "rollout");
  ImportedSequence sequence;
  sequence.semantics = options.semantics.value_or(LogprobSemantics::kTemperatureScaled);
  const int64_t first = batch.RowBegin(batch.train, row);
  const int64_t length = OutputLength(dump, batch, row);
  const Request request = RowRequest(dump, batch, row, length);
  sequence.fields = request.fields;
  const auto prompt = static_cast<int64_t>(request.Number("prompt_tokens").value_or(0));
  sequence.prompt_tokens = prompt;
  for (int64_t i = 0; i < length; ++i) {
    const auto at = static_cast<size_t>(first + i);
    ImportedToken token;
    token.position = prompt + i;
    token.counts = mask == nullptr || mask->values[at] != 0;
    if (token.counts) token.logprob = side->values[at];
    token.token = ArrayTokenId(tokens->values[at]);
    if (token.token < 0) {
      return BrokenEvidenceError("row " + std::to_string(row) + ", column " + std::to_string(i) +
                                 ": " + ShortestNumber(tokens->values[at]) + " is not a token id");
    }
    if (batch.advantages) {
      token.advantage = static_cast<float>(
          batch.advantage_per_row ? batch.RowAdvantage(row) : batch.advantages.At(first + i));
    }
    sequence.tokens.push_back(std::move(token));
  }
  return sequence;
}

Result<ImportReport> ImportRlDump(std::span<const std::string> inputs, const std::string& output,
                                  const ImportOptions& options) {
  if (!options.side) {
    return InvalidError("a dump holds both sides; say which with --side train or infer");
  }
  KCC_TRY(const RlDump dump,
          ReadRlDump({inputs.begin(), inputs.end()}, {.slice_by = {}, .names = options.names}));
  KCC_TRY(const RlBatch batch, dump.Batch());
  const RlDump::Array* tokens = dump.Find("tokens");
  if (tokens == nullptr || tokens->shape != dump.Find("train")->shape) {
    return InvalidError(
        "a trace needs the token ids, of the shape of the log-probs: responses in verl, "
        "completion_ids in TRL; say which array holds them with --map NAME=tokens. Without them, "
        "kcc rl judge judges the dump itself");
  }
  ImportOptions sided = options;
  if (!sided.path && *options.side == ImportSide::kTrain) sided.path = TracePath::kPrefill;
  SequenceWriter writer(output, sided);
  *writer.warnings() = dump.warnings;
  for (int64_t row = 0; row < batch.rows; ++row) {
    KCC_TRY(ImportedSequence sequence, SequenceOf(dump, batch, row, options));
    KCC_TRY_VOID(writer.Add(RowId(row), std::move(sequence)));
  }
  return writer.Finish();
}

constexpr std::array<Importer, 2> kImporters = {{
    {"verl", "verl's batch, either side (--side train|infer): DataProto.save_to_disk, torch.save",
     "batch.pkl | batch.pt", &ImportRlDump},
    {"trl", "TRL's batch, either side (--side train|infer): torch.save of the loss's inputs",
     "inputs.pt", &ImportRlDump},
}};

}  // namespace

std::span<const Importer> RlImporters() { return kImporters; }

}  // namespace kcc
