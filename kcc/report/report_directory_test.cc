#include "kcc/report/report_directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "kcc/base/file.h"
#include "kcc/base/sha256.h"
#include "tests/report/sample/sample_report.h"

namespace kcc {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Names = std::set<std::string>;

// In the order of the table.
std::vector<std::string_view> FileNames() {
  std::vector<std::string_view> names;
  for (const ReportFormat& format : ReportFormats()) {
    if (!format.file.empty()) names.push_back(format.file);
  }
  return names;
}

// Every format that is written on request alone.
AskedFormats All() {
  AskedFormats names;
  for (const ReportFormat& format : ReportFormats()) {
    if (format.on_request) names.push_back(format.name);
  }
  return names;
}

Names FilesFor(const AskedFormats& asked) {
  Names names;
  for (const ReportFormat& format : ReportFormats()) {
    if (IsWritten(format, asked)) names.emplace(format.file);
  }
  return names;
}

class ReportDirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kcc-report-test.XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    out_ = (root_ / "out").string();
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string File(const std::string& name) const { return (fs::path(out_) / name).string(); }
  void Put(const std::string& name, const std::string& text) const {
    fs::create_directories(out_);
    std::ofstream(File(name)) << text;
  }
  std::string Text(const std::string& name) const { return ReadFile(File(name), 1 << 30).value(); }
  Names Listed() const {
    Names names;
    for (const auto& entry : fs::directory_iterator(out_)) names.insert(entry.path().filename());
    return names;
  }
  void WriteReport(const ReportData& report, const AskedFormats& asked = {}) const {
    auto directory = ReportDirectory::Open(out_);
    ASSERT_TRUE(directory) << directory.error().Format();
    const auto written = directory->Write(report, asked);
    ASSERT_TRUE(written) << written.error().Format();
  }
  Result<> Verified() const {
    return VerifyReportFiles(out_, ReadReportFiles(Text("report.json")).value());
  }

  fs::path root_;
  std::string out_;
};

std::string Rendered(std::string_view file, const ReportData& report) {
  return FindReportFile(file)->write(report, {});
}

TEST(HasReportMark, KnowsEveryFormatAndNothingElse) {
  for (const auto& make :
       {SampleReport, ConvergentSample, LargeSample, HostileSample, EmptySample}) {
    const ReportData report = make();
    for (const std::string_view name : FileNames()) {
      const std::string text = Rendered(name, report);
      for (const std::string_view other : FileNames()) {
        EXPECT_EQ(HasReportMark(other, text), other == name) << name << " as " << other;
      }
    }
    EXPECT_TRUE(HasReportMark("report.json", ReportJson(report, JsonWriter::Style::kCompact)));
  }
  const struct {
    std::string_view name, text;
  } others[] = {
      {"report.json", R"({"results": [], "kccReport": 1})"},
      {"report.json", "[]"},
      {"report.html", "<html><body>All tests passed</body></html>"},
      {"report.md", "## ✅ satisfied: our customers\n\nText.\n"},
      {"report.md", "# Report\n"},
      {"junit.xml",
       "<?xml version=\"1.0\" encoding=\"utf-8\"?><testsuites><testsuite name=\"pytest\""},
      {"junit.xml",
       "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"AllTests\" tests=\"1\">\n"
       "  <testsuite name=\"Suite\" tests=\"1\""},
      {"report.sarif", R"({"runs": [{"tool": {"driver": {"name": "clang-tidy"}}}]})"},
      {"notes.txt", R"({"kccReport": 1})"},
  };
  for (const auto& c : others) EXPECT_FALSE(HasReportMark(c.name, c.text)) << c.name << c.text;
}

TEST_F(ReportDirectoryTest, HoldsEveryFormatAndTheDigestsOfAllButReportJson) {
  const ReportData report = SampleReport();
  WriteReport(report);
  EXPECT_EQ(Listed(), FilesFor({}));
  ReportFiles expected;
  for (const char* name : {"report.html", "report.md", "junit.xml"}) {
    EXPECT_EQ(Text(name), Rendered(name, report));
    expected[name] = Sha256Of(Text(name));
  }
  EXPECT_EQ(ReadReportFiles(Text("report.json")).value(), expected);
  EXPECT_EQ(Text("report.json"), ReportJson(report, expected));
  EXPECT_EQ(ReportJson(*ReadReport(Text("report.json"))), ReportJson(report));
  EXPECT_TRUE(Verified());
}

TEST_F(ReportDirectoryTest, IsTakenByOneWriterAtATime) {
  {
    const auto first = ReportDirectory::Open(out_);
    ASSERT_TRUE(first);
    const auto second = ReportDirectory::Open(out_ + "/.");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), ErrorCode::kIo);
    EXPECT_THAT(second.error().Format(), HasSubstr("out/.: another run is writing its report"));
  }
  EXPECT_EQ(Listed(), Names());
  EXPECT_TRUE(ReportDirectory::Open(out_));
}

// Processes that open, hold and leave as fast as they can never hold it together.
TEST_F(ReportDirectoryTest, IsNeverHeldByTwo) {
  fs::create_directories(out_);
  constexpr int kProcesses = 4;
  std::vector<pid_t> children;
  for (int child = 0; child < kProcesses; ++child) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      bool sound = true;
      for (int held = 0, tried = 0; held < 50 && tried < 1'000'000; ++tried) {
        const auto directory = ReportDirectory::Open(out_);
        if (!directory) continue;
        ++held;
        const std::string flag = (root_ / "held").string();
        const int fd = ::open(flag.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        sound = sound && fd >= 0;
        ::close(fd);
        ::unlink(flag.c_str());
      }
      ::_exit(sound ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Listed(), Names());
}

// Killed by the kernel for a file that grows beyond the limit: in the midst of report.html.
TEST_F(ReportDirectoryTest, OutlivesAWriterThatIsKilledWhileWriting) {
  WriteReport(ConvergentSample());
  const pid_t pid = ::fork();
  if (pid == 0) {
    const rlimit no_core = {0, 0};
    const rlimit limit = {4096, 4096};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_DFL);
    auto directory = ReportDirectory::Open(out_);
    if (directory) (void)directory->Write(ConvergentSample(), {});
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFSIGNALED(status));
  Names left = Listed();
  EXPECT_EQ(left.erase(".kcc-report.lock"), 1u);
  ASSERT_EQ(left.size(), 1u) << "the file that was being written";
  EXPECT_THAT(*left.begin(), MatchesRegex("\\.kcc-[a-z2-7]{10}\\.tmp"));
  WriteReport(SampleReport());
  EXPECT_EQ(Listed(), FilesFor({}));
}

TEST_F(ReportDirectoryTest, ClearTakesAnEarlierReportAndLeavesWhatIsNotOurs) {
  WriteReport(ConvergentSample(), All());
  Put("report.html", Text("report.html") + "<!-- edited -->");
  const Names others = {"notes.txt", "report.json.bak", ".kcc-report.backup2", ".report.md.backup",
                        "summary.kccs"};
  for (const std::string& name : others) Put(name, "mine");
  fs::create_directory(File("report"));
  auto directory = ReportDirectory::Open(out_);
  ASSERT_TRUE(directory);
  EXPECT_TRUE(directory->Clear({}));
  Names left = others;
  left.insert({"report", ".kcc-report.lock"});
  EXPECT_EQ(Listed(), left);
  for (const std::string& name : others) EXPECT_EQ(Text(name), "mine");
}

// Of an earlier version: no digests, and no report.json to name them.
TEST_F(ReportDirectoryTest, ClearKnowsTheReportsOfEarlierVersions) {
  for (const std::string_view name : FileNames()) {
    Put(std::string(name), Rendered(name, ConvergentSample()));
  }
  ASSERT_TRUE(ReportDirectory::Open(out_)->Clear(All()));
  EXPECT_EQ(Listed(), Names());
  Put("report.md", Rendered("report.md", ConvergentSample()));
  Put("report.html", "");
  ASSERT_TRUE(ReportDirectory::Open(out_)->Clear(All()));
  EXPECT_EQ(Listed(), Names());
}

// Of a later version, with marks this one does not know.
TEST_F(ReportDirectoryTest, ClearKnowsWhatAReportNamesByItsDigest) {
  Put("report.md", "a new layout");
  Put("report.json", ReportJson(ConvergentSample(), {{"report.md", Sha256Of("a new layout")}}));
  ASSERT_TRUE(ReportDirectory::Open(out_)->Clear(All()));
  EXPECT_EQ(Listed(), Names());
}

TEST_F(ReportDirectoryTest, RefusesToReplaceSomebodyElsesFile) {
  WriteReport(ConvergentSample());
  Put("report.md", "# What we found\n");
  auto directory = ReportDirectory::Open(out_);
  const auto refused = directory->Write(SampleReport(), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalid);
  EXPECT_EQ(refused.error().place().file, File("report.md"));
  EXPECT_THAT(refused.error().message(), HasSubstr("was not written by kcc"));
  EXPECT_EQ(Listed(), Names({"report.md", ".kcc-report.lock"})) << "nothing old, nothing new";
  EXPECT_EQ(Text("report.md"), "# What we found\n");
}

TEST_F(ReportDirectoryTest, LeavesAForeignSarifAloneUnlessItIsAsked) {
  Put("report.sarif", R"({"runs": []})");
  WriteReport(SampleReport());
  EXPECT_EQ(Text("report.sarif"), R"({"runs": []})");
  EXPECT_TRUE(Verified());
  EXPECT_FALSE(ReportDirectory::Open(out_)->Write(SampleReport(), All()));
  EXPECT_EQ(Listed(), Names({"report.sarif"}));
}

TEST_F(ReportDirectoryTest, TreatsLinksAndDirectoriesAsForeign) {
  WriteReport(ConvergentSample());
  const std::string elsewhere = (root_ / "published.html").string();
  fs::rename(File("report.html"), elsewhere);
  fs::create_symlink(elsewhere, File("report.html"));
  auto directory = ReportDirectory::Open(out_);
  EXPECT_THAT(directory->Clear({}).error().Format(), HasSubstr("report.html: was not written"));
  EXPECT_TRUE(fs::exists(elsewhere));
  fs::remove(File("report.html"));
  fs::create_directory(File("report.html"));
  EXPECT_THAT(directory->Clear({}).error().Format(), HasSubstr("report.html: was not written"));
}

// The disk is full at report.json: what stands already says a verdict that the run does not.
TEST_F(ReportDirectoryTest, LeavesNothingOfAReportThatCouldNotBeWritten) {
  const ReportData report = LargeSample();
  const size_t room = ReportJson(report).size() - 1;
  for (const std::string_view name : FileNames()) {
    if (name == kReportJsonName) continue;
    ASSERT_LE(Rendered(name, report).size(), room) << name;
  }
  WriteReport(ConvergentSample());
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {room, room};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    bool failed = false;
    if (auto directory = ReportDirectory::Open(out_)) {
      const auto written = directory->Write(report, All());
      failed = !written && written.error().place().file == File("report.json");
    }
    ::_exit(failed ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Listed(), Names());
}

TEST_F(ReportDirectoryTest, DiscardTakesBackWhatWasWritten) {
  Put("notes.txt", "mine");
  {
    auto directory = ReportDirectory::Open(out_);
    ASSERT_TRUE(directory->Write(ConvergentSample(), All()));
    directory->Discard();
  }
  EXPECT_EQ(Listed(), Names({"notes.txt"}));
}

TEST_F(ReportDirectoryTest, SaysWhyItCannotBeWritten) {
  Put("file", "x");
  const auto is_file = ReportDirectory::Open(File("file"));
  ASSERT_FALSE(is_file);
  EXPECT_EQ(is_file.error().code(), ErrorCode::kInvalid);
  EXPECT_THAT(is_file.error().Format(), HasSubstr("out/file: is a file, not a directory"));
  const auto below = ReportDirectory::Open(File("file/below"));
  EXPECT_THAT(below.error().Format(), HasSubstr("cannot make the directory: Not a directory"));
  // Nobody, not even root, makes files there.
  const auto sealed = ReportDirectory::Open("/proc/self/fdinfo");
  ASSERT_FALSE(sealed);
  EXPECT_EQ(sealed.error().code(), ErrorCode::kIo);
  EXPECT_THAT(sealed.error().Format(),
              HasSubstr("/proc/self/fdinfo: cannot write into the report"));
  fs::create_symlink("/nowhere", File(".kcc-report.lock"));
  EXPECT_FALSE(ReportDirectory::Open(out_));
}

TEST_F(ReportDirectoryTest, VerifyFindsWhatIsEditedMissingOrOfAnotherRun) {
  WriteReport(SampleReport());
  const std::string page = Text("report.html");
  Put("report.html", page + " ");
  EXPECT_THAT(Verified().error().Format(),
              HasSubstr("report.html: is not the file that report.json"));
  fs::remove(File("report.html"));
  EXPECT_THAT(Verified().error().Format(), HasSubstr("report.html: cannot open"));
  Put("report.html", page);
  EXPECT_TRUE(Verified());
  Put("report.sarif", Rendered("report.sarif", ConvergentSample()));
  EXPECT_THAT(Verified().error().Format(), HasSubstr("report.sarif: is of another report"));
  // Names of later versions, and names that are no business of a report, are not followed.
  fs::remove(File("report.sarif"));
  ReportFiles files = ReadReportFiles(Text("report.json")).value();
  files["../../etc/passwd"] = files["report.pdf"] = "sha256:0";
  EXPECT_TRUE(VerifyReportFiles(out_, files));
}

}  // namespace
}  // namespace kcc
