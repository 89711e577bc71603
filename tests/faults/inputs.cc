#include "tests/faults/inputs.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "tests/faults/commands.h"
#include "tests/faults/monitor_commands.h"
#include "tests/faults/train_commands.h"

namespace kcc::faults {
namespace {

namespace fs = std::filesystem;

constexpr int kHidden = 64, kHeads = 2, kHeadDim = 32, kFfn = 64, kVocab = 64;

const char* const kConfig =
    R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
 "num_key_value_heads": 1, "head_dim": 32, "intermediate_size": 64, "vocab_size": 64,
 "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
 "bos_token_id": 0, "eos_token_id": 1, "tie_word_embeddings": false})";

const char* const kContract = R"(# A contract for the traces of the small model.
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: faults, version: 1.0.0, owner: tests}
spec:
  decision: {about: evaluation-set}
  assumptions: {rewardMax: 1.0, tokensMax: 64}
  slices:
    - {name: odd, where: "'odd' in tags"}
  numerical:
    - {id: N-1, metric: mean_kl, atMost: 0.015, slices: [all, odd], level: L3}
    - {id: N-2, metric: mean_abs_log_ratio, atMost: 0.05, level: L2}
  statistical:
    - {id: S-1, metric: mean_top5_overlap, atLeast: 0.5, level: L2}
  runtime:
    - {id: R-1, metric: p95_latency_ms, atMost: 400, level: L1}
)";

// A safetensors file of F32 tensors with small random numbers; gains are 1.
std::string SmallWeights() {
  const std::string layer = "model.layers.0.";
  const std::vector<std::pair<std::string, std::vector<int>>> tensors = {
      {"model.embed_tokens.weight", {kVocab, kHidden}},
      {"model.norm.weight", {kHidden}},
      {"lm_head.weight", {kVocab, kHidden}},
      {layer + "input_layernorm.weight", {kHidden}},
      {layer + "post_attention_layernorm.weight", {kHidden}},
      {layer + "self_attn.q_proj.weight", {kHeads * kHeadDim, kHidden}},
      {layer + "self_attn.k_proj.weight", {kHeadDim, kHidden}},
      {layer + "self_attn.v_proj.weight", {kHeadDim, kHidden}},
      {layer + "self_attn.o_proj.weight", {kHidden, kHeads * kHeadDim}},
      {layer + "mlp.gate_proj.weight", {kFfn, kHidden}},
      {layer + "mlp.up_proj.weight", {kFfn, kHidden}},
      {layer + "mlp.down_proj.weight", {kHidden, kFfn}}};
  std::mt19937 bits(7);
  std::string header = "{";
  std::string data;
  for (const auto& [name, shape] : tensors) {
    const size_t begin = data.size();
    size_t count = 1;
    std::string dimensions;
    for (const int size : shape) {
      count *= static_cast<size_t>(size);
      dimensions += (dimensions.empty() ? "" : ",") + std::to_string(size);
    }
    for (size_t i = 0; i < count; ++i) {
      const float random = static_cast<float>(bits() % 2001) / 1000.0f - 1.0f;
      const float value = shape.size() == 1 ? 1.0f : 0.3f * random;
      data.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    header += (header.size() > 1 ? "," : "") + ("\"" + name + R"(":{"dtype":"F32","shape":[)") +
              dimensions + R"(],"data_offsets":[)" + std::to_string(begin) + "," +
              std::to_string(data.size()) + "]}";
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  const uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + header + data;
}

std::string SmallRequests() {
  std::string lines;
  for (int r = 0; r < 4; ++r) {
    lines += R"({"id":"r)" + std::to_string(r) + R"(","prompt":[)" + std::to_string(2 + r) +
             ",9,5],\"output\":[" + std::to_string(10 + r) + ",7,20],\"tags\":[\"" +
             (r % 2 == 0 ? "even" : "odd") + R"("],"expected":"x","gold":"output"})" + "\n";
  }
  return lines;
}

// The first test vector of RFC 8032, and a key on P-256: they protect nothing.
const char* const kPrivateKey =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
    "-----END PRIVATE KEY-----\n";
const char* const kEcPrivateKey =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgbRWGNN5kOgnBbZW8\n"
    "H45ePiH/ZkYbc/W0nmlk63h4VhyhRANCAAT79jf1oKE6rOIQFW3c9N9JuneSlIQI\n"
    "XkccYEnldd5KUe71KpDajzMj7unGdlQTSFWi6vm3UWdPIc+9f/7dZFsI\n"
    "-----END PRIVATE KEY-----\n";
const char* const kKeyring =
    "apiVersion: kcc/v1\nkind: Keyring\nkeys:\n"
    "  - owner: ann\n    roles: [evaluation]\n    notAfter: 2100-01-01T00:00:00Z\n    publicKey: "
    "|\n"
    "      -----BEGIN PUBLIC KEY-----\n"
    "      MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
    "      -----END PUBLIC KEY-----\n"
    "  - owner: bob\n    roles: [evaluation]\n    notAfter: 2100-01-01T00:00:00Z\n    publicKey: "
    "|\n"
    "      -----BEGIN PUBLIC KEY-----\n"
    "      MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE+/Y39aChOqziEBVt3PTfSbp3kpSE\n"
    "      CF5HHGBJ5XXeSlHu9SqQ2o8zI+7pxnZUE0hVour5t1FnTyHPvX/+3WRbCA==\n"
    "      -----END PUBLIC KEY-----\n";
// The owner's approval is asked for, so that a candidate stays offline until somebody gives it.
const char* const kPolicy =
    "apiVersion: kcc/v1\nkind: PromotionPolicy\nmetadata: {name: p, version: 1.0.0}\nspec:\n"
    "  offline: {approvals: {count: 1, roles: [owner]}}\n"
    "  shadow: {minRequests: 1}\n  full: {}\n";

// Copies a file: the first word of a recipe that is no command.
const char* const kCopy = "copy";

// The registers, in the states that commands start from, and what is signed.
std::vector<std::vector<std::string>> RegisterRecipes(const Inputs& inputs) {
  const auto in = [&](const std::string& name) { return inputs.In(name); };
  const auto by = [&](std::vector<std::string> words, const std::string& name, int minute) {
    const std::string time = "2026-11-18T08:" + std::to_string(minute) + ":00Z";
    words.insert(words.end(), {"--register", in(name), "--actor", "ann", "--time", time});
    return words;
  };
  const std::vector<std::string> run = {"run",       in("contract.yaml"), "--train",
                                        in("train"), "--infer",           in("infer")};
  const auto start = [&](const std::string& policy) {
    return std::vector<std::string>{"promote",  "start",    "p",           "--lane", "chat",
                                    "--policy", in(policy), "--candidate", "sha256:"};
  };
  return {
      {"register", "attest", in("report"), "--key", in("key.pem"), "--key", in("ec.pem"), "--time",
       "2026-11-18T08:09:00Z", "-o", in("envelope.json")},
      {"register", "init", "--register", in("empty.db")},
      {kCopy, in("empty.db"), in("r.db")},
      by(run, "r.db", 10),
      {"register", "export", in("export"), "--register", in("r.db")},
      {kCopy, in("r.db"), in("twice.db")},
      by(run, "twice.db", 11),
      {kCopy, in("r.db"), in("offline.db")},
      by(start("policy.yaml"), "offline.db", 12),
      {kCopy, in("offline.db"), in("judged.db")},
      by(run, "judged.db", 13),
      {kCopy, in("offline.db"), in("frozen.db")},
      by({"promote", "freeze", "p"}, "frozen.db", 14),
      {kCopy, in("r.db"), in("refused.db")},
      by(start("refused.yaml"), "refused.db", 15),
  };
}

// The commands that make the rest, in their order.
std::vector<std::vector<std::string>> Recipes(const Inputs& inputs) {
  const auto in = [&](const std::string& name) { return inputs.In(name); };
  const std::string model = "?model=" + in("model");
  const std::string contract = in("contract.yaml");
  const std::string train = in("train");
  const std::string infer = in("infer");
  std::vector<std::vector<std::string>> recipes = {
      {"score", "lab:f32" + model, "--requests", in("requests.jsonl"), "-o", train},
      {"score", "lab:bf16" + model, "--requests", in("requests.jsonl"), "-o", infer},
      {"measure", train, infer, "-c", contract, "-o", in("all.kccs")},
      {"measure", train, infer, "-c", contract, "--shard", "1/2", "-o", in("part1.kccs")},
      {"measure", train, infer, "-c", contract, "--shard", "2/2", "-o", in("part2.kccs")},
      {"judge", contract, in("all.kccs"), "--report", in("report"), "--sarif"},
      {"rl", "diagnose", train, infer, "-o", in("step.kccrl")},
  };
  for (const auto& more : {RegisterRecipes(inputs), MonitorRecipes(inputs), TrainRecipes(inputs)}) {
    recipes.insert(recipes.end(), more.begin(), more.end());
  }
  return recipes;
}

}  // namespace

Inputs::Inputs() {
  std::string pattern = fs::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
  pattern += "/kcc-faults-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) std::abort();
  root_ = pattern;
  fs::create_directories(In("model"));
  fs::create_directories(out());
}

Inputs::~Inputs() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

std::string Inputs::Make() const {
  WriteBytes(In("model/config.json"), kConfig);
  WriteBytes(In("model/model.safetensors"), SmallWeights());
  WriteBytes(In("requests.jsonl"), SmallRequests());
  WriteBytes(In("model/eval.jsonl"), SmallRequests());
  WriteBytes(In("contract.yaml"), kContract);
  std::string looser = kContract;
  looser.replace(looser.find("0.015"), 5, "0.5");
  looser += "# the end\n";
  WriteBytes(In("looser.yaml"), looser);
  WriteBytes(In("key.pem"), kPrivateKey);
  WriteBytes(In("ec.pem"), kEcPrivateKey);
  WriteBytes(In("keyring.yaml"), kKeyring);
  WriteBytes(In("incident.json"), R"({"incident": "I-8", "what": "x"})");
  const std::string gate = "  hooks:\n    - {point: confirm-rollout, name: gate, exec: \"";
  WriteBytes(In("policy.yaml"), kPolicy);
  WriteBytes(In("asking.yaml"), kPolicy + gate + "echo the gate lets this candidate pass\"}\n");
  WriteBytes(In("refused.yaml"), kPolicy + gate + "false\"}\n");
  WriteMonitorInputs(*this);
  for (const std::vector<std::string>& words : Recipes(*this)) {
    if (words[0] == kCopy) {
      fs::copy_file(words[1], words[2]);
      continue;
    }
    CommandSubject command(words, out(), {});
    command.Reset();
    command.Run();
    const Outcome outcome = command.Take();
    if (outcome.failed) return words[0] + ": " + outcome.message;
  }
  return "";
}

const Inputs& TheInputs() {
  static const Inputs inputs;
  return inputs;
}

std::map<std::string, std::string> FilesOf(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
    const std::string name = fs::relative(entry.path(), directory).string();
    if (entry.is_regular_file()) files[name] = ReadBytes(entry.path().string());
    // A directory that was asked for may stay empty; one that is on its way to a name may not.
    const bool unfinished = name.find(".") != std::string::npos || name.starts_with("kcc-");
    if (entry.is_directory() && unfinished) files[name + "/"] = "";
  }
  return files;
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace kcc::faults
