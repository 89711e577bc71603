#include "kcc/lab/switches.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "kcc/base/check.h"
#include "kcc/base/strings.h"

namespace kcc {
namespace {

constexpr size_t kCountMax = size_t{1} << 20;

// clang-format off
const std::vector<SwitchInfo>& Table() {
  using enum ErrorSource;
  static const std::vector<SwitchInfo> table = {
      {"attention", kOperator, "how softmax(q k) v is summed over the keys",
       {{"reference", "all scores, one softmax, one sum"},
        {"tiles:N", "online softmax over tiles of N keys, as FlashAttention"},
        {"split:N", "N parts of the context apart, then merged, as flash decoding"}}},
      {"rmsnorm", kOperator, "order of the products in x / rms(x) * gain",
       {{"unfused", "the normalised x is rounded, then multiplied by the gain"},
        {"fused", "gain / rms is formed first"}}},
      {"swiglu", kOperator, "order of the products in silu(gate) * up",
       {{"unfused", "sigmoid, SiLU and product rounded one by one"},
        {"fused", "gate * up / (1 + e^-gate)"}}},
      {"exp", kOperator, "the exponential of softmax and SiLU",
       {{"accurate", "within 2e-7"}, {"fast", "a cubic, within 9e-5"}}},
      {"rope", kOperator, "precision of the angles position * frequency",
       {{"f64", "exact for this purpose"}, {"f32", "as most engines"},
        {"bf16", "destroys long contexts"}}},
      {"weights", kPrecision, "format of the matrices",
       {{"f32", "as the checkpoint"}, {"bf16", ""}, {"fp16", ""},
        {"e4m3", "FP8, scaled"}, {"e5m2", "FP8, scaled"}, {"int8", "scaled"}, {"int4", "scaled"}}},
      {"scale", kPrecision, "what shares a scale, for scaled weights",
       {{"channel", "one output"}, {"tensor", "the whole matrix"},
        {"group:N", "N inputs of one output; N a multiple of 32"}}},
      {"lm_head", kPrecision, "format of the output matrix",
       {{"f32", "left alone"}, {"weights", "as the other matrices"}}},
      {"activations", kPrecision, "format of what enters a matrix product",
       {{"f32", ""}, {"bf16", "and of everything stored between operators"},
        {"fp16", "and of everything stored between operators"},
        {"e4m3", "FP8, one scale a token"}, {"e5m2", "FP8, one scale a token"},
        {"int8", "one scale a token"}}},
      {"kv", kPrecision, "format of the KV cache",
       {{"f32", ""}, {"bf16", ""}, {"e4m3", "FP8, one scale a head and token"},
        {"e5m2", "FP8, one scale a head and token"}}},
      {"accumulate", kPrecision, "accumulator of every sum",
       {{"f32", ""}, {"f64", "the training kernel's"}, {"m13", "13 bits of mantissa, as Hopper's FP8 units"},
        {"fp16", "10 bits of mantissa"}, {"bf16", "7 bits of mantissa"}}},
      {"promote", kPrecision, "a narrow accumulator is added to a float32 one",
       {{"never", "at the end of the sum"}, {"N", "every N terms, 128 as DeepSeek-V3"}}},
      {"logits", kPrecision, "format in which logits are stored", {{"f32", ""}, {"bf16", ""}}},
      {"batch", kBatch, "what the size of a step decides",
       {{"invariant", "nothing: a request has the same bits in any company"},
        {"dynamic", "split-K of the products and split-KV of attention, as schedulers do"}}},
      {"route", kRoute, "which requests take another kernel variant (split-K 4, split-KV 2)",
       {{"fixed", "none"}, {"shape:N", "positions from N on"},
        {"replica:N", "requests on odd ones of N replicas"}}},
      {"path", kNone, "how given tokens are scored",
       {{"prefill", "in chunks"}, {"decode", "prompt in chunks, then token by token"}}},
      {"page", kNone, "tokens a block of the KV cache", {{"N", "default 16"}}},
      {"chunk", kNone, "prompt tokens a step", {{"N", "default 256"}}},
      {"concurrency", kNone, "sequences that run at once", {{"N", "default 16"}}},
      {"kv_tokens", kNone, "capacity of the KV cache; under pressure requests are preempted",
       {{"N", "0: as much as the batch needs"}}},
      {"threads", kNone, "threads; never changes a bit", {{"N", "default 2"}}},
      {"audit", kNone, "replay signatures of intermediate tensors", {{"residuals", "of each layer's output and the logits"}, {"all", "of every operator's output"}, {"off", ""}}},
  };
  return table;
}

constexpr std::array kKernels = {
    LabPreset{"train", "the reference: stored in f32, summed in f64", "accumulate=f64"},
    LabPreset{"f32", "f32 throughout, batch-invariant: the base of lab:custom", ""},
    LabPreset{"bf16", "a BF16 engine: tiled attention, fused operators, dynamic batches",
                "attention=tiles:64&rmsnorm=fused&swiglu=fused&rope=f32&weights=bf16&activations=bf16&kv=bf16&batch=dynamic"},
    LabPreset{"bf16-invariant", "the same without the influence of the batch",
                "attention=tiles:64&rmsnorm=fused&swiglu=fused&rope=f32&weights=bf16&activations=bf16&kv=bf16"},
    LabPreset{"fp8", "FP8 (E4M3) weights, activations and KV cache on a BF16 engine's operators",
                "attention=tiles:64&rmsnorm=fused&swiglu=fused&rope=f32&weights=e4m3&activations=e4m3&kv=e4m3&logits=bf16&batch=dynamic"},
    LabPreset{"int8", "INT8 weights by channel, f32 activations",
                "attention=tiles:64&rmsnorm=fused&swiglu=fused&rope=f32&weights=int8&batch=dynamic"},
    LabPreset{"int4", "INT4 weights in groups of 32, BF16 activations",
                "attention=tiles:64&rmsnorm=fused&swiglu=fused&rope=f32&weights=int4&scale=group:32&activations=bf16&kv=bf16&batch=dynamic"},
    LabPreset{"hopper-fp8", "lab:fp8 with a 13-bit accumulator promoted every 128 terms",
                "attention=tiles:64&rmsnorm=fused&swiglu=fused&rope=f32&weights=e4m3&activations=e4m3&kv=e4m3&accumulate=m13&promote=128&logits=bf16&batch=dynamic"},
    LabPreset{"custom", "lab:f32 with the options given", ""},
};
// clang-format on

struct FormatWord {
  std::string_view word;
  DType dtype;
};
constexpr std::array kFormats = {
    FormatWord{"f32", DType::kF32},     FormatWord{"bf16", DType::kBF16},
    FormatWord{"fp16", DType::kF16},    FormatWord{"e4m3", DType::kF8E4M3},
    FormatWord{"e5m2", DType::kF8E5M2}, FormatWord{"int8", DType::kI8},
    FormatWord{"int4", DType::kI4},
};

struct WidthWord {
  std::string_view word;
  int bits;
};
constexpr std::array kWidths = {WidthWord{"f64", 52}, WidthWord{"f32", 23}, WidthWord{"m13", 13},
                                WidthWord{"fp16", 10}, WidthWord{"bf16", 7}};

std::string_view FormatName(DType dtype) {
  for (const FormatWord& format : kFormats) {
    if (format.dtype == dtype) return format.word;
  }
  return "f32";
}

const SwitchInfo* FindSwitch(std::string_view name) {
  for (const SwitchInfo& info : Table()) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

// True if `text` is one of the switch's values; N stands for a number, which is then set.
bool Matches(std::string_view pattern, std::string_view text, std::optional<size_t>* number) {
  number->reset();
  if (!pattern.ends_with('N')) return pattern == text;
  const std::string_view prefix = pattern.substr(0, pattern.size() - 1);
  if (!text.starts_with(prefix)) return false;
  const std::string_view digits = text.substr(prefix.size());
  size_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value > kCountMax) {
    return false;
  }
  *number = value;
  return true;
}

DType FormatOf(std::string_view word) {
  const auto* found = std::find_if(kFormats.begin(), kFormats.end(),
                                   [&](const FormatWord& f) { return f.word == word; });
  return found == kFormats.end() ? DType::kF32 : found->dtype;
}

int WidthOf(std::string_view word) {
  for (const WidthWord& width : kWidths) {
    if (width.word == word) return width.bits;
  }
  return 23;
}

// The value has been found among the switch's own.
void ApplyPrecision(std::string_view name, std::string_view value, size_t n, LabSwitches* s) {
  if (name == "weights") s->weights = FormatOf(value);
  if (name == "activations") s->activations = FormatOf(value);
  if (name == "kv") s->kv = FormatOf(value);
  if (name == "logits") s->logits = FormatOf(value);
  if (name == "lm_head") s->lm_head_quantized = value == "weights";
  if (name == "accumulate") s->accumulator_bits = WidthOf(value);
  if (name == "promote") s->promote = value == "never" ? 0 : static_cast<int>(n);
  if (name == "scale") {
    s->scale = value == "channel"  ? ScaleGrain::kChannel
               : value == "tensor" ? ScaleGrain::kTensor
                                   : ScaleGrain::kGroup;
    s->group = s->scale == ScaleGrain::kGroup ? n : 0;
  }
}

void Apply(std::string_view name, std::string_view value, size_t n, LabSwitches* s) {
  if (name == "attention") {
    s->attention = value == "reference"         ? AttentionChoice{}
                   : value.starts_with("tiles") ? AttentionChoice{AttentionKind::kTiles, n}
                                                : AttentionChoice{AttentionKind::kSplit, n};
  }
  if (name == "rmsnorm") s->fused_norm = value == "fused";
  if (name == "swiglu") s->fused_gate = value == "fused";
  if (name == "exp") s->exp = value == "fast" ? ExpKind::kFast : ExpKind::kAccurate;
  if (name == "rope") {
    s->rope = value == "f64"   ? AnglePrecision::kF64
              : value == "f32" ? AnglePrecision::kF32
                               : AnglePrecision::kBF16;
  }
  if (name == "batch") s->dynamic_batch = value == "dynamic";
  if (name == "route") {
    s->route = value == "fixed"             ? RouteChoice{}
               : value.starts_with("shape") ? RouteChoice{RouteKind::kShape, n}
                                            : RouteChoice{RouteKind::kReplica, n};
  }
  if (name == "path") s->path = value == "decode" ? TracePath::kDecode : TracePath::kPrefill;
  if (name == "page") s->page = n;
  if (name == "chunk") s->chunk = n;
  if (name == "concurrency") s->concurrency = n;
  if (name == "kv_tokens") s->kv_tokens = n;
  if (name == "threads") s->threads = n;
  if (name == "audit") {
    s->audit = value == "all"   ? AuditLevel::kEverything
               : value == "off" ? AuditLevel::kOff
                                : AuditLevel::kResiduals;
  }
  ApplyPrecision(name, value, n, s);
}

std::string AttentionText(const AttentionChoice& choice) {
  if (choice.kind == AttentionKind::kReference) return "reference";
  return (choice.kind == AttentionKind::kTiles ? "tiles:" : "split:") + std::to_string(choice.n);
}

std::string ScaleText(const LabSwitches& s) {
  if (s.scale == ScaleGrain::kGroup) return "group:" + std::to_string(s.group);
  return s.scale == ScaleGrain::kTensor ? "tensor" : "channel";
}

std::string RouteText(const RouteChoice& choice) {
  if (choice.kind == RouteKind::kFixed) return "fixed";
  return (choice.kind == RouteKind::kShape ? "shape:" : "replica:") + std::to_string(choice.n);
}

std::string WidthText(int bits) {
  for (const WidthWord& width : kWidths) {
    if (width.bits == bits) return std::string(width.word);
  }
  return "f32";
}

NamedValues ParseSettings(std::string_view text) {
  NamedValues values;
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view item = text.substr(0, end);
    const size_t equals = item.find('=');
    values.emplace_back(item.substr(0, equals), item.substr(equals + 1));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return values;
}

}  // namespace

std::string_view Name(ErrorSource source) {
  constexpr std::array<std::string_view, 5> kNames = {"operator", "precision", "batch", "route",
                                                      ""};
  return kNames[static_cast<size_t>(source)];
}

std::span<const SwitchInfo> SwitchTable() { return Table(); }
std::span<const LabPreset> LabPresets() { return kKernels; }

Result<> SetSwitch(std::string_view name, std::string_view value, LabSwitches* switches) {
  const SwitchInfo* info = FindSwitch(name);
  if (info == nullptr) {
    std::vector<std::string_view> names;
    for (const SwitchInfo& one : Table()) names.push_back(one.name);
    const auto nearest = NearestWord(name, names);
    return InvalidError("the lab has no switch '" + std::string(name) + "'" +
                        (nearest ? "; did you mean '" + std::string(*nearest) + "'?"
                                 : "; `kcc lab list` names them"));
  }
  std::vector<std::string_view> patterns;
  for (const SwitchValue& allowed : info->values) {
    std::optional<size_t> number;
    if (Matches(allowed.value, value, &number)) {
      Apply(name, value, number.value_or(0), switches);
      return {};
    }
    patterns.push_back(allowed.value);
  }
  return InvalidError("switch " + std::string(name) + " takes " + JoinWords(patterns, "or") +
                      ", not '" + std::string(value) + "'");
}

NamedValues SwitchTexts(const LabSwitches& s) {
  return {
      {"attention", AttentionText(s.attention)},
      {"rmsnorm", s.fused_norm ? "fused" : "unfused"},
      {"swiglu", s.fused_gate ? "fused" : "unfused"},
      {"exp", s.exp == ExpKind::kFast ? "fast" : "accurate"},
      {"rope", s.rope == AnglePrecision::kF64   ? "f64"
               : s.rope == AnglePrecision::kF32 ? "f32"
                                                : "bf16"},
      {"weights", std::string(FormatName(s.weights))},
      {"scale", ScaleText(s)},
      {"lm_head", s.lm_head_quantized ? "weights" : "f32"},
      {"activations", std::string(FormatName(s.activations))},
      {"kv", std::string(FormatName(s.kv))},
      {"accumulate", WidthText(s.accumulator_bits)},
      {"promote", s.promote == 0 ? "never" : std::to_string(s.promote)},
      {"logits", std::string(FormatName(s.logits))},
      {"batch", s.dynamic_batch ? "dynamic" : "invariant"},
      {"route", RouteText(s.route)},
      {"path", std::string(Name(s.path))},
      {"page", std::to_string(s.page)},
      {"chunk", std::to_string(s.chunk)},
      {"concurrency", std::to_string(s.concurrency)},
      {"kv_tokens", std::to_string(s.kv_tokens)},
      {"threads", std::to_string(s.threads)},
      {"audit", s.audit == AuditLevel::kEverything ? "all"
                : s.audit == AuditLevel::kOff      ? "off"
                                                   : "residuals"},
  };
}

Result<> CheckSwitches(const LabSwitches& s) {
  if (s.attention.kind != AttentionKind::kReference && s.attention.n == 0) {
    return InvalidError("attention needs tiles of at least 1 key, or at least 1 part");
  }
  if (s.weights == DType::kI4 && s.scale == ScaleGrain::kTensor) {
    return InvalidError(
        "int4 weights need scale=group:N or scale=channel: one scale for a whole "
        "matrix leaves nothing of it");
  }
  if (s.scale == ScaleGrain::kGroup && (s.group == 0 || s.group % 32 != 0)) {
    return InvalidError("scale=group:N needs N to be a multiple of 32");
  }
  const bool scaled =
      s.weights != DType::kF32 && s.weights != DType::kBF16 && s.weights != DType::kF16;
  if (!scaled && s.scale != ScaleGrain::kChannel) {
    return InvalidError("scale=" + ScaleText(s) + " is for scaled weights, but weights=" +
                        std::string(FormatName(s.weights)) + " have no scale");
  }
  if (s.promote > 0 && s.accumulator_bits >= 23) {
    return InvalidError("promote=" + std::to_string(s.promote) + " needs a narrow accumulator " +
                        "(accumulate=m13, fp16 or bf16); accumulate=" +
                        WidthText(s.accumulator_bits) + " is promoted to nothing");
  }
  if (s.lm_head_quantized && s.weights == DType::kF32) {
    return InvalidError("lm_head=weights changes nothing while weights=f32");
  }
  if (s.route.kind == RouteKind::kReplica && s.route.n < 2) {
    return InvalidError("route=replica:N needs at least 2 replicas");
  }
  if (s.page == 0 || s.chunk == 0 || s.concurrency == 0 || s.threads == 0 || s.threads > 64) {
    return InvalidError("page, chunk and concurrency are at least 1, threads 1 to 64");
  }
  return {};
}

LabSwitches WithSource(const LabSwitches& base, const LabSwitches& from, ErrorSource source) {
  LabSwitches made = base;
  for (const auto& [name, value] : SwitchTexts(from)) {
    if (FindSwitch(name)->source != source) continue;
    const Result<> set = SetSwitch(name, value, &made);
    KCC_CHECK(set.has_value());
  }
  return made;
}

Result<LabSwitches> ResolveSwitches(std::string_view kernel, const NamedValues& options) {
  const auto* named = std::find_if(kKernels.begin(), kKernels.end(),
                                   [&](const LabPreset& k) { return k.name == kernel; });
  if (named == kKernels.end()) {
    std::vector<std::string_view> names;
    names.reserve(kKernels.size());
    for (const LabPreset& one : kKernels) names.push_back(one.name);
    return InvalidError("the lab has no kernel '" + std::string(kernel) + "'; it has " +
                        JoinWords(names));
  }
  LabSwitches switches;
  for (const auto& [name, value] : ParseSettings(named->settings)) {
    const Result<> set = SetSwitch(name, value, &switches);
    KCC_CHECK(set.has_value());
  }
  for (const auto& [name, value] : options) {
    KCC_TRY_VOID(SetSwitch(name, value, &switches));
  }
  KCC_TRY_VOID(CheckSwitches(switches));
  return switches;
}

}  // namespace kcc
