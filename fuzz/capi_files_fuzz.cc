// The half of the C interface that reads and writes files, and every function with NULL. The input
// is a contract, a summary, or what happens to one file of a pair of traces whose others are whole.
// Every call must return, leave its output alone where it fails, and say why; a fault of kcc itself
// (KCC_INTERNAL) is a finding.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/bytes.h"
#include "fuzz/capi_nulls.h"
#include "include/kcc.h"
#include "kcc/base/sha256.h"
#include "kcc/report/report_formats.h"
#include "kcc/trace/writer.h"

using kcc::Bytes;

namespace {

constexpr char kContract[] =
    "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: f, version: 1.0.0}\nspec:\n"
    "  slices:\n    - {name: math, where: \"'math' in tags\"}\n"
    "  numerical:\n    - {id: N-1, metric: mean_abs_log_ratio, atMost: 0.02, level: L3}\n"
    "    - {id: N-2, metric: p99_kl, atMost: 0.02, slices: [all, math], level: L3}\n"
    "  statistical:\n    - {id: S-1, metric: ece_gap, atMost: 0.5, level: L2}\n";

// A promise of the interface does not hold.
[[noreturn]] void Broken(const char* what) {
  std::fprintf(stderr, "%s; last error: %s\n", what, kcc_error());
  __builtin_trap();
}

void CheckStatus(kcc_status status) {
  if (status == KCC_INTERNAL) Broken("a fault of kcc itself");
  if (status != KCC_OK && *kcc_error() == '\0') Broken("a failure without words");
}

char nowhere = 0;  // its address stands in outputs that nobody has written yet

// The handle that call(out) makes; NULL where it fails.
template <class Handle, class Call>
Handle* Made(Call call) {
  auto* const before = reinterpret_cast<Handle*>(&nowhere);
  Handle* out = before;
  const kcc_status status = call(&out);
  CheckStatus(status);
  if ((status == KCC_OK) == (out == before)) Broken("an output and its status disagree");
  return status == KCC_OK ? out : nullptr;
}

// The text that call(out) gives.
template <class Call>
std::optional<std::string> Text(Call call) {
  kcc_text out{&nowhere, 1};
  const kcc_status status = call(&out);
  CheckStatus(status);
  if ((status == KCC_OK) == (out.data == &nowhere)) Broken("a text and its status disagree");
  if (status != KCC_OK) return std::nullopt;
  if (out.data[out.size] != '\0') Broken("a text without its end");
  std::string text(out.data, out.size);
  kcc_text_free(&out);
  return text;
}

template <class Call>
std::string NeededText(Call call) {
  std::optional<std::string> text = Text(call);
  if (!text) Broken("a call that must succeed failed");
  return *std::move(text);
}

// Private to the process, removed at its end.
class Folder {
 public:
  Folder() {
    std::string path = (std::filesystem::temp_directory_path() / "kcc-fuzz-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) Broken("no temporary directory");
    path_ = path;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

const Folder& Scratch() {
  static const Folder folder;
  return folder;
}

void Put(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}

std::string Get(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// ---- Whole evidence --------------------------------------------------------------------------

constexpr kcc::EvidenceLevel kLevels[] = {kcc::EvidenceLevel::kLogits, kcc::EvidenceLevel::kTopK,
                                          kcc::EvidenceLevel::kSampledToken};
constexpr const char* kFiles[] = {"trace.json", "requests.jsonl", "tokens-00000.safetensors"};

void WriteTrace(const std::string& path, kcc::EvidenceLevel level, float shift) {
  kcc::TraceInfo info;
  info.kernel_fingerprint = "fuzz";
  info.vocab_size = 4;
  info.evidence = level;
  kcc::TraceWriter::Options options;
  options.scratch = true;
  options.top_k = level == kcc::EvidenceLevel::kTopK ? 2 : 0;
  options.logprob = options.advantage = options.mask = options.gold = true;
  auto writer = kcc::TraceWriter::Create(path, info, options);
  if (!writer) Broken(writer.error().message().c_str());
  for (int32_t r = 0; r < 3; ++r) {
    kcc::Request request;
    request.id = std::to_string(r);
    request.fields["tags"] = std::vector<std::string>{r == 0 ? "math" : "code"};
    if (!writer->AddRequest(request)) Broken("a request was refused");
    for (int32_t position = 1; position < 4; ++position) {
      const float logits[] = {1.0f + shift, 0.5f, -0.5f, shift};
      const float top[] = {-0.5f - shift, -1.25f};
      const int32_t ids[] = {0, 1};
      kcc::TokenEvidence token;
      token.request = r;
      token.position = position;
      token.token = r % 2;
      if (level == kcc::EvidenceLevel::kLogits) token.logits = logits;
      if (level == kcc::EvidenceLevel::kTopK) {
        token.top_ids = ids;
        token.top_logprobs = top;
        token.top_k = 2;
      }
      token.logprob = top[r % 2];
      token.advantage = 0.5f;
      token.gold = 1;
      const auto added = writer->AddToken(token);
      if (!added) Broken(added.error().message().c_str());
    }
  }
  const auto finished = writer->Finish();
  if (!finished) Broken(finished.error().message().c_str());
}

struct Whole {
  kcc_contract* contract = nullptr;
  kcc_summary* summary = nullptr;
  std::vector<std::string> files[3][2];  // by evidence level and side

  Whole() {
    contract = Made<kcc_contract>([](kcc_contract** out) {
      return kcc_contract_parse(kContract, sizeof kContract - 1, "whole", out);
    });
    for (size_t level = 0; level < 3; ++level) {
      for (size_t side = 0; side < 2; ++side) {
        const std::string path =
            Scratch() / ("whole" + std::to_string(level) + std::to_string(side));
        WriteTrace(path, kLevels[level], side == 0 ? 0.0f : 0.125f);
        for (const char* name : kFiles) files[level][side].push_back(Get(path + "/" + name));
      }
    }
    summary = Made<kcc_summary>([this](kcc_summary** out) {
      return kcc_measure_traces((Scratch() / "whole00").c_str(), (Scratch() / "whole01").c_str(),
                                contract, 1, out);
    });
    if (contract == nullptr || summary == nullptr) Broken("whole evidence was refused");
  }
  ~Whole() {
    kcc_summary_free(summary);
    kcc_contract_free(contract);
  }
};

// ---- What is done with what was read -----------------------------------------------------------

void Judge(const kcc_contract* contract, const kcc_summary* summary, uint8_t how) {
  const auto formats = kcc::ReportFormats();
  constexpr const char* kStages[] = {nullptr, "offline", "shadow", "canary", "full"};
  constexpr const char* kAbouts[] = {nullptr, "evaluation-set", "traffic"};
  const auto judged = [&](const char* stage, const char* about, const char* format) {
    return [=](kcc_text* out) { return kcc_judge(contract, summary, stage, about, format, out); };
  };
  NeededText(judged(kStages[how % 5], kAbouts[how % 3], formats[how % formats.size()].name.data()));
  if (Text(judged("never", nullptr, "json")) || Text(judged(nullptr, "us", "json")) ||
      Text(judged(nullptr, nullptr, "pdf"))) {
    Broken("a word that does not exist was accepted");
  }
}

std::string Encoded(const kcc_summary* summary) {
  return NeededText([&](kcc_text* out) { return kcc_summary_encode(summary, out); });
}

// Written, read and encoded again it is the same; what cannot be merged changes nothing.
void UseSummary(const Whole& whole, kcc_summary* summary, uint8_t how) {
  if (kcc_summary_tokens(summary) < 0 || kcc_summary_requests(summary) < 0) Broken("a count");
  const std::string bytes = Encoded(summary);
  const std::string path = Scratch() / "written.kccs";
  if (kcc_summary_write(summary, path.c_str()) != KCC_OK) Broken("a summary was not written");
  kcc_summary* again =
      Made<kcc_summary>([&](kcc_summary** out) { return kcc_summary_read(path.c_str(), out); });
  if (again == nullptr || Get(path) != bytes || Encoded(again) != bytes) Broken("other bytes");
  const kcc_status merged = kcc_summary_merge(again, whole.summary);
  CheckStatus(merged);
  if (merged != KCC_OK && Encoded(again) != bytes) Broken("a failed merge changed its target");
  kcc_summary_free(again);
  CheckStatus(kcc_summary_merge(summary, summary));
  CheckStatus(kcc_summary_write(summary, (Scratch() / "no such/s.kccs").c_str()));
  Judge(whole.contract, summary, how);
}

void Contract(const Whole& whole, uint8_t how, const std::string& text) {
  const std::string path = Scratch() / "contract.yaml";
  Put(path, text);
  const auto parse = [&](kcc_contract** out) {
    return kcc_contract_parse(text.data(), text.size(), how % 2 == 0 ? nullptr : "fuzz", out);
  };
  const auto read = [&](kcc_contract** out) { return kcc_contract_read(path.c_str(), out); };
  kcc_contract* parsed = Made<kcc_contract>(parse);
  kcc_contract* from_file = Made<kcc_contract>(read);
  if ((parsed == nullptr) != (from_file == nullptr)) Broken("a file and its bytes disagree");
  const std::string said = NeededText(
      [&](kcc_text* out) { return kcc_contract_check(text.data(), text.size(), nullptr, out); });
  if ((said.find("\"valid\": true") != std::string::npos) != (parsed != nullptr)) {
    Broken("checking and parsing disagree");
  }
  if (parsed != nullptr) {
    const auto json = [](const kcc_contract* from) {
      return NeededText([=](kcc_text* out) { return kcc_contract_json(from, out); });
    };
    if (json(parsed) != json(from_file)) Broken("a file and its bytes disagree");
    Judge(parsed, whole.summary, how);
    kcc_summary_free(Made<kcc_summary>([&](kcc_summary** out) {
      return kcc_measure_traces((Scratch() / "whole10").c_str(), (Scratch() / "whole11").c_str(),
                                parsed, 1, out);
    }));
  }
  kcc_contract_free(parsed);
  kcc_contract_free(from_file);
}

// Sealed: behind the checksum, where only a fuzzer that computes it gets.
void Summary(const Whole& whole, uint8_t how, std::string bytes) {
  if (how % 4 != 0) {
    bytes.insert(0, "KCCSUM1\n");
    bytes += kcc::Sha256Of(bytes).substr(how % 4 == 1 ? sizeof "sha256:" - 1 : 0);
  }
  const std::string path = Scratch() / "read.kccs";
  Put(path, bytes);
  kcc_summary* decoded = Made<kcc_summary>(
      [&](kcc_summary** out) { return kcc_summary_decode(bytes.data(), bytes.size(), out); });
  kcc_summary* from_file =
      Made<kcc_summary>([&](kcc_summary** out) { return kcc_summary_read(path.c_str(), out); });
  if ((decoded == nullptr) != (from_file == nullptr)) Broken("a file and its bytes disagree");
  if (decoded != nullptr) UseSummary(whole, decoded, how);
  kcc_summary_free(decoded);
  kcc_summary_free(from_file);
}

// One file is replaced, cut off, changed, gone, a directory, or has bytes put into it.
void Damage(const std::string& path, const std::string& whole, Bytes& bytes) {
  std::string text = whole;
  switch (bytes.Byte() % 6) {
    case 0:
      text = bytes.Rest();
      break;
    case 1:
      text.resize(bytes.Below(text.size()));
      break;
    case 2:
      while (bytes.Left()) {
        const size_t at = bytes.Below(text.size());
        text[at] = static_cast<char>(bytes.Byte());
      }
      break;
    case 3:
      return;
    case 4:
      std::filesystem::create_directory(path);
      return;
    default: {
      const size_t at = bytes.Below(text.size());
      text.insert(at, bytes.Rest());
    }
  }
  Put(path, text);
}

void Traces(const Whole& whole, uint8_t how, Bytes& bytes) {
  const auto& files = whole.files[how % 3];
  const size_t victim = bytes.Byte() % 6;
  const std::string sides[] = {Scratch() / "train", Scratch() / "infer"};
  for (size_t side = 0; side < 2; ++side) {
    std::filesystem::remove_all(sides[side]);
    std::filesystem::create_directory(sides[side]);
    for (size_t f = 0; f < 3; ++f) {
      const std::string path = sides[side] + "/" + kFiles[f];
      if (side * 3 + f == victim) {
        Damage(path, files[side][f], bytes);
      } else {
        Put(path, files[side][f]);
      }
    }
  }
  kcc_summary* summary = Made<kcc_summary>([&](kcc_summary** out) {
    return kcc_measure_traces(sides[0].c_str(), sides[1].c_str(),
                              how % 2 == 0 ? nullptr : whole.contract, how % 5 - 1, out);
  });
  if (summary != nullptr) UseSummary(whole, summary, how);
  kcc_summary_free(summary);
  constexpr const char* kSliceBy[] = {nullptr, "tags", "id", "no such", ""};
  const char* const paths[] = {sides[0].c_str(), sides[1].c_str(), sides[0].c_str(), nullptr};
  kcc_rl_dump* dump = Made<kcc_rl_dump>([&](kcc_rl_dump** out) {
    return kcc_rl_dump_read(paths, how % 8 < 4 ? 2 : how % 5, kSliceBy[how % 5], out);
  });
  if (dump == nullptr) return;
  kcc_rl_batch batch{};
  if (kcc_rl_dump_batch(dump, &batch) != KCC_INVALID) Broken("struct_size 0 was accepted");
  batch.struct_size = sizeof batch;
  if (kcc_rl_dump_batch(dump, &batch) != KCC_OK) Broken("a dump without a batch");
  Text([&](kcc_text* out) { return kcc_rl_lint(&batch, out); });
  kcc_rl_dump_free(dump);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Whole whole;
  static const bool checked = (kcc::CheckNulls(whole.contract, whole.summary), true);
  (void)checked;
  Bytes bytes(data, size);
  const uint8_t which = bytes.Byte();
  const uint8_t how = bytes.Byte();
  switch (which % 4) {
    case 0:
      Contract(whole, how, bytes.Rest());
      break;
    case 1:
      Summary(whole, how, bytes.Rest());
      break;
    default:
      Traces(whole, how, bytes);
  }
  return 0;
}
