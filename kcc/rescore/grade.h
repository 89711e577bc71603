// Answers graded while they are served, so that `parsed`, `refused` and `reward` exist for live
// requests: built-in checks, a program, or an HTTP service of the user's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

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

}  // namespace kcc
