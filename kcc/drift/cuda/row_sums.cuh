// The fast kernel: one cluster of blocks a row pair, read once from memory.
//
// A row is cut into tiles of 256 entries. Bulk copies bring them into a ring of chunks in shared
// memory, rows ahead of the arithmetic. The computing warps, for row i,
//   1. find the largest entries of row i + 1, and send them to every block of the cluster;
//   2. finish row i - 1: sum |q - s e| over the registers that still hold its e and q (tv);
//   3. with the plan of row i at hand, add up its terms (row_terms.cuh); send the sums that s
//      needs to every block.
// Three more warps serve them, so that none of this lies in their way: the planner makes the plan
// (exponent K, shift c, thresholds, pivot) from the largest entries and collects the top tokens of
// the train side; the keeper collects those of the infer side and fills the ring; the closer
// computes s and adds the warps' sums in double. Warps wait on counting barriers only; what crosses
// the cluster has a step of other work to arrive in. No reduction depends on timing.
#pragma once

#include <climits>
#include <type_traits>

#include "kcc/drift/cuda/device_barrier.cuh"
#include "kcc/drift/cuda/row_plan.cuh"

namespace kcc {

template <class T, int kWarps, int kChunks, bool kSquare>
class RowSums {
 public:
  using Shared = SumsShared<kWarps>;
  // A slot of the ring holds a whole row's share of the block, or for F32 one chunk of it.
  static constexpr int kParts = sizeof(T) == 4 ? kChunks : 1;
  static constexpr int kPartChunks = kChunks / kParts;

  __device__ RowSums(const SumsArgs& args, Shared* shared, char* ring, int cluster)
      : args_(args),
        shared_(*shared),
        ring_(ring),
        cluster_(cluster),
        lane_(static_cast<int>(threadIdx.x) & 31),
        warp_(static_cast<int>(threadIdx.x) >> 5),
        rank_(static_cast<int>(ClusterRank())) {
    first_row_ = blockIdx.x / static_cast<unsigned>(cluster);
    row_step_ = gridDim.x / static_cast<unsigned>(cluster);
    count_ = first_row_ < args.rows
                 ? static_cast<int>((args.rows - first_row_ + row_step_ - 1) / row_step_)
                 : 0;
    first_tile_ = rank_ * args.block_tiles;
    tiles_ = max(0, min(args.block_tiles, args.tiles - first_tile_));
    place_ = PlaceOf(warp_);
    const int whole_row = args.vocab / kTileEntries;  // whole tiles of the row
    used_ = max(0, min(kChunks, (tiles_ - place_ + kWarps - 1) / kWarps));
    const bool is_cut = used_ > 0 && first_tile_ + (used_ - 1) * kWarps + place_ >= whole_row;
    cut_ = is_cut ? used_ - 1 : -1;
  }

  __device__ void Run() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < args_.slots; ++i) {
        BarrierInit(&shared_.full[i], kVoices);
        BarrierInit(&shared_.empty[i], (kWarps + 1) * kVoices);  // and the planner
      }
      for (int i = 0; i < 8; ++i) BarrierInit(&shared_.maxima_here[i], 1);
      for (int i = 0; i < 4; ++i) {
        BarrierInit(&shared_.plan_ready[i], 1);
        BarrierInit(&shared_.pivot_here[i], 1);
      }
      for (int i = 0; i < 2; ++i) {
        BarrierInit(&shared_.sums_done[i], kWarps * kVoices);
        BarrierInit(&shared_.exchanged[i], 1);
        BarrierInit(&shared_.slope_ready[i], 1);
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    ClusterSync();
    if (count_ == 0) {
      // More clusters than rows.
    } else if (warp_ < kWarps) {
      Compute();
    } else if (warp_ == kWarps) {
      Planner();
    } else if (warp_ == kWarps + 1) {
      Keeper();
    } else {
      Closer();
    }
    __syncwarp();
    ClusterSync();  // nobody leaves while a neighbour may still write here
  }

 private:
  // A place in the ring, and the phase of its barriers.
  struct Place {
    int slot = 0;
    uint32_t phase = 0;
    __device__ __forceinline__ void Step(int by, int slots) {
      slot += by;
      if (slot >= slots) slot -= slots, phase ^= 1;
    }
  };

  __device__ int64_t RowAt(int i) const { return first_row_ + static_cast<int64_t>(i) * row_step_; }
  // Whether the ring holds the next row beside this one, so that its maxima are found early.
  __device__ bool LooksAhead() const { return args_.slots >= 2 * kParts; }
  __device__ __forceinline__ const char* SlotAt(int slot) const {
    return ring_ + slot * 2 * args_.side_bytes;
  }
  // The warp's tile of chunk c within its slot, train side.
  __device__ __forceinline__ const char* TileAt(const char* slot, int c) const {
    return slot + (c % kPartChunks * kWarps + place_) * kTileBytes;
  }
  __device__ int TileId(int c) const { return first_tile_ + c * kWarps + place_; }
  __device__ float EntryAt(const char* tile, int place) const {
    return LoadLogitAt(tile, kDType, place);
  }

  // For the whole warp.
  __device__ __forceinline__ void Arrive(uint64_t* barrier) {
    __syncwarp();
    if (kVoices > 1 || lane_ == 0) BarrierArrive(barrier);
  }

  // Step 1.
  __device__ __forceinline__ void FindMaxima(int i, Place at) {
    LaneMax<T> train_max;
    LaneMax<T> infer_max;
    const char* slot = SlotAt(at.slot);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (c % kPartChunks == 0) {
        if (c > 0) at.Step(1, args_.slots), slot = SlotAt(at.slot);
        BarrierWait(&shared_.full[at.slot], at.phase);
      }
      const char* tile = TileAt(slot, c);
      if (c < used_) {
        LaneLogits<T> train, infer;
        train.Load(tile, lane_);
        infer.Load(tile + args_.side_bytes, lane_);
        train_max.Add(train);
        infer_max.Add(infer);
      }
    }
    const int train_top = __reduce_max_sync(kAll, OrderedBits(train_max.Value()));
    const int infer_top = __reduce_max_sync(kAll, OrderedBits(infer_max.Value()));
    if (lane_ < cluster_) {
      const uint64_t both = static_cast<uint32_t>(train_top) |
                            (static_cast<uint64_t>(static_cast<uint32_t>(infer_top)) << 32);
      StoreRemote(&shared_.maxima[i & 7][rank_ * kWarps + warp_], both, &shared_.maxima_here[i & 7],
                  static_cast<uint32_t>(lane_));
    }
  }

  // Step 2, for the row before.
  __device__ __forceinline__ void AddAbsolute(int i, const float (&e)[kChunks][8],
                                              const float (&q)[kChunks][8]) {
    BarrierWait(&shared_.slope_ready[i & 1], (i >> 1) & 1);
    const float slope = shared_.slope[i & 1];
    float part[4] = {0, 0, 0, 0};
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int j = 0; j < 8; ++j) part[j & 3] += fabsf(fmaf(-slope, e[c][j], q[c][j]));
    }
    float sum = (part[0] + part[1]) + (part[2] + part[3]);
    for (int mask = 16; mask > 0; mask >>= 1) sum += __shfl_xor_sync(kAll, sum, mask);
    if (lane_ == 0) shared_.absolute[i & 1][warp_] = sum;
  }

  // Step 3 for one tile. `masked`: it holds the pivot, or the row's end.
  __device__ __forceinline__ void AddTile(const RowPlan& plan, const char* tile, bool masked, int c,
                                          int pivot, LaneSums* sums, float (&e)[8], float (&q)[8]) {
    LaneLogits<T> train, infer;
    train.Load(tile, lane_);
    infer.Load(tile + args_.side_bytes, lane_);
    float x[8];
    float y[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float a = train.At(j);
      const float b = infer.At(j);
      const float d = b - a;
      x[j] = fmaf(d, args_.inverse_tau, -plan.shift);
      if constexpr (sizeof(T) == 4) {
        // What the subtraction lost (Knuth's two-sum), or a large shift would drown it.
        const float b_part = d + a;
        const float lost = (b - b_part) + ((b_part - d) - a);
        x[j] = fmaf(lost, args_.inverse_tau, x[j]);
      }
      y[j] = d;
    }
    unsigned counts = 0xff;
    unsigned inside = 0xff;
    if (masked) {
      inside = 0;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const bool is_inside = TileId(c) * kTileEntries + PlaceInTile<T>(lane_, j) < args_.vocab;
        inside |= static_cast<unsigned>(is_inside) << j;
        // An outsider moves no extreme: y takes both signs, or is 0 throughout.
        if (!is_inside) x[j] = y[j] = 0;
      }
      counts = inside & ~(pivot >= 0 && pivot / 8 == c ? 1u << (pivot & 7) : 0u);
    }
    if (plan.shifted != 0) {
      AddSpread(x, sums);
    } else {
      AddSpread(y, sums);
    }
    const int high = sums->high;
    const uint32_t low = sums->low;
    // NaN lies beyond every bound.
    const bool small = low <= plan.small_low && high <= plan.small_high;
    if (__all_sync(kAll, small)) {
      if (!masked) {
        AddAll<kSmallRange, false>(plan, train, x, inside, counts, sums, e, q);
      } else {
        AddAll<kSmallRange, true>(plan, train, x, inside, counts, sums, e, q);
      }
      return;
    }
    const bool medium = low <= plan.medium_low && high <= plan.medium_high;
    if (!masked && __all_sync(kAll, medium)) {
      return AddAll<kMediumRange, false>(plan, train, x, inside, counts, sums, e, q);
    }
    RareTile out;
    out.counts = counts;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      out.a[j] = (inside >> j & 1) != 0 ? train.At(j) : 0.0f;
      out.x[j] = x[j];
    }
#pragma unroll
    for (int k = 0; k < kLaneSums; ++k) out.sum[k] = sums->sum[k];
    out.scale = args_.scale, out.minus_k = plan.minus_k;
    AddRareTile<kSquare>(&out);
#pragma unroll
    for (int k = 0; k < kLaneSums; ++k) sums->sum[k] = out.sum[k];
#pragma unroll
    for (int j = 0; j < 8; ++j) e[j] = out.e[j], q[j] = out.q[j];
  }

  __device__ __forceinline__ void AddSpread(const float (&y)[8], LaneSums* sums) {
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      sums->high = max(sums->high, max(__float_as_int(y[j]), __float_as_int(y[j + 1])));
      sums->low = max(sums->low, max(__float_as_uint(y[j]), __float_as_uint(y[j + 1])));
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      sums->sum[8] += y[j];
      sums->sum[9] = fmaf(y[j], y[j], sums->sum[9]);
    }
  }

  template <TermRange kRange, bool kMasked>
  __device__ __forceinline__ void AddAll(const RowPlan& plan, const LaneLogits<T>& train,
                                         const float (&x)[8], unsigned inside, unsigned counts,
                                         LaneSums* sums, float (&e)[8], float (&q)[8]) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float a = !kMasked || (inside >> j & 1) != 0 ? train.At(j) : 0.0f;
      AddTerms<kRange, kMasked, kSquare>(a, x[j], args_.scale, plan.minus_k, (counts >> j & 1) != 0,
                                         sums, &e[j], &q[j]);
    }
  }

  __device__ void Compute() {
    float e[kChunks][8] = {};  // chunks without a tile stay 0
    float q[kChunks][8] = {};
    Place at;  // of row i
    const bool ahead = LooksAhead();
    if (ahead) FindMaxima(0, at);
    for (int i = 0; i < count_; ++i) {
      const int sought = ahead ? i + 1 : i;
      if (sought < count_) {
        Place sought_at = at;
        sought_at.Step(ahead ? kParts : 0, args_.slots);
        FindMaxima(sought, sought_at);
      }
      if (i > 0) AddAbsolute(i - 1, e, q);
      BarrierWait(&shared_.plan_ready[i & 3], (i >> 2) & 1);
      const RowPlan plan = shared_.plan[i & 3];
      const bool holds = plan.pivot_warp == rank_ * kWarps + warp_;
      const unsigned masked =
          (holds ? 1u << ((plan.pivot & 63) / 8) : 0u) | (cut_ >= 0 ? 1u << cut_ : 0u);
      const int pivot = holds && plan.pivot / 64 == lane_ ? plan.pivot & 63 : -1;
      LaneSums sums;
      const char* slot = SlotAt(at.slot);
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        if (c < used_) {
          AddTile(plan, TileAt(slot, c), (masked >> c & 1) != 0, c, pivot, &sums, e[c], q[c]);
        }
        if ((c + 1) % kPartChunks == 0) {
          Arrive(&shared_.empty[at.slot]);
          at.Step(1, args_.slots);
          slot = SlotAt(at.slot);
        }
      }
      StoreSums(i, sums);
    }
    AddAbsolute(count_ - 1, e, q);
    Arrive(&shared_.sums_done[count_ & 1]);
  }

  __device__ __forceinline__ void StoreSums(int i, const LaneSums& sums) {
    int index;
    bool writes;
    const float value = ReduceLaneSums(sums.sum, lane_, &index, &writes);
    // First what the others wait for; ReduceLaneSums leaves e with lane 0 and q with lane 2.
    const float of_e = __shfl_sync(kAll, value, 0);
    const float of_q = __shfl_sync(kAll, value, 2);
    if (lane_ < cluster_) {
      const uint64_t both =
          __float_as_uint(of_e) | (static_cast<uint64_t>(__float_as_uint(of_q)) << 32);
      StoreRemote(&shared_.exchange[i & 1][rank_ * kWarps + warp_], both, &shared_.exchanged[i & 1],
                  static_cast<uint32_t>(lane_));
    }
    uint32_t* to = shared_.sums[i & 1][warp_];
    if (writes) to[index] = __float_as_uint(value);
    const unsigned low = __reduce_max_sync(kAll, sums.low);
    const int high = __reduce_max_sync(kAll, sums.high);
    if (lane_ == 0) {
      to[kPartialLow] = low;
      to[kPartialHigh] = static_cast<uint32_t>(high);
    }
    Arrive(&shared_.sums_done[i & 1]);
  }

  // ---- planner, keeper, closer

  // Brings one part of the i-th row into a slot. All lanes.
  __device__ void Fill(int i, int part, int slot) {
    if (i >= count_) return;
    const int tile = part * kPartChunks * kWarps;
    const int end_tile = min(tile + kPartChunks * kWarps, tiles_);
    const int begin = (first_tile_ + tile) * kTileEntries;
    const int end = min((first_tile_ + end_tile) * kTileEntries, args_.vocab);
    const int bytes = max(0, end - begin) * static_cast<int>(sizeof(T));
    const int bulk = args_.aligned ? bytes & ~15 : 0;
    const int64_t row = RowAt(i);
    const int64_t offset = static_cast<int64_t>(begin) * static_cast<int>(sizeof(T));
    const char* train = args_.train + row * args_.train_stride + offset;
    const char* infer = args_.infer + row * args_.infer_stride + offset;
    char* to = ring_ + slot * 2 * args_.side_bytes;
    const int padded = max(0, end_tile - tile) * kTileBytes;
    if (padded > bulk) {
      FillPlainly(to + bulk, train + bulk, bytes - bulk, padded - bulk);
      FillPlainly(to + args_.side_bytes + bulk, infer + bulk, bytes - bulk, padded - bulk);
      __syncwarp();
    }
    if (kVoices > 1 && lane_ != 0) BarrierArrive(&shared_.full[slot]);
    if (lane_ == 0) {
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      BarrierArriveExpect(&shared_.full[slot], 2u * static_cast<uint32_t>(bulk));
      if (bulk > 0) {
        BulkCopy(to, train, static_cast<uint32_t>(bulk), &shared_.full[slot]);
        BulkCopy(to + args_.side_bytes, infer, static_cast<uint32_t>(bulk), &shared_.full[slot]);
      }
    }
    __syncwarp();
  }

  // What no bulk copy takes: a row's odd end, and rows that start anywhere. The last tile is filled
  // up with the lowest value, which is no maximum.
  __device__ void FillPlainly(char* to, const char* from, int bytes, int padded) {
    const T* source = reinterpret_cast<const T*>(from);
    T* target = reinterpret_cast<T*>(to);
    const int count = bytes / static_cast<int>(sizeof(T));
#pragma unroll 16
    for (int k = lane_; k < count; k += 32) target[k] = source[k];
    for (int k = count + lane_; k < padded / static_cast<int>(sizeof(T)); k += 32) {
      target[k] = LowestLogit<T>();
    }
  }

  __device__ void Planner() {
    Place at;
    for (int i = 0; i < count_; ++i) {
      MakePlan(i, at);
      const unsigned found = CollectTops(i, 0, at);
      if (lane_ == 0) shared_.found[i & 3] = found;
      for (int part = 0; part < kParts; ++part) {
        Arrive(&shared_.empty[at.slot]);
        at.Step(1, args_.slots);
      }
    }
  }

  __device__ void Keeper() {
    for (int n = 0; n < args_.slots; ++n) Fill(n / kParts, n % kParts, n);
    Place at;
    for (int i = 0; i < count_; ++i) {
      BarrierWait(&shared_.plan_ready[i & 3], (i >> 2) & 1);
      const unsigned found = CollectTops(i, 1, at);
      for (int part = 0; part < kParts; ++part) {
        const int next = part + args_.slots;
        BarrierWait(&shared_.empty[at.slot], at.phase);
        if (part == 0 && lane_ == 0) {
          args_.counts[RowAt(i) * cluster_ + rank_] = shared_.found[i & 3] | (found << 16);
        }
        Fill(i + next / kParts, next % kParts, at.slot);
        at.Step(1, args_.slots);
      }
    }
  }

  __device__ void Closer() {
    for (int i = 0; i < count_; ++i) {
      if (lane_ == 0) {
        BarrierArriveExpect(&shared_.exchanged[i & 1],
                            static_cast<uint32_t>(cluster_ * kWarps) * 8);
        BarrierArriveExpect(&shared_.pivot_here[i & 3], 8);
      }
      BarrierWait(&shared_.plan_ready[i & 3], (i >> 2) & 1);
      const uint64_t pivot = PublishSlope(i);
      WriteSums(i, pivot);
    }
    BarrierWait(&shared_.sums_done[count_ & 1], (count_ >> 1) & 1);
    if (lane_ == kPartialAbsolute) WriteAbsolute(count_ - 1);
  }

  // The place of a warp's tile in every chunk: tiles beyond an even share go to the warps that
  // share a scheduler with a serving one; every fourth warp, from 0, does not.
  __device__ static int PlaceOf(int warp) {
    static_assert(kWarps % 4 == 1);
    return warp % 4 == 0 ? kWarps - 1 - warp / 4 : warp - 1 - warp / 4;
  }

  // Where the largest train entry of a warp lies, as RowPlan::pivot, -1 if nowhere (NaN); *pair its
  // two logits.
  __device__ int LocatePivot(Place at, int warp, int bits, uint64_t* pair) {
    *pair = 0;
    const int place = PlaceOf(warp);
#pragma unroll 1
    for (int c = 0; c < kChunks; ++c) {
      if (c > 0 && c % kPartChunks == 0) at.Step(1, args_.slots);
      const int tile = c * kWarps + place;
      if (tile >= tiles_) break;
      const char* from = SlotAt(at.slot) + (c % kPartChunks * kWarps + place) * kTileBytes;
      LaneLogits<T> logits;
      logits.Load(from, lane_);
      int found = -1;
#pragma unroll
      for (int j = 7; j >= 0; --j) {
        if (OrderedBits(logits.At(j)) == bits) found = j;
      }
      const int first = (first_tile_ + tile) * kTileEntries;
      if (found >= 0 && first + PlaceInTile<T>(lane_, found) >= args_.vocab) found = -1;
      const unsigned owners = __ballot_sync(kAll, found >= 0);
      if (owners == 0) continue;
      const int owner = __ffs(static_cast<int>(owners)) - 1;
      const int j = __shfl_sync(kAll, found, owner);
      const int entry = PlaceInTile<T>(owner, j);
      *pair =
          __float_as_uint(EntryAt(from, entry)) |
          (static_cast<uint64_t>(__float_as_uint(EntryAt(from + args_.side_bytes, entry))) << 32);
      return owner * 64 + c * 8 + j;
    }
    return -1;
  }

  // Entries of one warp's tiles at or above the threshold go to the block's list of candidates,
  // which has `found` already. Returns how many it has then.
  __device__ unsigned CollectWarp(int i, int side, Place at, int warp, int threshold,
                                  unsigned found) {
    const int place = PlaceOf(warp);
    const int64_t list = ((RowAt(i) * cluster_ + rank_) * 2 + side) * kCandidatesMax;
#pragma unroll 1
    for (int c = 0; c < kChunks; ++c) {
      if (c > 0 && c % kPartChunks == 0) at.Step(1, args_.slots);
      const int tile = c * kWarps + place;
      if (tile >= tiles_) break;
      LaneLogits<T> logits;
      logits.Load(SlotAt(at.slot) + (c % kPartChunks * kWarps + place) * kTileBytes +
                      side * args_.side_bytes,
                  lane_);
      LaneMax<T> best;
      best.Add(logits);
      if (!__any_sync(kAll, !(OrderedBits(best.Value()) < threshold))) continue;
      const int first = (first_tile_ + tile) * kTileEntries;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int bits = OrderedBits(logits.At(j));
        const int id = first + PlaceInTile<T>(lane_, j);
        const bool is_top = bits >= threshold && id < args_.vocab;
        const unsigned tops = __ballot_sync(kAll, is_top);
        if (tops == 0) continue;
        const unsigned slot = found + static_cast<unsigned>(__popc(tops & ((1u << lane_) - 1)));
        if (is_top && slot < kCandidatesMax) {
          args_.candidates[list + slot] =
              make_uint2(static_cast<uint32_t>(bits), static_cast<uint32_t>(id));
        }
        found += static_cast<unsigned>(__popc(tops));
      }
    }
    return found;
  }

  // The candidates of one side. Returns their number.
  __device__ __forceinline__ unsigned CollectTops(int i, int side, const Place& at) {
    const int threshold =
        side == 0 ? shared_.plan[i & 3].train_threshold : shared_.plan[i & 3].infer_threshold;
    const uint64_t mine =
        lane_ < kWarps ? shared_.maxima[i & 7][rank_ * kWarps + lane_] : uint64_t{0};
    const int top = static_cast<int>(side == 0 ? mine : mine >> 32);
    unsigned found = 0;
#pragma unroll 1
    for (unsigned warps = __ballot_sync(kAll, lane_ < kWarps && top >= threshold); warps != 0;
         warps &= warps - 1) {
      found = CollectWarp(i, side, at, __ffs(static_cast<int>(warps)) - 1, threshold, found);
    }
    return min(found, 0xffffu);
  }

  __device__ __forceinline__ void MakePlan(int i, const Place& at) {
    const uint64_t* maxima = shared_.maxima[i & 7];
    const int entries = cluster_ * kWarps;
    if (lane_ == 0) {
      BarrierArriveExpect(&shared_.maxima_here[i & 7], static_cast<uint32_t>(entries) * 8);
    }
    BarrierWait(&shared_.maxima_here[i & 7], (i >> 3) & 1);
    // The weighted mean of what happened to the largest entries: close to delta in every kind of
    // row, so that nothing cancels. Any value would be right. Weights are relative to the lane's
    // own largest entry until the row's is known.
    int group[2] = {INT_MIN, INT_MIN};
    float weight = 0, moved = 0, top_here = -kFloatInf;
    float low = kFloatInf, high = -kFloatInf;
    int best = INT_MAX;
#pragma unroll 1
    for (int k = lane_; k < entries; k += 32) {
      const int train = static_cast<int>(maxima[k]);
      const int infer = static_cast<int>(maxima[k] >> 32);
      const float a = FromOrderedBits(train);
      const float d = FromOrderedBits(infer) - a;
      best = train > group[0] ? k : best;
      group[0] = max(group[0], train);
      group[1] = max(group[1], infer);
      if (a == -kFloatInf) continue;
      const float top_new = fmaxf(top_here, a);
      const float shrink = Exp2Approx((top_here - top_new) * args_.scale);
      const float w = Exp2Approx((a - top_new) * args_.scale);
      weight = fmaf(weight, shrink, w);
      moved = fmaf(moved, shrink, w * d);
      low = fminf(low, d);
      high = fmaxf(high, d);
      top_here = top_new;
    }
    const int top_train = __reduce_max_sync(kAll, group[0]);
    const float top = FromOrderedBits(top_train);
    const float shrink = top_here == -kFloatInf ? 0.0f : Exp2Approx((top_here - top) * args_.scale);
    weight *= shrink;
    moved *= shrink;
    for (int mask = 16; mask > 0; mask >>= 1) {
      weight += __shfl_xor_sync(kAll, weight, mask);
      moved += __shfl_xor_sync(kAll, moved, mask);
    }
    low = FromOrderedBits(__reduce_min_sync(kAll, OrderedBits(low)));
    high = FromOrderedBits(__reduce_max_sync(kAll, OrderedBits(high)));
    int pivot_warp = __reduce_min_sync(kAll, group[0] == top_train ? best : INT_MAX);
    pivot_warp = pivot_warp == INT_MAX ? 0 : pivot_warp;  // someone must report
    int pivot = -1;
    if (pivot_warp / kWarps == rank_) {
      uint64_t pair;
      pivot = LocatePivot(at, pivot_warp % kWarps, top_train, &pair);
      if (lane_ < cluster_) {
        StoreRemote(&shared_.pivot[i & 3], pair, &shared_.pivot_here[i & 3],
                    static_cast<uint32_t>(lane_));
      }
    }
    const int train_threshold = Ranked(0, group[0]);
    const int infer_threshold = Ranked(1, group[1]);
    if (lane_ == 0) {
      RowPlan plan;
      float shift = __fdividef(moved, weight) * args_.inverse_tau;
      if (!(fabsf(shift) < 1e6f)) shift = 0;
      const float k = fabsf(top) < 1e6f ? rintf(top * args_.scale) : 0.0f;
      const bool shifted = low > 0 || high < 0;
      plan.minus_k = -k;
      plan.shift = shift;
      plan.shifted = shifted ? 1 : 0;
      SetBounds(shifted, shift, kSmallEnd, &plan.small_low, &plan.small_high);
      SetBounds(shifted, shift, kMediumEnd, &plan.medium_low, &plan.medium_high);
      plan.train_threshold = train_threshold;
      plan.infer_threshold = infer_threshold;
      plan.top_train = top_train;
      plan.pivot_warp = pivot < 0 ? -1 : pivot_warp;
      plan.pivot = pivot;
      shared_.plan[i & 3] = plan;
      BarrierArrive(&shared_.plan_ready[i & 3]);
      if (rank_ == 0) {
        RowHead* head = &args_.heads[RowAt(i)];
        head->top_train = top;
        head->shift = shift;
        head->exponent = static_cast<int>(k);
        head->shifted = plan.shifted;
      }
    }
    __syncwarp();
  }

  // |x| <= end as bounds of y's bits: the largest as an unsigned and as a signed integer. Where
  // the bounds of y do not enclose 0 the range is not to be used.
  __device__ void SetBounds(bool shifted, float shift, float end, uint32_t* low, int* high) const {
    const float from = shifted ? -end : (shift - end) * args_.tau;
    const float to = shifted ? end : (shift + end) * args_.tau;
    const bool usable = from < 0 && to > 0;
    *low = usable ? __float_as_uint(from) : 0u;
    *high = usable ? __float_as_int(to) : INT_MIN;
  }

  // The top_rank-th largest of the lanes' values, 0 being the largest.
  __device__ __forceinline__ int Ranked(int side, int mine) {
    shared_.groups[side][lane_] = mine;
    __syncwarp();
    int before = 0;
    const int4* groups = reinterpret_cast<const int4*>(shared_.groups[side]);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int4 g = groups[k];
      before += g.x > mine - (4 * k < lane_ ? 1 : 0) ? 1 : 0;
      before += g.y > mine - (4 * k + 1 < lane_ ? 1 : 0) ? 1 : 0;
      before += g.z > mine - (4 * k + 2 < lane_ ? 1 : 0) ? 1 : 0;
      before += g.w > mine - (4 * k + 3 < lane_ ? 1 : 0) ? 1 : 0;
    }
    const unsigned owner = __ballot_sync(kAll, before == args_.top_rank);
    return __shfl_sync(kAll, mine, __ffs(static_cast<int>(owner)) - 1);
  }

  __device__ double* PartialsOf(int i) const {
    return args_.partials + (RowAt(i) * cluster_ + rank_) * kPartials;
  }

  __device__ void WriteAbsolute(int i) {
    double sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += static_cast<double>(shared_.absolute[i & 1][w]);
    PartialsOf(i)[kPartialAbsolute] = sum;
  }

  // s = sum e E / sum e, over the whole row. Returns the pivot.
  __device__ uint64_t PublishSlope(int i) {
    const int b = i & 1;
    const float minus_k = shared_.plan[i & 3].minus_k;
    const float shift = shared_.plan[i & 3].shift;
    BarrierWait(&shared_.pivot_here[i & 3], (i >> 2) & 1);
    const uint64_t pair = shared_.pivot[i & 3];
    const float a = __uint_as_float(static_cast<uint32_t>(pair));
    const float d = __uint_as_float(static_cast<uint32_t>(pair >> 32)) - a;
    const float e = Exp2Approx(fmaf(a, args_.scale, minus_k));
    const float excess = expm1f(fmaf(d, args_.inverse_tau, -shift));
    BarrierWait(&shared_.exchanged[b], (i >> 1) & 1);
    float of_e = 0;
    float of_q = 0;
#pragma unroll 4
    for (int k = lane_; k < cluster_ * kWarps; k += 32) {
      const uint64_t both = shared_.exchange[b][k];
      of_e += __uint_as_float(static_cast<uint32_t>(both));
      of_q += __uint_as_float(static_cast<uint32_t>(both >> 32));
    }
    for (int mask = 16; mask > 0; mask >>= 1) {
      of_e += __shfl_xor_sync(kAll, of_e, mask);
      of_q += __shfl_xor_sync(kAll, of_q, mask);
    }
    if (lane_ == 0) {
      shared_.slope[b] = __fdividef(fmaf(e, excess, of_q), of_e + e);
      BarrierArrive(&shared_.slope_ready[b]);
    }
    __syncwarp();
    return pair;
  }

  // Leaves the block's sums of the row to the row's end.
  __device__ void WriteSums(int i, uint64_t pair) {
    const int b = i & 1;
    BarrierWait(&shared_.sums_done[b], (i >> 1) & 1);
    if (lane_ < kLaneSums) {
      double sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        sum += static_cast<double>(__uint_as_float(shared_.sums[b][w][lane_]));
      }
      PartialsOf(i)[lane_] = sum;
    } else if (lane_ == kPartialLow || lane_ == kPartialHigh) {
      uint32_t value = shared_.sums[b][0][lane_];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) {
        const uint32_t other = shared_.sums[b][w][lane_];
        value = lane_ == kPartialLow
                    ? max(value, other)
                    : static_cast<uint32_t>(max(static_cast<int>(value), static_cast<int>(other)));
      }
      PartialsOf(i)[lane_] = static_cast<double>(value);
    } else if (lane_ == kPartialAbsolute && i > 0) {
      WriteAbsolute(i - 1);
    } else if (lane_ == kPartialAbsolute + 1) {
      if (rank_ == 0) {
        args_.heads[RowAt(i)].pivot_train = __uint_as_float(static_cast<uint32_t>(pair));
        args_.heads[RowAt(i)].pivot_infer = __uint_as_float(static_cast<uint32_t>(pair >> 32));
      }
    }
    __syncwarp();
  }

  static constexpr unsigned kAll = 0xffffffffu;
  static constexpr int kTileBytes = kTileEntries * static_cast<int>(sizeof(T));
  static constexpr int kDType = sizeof(T) == 4                     ? kDeviceF32
                                : std::is_same_v<T, __half>        ? kDeviceF16
                                : std::is_same_v<T, __nv_bfloat16> ? kDeviceBF16
                                : std::is_same_v<T, __nv_fp8_e4m3> ? kDeviceF8E4M3
                                                                   : kDeviceF8E5M2;

  const SumsArgs& args_;
  Shared& shared_;
  char* const ring_;
  const int cluster_;
  const int lane_;
  const int warp_;
  const int rank_;
  int64_t first_row_;
  int64_t row_step_;
  int count_;
  int first_tile_;
  int tiles_;
  int place_;  // of the warp's tiles in every chunk
  int used_;   // the warp's chunks with a tile
  int cut_;    // the chunk that the row's end cuts, or -1
};

template <class T, int kWarps, int kChunks, bool kSquare>
__global__ void __launch_bounds__((kWarps + kServingWarps) * 32, 1)
    RowSumsKernel(const __grid_constant__ SumsArgs args, int cluster) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char memory[];
  using Sums = RowSums<T, kWarps, kChunks, kSquare>;
  constexpr size_t kShared = (sizeof(typename Sums::Shared) + 127) / 128 * 128;
  Sums(args, reinterpret_cast<typename Sums::Shared*>(memory), memory + kShared, cluster).Run();
#endif
}

}  // namespace kcc
