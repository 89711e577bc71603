// Importers from end to end: bytes become files under the names that importers know, the files a
// pair of traces, the traces a summary; and the same for the dumps of RL steps. Every stage refuses
// with words or gives what the next one can read.
//
//   byte 0   which (kKinds), byte 1 options, then the files: all but the last with a length of two
//            bytes before them
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/bytes.h"
#include "fuzz/scratch_dir.h"
#include "kcc/base/check.h"
#include "kcc/measure/measure.h"
#include "kcc/rl/diagnostics.h"
#include "kcc/rl/dump.h"
#include "kcc/rl/lint.h"
#include "kcc/summary/file.h"
#include "kcc/trace/import.h"
#include "kcc/trace/pairing.h"

namespace {

struct Kind {
  const char* importer;              // empty: a dump of an RL step
  std::array<const char*, 4> files;  // null: no more
};

constexpr Kind kKinds[] = {
    {"npy", {"a.npz"}},
    {"npy", {"requests.jsonl", "a.npz"}},
    {"npy", {"token.npy", "request.npy", "logits.npy"}},
    {"npy", {"token.npy", "top_ids.npy", "top_logprobs.npy"}},
    {"vexact",
     {"d/all_token_ids_list.json", "d/metadata.json", "d/all_logprobs.pt", "d/all_logits.pt"}},
    {"vllm", {"r.jsonl"}},
    {"sglang", {"r.jsonl"}},
    {"llamacpp", {"r.jsonl"}},
    {"llama-kld", {"base.kld"}},
    {"prime-rl", {"step_1/rank_0.jsonl"}},
    {"trtllm", {"r.jsonl"}},
    {"tgi", {"r.jsonl"}},
    {"", {"step.npz"}},
    {"", {"step.pt"}},
    {"", {"step.safetensors"}},
    {"", {"step.jsonl"}},
};

void CheckWords(const kcc::Error& error) { KCC_CHECK(!error.message().empty()); }

void MeasureTraces(const std::string& train, const std::string& infer) {
  auto train_reader = kcc::TraceReader::Open(train);
  auto infer_reader = kcc::TraceReader::Open(infer);
  KCC_CHECK(train_reader.has_value() && infer_reader.has_value());
  const auto verified = train_reader->VerifyPayload();
  // A position may stand twice in a response; that is for verification and pairing to say.
  KCC_CHECK(verified.has_value() || verified.error().message().find("twice") != std::string::npos);
  const auto pair = kcc::PairedTraces::Make(std::move(*train_reader), std::move(*infer_reader));
  if (!pair) return CheckWords(pair.error());
  const auto summary = kcc::Measure(*pair, kcc::Plan::Default());
  if (!summary) return CheckWords(summary.error());
  const std::string bytes = kcc::EncodeSummary(*summary);
  const auto again = kcc::DecodeSummary(bytes);
  KCC_CHECK(again.has_value() && kcc::EncodeSummary(*again) == bytes);
}

void Import(const Kind& kind, uint8_t how, const kcc::FuzzDir& dir,
            const std::vector<std::string>& inputs) {
  kcc::ImportOptions options;
  options.fingerprint = "fuzz";
  options.vocab_size = kind.importer == std::string_view("llama-kld") ? 0 : (how & 1) != 0 ? 8 : 32;
  options.mask_missing = (how & 2) != 0;
  options.next_token_logits = (how & 4) != 0;
  if ((how & 8) != 0) options.temperature = 1.0;
  if ((how & 16) != 0) options.prompt = (how & 32) != 0;
  if ((how & 64) != 0) options.semantics = kcc::LogprobSemantics::kRaw;
  if ((how & 128) != 0) options.prompt_tokens = 1;
  const kcc::Importer* importer = kcc::FindImporter(kind.importer);
  for (const kcc::ImportSide side : {kcc::ImportSide::kTrain, kcc::ImportSide::kInfer}) {
    options.side = side;
    const std::string out = dir / (side == kcc::ImportSide::kTrain ? "train" : "infer");
    const auto report = importer->run(inputs, out, options);
    KCC_CHECK(report.has_value() == std::filesystem::exists(out));
    if (!report) return CheckWords(report.error());
  }
  MeasureTraces(dir / "train", dir / "infer");
}

void ReadDump(const std::vector<std::string>& inputs) {
  const auto dump = kcc::ReadRlDump(inputs);
  if (!dump) return CheckWords(dump.error());
  const auto batch = dump->Batch();
  if (!batch) return CheckWords(batch.error());
  kcc::RlSummary summary;
  const auto added = summary.Add(*batch);
  if (!added) return CheckWords(added.error());
  (void)summary.Metrics();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const kcc::FuzzDir dir;
  kcc::Bytes bytes(data, size);
  const Kind& kind = kKinds[bytes.Byte() % std::size(kKinds)];
  const uint8_t how = bytes.Byte();
  std::string rest = bytes.Rest();
  std::vector<std::string> inputs;
  for (size_t i = 0; i < kind.files.size() && kind.files[i] != nullptr; ++i) {
    const bool last = i + 1 == kind.files.size() || kind.files[i + 1] == nullptr;
    size_t length = rest.size();
    if (!last) {
      rest.resize(std::max<size_t>(rest.size(), 2));
      length = static_cast<uint8_t>(rest[0]) + size_t{256} * static_cast<uint8_t>(rest[1]);
      rest.erase(0, 2);
    }
    inputs.push_back(dir.Put(kind.files[i], std::string_view(rest).substr(0, length)));
    rest.erase(0, std::min(length, rest.size()));
  }
  if (std::string_view(kind.importer) == "vexact") inputs = {dir / "d"};
  if (kind.importer[0] == '\0') {
    ReadDump(inputs);
  } else {
    Import(kind, how, dir, inputs);
  }
  dir.Empty();
  return 0;
}
