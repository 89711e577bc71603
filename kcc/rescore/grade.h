// Answers graded while they are served, so that `parsed`, `refused` and `reward` exist for live
// requests: built-in checks, a program, or an HTTP service of the user's.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/predicate/predicate.h"
#include "kcc/trace/trace.h"

namespace kcc {

enum class GradeKind : uint8_t {
  kJson,     // the answer is JSON, and of `schema` where there is one
  kPhrases,  // the answer begins with, or holds, one of `phrases`
  kExec,     // lines of JSON to a program that stays
  kHttp,     // POST
};

struct GradeHook {
  std::string field;  // parsed, refused, reward, or a field of the user's
  GradeKind kind = GradeKind::kJson;
  std::string schema_file;           // kJson
  std::vector<std::string> phrases;  // kPhrases, whatever their case
  std::string command;               // kExec
  std::string url;                   // kHttp
  std::string when;                  // a predicate over the request's fields; empty: always
};

// An answer to be graded, whole: what broke off is not.
struct GradeAsk {
  std::string_view path;
  std::string_view request_body;
  std::string_view text;
  std::string_view finish_reason;
  const Request* asked = nullptr;  // its id and its fields
};

// One kind of grader. Used from one thread; may wait as long as its time-out.
class Grader {
 public:
  virtual ~Grader() = default;
  // Nothing where it cannot tell; `fault` says why. The field is missing then: a grader that is
  // dead, or too late, has found nothing good and nothing bad.
  virtual std::optional<RequestValue> Grade(const GradeAsk& ask, std::string* fault) = 0;
};

struct GraderLimits {
  double timeout_s = 10;  // of one answer
  int stop_fd = -1;       // readable: what waits ends
};

// Reads the schema, and checks what can be without asking anybody.
Result<std::unique_ptr<Grader>> MakeJsonGrader(const GradeHook& hook);
Result<std::unique_ptr<Grader>> MakePhrasesGrader(const GradeHook& hook);
Result<std::unique_ptr<Grader>> MakeExecGrader(const GradeHook& hook, const GraderLimits& limits);
Result<std::unique_ptr<Grader>> MakeHttpGrader(const GradeHook& hook, const GraderLimits& limits);

// What a program or a service is told, as one line of JSON; and the grade in its answer:
// {"value": true}, or the value alone. A flag for what must be one (parsed, refused), a finite
// number for `reward`, a flag, number or text for fields of the user's.
std::string GradeLine(const GradeAsk& ask);
Result<RequestValue> ReadGrade(std::string_view answer, std::string_view field);

struct Grades {
  std::map<std::string, RequestValue, std::less<>> fields;
  std::vector<std::string> faults;  // of fields that are missing
};

// All hooks. Of several for one field the first whose `when` selects the request grades it.
class GradeSet {
 public:
  static Result<GradeSet> Make(const std::vector<GradeHook>& hooks, const GraderLimits& limits);
  Grades Grade(const GradeAsk& ask);
  bool empty() const { return rows_.empty(); }

 private:
  struct Row {
    std::string field;
    std::optional<Predicate> when;
    std::unique_ptr<Grader> grader;
  };
  std::vector<Row> rows_;
};

}  // namespace kcc
