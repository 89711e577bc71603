#include "kcc/format/line_reader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "kcc/base/file.h"

namespace kcc {
namespace {

class LineReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::path(::testing::TempDir()) /
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  void TearDown() override { std::filesystem::remove(path_); }

  // What every line is, by its number: its text, or "too long".
  std::vector<std::pair<int, std::string>> LinesOf(const std::string& bytes, size_t most) {
    EXPECT_TRUE(WriteScratchFile(path_.string(), bytes).has_value());
    auto reader = LineReader::Open(path_.string(), most);
    EXPECT_TRUE(reader.has_value());
    std::vector<std::pair<int, std::string>> lines;
    while (lines.size() < 100) {
      std::string_view line;
      const auto more = reader->Next(&line);
      if (!more.has_value()) {
        EXPECT_EQ(more.error().code(), ErrorCode::kInvalid);
        EXPECT_TRUE(reader->SkipRest().has_value());
        lines.emplace_back(reader->number(), "too long");
        continue;
      }
      if (!*more) return lines;
      lines.emplace_back(reader->number(), std::string(line));
    }
    ADD_FAILURE() << "does not end";
    return lines;
  }

  std::filesystem::path path_;
};

using Lines = std::vector<std::pair<int, std::string>>;

TEST_F(LineReaderTest, GoesOnAfterALineThatIsTooLong) {
  EXPECT_EQ(LinesOf("a\n12345678\n\nb\n", 4), (Lines{{1, "a"}, {2, "too long"}, {4, "b"}}));
  EXPECT_EQ(LinesOf("a\n12345678", 4), (Lines{{1, "a"}, {2, "too long"}}));
  EXPECT_EQ(LinesOf("12345678\n87654321\nb", 4),
            (Lines{{1, "too long"}, {2, "too long"}, {3, "b"}}));
}

// Longer than what is read at once: its end is not seen when it is refused.
TEST_F(LineReaderTest, PassesOverTheRestOfALineOfManyBlocks) {
  const std::string large(1'500'000, 'x');
  EXPECT_EQ(LinesOf("a\n" + large + "\nb\n" + large, 10),
            (Lines{{1, "a"}, {2, "too long"}, {3, "b"}, {4, "too long"}}));
}

}  // namespace
}  // namespace kcc
