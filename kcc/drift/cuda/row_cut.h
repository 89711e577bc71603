// How a row is cut for the fast kernel: into tiles, warps, groups and pieces. On the host it is
// decided, on the device looked up; here is nothing that needs a GPU.
//
// A row is cut into tiles of 256 entries, eight a lane; each warp of its blocks has some that lie
// side by side. They go in groups, and some of these that follow each other make a piece: of each
// lane's entries the largest is known by piece.
//
// A cut depends on vocabulary, format and device alone, never on the number of rows: so do the bits
// of a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#ifdef __CUDACC__
#define KCC_ON_BOTH __host__ __device__
#else
#define KCC_ON_BOTH
#endif

namespace kcc {

inline constexpr int kTileEntries = 256;
inline constexpr int kWarpsMax = 8;   // of a block, of which a multiprocessor has two
inline constexpr int kBlocksMax = 2;  // of a row
inline constexpr int kRowWarpsMax = kWarpsMax * kBlocksMax;
static_assert(kRowWarpsMax <= 32);    // a lane takes the message of a warp
inline constexpr int kRingSlots = 2;  // for groups, of a warp
inline constexpr int kPlanTiles = 2;  // what it takes to plan a row, in tiles

// Tiles of a group; a warp's first one may have fewer.
constexpr int GroupTiles(size_t entry_bytes) { return entry_bytes == 4 ? 3 : 6; }
// Of a warp. The more there are, the fewer tiles have to be searched for a top token.
constexpr int PiecesOf(size_t entry_bytes) { return entry_bytes == 4 ? 2 : 4; }

struct RowCut {
  int vocab;
  int tiles;   // of a row, with the one that its end may cut
  int warps;   // of a block
  int blocks;  // of a row
  // In whole tiles: the first warps, one in each block, which also plan, have `least`, the others
  // `share`, the first `longer` of them one more.
  int least;
  int share;
  int longer;
  int group;          // GroupTiles
  int most_of_piece;  // tiles, with the one that is cut

  KCC_ON_BOTH int RowWarps() const { return warps * blocks; }
  KCC_ON_BOTH int FirstTileOf(int row_warp) const {
    const int other = row_warp - blocks;
    if (other < 0) return row_warp * least;
    return blocks * least + other * share + (other < longer ? other : longer);
  }
  // Whole ones. The last warp also has the tile that the row's end cuts.
  KCC_ON_BOTH int TilesOf(int row_warp) const {
    const int other = row_warp - blocks;
    return other < 0 ? least : share + (other < longer ? 1 : 0);
  }
  KCC_ON_BOTH int GroupsOf(int row_warp) const { return (TilesOf(row_warp) + group - 1) / group; }
  // Groups of each of a warp's pieces but the first, which has what is left, or where groups are
  // few is empty, as others after it may be.
  KCC_ON_BOTH static int GroupsOfPiece(int groups, int pieces) {
    const int equal = (groups + pieces / 2) / pieces;
    const int most = (groups - 1) / (pieces - 1);
    const int some = equal < most ? equal : most;
    return some < 1 ? 1 : some;
  }
  // The warp's whole tiles before its piece.
  KCC_ON_BOTH int TilesBefore(int row_warp, int piece, int pieces) const {
    const int groups = GroupsOf(row_warp);
    const int after = (pieces - piece) * GroupsOfPiece(groups, pieces);
    return piece == 0 || after >= groups ? 0 : TilesOf(row_warp) - after * group;
  }
  // Of any warp at most, with the one that is cut.
  KCC_ON_BOTH int MostTiles() const {
    const int others = share + (longer > 0 ? 1 : 0);
    return (least > others ? least : others) + (vocab % kTileEntries != 0 ? 1 : 0);
  }
  KCC_ON_BOTH bool HasCut(int row_warp) const {
    return row_warp == RowWarps() - 1 && vocab % kTileEntries != 0;
  }
  KCC_ON_BOTH int WarpOfTile(int tile) const {
    if (tile < blocks * least) return tile / least;
    const int other = tile - blocks * least;
    const int in_longer = longer * (share + 1);
    if (other < in_longer) return blocks + other / (share + 1);
    const int warp = blocks + longer + (other - in_longer) / share;
    return warp < RowWarps() ? warp : RowWarps() - 1;  // the tile that is cut
  }
};

struct WarpsOfRow {
  int warps = 0;  // of a block; 0: the row is too short
  int blocks = 0;
};

// `most`: warps that a block has room for. Every warp gets tiles enough to fill its ring; of such
// cuts the one with most warps, since the fewer rows are under way, the more of them the rings and
// L2 still hold when they are visited again.
inline WarpsOfRow ChooseWarps(int64_t tiles, int most, size_t entry_bytes, bool has_clusters) {
  const int in_ring = kRingSlots * GroupTiles(entry_bytes);
  for (int blocks = has_clusters ? kBlocksMax : 1; blocks > 0; --blocks) {
    if (tiles / (most * blocks) >= in_ring) return {most, blocks};
  }
  for (const int part : {2, 3, 6}) {
    const int warps = most / part;
    if (warps > 0 && tiles / warps >= in_ring) return {warps, 1};
  }
  return {};
}

inline RowCut CutRow(int vocab, size_t entry_bytes, const WarpsOfRow& chosen) {
  RowCut cut = {};
  cut.vocab = vocab;
  cut.tiles = (vocab + kTileEntries - 1) / kTileEntries;
  cut.warps = chosen.warps;
  cut.blocks = chosen.blocks;
  cut.group = GroupTiles(entry_bytes);
  const int whole = vocab / kTileEntries;
  const int others = cut.RowWarps() - cut.blocks;
  cut.least = (whole + kPlanTiles * cut.blocks) / cut.RowWarps() - kPlanTiles;
  if (cut.least < kRingSlots * cut.group || others == 0) cut.least = whole / cut.RowWarps();
  cut.share = others == 0 ? 1 : (whole - cut.blocks * cut.least) / others;
  cut.longer = others == 0 ? 0 : (whole - cut.blocks * cut.least) % others;
  const int pieces = PiecesOf(entry_bytes);
  for (int warp = 0; warp < cut.RowWarps(); ++warp) {
    for (int piece = 0; piece < pieces; ++piece) {
      const bool is_last = piece + 1 == pieces;
      const int end = is_last ? cut.TilesOf(warp) + 1 : cut.TilesBefore(warp, piece + 1, pieces);
      const int tiles = end - cut.TilesBefore(warp, piece, pieces);
      if (tiles > cut.most_of_piece) cut.most_of_piece = tiles;
    }
  }
  return cut;
}

}  // namespace kcc
