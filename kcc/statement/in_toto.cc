#include "kcc/statement/in_toto.h"

#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/statement/json_fields.h"
#include "kcc/statement/predicate_json.h"

namespace kcc {
namespace {

constexpr size_t kSubjectsMax = 10'000;

NamedDigest ReadSubject(const JsonFields& node) {
  NamedDigest subject;
  subject.name = node.TextOr("name");
  const auto digests = node.At("digest").Members();
  if (digests.empty()) node.Fail("has no digest");
  for (const auto& [algorithm, value] : digests) {
    const std::string digest = value.Text();
    if (algorithm != "sha256") continue;
    subject.digest = "sha256:" + digest;
    if (!IsSha256(subject.digest)) {
      value.Fail("is not a SHA-256 of 64 lower-case hexadecimal digits");
    }
  }
  return subject;
}

}  // namespace

Result<std::string> StatementJson(const Statement& statement) {
  if (statement.subjects.empty()) return InvalidError("a statement needs a subject");
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject();
  json.Field("_type", kStatementType);
  json.Key("subject").BeginArray();
  for (const NamedDigest& subject : statement.subjects) {
    KCC_TRY_VOID(CheckDigest(subject.digest, "the subject '" + subject.name + "'"));
    WriteNamedDigest(subject, &json);
  }
  json.EndArray();
  json.Field("predicateType", statement.predicate_type);
  json.Key("predicate").Raw(statement.predicate);
  json.EndObject();
  std::string text = json.Take();
  text.pop_back();  // the line feed
  return text;
}

Result<Statement> ReadStatement(std::string_view text) {
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, text));
  std::string problem;
  const JsonFields fields(root, "", &problem);
  Statement statement;
  if (const std::string type = fields.At("_type").Text(); type != kStatementType) {
    fields.At("_type").Fail("is '" + type + "', and a Statement of version 1 is read");
  }
  const std::vector<JsonFields> subjects = fields.At("subject").Items();
  if (subjects.empty()) fields.Fail("has no subject");
  if (subjects.size() > kSubjectsMax) fields.Fail("has too many subjects");
  for (const JsonFields& subject : subjects) {
    if (fields.failed()) break;
    statement.subjects.push_back(ReadSubject(subject));
  }
  statement.predicate_type = fields.At("predicateType").Text();
  (void)fields.At("predicate").Members();  // an object without repeated keys
  if (!problem.empty()) return InvalidError("not an in-toto Statement: " + problem);
  statement.predicate = simdjson::minify(root.at_key("predicate").value_unsafe());
  return statement;
}

}  // namespace kcc
