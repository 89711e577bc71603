// A report directory as one thing: report.json and the files of the other formats
// (report_formats.h), those on request where asked, all of one run and of one only.
//
//   KCC_TRY(ReportDirectory directory, ReportDirectory::Open(path));  // one writer at a time
//   KCC_TRY_VOID(directory.Clear(asked));  // before the work: no failure leaves an old verdict
//   …                                      // measure, judge
//   KCC_TRY_VOID(directory.Write(report, asked));  // report.json last, with its siblings' digests
//
// Where report.json stands the report is whole: its siblings were there before it and go after it.
// What kcc did not write stays as it is; where it has a name that Write needs, the run is refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/report/report.h"
#include "kcc/report/report_formats.h"
#include "kcc/report/report_json.h"

namespace kcc {

class ReportDirectory {
 public:
  // Makes the directory if need be, and locks it for as long as the object lives; the lock goes
  // with the process too, however that ends (a killed one leaves .kcc-report.lock, an empty file
  // that means nothing). Fails at once with kIo if another writer holds it.
  static Result<ReportDirectory> Open(const std::string& path);

  ReportDirectory(ReportDirectory&& other) noexcept;
  ReportDirectory& operator=(ReportDirectory&&) = delete;
  ~ReportDirectory();

  // Removes an earlier report, by whichever version of kcc: the fixed names, where the file is
  // empty, has its digest in the earlier report.json or has a mark (report_formats.h). Fails
  // with kInvalid if a file of somebody else's has a name that Write needs; the earlier report is
  // gone by then.
  Result<> Clear(const AskedFormats& asked);

  // Clear, then every file atomically. On failure nothing of the new report stays either.
  Result<> Write(const ReportData& report, const AskedFormats& asked);

  // Takes back what Write wrote. Needs no memory.
  void Discard() noexcept;

 private:
  explicit ReportDirectory(const std::string& path);
  std::string File(std::string_view name) const;

  std::string path_;
  std::string lock_name_;
  int lock_ = -1;                          // -1: moved from
  std::vector<std::string_view> written_;  // literals
};

// Whether the files that a report.json names are beside it, byte for byte, and none of another
// report's. Errors (kInvalid, kIo) name the file.
Result<> VerifyReportFiles(const std::string& directory, const ReportFiles& files);

}  // namespace kcc
