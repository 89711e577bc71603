// A warp's tiles of both rows on their way through shared memory: forward once and back, while the
// next row is already asked for.
//
// They go in fours, through two slots; the first four may be fewer. A slot is filled again as soon
// as it is empty. When the way back begins the slots still hold the last eight; the others are
// marked to stay in L2, which gives them up when they are read again.
#pragma once

#include "kcc/drift/cuda/barrier.cuh"
#include "kcc/drift/cuda/row_plan.cuh"

namespace kcc {

inline constexpr int kRingSlots = 2;
inline constexpr int kSlotTiles = 4;  // of each side

// A tile's room: one that starts anywhere needs a little more, and FP8's lanes read a part further.
constexpr size_t RingTileBytes(size_t entry_bytes, bool aligned) {
  return static_cast<size_t>(kTileEntries) * entry_bytes + (aligned            ? 0
                                                            : entry_bytes == 1 ? 32
                                                                               : 16);
}

template <class T, bool kAligned>
class TileRing {
 public:
  // `full`: a barrier for each slot; `warp`: of the block.
  __device__ __forceinline__ TileRing(const SumsArgs& args, char* memory, uint64_t* full, int warp,
                                      int lane, int row_warp)
      : args_(args),
        full_(full),
        slots_(memory + warp * kRingSlots * kSlotBytes),
        lane_(lane),
        at_(kAligned ? LaneOffset<T>(lane) : 0),
        fours_(Uniform((args.TilesOf(row_warp) + kSlotTiles - 1) / kSlotTiles)),
        missing_(Uniform(fours_ * kSlotTiles - args.TilesOf(row_warp))),
        first_(Uniform(args.FirstTileOf(row_warp) - missing_)),
        stays_(StayInL2()),
        leaves_(LeaveL2()) {
    if constexpr (kBulk) {
      if (lane_ == 0) {
        for (int slot = 0; slot < kRingSlots; ++slot) InitBarrier(&full_[slot], 1);
        PublishBarriers();
      }
      __syncwarp();
    }
  }

  // Fills the ring from the row's beginning.
  __device__ __forceinline__ void Begin(int64_t row) {
    Drain();
    Seek(row);
    for (int four = 0; four < kRingSlots; ++four) {
      Fetch(four == 0 ? missing_ : 0, four < fours_ - kRingSlots);
      Move(1);
      Turn();
    }
  }

  // Every tile of the row that was begun goes to add(train, infer).
  template <class Add>
  __device__ __forceinline__ void Forward(int64_t row, const Add& add) {
    train_shift_ = ShiftOf(args_.Row(0, row));
    infer_shift_ = ShiftOf(args_.Row(1, row));
    int left = fours_;
    const auto refill = [&] {
      if (left > kRingSlots) {
        Fetch(0, left > 2 * kRingSlots);
        Move(1);
      } else if constexpr (!kBulk) {
        CommitCopies();
      }
    };
    UseFirst(add, refill);
#pragma unroll 1
    for (--left; left > 0; --left) Use(add, refill);
    Turn();  // to what was used last
  }

  // The same tiles from the last to the first; then the ring has the beginning of `next`, if that
  // is a row.
  template <class Add>
  __device__ __forceinline__ void Backward(int64_t next, const Add& add) {
    Move(-kRingSlots - 1);
    int left = fours_;
    const auto refill = [&] {
      if (left > kRingSlots + 1) {
        Fetch(0, false);
        Move(-1);
      } else if (left == kRingSlots + 1) {
        Fetch(missing_, false);
      } else if (next < args_.rows) {
        if (left == kRingSlots) Seek(next);
        Fetch(left == kRingSlots ? missing_ : 0, fours_ + left > 2 * kRingSlots);
        Move(1);
      } else if constexpr (!kBulk) {
        CommitCopies();
      }
    };
#pragma unroll 1
    for (; left > 1; --left) Use(add, refill);
    UseFirst(add, refill);
  }

  // Until nothing is on its way.
  __device__ __forceinline__ void Drain() const {
    if constexpr (kBulk) {
      for (int slot = 0; slot < kRingSlots; ++slot) AwaitPhase(&full_[slot], phases_ >> slot & 1);
    } else {
      AwaitCopies<0>();
    }
  }

 private:
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  static constexpr bool kBulk = kAligned;
#else
  static constexpr bool kBulk = false;
#endif
  static constexpr int kTileBytes = kTileEntries * static_cast<int>(sizeof(T));
  static constexpr int kPlaceBytes = static_cast<int>(RingTileBytes(sizeof(T), kAligned));
  static constexpr int kSideBytes = kSlotTiles * kPlaceBytes;
  static constexpr int kSlotBytes = 2 * kSideBytes;

  // So that the compiler knows it to be the warp's, not the lane's.
  __device__ __forceinline__ static int Uniform(int value) {
    return __shfl_sync(0xffffffffu, value, 0);
  }

  // To where the first four of the row begin, or would begin.
  __device__ __forceinline__ void Seek(int64_t row) {
    const int uniform = Uniform(static_cast<int>(row));
    const int64_t first = static_cast<int64_t>(first_) * kTileBytes;
    train_at_ = args_.Row(0, uniform) + first;
    infer_at_ = args_.Row(1, uniform) + first;
  }
  __device__ __forceinline__ void Move(int fours) {
    train_at_ += fours * (kSlotTiles * kTileBytes);
    infer_at_ += fours * (kSlotTiles * kTileBytes);
  }
  __device__ __forceinline__ void Turn() { slot_ ^= 1; }
  __device__ __forceinline__ char* Slot() const { return slots_ + slot_ * kSlotBytes; }

  // Four tiles of each side, but for the first `missing`, into the present slot. `stays`: they will
  // be read again.
  __device__ __forceinline__ void Fetch(int missing, bool stays) {
    char* const slot = Slot();
    if constexpr (kBulk) {
      phases_ ^= 1u << slot_;
      // Nothing orders a bulk copy after loads that are still on their way, and under other kernels'
      // load it overtakes them. So it depends on what they bring; the vocabulary is never 0.
      if (IsElected() && (read_ | static_cast<uint32_t>(args_.vocab)) != 0) {
        const uint64_t policy = stays ? stays_ : leaves_;
        const int from = missing * kTileBytes;
        const int bytes = kSideBytes - from;
        uint64_t* const full = &full_[slot_];
        ArriveExpecting(full, 2 * bytes);
        CopyInBulk(slot + from, train_at_ + from, bytes, full, policy);
        CopyInBulk(slot + kSideBytes + from, infer_at_ + from, bytes, full, policy);
      }
    } else {
      for (int tile = missing; tile < kSlotTiles; ++tile) {
        Copy(train_at_ + tile * kTileBytes, slot + tile * kPlaceBytes);
        Copy(infer_at_ + tile * kTileBytes, slot + kSideBytes + tile * kPlaceBytes);
      }
      CommitCopies();
    }
  }
  __device__ __forceinline__ void Copy(const char* from, char* to) const {
    if constexpr (kAligned) {
      CopyTile<T, true>(from + at_, to + at_);
    } else {
      CopyShiftedTile<T>(from, ShiftOf(from), lane_, to);
    }
  }
  // Tiles begin at multiples of 16 bytes from their row's beginning.
  __device__ __forceinline__ static int ShiftOf(const char* row) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(row) & 15);
  }

  __device__ __forceinline__ void Await() const {
    if constexpr (kBulk) {
      AwaitPhase(&full_[slot_], phases_ >> slot_ & 1);
    } else {
      AwaitCopies<kRingSlots - 1>();
      if constexpr (!kAligned) __syncwarp();  // tiles that start anywhere are shared among lanes
    }
  }
  __device__ __forceinline__ void Load(const char* slot, int tile, LaneLogits<T>* train,
                                       LaneLogits<T>* infer) const {
    const char* const place = slot + tile * kPlaceBytes;
    if constexpr (kAligned) {
      train->Load(place + at_, 0);
      infer->Load(place + kSideBytes + at_, 0);
    } else {
      *train = LoadShifted<T>(place, train_shift_, lane_);
      *infer = LoadShifted<T>(place + kSideBytes, infer_shift_, lane_);
    }
  }

  // What is in the present slot goes to `add`, tile by tile; when all of it is in registers others
  // are fetched into it.
  template <class Add, class Refill>
  __device__ __forceinline__ void Use(const Add& add, const Refill& refill) {
    Await();
    const char* const slot = Slot();
#pragma unroll
    for (int tile = 0; tile < kSlotTiles; tile += 2) {
      LaneLogits<T> train[2], infer[2];
      Load(slot, tile, &train[0], &infer[0]);
      const int last = min(1, kSlotTiles - 1 - tile);
      if (last == 1) {
        Load(slot, tile + 1, &train[1], &infer[1]);
        add(train[0], infer[0]);
      }
      if (tile + last + 1 == kSlotTiles) {
        read_ = train[last].Glimpse() | infer[last].Glimpse();
        if (last == 1) read_ |= train[0].Glimpse() | infer[0].Glimpse();
        __syncwarp();
        refill();
        Turn();
      }
      add(train[last], infer[last]);
    }
  }
  // The first ones, which may be fewer.
  template <class Add, class Refill>
  __device__ __forceinline__ void UseFirst(const Add& add, const Refill& refill) {
    Await();
    const char* const slot = Slot();
#pragma unroll 1
    for (int tile = missing_; tile < kSlotTiles; ++tile) {
      LaneLogits<T> train, infer;
      Load(slot, tile, &train, &infer);
      if (tile + 1 == kSlotTiles) {
        read_ = train.Glimpse() | infer.Glimpse();
        __syncwarp();
        refill();
        Turn();
      }
      add(train, infer);
    }
  }

  const SumsArgs& args_;
  uint64_t* const full_;
  char* const slots_;
  const int lane_;
  const int at_;  // the lane's place in a tile
  const int fours_;
  const int missing_;  // of the first four
  const int first_;    // the first four's place in a row, in tiles
  const uint64_t stays_, leaves_;
  const char* train_at_ = nullptr;  // where the next four to fetch begin
  const char* infer_at_ = nullptr;
  int train_shift_ = 0;  // of the row's tiles, where they start anywhere
  int infer_shift_ = 0;
  // By slot, the parity of what was asked for last. As it begins nothing is awaited.
  uint32_t phases_ = ~0u;
  uint32_t read_ = 0;  // a glimpse of what was read last
  int slot_ = 0;
};

}  // namespace kcc
