// report.json: the part of a report that others build on (docs/design.md section 13,
// docs/report.md). Its shape is published as a JSON Schema; keys are added, never renamed.
//
// A number that is not finite is the string "inf", "-inf" or "nan"; what was not measured is null.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "kcc/base/json_writer.h"
#include "kcc/base/result.h"
#include "kcc/report/report.h"

namespace kcc {

inline constexpr int kReportFormat = 1;

// Digests of the files beside a report.json, by name: {"report.html", "sha256:…"}.
using ReportFiles = std::map<std::string, std::string>;

std::string ReportJson(const ReportData& report,
                       JsonWriter::Style style = JsonWriter::Style::kPretty);
// As it stands in a report directory (report_directory.h): with the key "files".
std::string ReportJson(const ReportData& report, const ReportFiles& files);
// Whether ReportJson wrote these bytes (report_formats.h, ReportFormat::has_mark).
bool IsReportJson(std::string_view bytes);
// What a page carries: the report as it shows it (shown.h), with the totals of all.
std::string PageJson(const ReportData& shown, const Judgement& all, std::string_view markdown);

// What ReportJson wrote, by this version or an earlier one; keys it does not know are ignored. A
// verdict, total, health or action that does not follow from the clauses is an error: the file was
// edited. Errors name the JSON path. ReportJson(*ReadReport(text)) == text for text that ReportJson
// wrote without files (finite statistics: a "nan" among them is read as not measured).
inline constexpr size_t kReportBytesMax = size_t{1} << 30;
Result<ReportData> ReadReport(std::string_view json);
// The key "files" alone; empty where it is missing, as in what earlier versions wrote.
Result<ReportFiles> ReadReportFiles(std::string_view json);

// JSON Schema, draft 2020-12; committed as docs/report.schema.json.
std::string ReportJsonSchema();

}  // namespace kcc
