// The vector kernels under the SIMD backend, one table of functions per target.
//
// A row is cut into blocks of 2048 entries; whole groups of 64 go through these kernels and what
// is left over is carried in double by the caller. Every function gives the same bits on every
// target (numeric/lanes-inl.h). The mathematics is in simd.cc; here are only the sums it asks for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kcc/numeric/target.h"

namespace kcc {

inline constexpr size_t kBlockEntries = 2048;
inline constexpr size_t kGroupEntries = 64;      // a block holds whole groups
inline constexpr size_t kSubBlockEntries = 256;  // the grain of the search for the top tokens

// Sums over a block, by virtual lane. a = train, d = infer - train - shift (unscaled),
// x = d / temperature, e = 2^(a log2(e) / temperature - exponent), E = e^x - 1.
enum BlockSum : size_t {
  kSumE,         // e
  kSumQ,         // e E
  kSumResidual,  // e (E - x)
  kSumReverse,   // e x E; in the wide range e (1 + (x - 1) e^x)
  kSumSquare,    // e E^2
  kSumCosh,      // e (cosh x - 1)
  kSumELogit,    // e (a - origin - centre)
  kSumQLogit,    // e E (a - origin - centre)
  kSumD,         // d
  kSumDSquare,   // d^2
  kMinD,
  kMaxD,
  kBlockSums,
};

struct alignas(64) BlockSums {
  float lanes[kBlockSums][16];
};

// How e^x - 1 is computed in a block: the smallest range that holds all its x.
inline constexpr int kExpRanges = 5;
inline constexpr int kWideRange = 4;
inline constexpr std::array<float, kExpRanges> kExpRangeEnds = {3.0f / 64, 1.0f / 8, 0.5f, 2.0f,
                                                                16.0f};

struct BlockArgs {
  const void* train = nullptr;
  const void* infer = nullptr;
  size_t count = 0;  // a multiple of kGroupEntries
  // e = 2^(scale (a - origin) - exponent), from max(a - origin, floor); floor is negative.
  float scale = 0;
  float rounding = 0;  // 1.5 * 2^23 - exponent
  float floor = 0;
  float centre = 0;
  // Used by the shifted kernels only; the plain ones stand for 0, 0 and 1.
  float origin = 0;
  float shift = 0;
  float inverse_temperature = 1;
  float* e = nullptr;  // out: e and e E of every entry
  float* q = nullptr;
  BlockSums* sums = nullptr;
  float* train_peaks = nullptr;  // out: the largest entry of each sub-block
  float* infer_peaks = nullptr;
  const char* prefetch_train =
      nullptr;  // read ahead evenly over the block, as many bytes as it has
  const char* prefetch_infer = nullptr;
};

struct ScanResult {
  float max_train = 0;
  float min_train = 0;
  float min_d = 0;
  float max_d = 0;
};

enum RowFormat : size_t { kRowF32, kRowBF16, kRowFormats };

struct RowKernels {
  using BlockFunction = void (*)(const BlockArgs& args);
  // By format, by whether kSumSquare is wanted (else it may be left 0), whether shifted, range.
  BlockFunction block[kRowFormats][2][2][kExpRanges];
  ScanResult (*scan[kRowFormats])(const void* train, const void* infer, size_t count);
  // The positions in [begin, end) whose entry is at least `threshold`, in order; returns their
  // number. `positions` has room for end - begin.
  size_t (*collect[kRowFormats])(const void* row, size_t begin, size_t end, float threshold,
                                 int32_t* positions);
  // Sums of blocks by lane in double: kSumE ... kSumDSquare.
  void (*add)(const BlockSums* blocks, size_t count, double (*lanes)[16]);
  // Sum over a block of |q - slope e|, by lane.
  void (*absolute)(const float* e, const float* q, size_t count, float slope, float* lanes);
};

// Precondition: the CPU has the target.
const RowKernels& RowKernelsFor(Target target);

}  // namespace kcc
