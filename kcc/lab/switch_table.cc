// The table of switches. A row says a switch's words once; its reader and writer stand beside them
// and speak of the words by their place in the row, so a word cannot be read as one thing and
// written as another.
#include <array>
#include <utility>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/lab/switches.h"

namespace kcc {
namespace {

// The place of `value` among the choices of a row.
template <class T, size_t kSize>
size_t PlaceOf(const T& value, const std::array<T, kSize>& choices) {
  for (size_t i = 0; i < kSize; ++i) {
    if (choices[i] == value) return i;
  }
  KCC_CHECK(false);  // no text could have set it
  return 0;
}

// A member that takes one of a few values, in the order of the row's words.
template <auto kMember, auto... kValues>
constexpr SwitchCode kAmong = {
    sizeof...(kValues),
    [](SwitchChoice choice, LabSwitches* s) { s->*kMember = std::array{kValues...}[choice.place]; },
    [](const LabSwitches& s) -> SwitchChoice {
      return {PlaceOf(s.*kMember, std::array{kValues...}), 0};
    }};

// A member with a kind, in the order of the row's words, and the number of that kind.
template <auto kMember, auto... kKinds>
constexpr SwitchCode kSized = {
    sizeof...(kKinds),
    [](SwitchChoice choice, LabSwitches* s) {
      s->*kMember = {std::array{kKinds...}[choice.place], choice.n};
    },
    [](const LabSwitches& s) -> SwitchChoice {
      return {PlaceOf((s.*kMember).kind, std::array{kKinds...}), (s.*kMember).n};
    }};

// A member that is a number.
template <auto kMember>
constexpr SwitchCode kCount = {1,
                               [](SwitchChoice choice, LabSwitches* s) { s->*kMember = choice.n; },
                               [](const LabSwitches& s) -> SwitchChoice {
                                 return {0, s.*kMember};
                               }};

// channel, tensor, group:N.
constexpr std::array kGrains = {ScaleGrain::kChannel, ScaleGrain::kTensor, ScaleGrain::kGroup};
constexpr SwitchCode kScale = {kGrains.size(),
                               [](SwitchChoice choice, LabSwitches* s) {
                                 s->scale = kGrains[choice.place];
                                 s->group = choice.n;
                               },
                               [](const LabSwitches& s) -> SwitchChoice {
                                 return {PlaceOf(s.scale, kGrains), s.group};
                               }};

// The formats of weights. INT3 is I4 with fewer codes.
struct WeightFormat {
  DType codes;
  int largest_code = 7;
  bool operator==(const WeightFormat&) const = default;
};
constexpr std::array kWeightFormats = {WeightFormat{DType::kF32},    WeightFormat{DType::kBF16},
                                       WeightFormat{DType::kF16},    WeightFormat{DType::kF8E4M3},
                                       WeightFormat{DType::kF8E5M2}, WeightFormat{DType::kI8},
                                       WeightFormat{DType::kI4},     WeightFormat{DType::kI4, 3}};
constexpr SwitchCode kWeights = {kWeightFormats.size(),
                                 [](SwitchChoice choice, LabSwitches* s) {
                                   s->weights = kWeightFormats[choice.place].codes;
                                   s->largest_code = kWeightFormats[choice.place].largest_code;
                                 },
                                 [](const LabSwitches& s) -> SwitchChoice {
                                   return {PlaceOf({s.weights, s.largest_code}, kWeightFormats), 0};
                                 }};

// never, N; N = 0 is never, too.
constexpr SwitchCode kPromote = {
    2, [](SwitchChoice choice, LabSwitches* s) { s->promote = static_cast<int>(choice.n); },
    [](const LabSwitches& s) -> SwitchChoice {
      return {s.promote == 0 ? size_t{0} : size_t{1}, static_cast<size_t>(s.promote)};
    }};

// clang-format off
std::vector<SwitchInfo> OperatorSwitches() {
  using enum ErrorSource;
  return {
      {"attention", kOperator, SwitchBits::kAlways, "how softmax(q k) v is summed over the keys",
       {{"reference", "all scores, one softmax, one sum"},
        {"tiles:N", "online softmax over tiles of N keys, as FlashAttention"},
        {"split:N", "N parts of the context apart, then merged, as flash decoding"}},
       kSized<&LabSwitches::attention, AttentionKind::kReference, AttentionKind::kTiles, AttentionKind::kSplit>},
      {"rmsnorm", kOperator, SwitchBits::kAlways, "order of the products in x / rms(x) * gain",
       {{"unfused", "the normalised x is rounded, then multiplied by the gain"},
        {"fused", "gain / rms is formed first"}},
       kAmong<&LabSwitches::fused_norm, false, true>},
      {"swiglu", kOperator, SwitchBits::kAlways, "order of the products in silu(gate) * up",
       {{"unfused", "sigmoid, SiLU and product rounded one by one"},
        {"fused", "gate * up / (1 + e^-gate)"}},
       kAmong<&LabSwitches::fused_gate, false, true>},
      {"exp", kOperator, SwitchBits::kAlways, "the exponential of softmax and SiLU",
       {{"accurate", "within 2e-7"}, {"fast", "a cubic, within 9e-5"}},
       kAmong<&LabSwitches::exp, ExpKind::kAccurate, ExpKind::kFast>},
      {"rope", kOperator, SwitchBits::kAlways, "precision of the angles position * frequency",
       {{"f64", "exact for this purpose"}, {"f32", "as most engines"},
        {"bf16", "destroys long contexts"}},
       kAmong<&LabSwitches::rope, AnglePrecision::kF64, AnglePrecision::kF32, AnglePrecision::kBF16>},
  };
}

std::vector<SwitchInfo> PrecisionSwitches() {
  using enum ErrorSource;
  using enum DType;
  return {
      {"weights", kPrecision, SwitchBits::kAlways, "format of the matrices",
       {{"f32", "as the checkpoint"}, {"bf16", ""}, {"fp16", ""},
        {"e4m3", "FP8, scaled"}, {"e5m2", "FP8, scaled"}, {"int8", "scaled"}, {"int4", "scaled"},
        {"int3", "scaled; held in 4 bits"}},
       kWeights},
      {"scale", kPrecision, SwitchBits::kAlways, "what shares a scale, for scaled weights",
       {{"channel", "one output"}, {"tensor", "the whole matrix"},
        {"group:N", "N inputs of one output; N a multiple of 32"}},
       kScale},
      {"lm_head", kPrecision, SwitchBits::kAlways, "format of the output matrix",
       {{"f32", "left alone"}, {"weights", "as the other matrices"}},
       kAmong<&LabSwitches::lm_head_quantized, false, true>},
      {"activations", kPrecision, SwitchBits::kAlways, "format of what enters a matrix product",
       {{"f32", ""}, {"bf16", "and of everything stored between operators"},
        {"fp16", "and of everything stored between operators"},
        {"e4m3", "FP8, one scale per token"}, {"e5m2", "FP8, one scale per token"},
        {"int8", "one scale per token"}},
       kAmong<&LabSwitches::activations, kF32, kBF16, kF16, kF8E4M3, kF8E5M2, kI8>},
      {"casts", kPrecision, SwitchBits::kUnlessFirst, "which products' inputs are cast, where activations have 8 bits",
       {{"all", "those of every matrix product"}, {"layers", "not the output matrix's"},
        {"attention", "of query, key, value and output projections alone"},
        {"mlp", "of the feed-forward layers alone"}},
       kAmong<&LabSwitches::casts, CastPlaces::kAll, CastPlaces::kLayers, CastPlaces::kAttention, CastPlaces::kMlp>},
      {"cast_from", kPrecision, SwitchBits::kUnlessFirst, "what such a cast reads",
       {{"f32", "the operator before hands it over: the cast is fused into it"},
        {"bf16", "what was stored between operators: the cast is one of its own"}},
       kAmong<&LabSwitches::cast_from, kF32, kBF16>},
      {"kv", kPrecision, SwitchBits::kAlways, "format of the KV cache",
       {{"f32", ""}, {"bf16", ""}, {"e4m3", "FP8, one scale per head and token"},
        {"e5m2", "FP8, one scale per head and token"}},
       kAmong<&LabSwitches::kv, kF32, kBF16, kF8E4M3, kF8E5M2>},
      {"accumulate", kPrecision, SwitchBits::kAlways, "accumulator of every sum",
       {{"f32", ""}, {"f64", "the training kernel's"}, {"m13", "13 bits of mantissa, as Hopper's FP8 units"},
        {"fp16", "10 bits of mantissa"}, {"bf16", "7 bits of mantissa"}},
       kAmong<&LabSwitches::accumulator_bits, 23, 52, 13, 10, 7>},
      {"promote", kPrecision, SwitchBits::kAlways, "a narrow accumulator is added to a float32 one",
       {{"never", "at the end of the sum"}, {"N", "every N terms, 128 as DeepSeek-V3"}},
       kPromote},
      {"logits", kPrecision, SwitchBits::kAlways, "format in which logits are stored", {{"f32", ""}, {"bf16", ""}},
       kAmong<&LabSwitches::logits, kF32, kBF16>},
  };
}

// What decides how the work is cut and run.
std::vector<SwitchInfo> ScheduleSwitches() {
  using enum ErrorSource;
  return {
      {"batch", kBatch, SwitchBits::kAlways, "what the size of a step decides",
       {{"invariant", "nothing: a request has the same bits in any company"},
        {"dynamic", "split-K of the products and split-KV of attention, as schedulers do"}},
       kAmong<&LabSwitches::dynamic_batch, false, true>},
      {"route", kRoute, SwitchBits::kAlways, "which requests take another kernel variant (split-K 4, split-KV 2)",
       {{"fixed", "none"}, {"shape:N", "positions from N on"},
        {"replica:N", "requests on odd ones of N replicas"}},
       kSized<&LabSwitches::route, RouteKind::kFixed, RouteKind::kShape, RouteKind::kReplica>},
      {"path", kNone, SwitchBits::kAlways, "how given tokens are scored",
       {{"prefill", "in chunks"}, {"decode", "prompt in chunks, then token by token"}},
       kAmong<&LabSwitches::path, TracePath::kPrefill, TracePath::kDecode>},
      {"page", kNone, SwitchBits::kNever, "tokens per block of the KV cache", {{"N", "default 16"}},
       kCount<&LabSwitches::page>},
      {"chunk", kNone, SwitchBits::kDynamicBatch, "prompt tokens per step", {{"N", "default 256"}},
       kCount<&LabSwitches::chunk>},
      {"concurrency", kNone, SwitchBits::kDynamicBatch, "sequences that run at once", {{"N", "default 16"}},
       kCount<&LabSwitches::concurrency>},
      {"kv_tokens", kNone, SwitchBits::kNever, "capacity of the KV cache; under pressure requests are preempted",
       {{"N", "0: as much as the batch needs"}},
       kCount<&LabSwitches::kv_tokens>},
      {"threads", kNone, SwitchBits::kNever, "threads; never changes a bit", {{"N", "default 2"}},
       kCount<&LabSwitches::threads>},
      {"audit", kNone, SwitchBits::kNever, "replay signatures of intermediate tensors",
       {{"residuals", "of each layer's output and the logits"},
        {"all", "of every operator's output"}, {"off", ""}},
       kAmong<&LabSwitches::audit, AuditLevel::kResiduals, AuditLevel::kEverything, AuditLevel::kOff>},
  };
}
// clang-format on

}  // namespace

std::span<const SwitchInfo> SwitchTable() {
  static const std::vector<SwitchInfo> table = [] {
    std::vector<SwitchInfo> rows = OperatorSwitches();
    for (auto part : {PrecisionSwitches, ScheduleSwitches}) {
      for (SwitchInfo& row : part()) rows.push_back(std::move(row));
    }
    return rows;
  }();
  return table;
}

}  // namespace kcc
