// The vector kernels under the SIMD backend, one table of functions per target.
//
// A row is cut into blocks of 2048 entries; whole groups of 64 go through these kernels and what
// is left over is carried in double by the caller. Every function gives the same bits on every
// target (numeric/lanes-inl.h). The mathematics is in
// row_measurement.h; here are only the sums it asks for.
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
  kSumResidual,  // e (E - x); in the nearest range e x^2
  kSumReverse,   // e x E; in the wide range e (1 + (x - 1) e^x)
  kSumSquare,    // e E^2
  kSumCosh,      // e (cosh x - 1); in the nearest range e x^4
  kSumELogit,    // e (a - origin - centre), a raised as for e
  kSumQLogit,    // e E (a - origin), likewise
  kSumD,         // d
  kSumDSquare,   // d^2
  kSumAbsolute,  // |e E - slope e| of what the scratch held before
  kBlockSums,
};

struct alignas(64) BlockSums {
  float lanes[kBlockSums][16];
  float min_d;  // or -0 if that is less
  float max_d;  // or 0 if that is more
};

// How e^x - 1 is computed in a block: the smallest range that holds all its x.
inline constexpr int kExpRanges = 5;
inline constexpr int kNearestRange = 0;
inline constexpr int kWideRange = 4;
inline constexpr std::array<float, kExpRanges> kExpRangeEnds = {1.0f / 16, 1.0f / 8, 0.5f, 2.0f,
                                                                16.0f};

// Added to a power of two, keeps its eighths (numeric/lanes-inl.h): 1.5 * 2^20.
inline constexpr float kExp2Rounding = 1572864.0f;

struct BlockArgs {
  const void* train = nullptr;
  const void* infer = nullptr;
  size_t count = 0;  // a multiple of kGroupEntries
  // e = 2^(scale (a - origin) - exponent), from max(a - origin, floor); floor is negative.
  float scale = 0;
  float rounding = 0;  // kExp2Rounding - exponent
  float floor = 0;
  float centre = 0;
  // Used by the shifted kernels only; the plain ones stand for 0, 0 and 1.
  float origin = 0;
  float shift = 0;
  float inverse_temperature = 1;
  // e of 16 entries, then their e E, then the next 16. Before it is written, kSumAbsolute is taken
  // of what another row has left there.
  float* scratch = nullptr;
  float slope = 0;
  BlockSums* sums = nullptr;
  // Out: for each sub-block, where its largest train entry is: the bits of scale (a - origin) +
  // rounding, which are that entry's to the nearest eighth.
  int32_t* peaks = nullptr;
  // Read ahead evenly over the block, as many bytes as it has.
  const char* prefetch_train = nullptr;
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
  // d = infer - train - shift, as in BlockArgs.
  ScanResult (*scan[kRowFormats])(const void* train, const void* infer, size_t count, float shift);
  // The positions in [begin, end) whose entry is at least `threshold`, in order; returns their
  // number. `positions` has room for end - begin.
  size_t (*collect[kRowFormats])(const void* row, size_t begin, size_t end, float threshold,
                                 int32_t* positions);
  // Sums by lane in double, kSumE ... kSumDSquare, of the blocks whose range is first ... last.
  void (*add)(const BlockSums* blocks, const int* ranges, size_t count, int first, int last,
              double (*lanes)[16]);
  // Sum over a block of |e E - slope e|, by lane.
  void (*absolute)(const float* scratch, size_t count, float slope, float* lanes);
};

// Precondition: the CPU has the target.
const RowKernels& RowKernelsFor(Target target);

}  // namespace kcc
