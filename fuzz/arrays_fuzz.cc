// The same evidence as arrays and as a pair of traces: both give the same summary, but for its
// sources, or both refuse it. The bytes choose shapes and numbers, broken ones among them.
//
// Left out, since the two differ there by design: tokens that are not known (-1), rows of a prompt,
// broken numbers in rows that the mask leaves out, which a trace does not store, and masked rows of
// an answer whose length is not recorded, which may be padding in arrays.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "fuzz/bytes.h"
#include "fuzz/scratch_dir.h"
#include "kcc/base/check.h"
#include "kcc/contract/reader.h"
#include "kcc/measure/measure_arrays.h"
#include "kcc/summary/file.h"
#include "kcc/trace/pairing.h"
#include "kcc/trace/writer.h"

namespace {

using kcc::Bytes;

kcc::Plan MakePlan() {
  const kcc::ReadOutcome read = kcc::ReadContract(R"(
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: arrays, version: 1.0.0}
spec:
  slices:
    - {name: even, where: "'even' in tags"}
    - {name: late, where: "token.position >= 2"}
  numerical:
    - {id: N-1, metric: p99_abs_log_ratio, atMost: 0.05, slices: [all, even, late], level: L3}
    - {id: N-2, metric: mean_kl, atMost: 0.01, exceedance: 10%, window: request, level: L2}
  statistical:
    - {id: S-1, metric: ece_gap, atMost: 0.5, level: L2}
)");
  KCC_CHECK(read.contract.has_value());
  return kcc::Plan::FromContract(*read.contract);
}

struct Evidence {
  kcc::EvidenceLevel level = kcc::EvidenceLevel::kLogits;
  int64_t vocab_size = 4;
  double temperature = 1;
  kcc::SampledBy sampled_by = kcc::SampledBy::kInfer;
  bool masked = false, advantaged = false;
  std::vector<kcc::Request> requests;
  std::vector<int64_t> first_rows, row_counts;
  std::vector<int32_t> positions, tokens;
  std::vector<uint8_t> mask;
  std::vector<float> advantages;
  std::array<std::vector<float>, 2> logits, logprobs;  // by side

  explicit Evidence(Bytes& bytes) {
    constexpr double kTemperatures[] = {1, 0.5, 2};
    constexpr kcc::SampledBy kSampledBy[] = {kcc::SampledBy::kInfer, kcc::SampledBy::kTrain,
                                             kcc::SampledBy::kDataset};
    if (bytes.Odds(2)) level = kcc::EvidenceLevel::kSampledToken;
    vocab_size = 1 + bytes.Small(6);
    temperature = kTemperatures[bytes.Small(3)];
    sampled_by = kSampledBy[bytes.Small(3)];
    masked = bytes.Odds(2);
    advantaged = bytes.Odds(2);
    const int64_t count = 1 + bytes.Small(4);
    for (int64_t r = 0; r < count; ++r) AddRequest(bytes, r);
  }

  void AddRequest(Bytes& bytes, int64_t r) {
    kcc::Request request;
    request.id = std::string(1, static_cast<char>('a' + r));
    if (bytes.Odds(2)) request.fields["tags"] = std::vector<std::string>{"even"};
    const int64_t rows = bytes.Small(5);
    const bool claims = bytes.Odds(3);
    const int64_t claimed = claims ? bytes.Small(7) : 0;
    if (claims || masked) {
      request.fields["output_tokens"] =
          static_cast<double>(masked ? std::max(claimed, rows) : claimed);
    }
    requests.push_back(std::move(request));
    first_rows.push_back(static_cast<int64_t>(tokens.size()));
    row_counts.push_back(rows);
    int32_t position = 0;
    for (int64_t i = 0; i < rows; ++i) {
      positions.push_back(position);
      position += bytes.Odds(16) ? static_cast<int32_t>(bytes.Small(5)) - 2 : 1;
      AddRow(bytes);
    }
  }

  void AddRow(Bytes& bytes) {
    const bool counts = !masked || !bytes.Odds(4);
    mask.push_back(counts ? 1 : 0);
    const int64_t most = counts && bytes.Odds(16) ? vocab_size + 2 : vocab_size;
    tokens.push_back(static_cast<int32_t>(bytes.Small(most)));
    advantages.push_back(counts ? bytes.Number() : 0.5f);
    for (size_t side = 0; side < 2; ++side) {
      const float logprob = bytes.Number();
      logprobs[side].push_back(counts ? logprob : -1.0f);
      if (level != kcc::EvidenceLevel::kLogits) continue;
      for (int64_t v = 0; v < vocab_size; ++v) {
        const float logit = bytes.Number();
        logits[side].push_back(counts ? logit : static_cast<float>(v));
      }
    }
  }
};

kcc::Result<> WriteTrace(const Evidence& evidence, size_t side, const std::string& path) {
  kcc::TraceInfo info;
  info.kernel_fingerprint = side == 0 ? "train" : "infer";
  info.vocab_size = evidence.vocab_size;
  info.evidence = evidence.level;
  info.temperature = evidence.temperature;
  if (evidence.level == kcc::EvidenceLevel::kSampledToken) {
    info.semantics = kcc::LogprobSemantics::kTemperatureScaled;
  }
  info.sampled_by = evidence.sampled_by;
  if (info.sampled_by != kcc::SampledBy::kDataset) {
    info.sampling_temperature = evidence.temperature;
  }
  kcc::TraceWriter::Options options;
  options.scratch = true;
  options.mask = evidence.masked;
  options.advantage = evidence.advantaged;
  KCC_TRY(kcc::TraceWriter writer, kcc::TraceWriter::Create(path, info, options));
  for (size_t r = 0; r < evidence.requests.size(); ++r) {
    KCC_TRY(const int32_t row_of_request, writer.AddRequest(evidence.requests[r]));
    for (int64_t i = 0; i < evidence.row_counts[r]; ++i) {
      const auto row = static_cast<size_t>(evidence.first_rows[r] + i);
      kcc::TokenEvidence token;
      token.request = row_of_request;
      token.position = evidence.positions[row];
      token.token = evidence.tokens[row];
      token.masked = evidence.mask[row] == 0;
      if (evidence.advantaged) token.advantage = evidence.advantages[row];
      if (evidence.level == kcc::EvidenceLevel::kLogits) {
        token.logits =
            evidence.logits[side].data() + row * static_cast<size_t>(evidence.vocab_size);
      } else {
        token.logprob = evidence.logprobs[side][row];
      }
      KCC_TRY_VOID(writer.AddToken(token));
    }
  }
  return writer.Finish();
}

kcc::Result<kcc::Summary> ByTraces(const Evidence& evidence, const kcc::Plan& plan) {
  static const kcc::FuzzDir dir;
  dir.Empty();
  for (size_t side = 0; side < 2; ++side) {
    KCC_TRY_VOID(WriteTrace(evidence, side, dir / (side == 0 ? "train" : "infer")));
  }
  KCC_TRY(kcc::TraceReader train, kcc::TraceReader::Open(dir / "train"));
  KCC_TRY(kcc::TraceReader infer, kcc::TraceReader::Open(dir / "infer"));
  KCC_TRY(const auto pair, kcc::PairedTraces::Make(std::move(train), std::move(infer)));
  return kcc::Measure(pair, plan);
}

kcc::Result<kcc::Summary> ByArrays(const Evidence& evidence, const kcc::Plan& plan) {
  kcc::ArrayPair pair;
  const auto side = [&](size_t i) {
    kcc::ArraySide made;
    if (evidence.level == kcc::EvidenceLevel::kLogits) {
      made.logits = evidence.logits[i].data();
    } else {
      made.logprobs = evidence.logprobs[i].data();
    }
    made.fingerprint = i == 0 ? "train" : "infer";
    return made;
  };
  pair.train = side(0);
  pair.infer = side(1);
  pair.requests = evidence.requests;
  pair.first_rows = evidence.first_rows;
  pair.row_counts = evidence.row_counts;
  pair.positions = evidence.positions;
  pair.tokens = evidence.tokens;
  if (evidence.masked) pair.mask = evidence.mask;
  if (evidence.advantaged) pair.advantages = evidence.advantages;
  pair.vocab_size = evidence.vocab_size;
  pair.temperature = evidence.temperature;
  pair.sampled_by = evidence.sampled_by;
  return kcc::MeasureArrays(pair, plan);
}

[[noreturn]] void Differ(const char* what, const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", what, why.c_str());
  __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const kcc::Plan plan = MakePlan();
  Bytes bytes(data, size);
  const Evidence evidence(bytes);
  if (evidence.tokens.empty()) return 0;  // no trace without a row
  kcc::Result<kcc::Summary> arrays = ByArrays(evidence, plan);
  kcc::Result<kcc::Summary> traces = ByTraces(evidence, plan);
  if (arrays.has_value() != traces.has_value()) {
    Differ(arrays ? "only the traces refuse" : "only the arrays refuse",
           arrays ? traces.error().Format() : arrays.error().Format());
  }
  if (!arrays) return 0;
  KCC_CHECK(arrays->sources[0].tokens == traces->sources[0].tokens);
  KCC_CHECK(arrays->sources[0].manifest == traces->sources[0].manifest);
  traces->sources = arrays->sources;
  if (kcc::EncodeSummary(*arrays) != kcc::EncodeSummary(*traces)) Differ("other bytes", "");
  return 0;
}
