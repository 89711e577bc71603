#include "kcc/rescore/grade.h"

#include <cmath>
#include <utility>

#include "kcc/base/json_writer.h"
#include "kcc/format/json.h"
#include "kcc/predicate/fields.h"
#include "kcc/trace/requests.h"

namespace kcc {
namespace {

// A request's fields for `when`; there are no tokens.
class AskedFields final : public FieldSource {
 public:
  explicit AskedFields(const Request& asked) : asked_(asked) {}
  FieldValue RequestField(std::string_view name) const override { return asked_.Field(name); }
  FieldValue TokenField(std::string_view) const override { return {}; }

 private:
  const Request& asked_;
};

Result<std::unique_ptr<Grader>> MakeGrader(const GradeHook& hook, const GraderLimits& limits) {
  switch (hook.kind) {
    case GradeKind::kJson:
      return MakeJsonGrader(hook);
    case GradeKind::kPhrases:
      return MakePhrasesGrader(hook);
    case GradeKind::kExec:
      return MakeExecGrader(hook, limits);
    case GradeKind::kHttp:
      break;
  }
  return MakeHttpGrader(hook, limits);
}

}  // namespace

std::string GradeLine(const GradeAsk& ask) {
  JsonWriter line(JsonWriter::Style::kCompact);
  line.BeginObject();
  if (ask.asked != nullptr) {
    line.Field("id", ask.asked->id).Key("fields").BeginObject();
    WriteRequestFields(*ask.asked, &line);
    line.EndObject();
  }
  line.Field("path", ask.path).Field("request", ask.request_body);
  line.Field("text", ask.text).Field("finish_reason", ask.finish_reason);
  std::string text = line.EndObject().Take();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Result<RequestValue> ReadGrade(std::string_view answer, std::string_view field) {
  json::parser parser;
  auto parsed = ParseJson(parser, answer);
  if (!parsed.has_value()) return BrokenEvidenceError("the grader's answer is no JSON");
  json::element value = *parsed;
  json::object object;
  if (value.get(object) == simdjson::SUCCESS) {
    const auto member = JsonMember(object, "value");
    if (!member) return BrokenEvidenceError("the grader's answer has no 'value'");
    value = *member;
  }
  const PredicateField* const known = FindPredicateField(field);
  bool flag = false;
  if (value.get(flag) == simdjson::SUCCESS &&
      (known == nullptr || known->type == FieldType::kBool)) {
    return RequestValue(flag);
  }
  const auto number = JsonNumber(value);
  if (number && std::isfinite(*number) && (known == nullptr || known->type == FieldType::kNumber)) {
    return RequestValue(*number);
  }
  if (value.is_string() && (known == nullptr || known->type == FieldType::kText)) {
    return RequestValue(std::string(JsonText(value)));
  }
  return BrokenEvidenceError("the grader gives " + std::string(JsonTypeName(value)) + " for '" +
                             std::string(field) + "'");
}

Result<GradeSet> GradeSet::Make(const std::vector<GradeHook>& hooks, const GraderLimits& limits) {
  GradeSet set;
  for (const GradeHook& hook : hooks) {
    Row& row = set.rows_.emplace_back();
    row.field = hook.field;
    const PredicateField* const known = FindPredicateField(hook.field);
    const bool outcome = known == nullptr || known->origin == FieldOrigin::kOutcome;
    if (hook.field.empty() || !outcome) {
      return InvalidError("a hook cannot grade '" + hook.field +
                          "': the field is the request's own, and not an outcome of its answer");
    }
    if (!hook.when.empty()) {
      KCC_TRY(row.when, Predicate::Parse(hook.when));
      if (row.when->reads_token()) {
        return InvalidError("'when' of a hook reads fields of the request, not of its tokens");
      }
    }
    KCC_TRY(row.grader, MakeGrader(hook, limits));
  }
  return set;
}

Grades GradeSet::Grade(const GradeAsk& ask) {
  Grades grades;
  static const Request kNobody;
  const AskedFields fields(ask.asked != nullptr ? *ask.asked : kNobody);
  std::map<std::string, bool, std::less<>> taken;
  for (Row& row : rows_) {
    if (taken.contains(row.field) || (row.when && !row.when->Evaluate(fields))) continue;
    taken[row.field] = true;
    std::string fault;
    auto value = row.grader->Grade(ask, &fault);
    if (value) {
      grades.fields.insert_or_assign(row.field, std::move(*value));
    } else {
      grades.faults.push_back(row.field + ": " + fault);
    }
  }
  return grades;
}

}  // namespace kcc
