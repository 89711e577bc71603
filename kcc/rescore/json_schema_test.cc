// The validator behind `json:` hooks: what it checks, and that it refuses what it does not.
#include "kcc/rescore/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kcc {
namespace {

using ::testing::HasSubstr;

JsonSchema Schema(const std::string& text) {
  auto schema = JsonSchema::Parse(text, "schema.json");
  EXPECT_TRUE(schema.has_value()) << text << ": " << schema.error().Format();
  return schema.has_value() ? *std::move(schema) : JsonSchema::Any();
}

TEST(JsonSchema, SaysWhatFits) {
  struct Case {
    const char *schema, *fits, *does_not;
  };
  const Case cases[] = {
      {"{}", "[1,2]", "not json"},
      {"true", " 7 ", "7 8"},
      {R"({"type":"integer"})", "7.0", "7.5"},
      {R"({"type":"number"})", "7.5", "\"7.5\""},
      {R"({"type":["string","null"]})", "null", "1"},
      {R"({"type":"boolean"})", "false", "0"},
      {R"({"enum":["a",1,{"x":1}]})", R"({"x":1.0})", R"("b")"},
      {R"({"const":[1,2]})", "[1, 2]", "[2,1]"},
      {R"({"properties":{"a":{"type":"string"}}})", R"({"b":1})", R"({"a":1})"},
      {R"({"required":["a"]})", R"({"a":null})", R"({"b":1})"},
      {R"({"additionalProperties":false,"properties":{"a":{}}})", R"({"a":1})", R"({"a":1,"b":1})"},
      {R"({"additionalProperties":{"type":"integer"}})", R"({"a":1})", R"({"a":"x"})"},
      {"{}", R"({"a":1})", R"({"a":1,"a":2})"},
      {R"({"items":{"type":"integer"},"minItems":1,"maxItems":2})", "[1]", "[]"},
      {R"({"items":{"type":"integer"}})", "[]", "[1,\"a\"]"},
      {R"({"uniqueItems":true})", "[1,2]", "[1,1.0]"},
      {R"({"minProperties":1,"maxProperties":1})", R"({"a":1})", "{}"},
      {R"({"minimum":1,"maximum":2})", "1", "2.5"},
      {R"({"exclusiveMinimum":1})", "1.5", "1"},
      {R"({"exclusiveMaximum":2,"maximum":3})", "1.5", "2"},
      {R"({"minLength":2,"maxLength":2})", "\"éé\"", "\"é\""},
      {R"({"pattern":"^a+$"})", "\"aa\"", "\"ab\""},
      {R"({"pattern":"^a{2,3},12345678$"})", "\"aa,12345678\"", "\"a,12345678\""},
      {R"({"anyOf":[{"type":"string"},{"minimum":3}]})", "4", "2"},
      {R"({"allOf":[{"minimum":1},{"maximum":2}]})", "2", "3"},
      {R"({"oneOf":[{"minimum":1},{"maximum":2}]})", "3", "1.5"},
      {R"({"not":{"type":"string"}})", "1", "\"a\""},
      {R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"integer"}}})", "1", "\"a\""},
      {R"({"$ref":"#/definitions/l","definitions":{"l":{"properties":{"next":{"$ref":"#/definitions/l"}},
          "additionalProperties":false}}})",
       R"({"next":{"next":{}}})", R"({"next":{"last":{}}})"},
      {"{\"not\":false}", "1", "x"},
  };
  for (const Case& one : cases) {
    const JsonSchema schema = Schema(one.schema);
    EXPECT_EQ(schema.Check(one.fits), Fit::kFits) << one.schema << " " << one.fits;
    EXPECT_EQ(schema.Check(one.does_not), Fit::kDoesNot) << one.schema << " " << one.does_not;
  }
  EXPECT_EQ(Schema("false").Check("1"), Fit::kDoesNot);
  EXPECT_EQ(JsonSchema::Any().Check(""), Fit::kDoesNot);
}

TEST(JsonSchema, WhatNobodyCanTellIsNeitherGoodNorBad) {
  const JsonSchema pattern = Schema(R"({"pattern":"^(a|a)*$"})");
  EXPECT_EQ(pattern.Check('"' + std::string(4000, 'a') + "b\""), Fit::kDoesNot)
      << "in bounded time";
  EXPECT_EQ(pattern.Check('"' + std::string(100'000, 'a') + '"'), Fit::kUnknown);
  EXPECT_EQ(Schema(R"({"allOf":[{"pattern":"a"},{"type":"number"}]})")
                .Check('"' + std::string(100'000, 'a') + '"'),
            Fit::kDoesNot);
  EXPECT_EQ(
      Schema(
          R"({"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}}})")
          .Check("1"),
      Fit::kUnknown);
}

TEST(JsonSchema, RefusesWhatItDoesNotCheck) {
  struct Case {
    const char *schema, *words;
  };
  const Case cases[] = {
      {R"({"format":"date"})", "'format' is not checked"},
      {R"({"properties":{"a":{"multipleOf":2}}})", "'multipleOf' is not checked"},
      {R"({"patternProperties":{}})", "is not checked"},
      {R"({"type":"text"})", "there is no type"},
      {R"({"type":[]})", "names no type"},
      {R"({"pattern":"("})", "no regular expression"},
      {R"({"pattern":"(a)\\1"})", "no regular expression"},
      {R"({"pattern":5})", "must be a text"},
      {R"({"pattern":"\\4444444444444444444444"})", "more than six digits"},
      {R"({"pattern":"a{4444444444444444444444}"})", "more than six digits"},
      {R"({"pattern":"a{1,4444444444444444444444}"})", "more than six digits"},
      {R"({"$ref":"https://x"})", "can name"},
      {R"({"$ref":"#/$defs/x"})", "does not define"},
      {R"({"minLength":-1})", "whole number"},
      {R"({"required":"a"})", "list of names"},
      {R"({"type":"string","type":"number"})", "stands twice"},
      {"[]", "must be an object"},
      {"{", ""},
  };
  for (const Case& one : cases) {
    const auto schema = JsonSchema::Parse(one.schema, "schema.json");
    ASSERT_FALSE(schema.has_value()) << one.schema;
    EXPECT_THAT(schema.error().message(), HasSubstr(one.words)) << one.schema;
    EXPECT_EQ(schema.error().place().file, "schema.json");
  }
}

}  // namespace
}  // namespace kcc
