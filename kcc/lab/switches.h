// The lab's switches: what can differ between two kernels, each choice belonging to one error
// source (paper 5.2): operator, precision, batch or route. The rest shapes the engine without
// touching a sum.
//
// One table (switch_table.cc) holds every switch's name, source, values and meaning, its reader and
// its writer; the parser, fingerprints, `kcc lab list`, attribution and the docs read it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kcc/base/dtype.h"
#include "kcc/base/result.h"
#include "kcc/lab/audit.h"
#include "kcc/numeric/gemm.h"
#include "kcc/numeric/row_ops.h"
#include "kcc/trace/trace.h"

namespace kcc {

enum class ErrorSource : uint8_t { kOperator, kPrecision, kBatch, kRoute, kNone };
inline constexpr std::array<ErrorSource, 4> kErrorSources = {
    ErrorSource::kOperator, ErrorSource::kPrecision, ErrorSource::kBatch, ErrorSource::kRoute};
std::string_view Name(ErrorSource source);  // "operator"; "" for kNone

enum class AttentionKind : uint8_t {
  kReference,  // all scores, then one softmax
  kTiles,      // online softmax over tiles of `n` keys
  kSplit,      // `n` parts of the context apart, then together (flash decoding)
};
struct AttentionChoice {
  AttentionKind kind = AttentionKind::kReference;
  size_t n = 0;
  bool operator==(const AttentionChoice&) const = default;
};

enum class AnglePrecision : uint8_t { kF64, kF32, kBF16 };

// Which kernel variant a token takes besides the one it is declared to (route).
enum class RouteKind : uint8_t {
  kFixed,
  kShape,    // positions from `n` on take the long-context variant
  kReplica,  // requests are spread over `n` replicas; odd ones run the variant
};
struct RouteChoice {
  RouteKind kind = RouteKind::kFixed;
  size_t n = 0;
  bool operator==(const RouteChoice&) const = default;
};

// Which matrix products have inputs in 8 bits, where activations have.
enum class CastPlaces : uint8_t { kAll, kLayers, kAttention, kMlp };

struct LabSwitches {
  // operator
  AttentionChoice attention;
  bool fused_norm = false;
  bool fused_gate = false;
  ExpKind exp = ExpKind::kAccurate;
  AnglePrecision rope = AnglePrecision::kF64;
  // precision
  DType weights = DType::kF32;
  int largest_code = 7;  // of kI4: 3 for int3
  ScaleGrain scale = ScaleGrain::kChannel;
  size_t group = 0;
  bool lm_head_quantized = false;
  DType activations = DType::kF32;
  CastPlaces casts = CastPlaces::kAll;
  DType cast_from = DType::kF32;  // what is stored between operators, where activations have 8 bits
  DType kv = DType::kF32;
  int accumulator_bits = 23;
  int promote = 0;
  DType logits = DType::kF32;
  // batch
  bool dynamic_batch = false;
  // route
  RouteChoice route;
  // none of the sources
  TracePath path = TracePath::kPrefill;
  size_t page = 16;         // tokens a KV block
  size_t chunk = 256;       // prompt tokens a step
  size_t concurrency = 16;  // sequences that run at once
  size_t kv_tokens = 0;     // capacity of the KV cache; 0: what the batch needs
  size_t threads = 2;
  AuditLevel audit = AuditLevel::kResiduals;  // replay signatures
};

struct SwitchValue {
  std::string_view value;  // "tiles:N"
  std::string_view meaning;
};

// One of a switch's values: its place in the row, and the number where it has an N.
struct SwitchChoice {
  size_t place = 0;
  size_t n = 0;
};
struct SwitchCode {
  size_t places;  // as many as the row has values
  void (*set)(SwitchChoice choice, LabSwitches* switches);
  SwitchChoice (*get)(const LabSwitches& switches);
};

// When a switch can change a bit of the result, and so is part of the kernel's fingerprint. One
// that was added later is part of it where it is not at its first value, which is what was done
// before: the fingerprints of kernels do not change by what was added.
enum class SwitchBits : uint8_t { kAlways, kUnlessFirst, kDynamicBatch, kNever };

struct SwitchInfo {
  std::string_view name;
  ErrorSource source;
  SwitchBits bits;
  std::string_view meaning;
  std::vector<SwitchValue> values;
  SwitchCode code;
};
std::span<const SwitchInfo> SwitchTable();
// Whether it can change a bit, with the switches as they are.
bool CanChangeBits(const SwitchInfo& info, const LabSwitches& switches);
// Whether activations are of a format of 8 bits, which is for the inputs of products alone.
bool CastsActivations(const LabSwitches& switches);
const SwitchInfo* FindSwitch(std::string_view name);  // null: there is none

using NamedValues = std::vector<std::pair<std::string, std::string>>;

// Sets one switch from its text. Fails naming what the switch takes, or the nearest switch.
Result<> SetSwitch(std::string_view name, std::string_view value, LabSwitches* switches);
// What SetSwitch would take, for every switch of the table in its order.
NamedValues SwitchTexts(const LabSwitches& switches);
// What cannot be computed together, in words.
Result<> CheckSwitches(const LabSwitches& switches);

// `base` with the switches of one source taken from `from`.
LabSwitches WithSource(const LabSwitches& base, const LabSwitches& from, ErrorSource source);

// The kernels that have a name.
struct LabPreset {
  std::string_view name;
  std::string_view meaning;
  std::string_view settings;  // "attention=tiles:64&kv=e4m3"
};
std::span<const LabPreset> LabPresets();

// The switches of `lab:NAME?options`: the named kernel's, then the options in order.
Result<LabSwitches> ResolveSwitches(std::string_view kernel, const NamedValues& options);

}  // namespace kcc
