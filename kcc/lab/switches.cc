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
    LabPreset{"int3", "INT3 weights in groups of 32, BF16 activations",
                "attention=tiles:64&rmsnorm=fused&swiglu=fused&rope=f32&weights=int3&scale=group:32&activations=bf16&kv=bf16&batch=dynamic"},
    LabPreset{"hopper-fp8", "lab:fp8 with a 13-bit accumulator promoted every 128 terms",
                "attention=tiles:64&rmsnorm=fused&swiglu=fused&rope=f32&weights=e4m3&activations=e4m3&kv=e4m3&accumulate=m13&promote=128&logits=bf16&batch=dynamic"},
    LabPreset{"custom", "lab:f32 with the options given", ""},
};
// clang-format on

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

// The word that sets what `s` has.
std::string TextOf(const SwitchInfo& info, const LabSwitches& s) {
  const SwitchChoice choice = info.code.get(s);
  std::string text(info.values[choice.place].value);
  if (!text.ends_with('N')) return text;
  text.pop_back();
  return text + std::to_string(choice.n);
}

std::string TextOf(std::string_view name, const LabSwitches& s) {
  return TextOf(*FindSwitch(name), s);
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

const SwitchInfo* FindSwitch(std::string_view name) {
  for (const SwitchInfo& info : SwitchTable()) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

bool CanChangeBits(const SwitchInfo& info, const LabSwitches& switches) {
  switch (info.bits) {
    case SwitchBits::kAlways:
      return true;
    case SwitchBits::kUnlessFirst:
      return info.code.get(switches).place != 0;
    case SwitchBits::kDynamicBatch:
      return switches.dynamic_batch;
    case SwitchBits::kNever:
      return false;
  }
  return false;
}

bool CastsActivations(const LabSwitches& switches) {
  return switches.activations == DType::kF8E4M3 || switches.activations == DType::kF8E5M2 ||
         switches.activations == DType::kI8;
}

std::span<const LabPreset> LabPresets() { return kKernels; }

Result<> SetSwitch(std::string_view name, std::string_view value, LabSwitches* switches) {
  const SwitchInfo* info = FindSwitch(name);
  if (info == nullptr) {
    std::vector<std::string_view> names;
    for (const SwitchInfo& one : SwitchTable()) names.push_back(one.name);
    const auto nearest = NearestWord(name, names);
    return InvalidError("the lab has no switch '" + std::string(name) + "'" +
                        (nearest ? "; did you mean '" + std::string(*nearest) + "'?"
                                 : "; `kcc lab list` names them"));
  }
  std::vector<std::string_view> patterns;
  for (size_t place = 0; place < info->values.size(); ++place) {
    const std::string_view pattern = info->values[place].value;
    std::optional<size_t> number;
    if (Matches(pattern, value, &number)) {
      info->code.set({place, number.value_or(0)}, switches);
      return {};
    }
    patterns.push_back(pattern);
  }
  return InvalidError("switch " + std::string(name) + " takes " + JoinWords(patterns, "or") +
                      ", not '" + std::string(value) + "'");
}

NamedValues SwitchTexts(const LabSwitches& switches) {
  NamedValues texts;
  texts.reserve(SwitchTable().size());
  for (const SwitchInfo& info : SwitchTable()) {
    texts.emplace_back(info.name, TextOf(info, switches));
  }
  return texts;
}

Result<> CheckSwitches(const LabSwitches& s) {
  if (s.attention.kind != AttentionKind::kReference && s.attention.n == 0) {
    return InvalidError("attention needs tiles of at least 1 key, or at least 1 part");
  }
  if (s.weights == DType::kI4 && s.scale == ScaleGrain::kTensor) {
    return InvalidError(TextOf("weights", s) +
                        " weights need scale=group:N or scale=channel: one scale for a whole "
                        "matrix leaves nothing of it");
  }
  if (s.scale == ScaleGrain::kGroup && (s.group == 0 || s.group % 32 != 0)) {
    return InvalidError("scale=group:N needs N to be a multiple of 32");
  }
  const bool scaled =
      s.weights != DType::kF32 && s.weights != DType::kBF16 && s.weights != DType::kF16;
  if (!scaled && s.scale != ScaleGrain::kChannel) {
    return InvalidError("scale=" + TextOf("scale", s) + " is for scaled weights, but weights=" +
                        TextOf("weights", s) + " have no scale");
  }
  for (const std::string_view name : {"casts", "cast_from"}) {
    if (!CastsActivations(s) && FindSwitch(name)->code.get(s).place != 0) {
      return InvalidError(std::string(name) + "=" + TextOf(name, s) +
                          " is for activations of 8 bits (activations=e4m3, e5m2 or int8), but "
                          "activations=" +
                          TextOf("activations", s) + " are not cast");
    }
  }
  if (s.promote > 0 && s.accumulator_bits >= 23) {
    return InvalidError("promote=" + std::to_string(s.promote) + " needs a narrow accumulator " +
                        "(accumulate=m13, fp16 or bf16); accumulate=" + TextOf("accumulate", s) +
                        " is promoted to nothing");
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
  for (const SwitchInfo& info : SwitchTable()) {
    if (info.source == source) info.code.set(info.code.get(from), &made);
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
