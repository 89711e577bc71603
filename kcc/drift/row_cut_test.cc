// The cut of a row for the GPU, looked up as the kernels do, against the order in which a warp's
// ring visits its tiles.
#include "kcc/drift/cuda/row_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace kcc {
namespace {

struct Piece {
  int begin, end;  // tiles of the warp
};

// As TileRing::Forward goes: a first group of what is left, then whole ones, and a piece ends when
// so many groups are left. Pieces that were not ended are the first ones, and empty.
std::vector<Piece> PiecesAsVisited(const RowCut& cut, int warp, int pieces) {
  const int groups = cut.GroupsOf(warp);
  const int in_piece = RowCut::GroupsOfPiece(groups, pieces);
  int used = cut.TilesOf(warp) - (groups - 1) * cut.group;
  int left_then = std::min((pieces - 1) * in_piece, groups - 1);
  std::vector<int> ends;
  for (int left = groups - 1; left > 0; --left) {
    if (left == left_then) {
      ends.push_back(used);
      left_then -= in_piece;
    }
    used += cut.group;
  }
  ends.push_back(used);
  std::vector<Piece> visited(static_cast<size_t>(pieces) - ends.size(), Piece{0, 0});
  int begin = 0;
  for (const int end : ends) {
    visited.push_back({begin, end});
    begin = end;
  }
  return visited;
}

void CheckCut(int vocab, size_t entry_bytes, const WarpsOfRow& chosen) {
  SCOPED_TRACE(testing::Message() << "vocabulary " << vocab << ", " << entry_bytes << " bytes, "
                                  << chosen.warps << " warps, " << chosen.blocks << " blocks");
  const RowCut cut = CutRow(vocab, entry_bytes, chosen);
  const int pieces = PiecesOf(entry_bytes);
  const int last = cut.RowWarps() - 1;
  int tile = 0;
  for (int warp = 0; warp <= last; ++warp) {
    const int tiles = cut.TilesOf(warp);
    ASSERT_EQ(cut.FirstTileOf(warp), tile);
    ASSERT_GE(tiles, kRingSlots * cut.group - cut.group + 1) << "a slot of the ring stays empty";
    ASSERT_LE(tiles + (cut.HasCut(warp) ? 1 : 0), cut.MostTiles());
    ASSERT_EQ(cut.WarpOfTile(tile), warp);
    ASSERT_EQ(cut.WarpOfTile(tile + tiles - 1), warp);
    const std::vector<Piece> visited = PiecesAsVisited(cut, warp, pieces);
    ASSERT_EQ(visited.size(), static_cast<size_t>(pieces));
    for (int piece = 0; piece < pieces; ++piece) {
      const Piece& at = visited[static_cast<size_t>(piece)];
      const bool is_last = piece + 1 == pieces;
      const int end = is_last ? tiles : cut.TilesBefore(warp, piece + 1, pieces);
      ASSERT_EQ(cut.TilesBefore(warp, piece, pieces), at.begin);
      ASSERT_EQ(end, at.end);
      ASSERT_LE(end - at.begin + (is_last && cut.HasCut(warp) ? 1 : 0), cut.most_of_piece);
    }
    tile += tiles;
  }
  ASSERT_EQ(tile, vocab / kTileEntries);
  ASSERT_EQ(cut.HasCut(last), vocab % kTileEntries != 0);
  if (cut.HasCut(last)) {
    ASSERT_EQ(cut.WarpOfTile(tile), last);
  }
}

TEST(RowCut, PiecesAreWhatTheRingVisits) {
  int cuts = 0;
  for (const size_t entry_bytes : {size_t{1}, size_t{2}, size_t{4}}) {
    for (int tiles = 32; tiles < 9000; tiles += tiles < 1500 ? 1 : 97) {
      for (const int most : {8, 6, 4, 2}) {
        for (const bool has_clusters : {true, false}) {
          const WarpsOfRow chosen = ChooseWarps(tiles, most, entry_bytes, has_clusters);
          if (chosen.warps == 0) continue;
          for (const int vocab : {tiles * kTileEntries, tiles * kTileEntries - 1}) {
            CheckCut(vocab, entry_bytes, chosen);
            if (HasFatalFailure()) return;
            ++cuts;
          }
        }
      }
    }
  }
  EXPECT_GT(cuts, 50000);
}

// What the search for top tokens costs: with at most 16 tiles a piece two lanes are searched at
// once.
TEST(RowCut, PiecesOfUsualVocabulariesAreShort) {
  for (const int vocab : {32000, 50304, 128256}) {
    const int tiles = (vocab + kTileEntries - 1) / kTileEntries;
    EXPECT_LE(CutRow(vocab, 2, ChooseWarps(tiles, kWarpsMax, 2, true)).most_of_piece, 16) << vocab;
  }
}

}  // namespace
}  // namespace kcc
