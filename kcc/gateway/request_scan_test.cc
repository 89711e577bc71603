#include "kcc/gateway/request_scan.h"

#include <gtest/gtest.h>

namespace kcc {
namespace {

int StatusOf(const std::string& body) {
  RequestScan scan;
  const auto refusal = ScanRequest(body, &scan);
  return refusal ? refusal->status : 200;
}

TEST(RequestScan, TakesObjectsAndNothingElse) {
  EXPECT_EQ(StatusOf("{}"), 200);
  EXPECT_EQ(StatusOf(" {\"model\": \"m\"} \n"), 200);
  for (const std::string body : {"", "[]", "1", "{", "{\"a\":}", "{} x", "{}{}", "\"{}\"",
                                 "{\"a\":\"\x80\"}", "{\"a\":1,}"}) {
    EXPECT_EQ(StatusOf(body), 400) << body;
  }
}

TEST(RequestScan, RefusesAMemberThatIsThereTwice) {
  EXPECT_EQ(StatusOf(R"({"model":"a","model":"b"})"), 400);
  EXPECT_EQ(StatusOf(R"({"model":"a","mod\u0065l":"b"})"), 400);
  EXPECT_EQ(StatusOf(R"({"model":"a","Model":"b"})"), 200);
  EXPECT_EQ(StatusOf(R"({"a":{"x":1,"x":2}})"), 200) << "the gateway reads no further";
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += "\"k" + std::to_string(i) + "\":0,";
  EXPECT_EQ(StatusOf(many + "\"z\":0}"), 200);
  EXPECT_EQ(StatusOf(many + "\"k7\":0}"), 400);
  for (int i = 100; i < 600; ++i) many += "\"k" + std::to_string(i) + "\":0,";
  EXPECT_EQ(StatusOf(many + "\"z\":0}"), 400) << "too many";
}

TEST(RequestScan, ReadsSourcesWhereTheyAre) {
  const std::string body = R"({"user":"u","metadata":{"task":"t","n":{"x":[1]}},"a.b":2,"e":null})";
  RequestScan scan;
  ASSERT_FALSE(ScanRequest(body, &scan));
  const HeaderField headers[] = {{"X-Tags", "a \"b\""}, {"X-Empty", ""}};
  const auto read = [&](bool header, const std::string& name) {
    return ReadSource({header, name}, scan, headers).value_or("-");
  };
  EXPECT_EQ(read(false, "user"), "\"u\"");
  EXPECT_EQ(read(false, "metadata.task"), "\"t\"");
  EXPECT_EQ(read(false, "metadata.n.x"), "[1]");
  EXPECT_EQ(read(false, "metadata.n.y"), "-");
  EXPECT_EQ(read(false, "a.b"), "2");
  EXPECT_EQ(read(false, "e"), "-");
  EXPECT_EQ(read(true, "x-tags"), R"("a \"b\"")");
  EXPECT_EQ(read(true, "x-empty"), "-");
  EXPECT_EQ(ReadSessionKey({false, "user"}, scan, headers), "u");
  EXPECT_EQ(ReadSessionKey({false, "metadata"}, scan, headers), R"({"task":"t","n":{"x":[1]}})");
}

struct AuditCase {
  const char* name;
  const char* body;
  bool chat;
  bool auditable;
};

TEST(RequestScan, WhatCanBeAuditedIsDecidedByTheRequestAlone) {
  const AuditCase cases[] = {
      {"a text", R"({"prompt":"a"})", false, true},
      {"ids", R"({"prompt":[1,2]})", false, true},
      {"one text in a list", R"({"prompt":["a"]})", false, true},
      {"two texts", R"({"prompt":["a","b"]})", false, false},
      {"two lists of ids", R"({"prompt":[[1],[2]]})", false, false},
      {"no prompt", R"({})", false, false},
      {"an object as the prompt", R"({"prompt":{"a":1}})", false, false},
      {"several choices", R"({"prompt":"a","n":3})", false, true},
      {"the best of several", R"({"prompt":"a","best_of":3})", false, false},
      {"the best of one", R"({"prompt":"a","best_of":1})", false, true},
      {"an echo", R"({"prompt":"a","echo":true})", false, false},
      {"no echo", R"({"prompt":"a","echo":false})", false, true},
      {"a suffix", R"({"prompt":"a","suffix":"b"})", false, false},
      {"beams", R"({"prompt":"a","use_beam_search":true})", false, false},
      {"embeddings", R"({"prompt":"a","prompt_embeds":"x"})", false, false},
      {"a chat", R"({"messages":[{"role":"user","content":"a"}]})", true, true},
      {"text parts", R"({"messages":[{"content":[{"type":"text","text":"a"}]}]})", true, true},
      {"a picture", R"({"messages":[{"content":[{"type":"image_url"}]}]})", true, false},
      {"tools", R"({"messages":[],"tools":[{"type":"function"}]})", true, true},
      {"speech", R"({"messages":[],"audio":{"voice":"a"}})", true, false},
  };
  for (const AuditCase& one : cases) {
    RequestScan scan;
    const std::string body = one.body;
    ASSERT_FALSE(ScanRequest(body, &scan)) << one.name;
    EXPECT_EQ(IsAuditable(scan, one.chat), one.auditable) << one.name;
  }
}

}  // namespace
}  // namespace kcc
