// What every row of the table of formats must hold; that each is written and known again is
// tested with the directory (report_directory_test.cc).

#include "kcc/report/report_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kcc/base/file.h"
#include "tests/report/sample/sample_report.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;

TEST(ReportFormats, EveryRowIsWholeAndHasNamesOfItsOwn) {
  ASSERT_EQ(ReportFormats()[0].file, kReportJsonName);
  std::set<std::string_view> names;
  std::set<std::string_view> files;
  for (const ReportFormat& format : ReportFormats()) {
    SCOPED_TRACE(format.name);
    EXPECT_TRUE(names.insert(format.name).second);
    EXPECT_EQ(FindReportFormat(format.name), &format);
    ASSERT_NE(format.write, nullptr);
    EXPECT_FALSE(format.write(SampleReport(), {}).empty());
    EXPECT_FALSE(format.media_type.empty() || format.reader.empty() || format.notes.empty());
    EXPECT_EQ(format.file.empty(), format.has_mark == nullptr);
    if (format.file.empty()) {
      EXPECT_FALSE(format.on_request);
      continue;
    }
    EXPECT_TRUE(files.insert(format.file).second);
    EXPECT_EQ(FindReportFile(format.file), &format);
    // Discard hands it to the system as it is.
    EXPECT_EQ(format.file.data()[format.file.size()], '\0');
  }
  EXPECT_EQ(FindReportFormat("pdf"), nullptr);
  EXPECT_EQ(FindReportFile(""), nullptr);
}

TEST(ReportFormats, FilesOnRequestAreWrittenWhereTheyAreAskedFor) {
  const ReportFormat& sarif = *FindReportFormat("sarif");
  EXPECT_FALSE(IsWritten(sarif, {}));
  EXPECT_FALSE(IsWritten(sarif, {"html"}));
  EXPECT_TRUE(IsWritten(sarif, {"html", "sarif"}));
  EXPECT_TRUE(IsWritten(*FindReportFormat("json"), {}));
  EXPECT_FALSE(IsWritten(*FindReportFormat("terminal"), {"terminal"}));
}

TEST(ReportFormats, ThePageShowsTheTable) {
  const std::string page = ReadFile("docs/report.md", size_t{1} << 20).value();
  for (const ReportFormat& format : ReportFormats()) {
    const std::string name(format.name);
    const std::string file(format.file);
    EXPECT_THAT(
        page,
        HasSubstr("\n| `" + name + "` | " + (file.empty() ? "none" : "`" + file + "`") + " | `" +
                  std::string(format.media_type) + "` | " + std::string(format.reader) + " | " +
                  (format.on_request ? "with `--" + name + "`; " : "") + std::string(format.notes) +
                  " |\n"));
  }
}

}  // namespace
}  // namespace kcc
