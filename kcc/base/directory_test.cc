#include "kcc/base/directory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace kcc {
namespace {

namespace fs = std::filesystem;

TEST(ListDirectory, NamesWhatIsThereInOrder) {
  const fs::path root = fs::path(testing::TempDir()) / "kcc_list_directory";
  fs::remove_all(root);
  fs::create_directories(root / "b");
  std::ofstream(root / "c") << "x";
  std::ofstream(root / ".a") << "x";
  const auto names = ListDirectory(root.string());
  ASSERT_TRUE(names.has_value());
  EXPECT_EQ(*names, (std::vector<std::string>{".a", "b", "c"}));
  EXPECT_EQ(ListDirectory((root / "c").string()).error().code(), ErrorCode::kIo);
  EXPECT_EQ(ListDirectory((root / "d").string()).error().place().file, (root / "d").string());
  fs::remove_all(root);
}

TEST(RemoveTree, RemovesFilesDirectoriesAndLinksButFollowsNone) {
  const fs::path root = fs::path(testing::TempDir()) / "kcc_remove_tree";
  fs::remove_all(root);
  fs::create_directories(root / "gone" / "a" / "b");
  fs::create_directories(root / "kept");
  std::ofstream(root / "kept" / "file") << "x";
  for (int i = 0; i < 500; ++i) {  // more than one reading of a directory
    std::ofstream(root / "gone" / "a" / (std::string(40, 'n') + std::to_string(i))) << "x";
  }
  fs::create_directory_symlink(root / "kept", root / "gone" / "a" / "b" / "link");
  fs::create_symlink("/no/such/file", root / "gone" / "dangling");
  RemoveTreeQuietly((root / "gone").c_str());
  EXPECT_FALSE(fs::exists(root / "gone"));
  EXPECT_TRUE(fs::exists(root / "kept" / "file"));
  RemoveTreeQuietly((root / "never").c_str());  // nothing to do, nothing to say
  fs::create_directory_symlink(root / "kept", root / "link");
  RemoveTreeQuietly((root / "link").c_str());
  EXPECT_TRUE(fs::exists(root / "kept" / "file"));
  fs::remove_all(root);
}

}  // namespace
}  // namespace kcc
