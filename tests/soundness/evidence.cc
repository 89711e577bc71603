#include "tests/soundness/evidence.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "kcc/trace/requests.h"
#include "kcc/trace/writer.h"

namespace kcc::soundness {
namespace {

using Texts = std::vector<std::string>;

// Who says a field of a request.
struct Presence {
  bool train = true;
  bool infer = true;
};

Presence DrawPresence(Dice* dice, const EvidenceOptions& options) {
  if (options.one_request) return dice->Chance(0.85) ? Presence{} : Presence{false, false};
  const int draw = dice->Below(10);
  return {draw != 0 && draw != 1, draw != 0 && draw != 2};
}

void SetField(const std::string& field, const RequestValue& of_train, const RequestValue& of_infer,
              Presence presence, size_t r, Evidence* evidence) {
  if (presence.train) evidence->train.requests[r].fields[field] = of_train;
  if (presence.infer) evidence->infer.requests[r].fields[field] = of_infer;
}

void AddRequestFields(Dice* dice, const EvidenceOptions& options, Evidence* evidence) {
  const size_t count = evidence->train.requests.size();
  // Of a field that a side lacks, it may lack a few only; and of some requests nobody may say it.
  const auto each = [&](const std::string& field, auto draw) {
    const Presence presence = DrawPresence(dice, options);
    const bool partly = !options.one_request && dice->Chance(0.3);
    const Presence otherwise = dice->Chance(0.5) ? Presence{} : Presence{false, false};
    for (size_t r = 0; r < count; ++r) {
      const bool here = !partly || dice->Chance(0.5);
      const RequestValue value = draw(r);
      SetField(field, value, value, here ? presence : otherwise, r, evidence);
    }
  };
  each("tags", [&](size_t) -> RequestValue {
    return dice->Pick(std::vector<Texts>{{"a"}, {"b"}, {"a", "b"}, {}});
  });
  each("team", [&](size_t) -> RequestValue { return dice->Pick(Texts{"red", "blue"}); });
  each("tier", [&](size_t) -> RequestValue { return static_cast<double>(dice->Below(3)); });
  each("replay_group", [&](size_t) -> RequestValue { return dice->Pick(Texts{"g", "h", "i"}); });
  // Both sides were asked at the same time and in the same order.
  std::vector<double> order(count);
  std::iota(order.begin(), order.end(), 0.0);
  if (dice->Chance(0.5)) dice->Shuffle(&order);
  each("ordinal", [&](size_t r) -> RequestValue { return order[r]; });
  each("started_at_ms", [&](size_t r) -> RequestValue { return 700 * order[r]; });
}

void AddOutcomes(Dice* dice, const EvidenceOptions& options, Evidence* evidence) {
  const auto each = [&](const std::string& field, auto draw) {
    const Presence presence = DrawPresence(dice, options);
    for (size_t r = 0; r < evidence->train.requests.size(); ++r) {
      const RequestValue of_train = draw();
      const RequestValue of_infer = options.one_request ? of_train : draw();
      SetField(field, of_train, of_infer, presence, r, evidence);
    }
  };
  each("latency_ms", [&]() -> RequestValue { return static_cast<double>(dice->From(5, 40)) * 10; });
  each("ttft_ms", [&]() -> RequestValue { return static_cast<double>(dice->From(1, 40)); });
  each("reward", [&]() -> RequestValue { return static_cast<double>(dice->Below(5)) / 4; });
  for (const char* flag : {"refused", "parsed", "failed"}) {
    const double often = dice->Pick(std::vector<double>{0.1, 0.5});
    each(flag, [&]() -> RequestValue { return dice->Chance(often); });
  }
  // Some were given up; a time beside the flag is how long somebody waited.
  if (dice->Chance(0.3)) each("timed_out", [&]() -> RequestValue { return dice->Chance(0.2); });
  each("replay_signature", [&]() -> RequestValue { return dice->Pick(Texts{"s", "t"}); });
  each("peak_memory_mb", [&]() -> RequestValue { return static_cast<double>(dice->From(1, 9)); });
}

// The tokens of a request and both sides' logits about them.
void AddRows(Dice* dice, const EvidenceOptions& options, size_t r, Evidence* evidence) {
  const auto vocab = static_cast<int>(evidence->train.info.vocab_size);
  const int prompt = dice->From(1, 3);
  const int output = dice->From(1, 5);
  const int first = dice->Chance(0.2) && !options.one_request ? 1 : prompt;
  // A few bad requests among good ones: who drops them looks good.
  const double drift = dice->Pick(std::vector<double>{0, 0.01, 0.05, 0.3, 1}) * options.drift_max;
  for (int position = first; position < prompt + output; ++position) {
    Row train;
    train.request = static_cast<int32_t>(r);
    train.position = position;
    train.token = dice->Below(vocab);
    for (int v = 0; v < vocab; ++v) train.logits.push_back(static_cast<float>(2 * dice->Normal()));
    train.advantage = dice->Chance(0.8) ? static_cast<float>(dice->Normal()) : train.advantage;
    train.gold = dice->Chance(0.8) ? dice->Below(vocab) : -1;
    train.masked = dice->Chance(0.2);
    Row infer = train;
    for (float& logit : infer.logits) logit += static_cast<float>(drift * dice->Normal());
    evidence->train.rows.push_back(std::move(train));
    evidence->infer.rows.push_back(std::move(infer));
  }
  // A claim that the rows do not meet is missing evidence; some do not say it at all.
  const int claim = output + (!options.one_request && dice->Chance(0.1) ? dice->From(1, 2) : 0);
  const Presence says = options.one_request ? Presence{} : DrawPresence(dice, options);
  SetField("output_tokens", static_cast<double>(claim), static_cast<double>(claim), says, r,
           evidence);
  const bool train_says = first == prompt || dice->Chance(0.9);
  SetField("prompt_tokens", static_cast<double>(prompt), static_cast<double>(prompt),
           {train_says, dice->Chance(0.9) || options.one_request}, r, evidence);
}

void FillLists(SideEvidence* side, int k) {
  for (Row& row : side->rows) {
    const std::vector<double> logprobs = LogSoftmax(row.logits, 1);
    row.top_ids.resize(logprobs.size());
    std::iota(row.top_ids.begin(), row.top_ids.end(), 0);
    std::stable_sort(row.top_ids.begin(), row.top_ids.end(), [&](int32_t a, int32_t b) {
      return logprobs[static_cast<size_t>(a)] > logprobs[static_cast<size_t>(b)];
    });
    row.top_ids.resize(static_cast<size_t>(k));
    row.top_logprobs.clear();
    for (const int32_t id : row.top_ids) {
      row.top_logprobs.push_back(static_cast<float>(logprobs[static_cast<size_t>(id)]));
    }
  }
}

void FillLogprobs(SideEvidence* side, double temperature) {
  for (Row& row : side->rows) {
    row.logprob =
        static_cast<float>(LogSoftmax(row.logits, temperature)[static_cast<size_t>(row.token)]);
  }
}

}  // namespace

double Dice::Normal() {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += Real();
  return sum;
}

std::vector<double> LogSoftmax(const std::vector<float>& logits, double temperature) {
  const double top = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits)
    sum += std::exp((static_cast<double>(logit) - top) / temperature);
  std::vector<double> logprobs;
  for (const float logit : logits) {
    logprobs.push_back((static_cast<double>(logit) - top) / temperature - std::log(sum));
  }
  return logprobs;
}

Evidence MakeEvidence(Dice* dice, const EvidenceOptions& options) {
  Evidence evidence;
  TraceInfo& info = evidence.train.info;
  info.kernel_fingerprint = "train-kernel";
  info.vocab_size = dice->From(3, 8);
  if (dice->Chance(0.5)) info.model_digest = kModelDigest;
  if (dice->Chance(0.5)) info.declares["engine"] = "one";
  info.sampled_by = dice->Chance(0.3) ? SampledBy::kInfer : SampledBy::kDataset;
  const double temperature = dice->Chance(0.3) ? 0.7 : 1.0;
  const int level = options.logits_only ? 9 : dice->Below(10);
  info.evidence = level < 2   ? EvidenceLevel::kSampledToken
                  : level < 4 ? EvidenceLevel::kTopK
                              : EvidenceLevel::kLogits;
  if (!options.logits_only && dice->Chance(0.1)) {
    info.mode = TraceMode::kGenerated;
    info.evidence = EvidenceLevel::kNone;
  }
  SetTemperatures(temperature, &info);
  const int requests = dice->Chance(0.1) ? dice->From(20, 40) : dice->From(2, 7);
  for (int r = 0; r < requests; ++r) {
    for (SideEvidence* side : {&evidence.train, &evidence.infer}) {
      side->requests.push_back({"r" + std::to_string(r), {}});
    }
    AddRows(dice, options, static_cast<size_t>(r), &evidence);
  }
  AddRequestFields(dice, options, &evidence);
  AddOutcomes(dice, options, &evidence);
  const auto column = [&](bool SideEvidence::*which, double often) {
    const Presence presence = DrawPresence(dice, options);
    if (!dice->Chance(often)) return;
    evidence.train.*which = presence.train;
    evidence.infer.*which = presence.infer;
  };
  column(&SideEvidence::mask, 0.3);
  column(&SideEvidence::gold, 0.5);
  column(&SideEvidence::advantage, 0.5);
  evidence.infer.info = info;
  evidence.infer.info.kernel_fingerprint = "infer-kernel";
  evidence.infer.info.path = TracePath::kDecode;
  const int k = dice->From(1, static_cast<int>(info.vocab_size));
  for (SideEvidence* side : {&evidence.train, &evidence.infer}) {
    const bool logits = info.evidence == EvidenceLevel::kLogits;
    // Beside raw logits stand raw log-probs, at 1.
    if (!logits || dice->Chance(0.5)) FillLogprobs(side, 1);
    if (info.evidence == EvidenceLevel::kTopK) FillLists(side, k);
    if (!logits) {
      for (Row& row : side->rows) row.logits.clear();
    }
    if (info.mode == TraceMode::kGenerated) side->rows.clear();
  }
  return evidence;
}

Result<> WriteSide(const SideEvidence& side, const std::string& directory) {
  TraceInfo info = side.info;
  info.format = kTraceFormat;
  info.requests = static_cast<int64_t>(side.requests.size());
  info.tokens = static_cast<int64_t>(side.rows.size());
  TraceWriter::Options options;
  options.scratch = options.replace = true;
  options.advantage = side.advantage;
  options.mask = side.mask;
  options.gold = side.gold;
  int64_t row_bytes = 32;
  for (const Row& row : side.rows) {
    options.logprob |= !std::isnan(row.logprob);
    options.top_k = std::max(options.top_k, static_cast<int32_t>(row.top_ids.size()));
    options.logits_width = std::max(options.logits_width, static_cast<int64_t>(row.logits.size()));
  }
  row_bytes += 4 * options.logits_width;
  options.file_bytes_max =
      side.rows_a_file > (int64_t{1} << 20) ? int64_t{4} << 30 : side.rows_a_file * row_bytes;
  // The writer holds metadata to what the rows are; what the trace says of itself is put in its
  // place afterwards.
  TraceInfo shape = info;
  shape.vocab_size = std::max<int64_t>(info.vocab_size, 16);
  if (options.logits_width > 0) shape.vocab_size = options.logits_width;
  shape.semantics = LogprobSemantics::kRaw;
  shape.temperature = 1;
  shape.mode = TraceMode::kScored;
  shape.evidence = options.logits_width > 0 ? EvidenceLevel::kLogits
                   : options.top_k > 0      ? EvidenceLevel::kTopK
                   : options.logprob        ? EvidenceLevel::kSampledToken
                                            : EvidenceLevel::kNone;
  KCC_TRY(TraceWriter writer, TraceWriter::Create(directory, shape, options));
  for (size_t r = 0; r < side.requests.size(); ++r) {
    KCC_TRY(const int32_t row, writer.AddRequest({"r" + std::to_string(r), {}}));
    (void)row;
  }
  for (const Row& row : side.rows) {
    TokenEvidence token;
    token.request = row.request;
    token.position = row.position;
    token.token = row.token;
    if (!row.logits.empty()) token.logits = row.logits.data();
    if (!row.top_ids.empty()) {
      token.top_ids = row.top_ids.data();
      token.top_logprobs = row.top_logprobs.data();
      token.top_k = static_cast<int32_t>(row.top_ids.size());
    }
    token.logprob = static_cast<double>(row.logprob);
    token.advantage = row.advantage;
    token.masked = side.mask && row.masked;
    token.gold = row.gold;
    KCC_TRY_VOID(writer.AddToken(token));
  }
  KCC_TRY_VOID(writer.Finish());
  info.format = side.info.format;
  std::ofstream(directory + "/trace.json", std::ios::trunc) << TraceInfoJson(info);
  std::ofstream lines(directory + "/requests.jsonl", std::ios::trunc);
  for (const Request& request : side.requests) lines << RequestJson(request) << "\n";
  return {};
}

MemoryDir::MemoryDir() {
  const char* base = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
  static int count = 0;
  path_ = std::string(base) + "/kcc-soundness-" + std::to_string(::getpid()) + "-" +
          std::to_string(count++);
  std::filesystem::create_directories(path_);
}

MemoryDir::~MemoryDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace kcc::soundness
