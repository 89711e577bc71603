// A warp's tiles of both rows on their way through shared memory: forward once and back, while the
// next row is already asked for.
//
// The ring holds the last pairs of tiles when the way back begins; most of the others are in L2 by
// then. A warp's tiles go in pairs; of an odd number the first one goes alone, as the second of a
// pair. Whatever is used leaves its slot to what comes kRingPairs later.
#pragma once

#include "kcc/drift/cuda/row_plan.cuh"

namespace kcc {

inline constexpr int kRingPairs = 4;

// A tile's room: one that starts anywhere needs a little more, and FP8's lanes read a part further.
constexpr size_t RingTileBytes(size_t entry_bytes, bool aligned) {
  return static_cast<size_t>(kTileEntries) * entry_bytes + (aligned            ? 0
                                                            : entry_bytes == 1 ? 32
                                                                               : 16);
}

// `kWarps`, `kBlocks`: of the block and of the row; 0: as the arguments say.
template <class T, bool kAligned, int kWarps, int kBlocks>
class TileRing {
 public:
  // `warp`: of the block; `first`: its first tile; `whole`: how many whole tiles it has.
  __device__ __forceinline__ TileRing(const SumsArgs& args, char* memory, int warp, int lane,
                                      int first, int whole)
      : args_(args),
        slots_(memory + warp * 4 * kSlotBytes + (kAligned ? LaneOffset<T>(lane) : 0)),
        lane_(lane),
        first_(first),
        odd_(whole & 1),
        pairs_((whole + 1) / 2) {}

  // Fills the ring from the row's beginning.
  __device__ __forceinline__ void Begin(int64_t row) {
    Drain();
    Seek(row);
    for (int pair = 0; pair < kRingPairs; ++pair) {
      Fetch(pair == 0 && odd_ != 0);
      CommitCopies();
      Move(2);
      Turn();
    }
  }

  // Every tile of the row that was begun goes to add(train, infer).
  template <class Add>
  __device__ __forceinline__ void Forward(int64_t row, const Add& add) {
    train_shift_ = ShiftOf(args_.Row(0, row));
    infer_shift_ = ShiftOf(args_.Row(1, row));
    const auto refill = [&] {
      Fetch(false);
      Move(2);
    };
    const auto leave = [] {};
    int left = pairs_;
    if (odd_ != 0) {
      Use<true>(add, [&] {
        if (pairs_ > kRingPairs) refill();
      });
      --left;
    }
#pragma unroll 1
    for (; left > kRingPairs; --left) Use<false>(add, refill);
#pragma unroll 1
    for (; left > 0; --left) Use<false>(add, leave);
    // Back by one, to the pair that was used last.
    direction_ = -direction_;
    Turn();
  }

  // The same tiles from the last to the first; then the ring has the beginning of `next`.
  template <class Add>
  __device__ __forceinline__ void Backward(int64_t next, const Add& add) {
    Move(-2 * kRingPairs - 2);
    int left = pairs_;
#pragma unroll 1
    for (; left > kRingPairs + odd_; --left) {
      Use<false>(add, [&] {
        Fetch(false);
        Move(-2);
      });
    }
    if (odd_ != 0 && left > kRingPairs) {
      Use<false>(add, [&] { Fetch(true); });
      --left;
    }
    Seek(next);
    bool second_alone = odd_ != 0;
    const auto begin_next = [&] {
      Fetch(second_alone);
      second_alone = false;
      Move(2);
    };
#pragma unroll 1
    for (; left > odd_; --left) Use<false>(add, begin_next);
    if (odd_ != 0) Use<true>(add, begin_next);
  }

  // Until nothing is on its way.
  __device__ __forceinline__ void Drain() const { AwaitCopies<0>(); }

 private:
  static constexpr int kTileBytes = kTileEntries * static_cast<int>(sizeof(T));
  static constexpr int kSlotBytes = static_cast<int>(RingTileBytes(sizeof(T), kAligned));

  __device__ __forceinline__ int Warps() const { return kWarps != 0 ? kWarps : args_.warps; }
  __device__ __forceinline__ int RowWarps() const {
    return kWarps != 0 ? kWarps * kBlocks : args_.RowWarps();
  }
  // Bytes from a tile of the warp to its next.
  __device__ __forceinline__ int Step() const { return RowWarps() * kTileBytes; }

  // To where the first pair of the row begins, or would begin.
  __device__ __forceinline__ void Seek(int64_t row) {
    const int first =
        (first_ - odd_ * RowWarps()) * kTileBytes + (kAligned ? LaneOffset<T>(lane_) : 0);
    train_at_ = args_.Row(0, row) + first;
    infer_at_ = args_.Row(1, row) + first;
  }
  __device__ __forceinline__ void Move(int tiles) {
    train_at_ += tiles * Step();
    infer_at_ += tiles * Step();
  }
  __device__ __forceinline__ void Turn() { slot_ = (slot_ + direction_) & (kRingPairs - 1); }
  __device__ __forceinline__ char* Slot() const {
    return slots_ + slot_ * (Warps() * 4 * kSlotBytes);
  }

  // A pair of tiles, or its second alone, into the present slot.
  __device__ __forceinline__ void Fetch(bool second_alone) const {
    char* const slot = Slot();
    constexpr int kStep = kWarps * kBlocks * kTileBytes;
    const int step = kWarps != 0 ? 0 : Step();
    if (!second_alone) {
      Copy<0, 0>(train_at_, slot);
      Copy<0, 1>(infer_at_, slot);
    }
    Copy<kStep, 2>(train_at_ + step, slot);
    Copy<kStep, 3>(infer_at_ + step, slot);
  }
  template <int kFrom, int kTile>
  __device__ __forceinline__ void Copy(const char* from, char* slot) const {
    if constexpr (kAligned) {
      CopyTile<T, true, kFrom, kTile * kSlotBytes>(from, slot);
    } else {
      CopyShiftedTile<T>(from + kFrom, ShiftOf(from), lane_, slot + kTile * kSlotBytes);
    }
  }
  // Tiles begin at multiples of 16 bytes from their row's beginning.
  __device__ __forceinline__ static int ShiftOf(const char* row) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(row) & 15);
  }

  // The pair in the present slot goes to `add`, tile by tile, while another is fetched into it.
  template <bool kSecondAlone, class Add, class Refill>
  __device__ __forceinline__ void Use(const Add& add, const Refill& refill) {
    AwaitCopies<kRingPairs - 1>();
    const char* const slot = Slot();
    LaneLogits<T> tile[4];
    // Tiles that start anywhere are shared among lanes.
    if constexpr (!kAligned) __syncwarp();
#pragma unroll
    for (int k = kSecondAlone ? 2 : 0; k < 4; ++k) {
      if constexpr (kAligned) {
        tile[k].Load(slot + k * kSlotBytes, 0);
      } else {
        const int shift = (k & 1) == 0 ? train_shift_ : infer_shift_;
        tile[k] = LoadShifted<T>(slot + k * kSlotBytes, shift, lane_);
      }
    }
    if constexpr (!kAligned) __syncwarp();
    refill();
    CommitCopies();
    Turn();
    if constexpr (!kSecondAlone) add(tile[0], tile[1]);
    add(tile[2], tile[3]);
  }

  const SumsArgs& args_;
  char* const slots_;
  const int lane_;
  const int first_;
  const int odd_;  // 1 where the whole tiles are odd in number
  const int pairs_;
  const char* train_at_ = nullptr;  // where the next pair to fetch begins
  const char* infer_at_ = nullptr;
  int train_shift_ = 0;  // of the row's tiles, where they start anywhere
  int infer_shift_ = 0;
  int slot_ = 0;
  int direction_ = 1;  // to the next slot
};

}  // namespace kcc
