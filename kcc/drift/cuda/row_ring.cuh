// A warp's tiles of both rows on their way through shared memory: forward once and back, while the
// next row is already asked for.
//
// They go in groups, through two slots; the first group may be smaller. A slot is filled again as
// soon as it is empty. When the way back begins the slots still hold the last two groups; the
// others are marked to stay in L2, which gives them up when they are read again.
#pragma once

#include "kcc/drift/cuda/barrier.cuh"
#include "kcc/drift/cuda/row_plan.cuh"

namespace kcc {

static_assert(kRingSlots == 2);  // they take turns

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
        groups_(Uniform(args.GroupsOf(row_warp))),
        in_first_(Uniform(args.TilesOf(row_warp) - (groups_ - 1) * kGroupTiles)),
        in_piece_(Uniform(RowCut::GroupsOfPiece(groups_, kPieces))),
        first_(Uniform(args.FirstTileOf(row_warp))),
        keep_(KeepInL2Policy()),
        evict_(EvictFirstPolicy()) {
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
    for (int group = 0; group < kRingSlots; ++group) {
      const int tiles = group == 0 ? in_first_ : kGroupTiles;
      Fetch(tiles, group + kRingSlots < groups_);
      Move(tiles);
      Turn();
    }
  }

  // Every tile of the row that was begun goes to add(train, infer). After those of each piece
  // (RowCut) but the last, and but empty ones, end_piece() is called.
  template <class Add, class EndPiece>
  __device__ __forceinline__ void Forward(int64_t row, const Add& add, const EndPiece& end_piece) {
    train_shift_ = ShiftOf(args_.Row(0, row));
    infer_shift_ = ShiftOf(args_.Row(1, row));
    int left = groups_;
    const auto refill = [&] {
      if (left > kRingSlots) {
        Fetch(kGroupTiles, left > 2 * kRingSlots);
        Move(kGroupTiles);
      } else if constexpr (!kBulk) {
        CommitCopies();
      }
    };
    UseFirst(add, refill);
    int left_then = min((kPieces - 1) * in_piece_, groups_ - 1);  // when the next piece begins
#pragma unroll 1
    while (--left > 0) {
      if (left == left_then) {
        end_piece();
        left_then -= in_piece_;
      }
      Use(add, refill);
    }
    Turn();  // to what was used last
  }

  // The same tiles, from the last group to the first; then the ring has the beginning of `next`, if
  // that is a row.
  template <class Add>
  __device__ __forceinline__ void Backward(int64_t next, const Add& add) {
    // To the last group that the slots do not hold.
    Move(groups_ > kRingSlots + 1 ? -(kRingSlots + 1) * kGroupTiles
                                  : -kRingSlots * kGroupTiles - in_first_);
    int left = groups_;
    const auto refill = [&] {
      if (left > kRingSlots) {
        Fetch(left == kRingSlots + 1 ? in_first_ : kGroupTiles, false);
        Move(left == kRingSlots + 2 ? -in_first_ : -kGroupTiles);
      } else if (next < args_.rows) {
        if (left == kRingSlots) Seek(next);
        const int tiles = left == kRingSlots ? in_first_ : kGroupTiles;
        Fetch(tiles, groups_ + left > 2 * kRingSlots);
        Move(tiles);
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
      AwaitPhase(&full_[slot_], parities_ >> 31);
      AwaitPhase(&full_[slot_ ^ 1], parities_ >> 30 & 1);
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
  static constexpr int kGroupTiles = GroupTiles(sizeof(T));
  static constexpr int kPieces = PiecesOf(sizeof(T));
  static constexpr int kTileBytes = kTileEntries * static_cast<int>(sizeof(T));
  static constexpr int kPlaceBytes = static_cast<int>(RingTileBytes(sizeof(T), kAligned));
  static constexpr int kSideBytes = kGroupTiles * kPlaceBytes;
  static constexpr int kSlotBytes = 2 * kSideBytes;

  // So that the compiler knows it to be the warp's, not the lane's.
  __device__ __forceinline__ static int Uniform(int value) {
    return __shfl_sync(0xffffffffu, value, 0);
  }

  // To where the row's first group begins.
  __device__ __forceinline__ void Seek(int64_t row) {
    const int uniform = Uniform(static_cast<int>(row));
    const int64_t first = static_cast<int64_t>(first_) * kTileBytes;
    train_at_ = args_.Row(0, uniform) + first;
    infer_at_ = args_.Row(1, uniform) + first;
  }
  __device__ __forceinline__ void Move(int tiles) {
    train_at_ += tiles * kTileBytes;
    infer_at_ += tiles * kTileBytes;
  }
  __device__ __forceinline__ void Turn() {
    slot_ ^= 1;
    parities_ = __funnelshift_l(parities_, parities_, 1);
  }
  __device__ __forceinline__ char* Slot() const { return slots_ + slot_ * kSlotBytes; }

  // So many tiles of each side into the present slot. `stays`: they will be read again.
  __device__ __forceinline__ void Fetch(int tiles, bool stays) {
    char* const slot = Slot();
    if constexpr (kBulk) {
      parities_ ^= 0xaaaaaaaau;
      // Nothing orders a bulk copy after loads that are still on their way, and under other
      // kernels' load it overtakes them. So it depends on what they bring; the vocabulary is never
      // 0.
      uint32_t arrived = loaded_ | static_cast<uint32_t>(args_.vocab);
      asm volatile("" : "+r"(arrived));
      if (IsElected() && arrived != 0) {
        const uint64_t policy = stays ? keep_ : evict_;
        const int bytes = tiles * kTileBytes;
        uint64_t* const full = &full_[slot_];
        ArriveExpecting(full, 2 * bytes);
        CopyInBulk(slot, train_at_, bytes, full, policy);
        CopyInBulk(slot + kSideBytes, infer_at_, bytes, full, policy);
      }
    } else {
      for (int tile = 0; tile < tiles; ++tile) {
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
      AwaitPhase(&full_[slot_], parities_ >> 31);
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
    for (int tile = 0; tile < kGroupTiles; tile += 2) {
      LaneLogits<T> train[2], infer[2];
      Load(slot, tile, &train[0], &infer[0]);
      const int last = min(1, kGroupTiles - 1 - tile);
      if (last == 1) {
        Load(slot, tile + 1, &train[1], &infer[1]);
        add(train[0], infer[0]);
      }
      if (tile + last + 1 == kGroupTiles) {
        loaded_ = train[last].WordOfEachLoad() | infer[last].WordOfEachLoad();
        if (last == 1) loaded_ |= train[0].WordOfEachLoad() | infer[0].WordOfEachLoad();
        __syncwarp();
        refill();
        Turn();
      }
      add(train[last], infer[last]);
    }
  }
  // The first group.
  template <class Add, class Refill>
  __device__ __forceinline__ void UseFirst(const Add& add, const Refill& refill) {
    Await();
    const char* const slot = Slot();
#pragma unroll 1
    for (int tile = 0; tile < in_first_; ++tile) {
      LaneLogits<T> train, infer;
      Load(slot, tile, &train, &infer);
      if (tile + 1 == in_first_) {
        loaded_ = train.WordOfEachLoad() | infer.WordOfEachLoad();
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
  const int groups_;
  const int in_first_;  // tiles of the first group
  const int in_piece_;  // groups
  const int first_;     // the first tile's place in a row
  const uint64_t keep_, evict_;
  const char* train_at_ = nullptr;  // where the next group to fetch begins
  const char* infer_at_ = nullptr;
  int train_shift_ = 0;  // of the row's tiles, where they start anywhere
  int infer_shift_ = 0;
  // The parity of what was asked for last: of the present slot in the first of each two bits, of
  // the other one in the second. As it begins nothing is awaited.
  uint32_t parities_ = ~0u;
  uint32_t loaded_ = 0;  // WordOfEachLoad of what was loaded last
  int slot_ = 0;
};

}  // namespace kcc
