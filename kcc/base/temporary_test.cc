#include "kcc/base/temporary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "kcc/base/file.h"

namespace kcc {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Names = std::set<std::string>;

class TemporaryTest : public testing::Test {
 protected:
  TemporaryTest() {
    std::string pattern = (fs::temp_directory_path() / "kcc-test-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~TemporaryTest() override { fs::remove_all(folder_); }

  std::string File(const std::string& name) const { return (fs::path(folder_) / name).string(); }
  void Put(const std::string& name, const std::string& text) const {
    std::ofstream(File(name)) << text;
  }
  std::string Text(const std::string& name) const { return ReadFile(File(name), 1000).value(); }
  Names Listed() const {
    Names names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.insert(entry.path().filename());
    }
    return names;
  }
  Result<> Together(const std::string& page, const std::string& figures) const {
    return WriteFilesTogether(folder_,
                              std::array{NamedBytes{"page", page}, NamedBytes{"figures", figures}});
  }

  std::string folder_;
};

TEST_F(TemporaryTest, GoesWithItsObjectAndStaysWhenRenamed) {
  {
    auto file = Temporary::Make(folder_, Temporary::Kind::kFile, 0666);
    auto directory = Temporary::Make(folder_, Temporary::Kind::kDirectory, 0777);
    ASSERT_TRUE(file && directory);
    std::ofstream(directory->path() + "/inside") << "x";
    EXPECT_EQ(Listed().size(), 2u);
    ASSERT_TRUE(file->RenameTo(File("kept")));
  }
  EXPECT_EQ(Listed(), Names({"kept"}));
}

TEST_F(TemporaryTest, NamesThePlaceThatCannotBeWritten) {
  const auto made = Temporary::Make(File("nowhere"), Temporary::Kind::kDirectory, 0777);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().Format(), HasSubstr(File("nowhere") + ": cannot write here: No such"));
}

TEST_F(TemporaryTest, TheNextOneRemovesWhatAKilledProcessLeft) {
  for (const auto kind : {Temporary::Kind::kFile, Temporary::Kind::kDirectory}) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      auto left = Temporary::Make(folder_, kind, 0777);
      if (left && kind == Temporary::Kind::kDirectory)
        std::ofstream(left->path() + "/inside") << "x";
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(Listed().size(), 1u);
    auto next = Temporary::Make(folder_, Temporary::Kind::kFile, 0666);
    ASSERT_TRUE(next);
    EXPECT_EQ(Listed(), Names({fs::path(next->path()).filename()}));
  }
}

TEST_F(TemporaryTest, NeverRemovesWhatIsLockedLinkedOrSomebodyElses) {
  auto alive = Temporary::Make(folder_, Temporary::Kind::kDirectory, 0777);
  Put("mine", "x");
  fs::create_symlink(File("mine"), File(".kcc-aaaaaaaaaa.tmp"));
  const Names others = {".kcc-aaaaaaaaa.tmp", ".kcc-aaaaaaaaa1.tmp", ".kcc-aaaaaaaaaa",
                        "kcc-aaaaaaaaaa.tmp"};
  for (const std::string& name : others) Put(name, "x");
  const Names before = Listed();
  RemoveStaleTemporaries(folder_);
  EXPECT_EQ(Listed(), before);
}

// The moment between the making and the lock: a remover that takes the lock first must not cost
// its maker more than another try.
TEST_F(TemporaryTest, MakersAndRemoversDoNotDisturbEachOther) {
  std::atomic<int> makers = 2;
  std::atomic<int> lost = 0;
  const auto make = [&](Temporary::Kind kind) {
    for (int i = 0; i < 500; ++i) {
      auto one = Temporary::Make(folder_, kind, 0777);
      if (!one || !NamesOpenFile(one->path(), one->descriptor())) ++lost;
      const std::string target = File("done" + std::to_string(kind == Temporary::Kind::kFile));
      if (!one->RenameTo(target)) ++lost;
      fs::remove_all(target);
    }
    --makers;
  };
  const auto remove = [&] {
    while (makers > 0) RemoveStaleTemporaries(folder_);
  };
  {
    std::vector<std::jthread> threads;
    threads.emplace_back(make, Temporary::Kind::kFile);
    threads.emplace_back(make, Temporary::Kind::kDirectory);
    threads.emplace_back(remove);
    threads.emplace_back(remove);
  }
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(Listed(), Names());
}

TEST_F(TemporaryTest, FilesThatBelongTogetherAreReplacedTogether) {
  ASSERT_TRUE(Together("one", "1"));
  ASSERT_TRUE(Together("two", "2"));
  EXPECT_EQ(Text("page") + Text("figures"), "two2");
  EXPECT_EQ(Listed(), Names({"page", "figures"}));
  ASSERT_EQ(::unlink(File("page").c_str()), 0);
  fs::create_directory(File("page"));
  const auto refused = Together("three", "3");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().Format(), HasSubstr(File("page") + ": is a directory"));
  EXPECT_EQ(Text("figures"), "2");
  EXPECT_EQ(Listed(), Names({"page", "figures"}));
}

TEST_F(TemporaryTest, ALinkIsNoOutputAndADeviceIsWrittenThrough) {
  Put("real", "one");
  fs::create_symlink("real", File("link"));
  const auto refused = WriteFileAtomically(File("link"), "two");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalid);
  EXPECT_THAT(refused.error().Format(), HasSubstr(File("link") + ": is a link to 'real'"));
  EXPECT_EQ(Text("real"), "one");
  fs::create_symlink("/dev/full", File("full"));
  const auto full = WriteFileAtomically(File("full"), "two");
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().Format(), HasSubstr(File("full") + ": cannot write: No space left"));
  EXPECT_TRUE(fs::is_symlink(File("full")));
}

TEST_F(TemporaryTest, AFifoIsNotWaitedForWhereAFileIsExpected) {
  ASSERT_EQ(::mkfifo(File("fifo").c_str(), 0666), 0);
  const auto read = ReadRegularFile(File("fifo"), 10);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().Format(), HasSubstr("fifo: is a FIFO, not a regular file"));
  Put("file", "text");
  EXPECT_EQ(ReadRegularFile(File("file"), 10).value(), "text");
}

}  // namespace
}  // namespace kcc
