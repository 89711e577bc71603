// After the fast kernel, one warp a row: the top tokens, found among the few threads whose largest
// entries say that they may hold one; and the row's sums in double. The thread that had the largest
// train entry, the pivot, is added up again without it: beside it float sums lose the rest of a
// peaked row. Then one warp solves the rows of its block, one a lane.
#pragma once

#include "kcc/drift/cuda/row_end.cuh"
#include "kcc/drift/cuda/row_sync.cuh"

namespace kcc {

inline constexpr int kGatherWarps = 8;
inline constexpr int kThreadsMax = 64;     // to search, both sides together
inline constexpr int kCandidatesMax = 64;  // a side; more: the row is measured in double

struct GatherShared {
  uint32_t threads[kThreadsMax];        // (piece * 32 + lane) * 2 + side
  int largest[kThreadsMax];             // ordered bits of its largest entry of that side
  int2 tiles[kThreadsMax];              // its piece's first tile and the one after its last
  uint2 candidates[2][kCandidatesMax];  // ordered bits, id; in no order
  int found[2];
};

template <class T>
class RowGather {
 public:
  __device__ __forceinline__ RowGather(const EndArgs& args, int64_t at, int lane,
                                       GatherShared* shared)
      : args_(args),
        sums_(args.sums),
        at_(at),
        lane_(lane),
        shared_(*shared),
        row_warps_(sums_.RowWarps()),
        token_(args.row.tokens == nullptr ? -1 : args.row.tokens[args.first_row + at]),
        settings_(sums_.records.settings[at]),
        parts_(sums_.records.parts + at * row_warps_),
        tops_(sums_.records.tops + at * row_warps_ * (kTopWords * 32)),
        row_{sums_.Row(0, at), sums_.Row(1, at)},
        token_at_(token_ >= 0 && token_ < args.row.vocab ? PairAt(token_) : TokenPair{0, 0}) {}

  __device__ __forceinline__ void Run(EndRow* out) {
    bool listed = FindThreads();
    if (listed) {
      Collect();
      listed = found_[0] <= kCandidatesMax && found_[1] <= kCandidatesMax && found_[0] > 0 &&
               found_[1] > 0;
    }
    if (listed) {
      Rank(0, &out->tops[0]);
      Rank(1, &out->tops[1]);
      LookUp(out);
      PublishTopsOf(out->tops[0], out->tops[1]);
      const int pivot = Pivot();
      listed = pivot != INT_MAX;  // beside a NaN there may be none
      if (listed) AddUp(&out->sums, pivot);
    }
    if (lane_ == 0) out->listed = listed ? 1 : 0;
  }

 private:
  static constexpr unsigned kAll = 0xffffffffu;
  static constexpr int kPieces = PiecesOf(sizeof(T));
  static constexpr int kPiecesOfLane = kRowWarpsMax * kPieces / 32;
  static_assert(kPiecesOfLane <= 2);

  // The top_rank-th largest of the lanes' values, 0 being the largest.
  __device__ __forceinline__ int Ranked(int mine) const {
    int largest = __reduce_max_sync(kAll, mine);
    for (int rank = 0; rank < args_.top_rank; ++rank) {
      const unsigned owners = __ballot_sync(kAll, mine == largest);
      if ((owners & ((1u << lane_) - 1)) == 0 && mine == largest) mine = INT_MIN;
      largest = __reduce_max_sync(kAll, mine);
    }
    return largest;
  }

  // Of a piece of the row, all lanes' and this lane's.
  __device__ __forceinline__ TopPair<T> TopsOf(int piece) const {
    return TopPair<T>::At(parts_[piece / kPieces].tops + piece % kPieces * TopPair<T>::kWords, 1);
  }
  __device__ __forceinline__ TopPair<T> LaneTopsOf(int piece) const {
    return TopPair<T>::At(tops_ + piece * TopPair<T>::kWords * 32 + lane_, 32);
  }
  __device__ __forceinline__ static void Raise(const TopPair<T>& by, int (&top)[2]) {
    top[0] = max(top[0], by.Train());
    top[1] = max(top[1], by.Infer());
  }

  // So many entries are at least as large as the threshold as are asked for, and few more: among
  // the largest entries of a piece, or of two, or where a row has too few, of each lane's.
  __device__ __forceinline__ bool FindThreads() {
    int top[2] = {INT_MIN, INT_MIN};
    const int pieces = row_warps_ * kPieces;
    const int filled = min(kPieces, sums_.GroupsOf(0));  // of a warp's, the shortest one's
    const bool by_pieces = min(32, pieces) * filled / kPieces >= 2 * (args_.top_rank + 1);
    int of_piece[kPiecesOfLane][2];
    if (by_pieces) {
#pragma unroll
      for (int k = 0; k < kPiecesOfLane; ++k) {
        const int piece = k * 32 + lane_;
        of_piece[k][0] = of_piece[k][1] = INT_MIN;
        if (piece < pieces) Raise(TopsOf(piece), of_piece[k]);
        top[0] = max(top[0], of_piece[k][0]);
        top[1] = max(top[1], of_piece[k][1]);
      }
    } else {
#pragma unroll 4
      for (int piece = 0; piece < pieces; ++piece) Raise(LaneTopsOf(piece), top);
    }
    threshold_[0] = Ranked(top[0]);
    threshold_[1] = Ranked(top[1]);
    if (lane_ < 2) shared_.found[lane_] = 0;
    uint64_t left = ~uint64_t{0} >> (64 - pieces);
    if (by_pieces) {
      left = 0;
#pragma unroll
      for (int k = 0; k < kPiecesOfLane; ++k) {
        const unsigned holding =
            __ballot_sync(kAll, of_piece[k][0] >= threshold_[0] || of_piece[k][1] >= threshold_[1]);
        left |= static_cast<uint64_t>(holding) << (32 * k);
      }
    }
    int found = 0;
    while (left != 0) {
      constexpr int kAtOnce = 4;
      TopPair<T> its[kAtOnce];
      int piece[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        piece[k] = __ffsll(static_cast<long long>(left)) - 1;
        left &= left - 1;
        its[k] = LaneTopsOf(max(piece[k], 0));
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (piece[k] < 0) break;
#pragma unroll
        for (int side = 0; side < 2; ++side) {
          const int top_of_lane = side == 0 ? its[k].Train() : its[k].Infer();
          const bool holds = top_of_lane >= threshold_[side];
          const unsigned holders = __ballot_sync(kAll, holds);
          const int place = found + __popc(holders & ((1u << lane_) - 1));
          if (holds && place < kThreadsMax) {
            shared_.threads[place] = static_cast<uint32_t>((piece[k] * 32 + lane_) * 2 + side);
            shared_.largest[place] = top_of_lane;
          }
          found += __popc(holders);
        }
      }
    }
    __syncwarp();
    threads_ = found;
    if (found > kThreadsMax) return false;
    DropThreads();
    return true;
  }

  // Of the threads found, only those that hold as many of the largest entries as are asked for:
  // each that is left to be searched costs as many reads as it has tiles.
  __device__ __forceinline__ void DropThreads() {
    int kept = 0;
    uint32_t thread[2];
    bool stays[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int mine = half * 32 + lane_;
      thread[half] = mine < threads_ ? shared_.threads[mine] : 0;
      const int largest = mine < threads_ ? shared_.largest[mine] : INT_MIN;
      int before = 0;
      for (int other = 0; other < threads_; ++other) {
        const bool same_side = ((shared_.threads[other] ^ thread[half]) & 1) == 0;
        before += same_side && shared_.largest[other] > largest ? 1 : 0;
      }
      stays[half] = mine < threads_ && before <= args_.top_rank;
      // Equal ones stay together, so that the smallest of those is the threshold.
      const bool is_train = (thread[half] & 1) == 0;
      const int train = __reduce_min_sync(kAll, stays[half] && is_train ? largest : INT_MAX);
      const int infer = __reduce_min_sync(kAll, stays[half] && !is_train ? largest : INT_MAX);
      threshold_[0] = half == 0 ? train : min(threshold_[0], train);
      threshold_[1] = half == 0 ? infer : min(threshold_[1], infer);
    }
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned staying = __ballot_sync(kAll, stays[half]);
      if (stays[half]) {
        const int place = kept + __popc(staying & ((1u << lane_) - 1));
        shared_.threads[place] = thread[half];
        shared_.tiles[place] = TilesOfPiece(static_cast<int>(thread[half] / 64));
      }
      kept += __popc(staying);
    }
    __syncwarp();
    threads_ = kept;
  }

  __device__ __forceinline__ static int LaneOf(uint32_t thread) {
    return static_cast<int>(thread / 2 % 32);
  }
  // That can be read 16 bytes at a time.
  __device__ __forceinline__ int WholeTiles() const {
    return sums_.aligned ? sums_.vocab / kTileEntries : 0;
  }
  // What a thread had of such a tile.
  __device__ __forceinline__ const char* TileAt(uint32_t thread, int tile) const {
    const char* const row = (thread & 1) == 0 ? row_[0] : row_[1];
    return row + static_cast<int64_t>(tile) * kTileEntries * static_cast<int>(sizeof(T));
  }
  __device__ __forceinline__ void LoadWhole(uint32_t thread, int tile, LaneLogits<T>* to) const {
    to->Load(TileAt(thread, tile), LaneOf(thread));
  }
  // A warp's tiles, with the one that is cut.
  __device__ __forceinline__ int CountOf(int row_warp) const {
    return sums_.TilesOf(row_warp) + (sums_.HasCut(row_warp) ? 1 : 0);
  }
  // The n-th of them, or one beyond the row's end.
  __device__ __forceinline__ int TileOf(int row_warp, int n) const {
    return n < CountOf(row_warp) ? sums_.FirstTileOf(row_warp) + n : sums_.tiles;
  }
  __device__ __forceinline__ int2 TilesOfPiece(int piece) const {
    const int row_warp = piece / kPieces;
    const int of_warp = piece % kPieces;
    const int first = sums_.FirstTileOf(row_warp);
    const bool is_last = of_warp == kPieces - 1;
    return make_int2(
        first + sums_.TilesBefore(row_warp, of_warp, kPieces),
        first + (is_last ? CountOf(row_warp) : sums_.TilesBefore(row_warp, of_warp + 1, kPieces)));
  }

  // A thread's tiles at once, one a lane, and two threads' where they have few; several times.
  __device__ __forceinline__ void Collect() {
    constexpr int kAtOnce = 4;
    const int most = sums_.most_of_piece;
    const int of_thread = most <= 16 ? 16 : 32;  // lanes
    const int abreast = 32 / of_thread;
    const int of_pass = kAtOnce * abreast;
#pragma unroll 1
    for (int first = lane_ % of_thread; first - lane_ % of_thread < most; first += of_thread) {
#pragma unroll 1
      for (int begin = 0; begin < threads_; begin += of_pass) {
        LaneLogits<T> logits[kAtOnce];
        uint32_t thread[kAtOnce];
        int tile[kAtOnce];
        // All of them are under way before any is awaited.
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
          const int place = begin + k * abreast + lane_ / of_thread;
          const int known = min(place, threads_ - 1);
          thread[k] = shared_.threads[known];
          const int2 its = shared_.tiles[known];
          tile[k] = place < threads_ && its.x + first < its.y ? its.x + first : sums_.tiles;
          if (tile[k] < WholeTiles()) LoadWhole(thread[k], tile[k], &logits[k]);
        }
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
          if (tile[k] < WholeTiles() || tile[k] >= sums_.tiles) continue;
          LoadTile(sums_, row_[thread[k] & 1], tile[k], LaneOf(thread[k]), &logits[k]);
        }
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) Take(thread[k], tile[k], logits[k]);
      }
    }
    __syncwarp();
    found_[0] = shared_.found[0];
    found_[1] = shared_.found[1];
  }

  __device__ __forceinline__ void Take(uint32_t thread, int tile, const LaneLogits<T>& logits) {
    const int side = static_cast<int>(thread & 1);
    const int threshold = side == 0 ? threshold_[0] : threshold_[1];
    if (tile >= sums_.tiles) return;
    LaneMax<T> best;
    best.Add(logits);
    if (OrderedBits(best.Value()) < threshold) return;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int bits = OrderedBits(logits.At(j));
      const int id = tile * kTileEntries + PlaceInTile<T>(LaneOf(thread), j);
      if (bits < threshold || id >= sums_.vocab) continue;
      const int place = atomicAdd(&shared_.found[side], 1);
      if (place < kCandidatesMax) {
        shared_.candidates[side][place] =
            make_uint2(static_cast<uint32_t>(bits), static_cast<uint32_t>(id));
      }
    }
  }

  // The best tokens of one side, most likely first, ties by id.
  __device__ __forceinline__ void Rank(int side, DeviceTop* top) {
    const int total = side == 0 ? found_[0] : found_[1];
    const uint2* candidates = shared_.candidates[side];
    for (int n = lane_; n < total; n += 32) {
      const auto bits = static_cast<int>(candidates[n].x);
      const auto id = static_cast<int>(candidates[n].y);
      int rank = 0;
      for (int other = 0; other < total; ++other) {
        const auto other_bits = static_cast<int>(candidates[other].x);
        const auto other_id = static_cast<int>(candidates[other].y);
        rank += other_bits > bits || (other_bits == bits && other_id < id) ? 1 : 0;
      }
      if (rank < 10) {
        top->bits[rank] = bits;
        top->id[rank] = id;
      }
    }
    if (lane_ == 0) top->count = min(10, total);
    __syncwarp();
  }

  __device__ __forceinline__ static float LogitAt(const char* row, int64_t id) {
    return static_cast<float>(reinterpret_cast<const T*>(row)[id]);
  }
  __device__ __forceinline__ TokenPair PairAt(int64_t id) const {
    return {LogitAt(row_[0], id), LogitAt(row_[1], id)};
  }
  // The logits of the tokens that are asked about.
  __device__ __forceinline__ void LookUp(EndRow* out) const {
    if (lane_ != 0) return;
    out->infer_top = PairAt(out->tops[1].id[0]);
    out->token = token_;
    out->token_at = token_at_;
  }

  __device__ __forceinline__ void PublishTopsOf(const DeviceTop& train,
                                                const DeviceTop& infer) const {
    // Where this lane's train token stands among the infer side's.
    int place = INT_MAX;
    if (lane_ < train.count) {
      for (int j = 0; j < infer.count; ++j) place = train.id[lane_] == infer.id[j] ? j : place;
    }
    const auto overlap = [&](int k) {
      const unsigned shared = __ballot_sync(kAll, lane_ < k && place < k);
      const int of = max(min(k, train.count), min(k, infer.count));
      return static_cast<double>(__popc(shared)) / static_cast<double>(of);
    };
    const double overlaps[3] = {overlap(1), overlap(5), overlap(10)};
    if (lane_ == 0) PublishTops(args_.row, args_.first_row + at_, train, infer, overlaps);
  }

  // A largest train entry, in a top_lane of its warp: where there are several, any will do.
  __device__ __forceinline__ int Pivot() const {
    int bits = INT_MIN;
    for (int n = lane_; n < found_[0]; n += 32) {
      bits = max(bits, static_cast<int>(shared_.candidates[0][n].x));
    }
    bits = __reduce_max_sync(kAll, bits);
    int pivot = INT_MAX;
    for (int n = lane_; n < found_[0]; n += 32) {
      const uint2 candidate = shared_.candidates[0][n];
      const auto id = static_cast<int>(candidate.y);
      const WarpPart& part = parts_[sums_.WarpOfTile(id / kTileEntries)];
      const bool is_top_lane = part.top_lane == LaneInTile<T>(id % kTileEntries);
      if (static_cast<int>(candidate.x) == bits && is_top_lane) pivot = min(pivot, id);
    }
    return __reduce_min_sync(kAll, pivot);
  }

  // What the pivot's thread added up, without the pivot.
  __device__ __forceinline__ void AddPivotLane(int pivot, LaneSums* sums, float* absolute) const {
    const RowSettings& settings = settings_;
    const int its_warp = sums_.WarpOfTile(pivot / kTileEntries);
    const int its_lane = LaneInTile<T>(pivot % kTileEntries);
#pragma unroll 1
    for (int n = lane_; n < sums_.MostTiles(); n += 32) {
      const int tile = TileOf(its_warp, n);
      if (tile >= sums_.tiles) continue;
      LaneLogits<T> train, infer;
      if (tile < WholeTiles()) {
        LoadWhole(its_lane * 2, tile, &train);
        LoadWhole(its_lane * 2 + 1, tile, &infer);
      } else {
        LoadTile(sums_, row_[0], tile, its_lane, &train);
        LoadTile(sums_, row_[1], tile, its_lane, &infer);
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int entry = tile * kTileEntries + PlaceInTile<T>(its_lane, j);
        const bool inside = entry < sums_.vocab;
        const float a = inside ? train.At(j) : 0;
        const float b = inside ? infer.At(j) : 0;
        const float y = b - a;
        float e, q;
        const float moved = Moved<sizeof(T) == 4>(a, b, y, sums_.inverse_tau, settings.shift);
        const float x = inside ? moved : 0;
        const float spread = inside ? (settings.shifted != 0 ? x : y) : 0;
        sums->sum[8] += spread;
        sums->sum[9] = fmaf(spread, spread, sums->sum[9]);
        AddTerms<kWholeRange, true, true>(a, x, sums_.scale, static_cast<float>(-settings.exponent),
                                          inside && entry != pivot, sums, &e, &q);
        *absolute += fabsf(fmaf(-settings.slope, e, q));
      }
    }
  }

  __device__ __forceinline__ static void AddPart(const float4& message,
                                                 const float (&other)[kOtherSums],
                                                 double (&sum)[kLaneSums + 1]) {
    const float first[kMessageSums] = {message.x, message.y, message.z};
    for (int k = 0; k < kMessageSums; ++k) sum[k] += static_cast<double>(first[k]);
    const auto* const four = reinterpret_cast<const float4*>(other);
    const float4 low = four[0], high = four[1];
    const float rest[kOtherSums] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    for (int k = 0; k < kOtherSums; ++k) sum[kMessageSums + k] += static_cast<double>(rest[k]);
  }

  __device__ __forceinline__ void AddUp(EndSums* out, int pivot) {
    const int pivot_warp = sums_.WarpOfTile(pivot / kTileEntries);
    LaneSums beside;
    float absolute = 0;
    AddPivotLane(pivot, &beside, &absolute);
    double sum[kLaneSums + 1];
    for (int k = 0; k < kLaneSums; ++k) sum[k] = static_cast<double>(beside.sum[k]);
    sum[kLaneSums] = static_cast<double>(absolute);
    uint32_t low = 0;
    int high = INT_MIN;
    for (int w = lane_; w < row_warps_; w += 32) {
      const WarpPart& part = parts_[w];
      low = max(low, part.low);
      high = max(high, part.high);
      AddPart(part.message.first, part.sum, sum);
      if (pivot_warp != w) AddPart(part.message.second, part.top_lane_sum, sum);
    }
    for (int k = 0; k <= kLaneSums; ++k) {
      for (int mask = 16; mask > 0; mask >>= 1) sum[k] += __shfl_xor_sync(kAll, sum[k], mask);
    }
    low = __reduce_max_sync(kAll, low);
    high = __reduce_max_sync(kAll, high);
    if (lane_ != 0) return;
    for (int k = 0; k < kLaneSums; ++k) out->sum[k] = sum[k];
    out->absolute = sum[kLaneSums];
    out->low = low;
    out->high = high;
    out->pivot_train = LogitAt(row_[0], pivot);
    out->pivot_infer = LogitAt(row_[1], pivot);
  }

  const EndArgs& args_;
  const SumsArgs& sums_;
  const int64_t at_;
  const int lane_;
  GatherShared& shared_;
  const int row_warps_;
  const int token_;
  const RowSettings settings_;
  const WarpPart* const parts_;
  const uint32_t* const tops_;
  const char* const row_[2];
  const TokenPair token_at_;  // asked for first, since nothing has to be known for it
  int threshold_[2] = {0, 0};
  int threads_ = 0;
  int found_[2] = {0, 0};
};

template <class T>
__global__ void __launch_bounds__(kGatherWarps * 32, 32 / kGatherWarps)
    RowEndKernel(const __grid_constant__ EndArgs args) {
  __shared__ GatherShared shared[kGatherWarps];
  __shared__ EndRow rows[kGatherWarps];
  const int warp = static_cast<int>(threadIdx.x) >> 5;
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kGatherWarps;
  AwaitPreviousKernel();
  if (first + warp < args.count) {
    RowGather<T>(args, first + warp, lane, &shared[warp]).Run(&rows[warp]);
  }
  __syncthreads();
  if (threadIdx.x < kGatherWarps && first + lane < args.count) {
    FinishRow(args, first + lane, rows[lane], args.sums.records.settings[first + lane]);
  }
}

}  // namespace kcc
