// `json: SCHEMA`: whether the whole answer is JSON, of the schema where there is one.
#include "kcc/base/file.h"
#include "kcc/rescore/grade.h"
#include "kcc/rescore/json_schema.h"

namespace kcc {
namespace {

constexpr size_t kSchemaFileMax = size_t{1} << 20;

class JsonGrader final : public Grader {
 public:
  explicit JsonGrader(JsonSchema schema) : schema_(std::move(schema)) {}

  std::optional<RequestValue> Grade(const GradeAsk& ask, std::string* fault) override {
    const Fit fit = schema_.Check(ask.text);
    if (fit != Fit::kUnknown) return RequestValue(fit == Fit::kFits);
    *fault = "the answer is too long, or nested too deep, for its schema to be checked";
    return std::nullopt;
  }

 private:
  const JsonSchema schema_;
};

}  // namespace

Result<std::unique_ptr<Grader>> MakeJsonGrader(const GradeHook& hook) {
  JsonSchema schema = JsonSchema::Any();
  if (!hook.schema_file.empty()) {
    KCC_TRY(const std::string text, ReadFile(hook.schema_file, kSchemaFileMax));
    KCC_TRY(schema, JsonSchema::Parse(text, hook.schema_file));
  }
  return std::unique_ptr<Grader>(std::make_unique<JsonGrader>(std::move(schema)));
}

}  // namespace kcc
