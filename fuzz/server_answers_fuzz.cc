// Any bytes as the body of a server's answer; the first byte chooses the dialect, its path and what
// was asked. It ends in an error with words, or in log-probs of exactly the tokens that were asked,
// which make a trace or an error that leaves nothing behind.
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/kernel/server_identity.h"
#include "kcc/kernel/server_probe.h"
#include "kcc/kernel/server_table.h"
#include "kcc/kernel/server_trace.h"
#include "kcc/trace/reader.h"

namespace {

constexpr int64_t kVocabSize = 64;
const std::vector<int32_t> kTokens = {5, 17, 40, 9, 33};
constexpr int32_t kPromptTokens = 2;

template <class T>
bool Refused(const kcc::Result<T>& answer) {
  if (answer.has_value()) return false;
  KCC_CHECK(!answer.error().message().empty());
  return true;
}

void WriteTrace(const kcc::ServerFacts& facts, const kcc::ScoreAnswer& answer, bool mask_missing) {
  kcc::KernelInfo info;
  info.fingerprint = "fuzz";
  info.vocab_size = kVocabSize;
  info.evidence = facts.path->logits ? kcc::EvidenceLevel::kLogits : kcc::EvidenceLevel::kTopK;
  kcc::ServerTrace trace;
  trace.info = kcc::TraceInfoOf(info);
  trace.top = info.evidence == kcc::EvidenceLevel::kTopK ? 3 : 0;
  trace.mask_missing = mask_missing;
  kcc::KernelRequest request;
  request.request.id = "a";
  request.tokens = kTokens;
  request.prompt_tokens = kPromptTokens;
  static const std::string scratch =
      (std::filesystem::temp_directory_path() / ("kcc-fuzz-server-" + std::to_string(::getpid())))
          .string();
  std::filesystem::create_directories(scratch);
  const std::string path = scratch + "/trace";
  if (!Refused(kcc::WriteServerTrace(trace, std::span(&request, 1), std::span(&answer, 1), path))) {
    const auto reader = kcc::TraceReader::Open(path);
    KCC_CHECK(reader.has_value() && reader->VerifyPayload().has_value());
    std::filesystem::remove_all(path);
  }
  KCC_CHECK(std::filesystem::is_empty(scratch));
  std::filesystem::remove(scratch);
}

void Score(const kcc::ServerFacts& facts, const std::string& body, bool mask_missing) {
  kcc::ScoreAsk ask;
  ask.tokens = kTokens;
  ask.prompt_tokens = kPromptTokens;
  ask.top = 3;
  if (facts.path->holds_back != nullptr) (void)facts.path->holds_back(body);
  const std::vector<kcc::ScoreAsk> parts = kcc::SplitAsk(facts, ask);
  const auto answer = kcc::ReadScore(facts, parts[0], body);
  if (Refused(answer)) return;
  KCC_CHECK(answer->tokens.size() == parts[0].Continuation().size());
  for (size_t i = 0; i < answer->tokens.size(); ++i) {
    KCC_CHECK(answer->tokens[i].token == kTokens[kPromptTokens + i]);
  }
  kcc::ProbeAnswers probe;
  for (const kcc::ImportedToken& token : answer->tokens) {
    probe.plain.push_back(kcc::ProbeList(token));
  }
  probe.heated = probe.plain;
  probe.other = probe.plain;
  Refused(kcc::FindSemantics(probe));
  if (parts.size() == 1) WriteTrace(facts, *answer, mask_missing);
}

void Generate(const kcc::ServerFacts& facts, const std::string& body) {
  kcc::GenerateAsk ask;
  ask.prompt = std::span(kTokens).first(kPromptTokens);
  ask.top = 3;
  ask.sampling.output_tokens_max = 4;
  const auto answer = kcc::ReadGenerated(facts, ask, body);
  if (Refused(answer)) return;
  for (size_t i = 0; i < answer->tokens.size(); ++i) {
    KCC_CHECK(answer->tokens[i].position == kPromptTokens + static_cast<int64_t>(i));
    KCC_CHECK(answer->tokens[i].token >= 0 && answer->tokens[i].token < kVocabSize);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string body(reinterpret_cast<const char*>(data) + 1, size - 1);
  kcc::ServerFacts facts;
  facts.server = kcc::kServers[data[0] % kcc::kServers.size()];
  facts.model = "m";
  facts.vocab_size = kVocabSize;
  facts.end = {2};
  const auto asked = (data[0] & 4) != 0 ? kcc::TracePath::kDecode : kcc::TracePath::kPrefill;
  const auto path = kcc::ChoosePath(*facts.server, asked);
  facts.path = path.has_value() ? *path : facts.server->paths.data();
  switch ((data[0] >> 3) % 3) {
    case 0:
      Score(facts, body, (data[0] & 0x20) != 0);
      break;
    case 1:
      Generate(facts, body);
      break;
    default: {
      kcc::ServerFacts found;
      if (Refused(kcc::ReadModelList(body, (data[0] & 0x20) != 0 ? "m" : "", &found))) break;
      KCC_CHECK(found.vocab_size >= 0 && found.vocab_size <= kcc::kVocabSizeMax);
    }
  }
  return 0;
}
