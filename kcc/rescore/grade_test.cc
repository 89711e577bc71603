// Hooks that grade answers: a grader that is dead or late has found nothing, good or bad.
#include "kcc/rescore/grade.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "kcc/base/temporary.h"
#include "kcc/kernel/reference_test_server.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ScratchDir;
using testing::TestServer;

class GradeTest : public ::testing::Test {
 protected:
  GradeSet Set(std::vector<GradeHook> hooks, double timeout_s = 30) {
    GraderLimits limits;
    limits.timeout_s = timeout_s;
    auto set = GradeSet::Make(hooks, limits);
    EXPECT_TRUE(set.has_value()) << set.error().Format();
    return *std::move(set);
  }
  Grades Of(GradeSet& set, const std::string& text) {
    return set.Grade({"/v1/completions", R"({"prompt":"p"})", text, "stop", &asked_});
  }
  std::string Program(const std::string& name, const std::string& body) {
    const std::string path = scratch_ / name;
    std::ofstream(path) << "import json, sys\nfor line in sys.stdin:\n    ask = json.loads(line)\n"
                        << body;
    return "python3 -u " + path;
  }
  static GradeHook Hook(const std::string& field, GradeKind kind) {
    GradeHook hook;
    hook.field = field;
    hook.kind = kind;
    return hook;
  }
  static GradeHook Exec(const std::string& field, const std::string& command) {
    GradeHook hook = Hook(field, GradeKind::kExec);
    hook.command = command;
    return hook;
  }

  ScratchDir scratch_;
  Request asked_{"r1", {}};
};

TEST_F(GradeTest, JsonIsParsedOrNot) {
  GradeHook hook = Hook("parsed", GradeKind::kJson);
  GradeSet any = Set({hook});
  EXPECT_EQ(std::get<bool>(Of(any, " {\"a\": 1} ").fields.at("parsed")), true);
  EXPECT_EQ(std::get<bool>(Of(any, "```json\n{}\n```").fields.at("parsed")), false);
  hook.schema_file = scratch_ / "schema.json";
  std::ofstream(hook.schema_file) << R"({"required":["a"]})";
  GradeSet strict = Set({hook});
  EXPECT_EQ(std::get<bool>(Of(strict, "{\"a\": 1}").fields.at("parsed")), true);
  EXPECT_EQ(std::get<bool>(Of(strict, "{}").fields.at("parsed")), false);
}

TEST_F(GradeTest, PhrasesAreFoundHoweverTheyAreWritten) {
  GradeHook hook = Hook("refused", GradeKind::kPhrases);
  hook.phrases = {"I can't", "As an AI"};
  GradeSet set = Set({hook});
  for (const char* text :
       {"I can't do that", "Sorry, i CAN'T", "I can\xE2\x80\x99t", "as an\n  AI"}) {
    EXPECT_EQ(std::get<bool>(Of(set, text).fields.at("refused")), true) << text;
  }
  for (const char* text : {"", "I can", "Here you are"}) {
    EXPECT_EQ(std::get<bool>(Of(set, text).fields.at("refused")), false) << text;
  }
}

TEST_F(GradeTest, TheFirstHookWhoseConditionHoldsGradesItsField) {
  GradeHook first = Hook("refused", GradeKind::kPhrases);
  first.phrases = {"no"};
  first.when = "'strict' in tags";
  GradeHook second = Hook("refused", GradeKind::kPhrases);
  second.phrases = {"never"};
  GradeHook third = Hook("parsed", GradeKind::kJson);
  third.when = "task == 'json'";
  GradeSet set = Set({first, second, third});
  Grades grades = Of(set, "no");
  EXPECT_EQ(std::get<bool>(grades.fields.at("refused")), false);
  EXPECT_FALSE(grades.fields.contains("parsed")) << "not asked for is not graded";
  EXPECT_THAT(grades.faults, IsEmpty());
  asked_.fields["tags"] = std::vector<std::string>{"strict"};
  asked_.fields["task"] = std::string("json");
  grades = Of(set, "no");
  EXPECT_EQ(std::get<bool>(grades.fields.at("refused")), true);
  EXPECT_EQ(std::get<bool>(grades.fields.at("parsed")), false);
}

TEST_F(GradeTest, AProgramThatStaysIsAskedLineByLine) {
  GradeSet set = Set({Exec(
      "reward", Program("grade.py", "    print(json.dumps({'value': len(ask['text'])}))\n"))});
  EXPECT_EQ(std::get<double>(Of(set, "four").fields.at("reward")), 4);
  EXPECT_EQ(std::get<double>(Of(set, "sixsix\n").fields.at("reward")), 7);
}

TEST_F(GradeTest, WhatAProgramCannotMeanIsMissing) {
  for (const char* says : {"'nonsense'", "'null'", "'{}'", "'true'", "'\"text\"'", "'1e999'"}) {
    GradeSet set =
        Set({Exec("reward", Program("grade.py", "    print(" + std::string(says) + ")\n"))});
    const Grades grades = Of(set, "x");
    EXPECT_THAT(grades.fields, IsEmpty()) << says;
    EXPECT_EQ(grades.faults.size(), 1u) << says;
  }
}

TEST_F(GradeTest, ADeadOrSilentProgramLeavesTheFieldMissing) {
  GradeSet dead = Set({Exec("parsed", Program("dead.py", "    sys.exit('out of luck')\n"))});
  Grades grades = Of(dead, "{}");
  EXPECT_THAT(grades.fields, IsEmpty());
  ASSERT_EQ(grades.faults.size(), 1u);
  EXPECT_THAT(grades.faults[0], HasSubstr("parsed"));
  EXPECT_THAT(Of(dead, "{}").fields, IsEmpty()) << "it is not started again at once";
  GradeSet silent = Set({Exec("parsed", Program("silent.py", "    pass\n"))}, 0.2);
  EXPECT_THAT(Of(silent, "{}").fields, IsEmpty());
  GradeSet absent = Set({Exec("parsed", "/no/such/program")});
  EXPECT_THAT(Of(absent, "{}").fields, IsEmpty());
}

TEST_F(GradeTest, AServiceIsPostedEachAnswer) {
  const std::string path = scratch_ / "server.py";
  std::ofstream(path) << R"(
import http.server, json, sys, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_POST(self):
        ask = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = 500 if self.path == "/broken" else 200
        body = json.dumps({"value": ask["text"] == "good"}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"127.0.0.1:{server.server_address[1]}", flush=True)
sys.stdin.read()
)";
  TestServer server({"python3", path});
  GradeHook hook = Hook("parsed", GradeKind::kHttp);
  hook.url = "http://" + server.address() + "/grade";
  GradeSet set = Set({hook});
  EXPECT_EQ(std::get<bool>(Of(set, "good").fields.at("parsed")), true);
  EXPECT_EQ(std::get<bool>(Of(set, "bad").fields.at("parsed")), false);
  hook.url = "http://" + server.address() + "/broken";
  GradeSet broken = Set({hook});
  EXPECT_THAT(Of(broken, "good").fields, IsEmpty());
  hook.url = "http://127.0.0.1:1/";
  GradeSet nobody = Set({hook});
  EXPECT_THAT(Of(nobody, "good").fields, IsEmpty());
}

TEST_F(GradeTest, HooksThatCannotWorkAreRefusedAtTheStart) {
  GradeHook phrases = Hook("refused", GradeKind::kPhrases);
  GradeHook empty = phrases;
  empty.phrases = {" "};
  GradeHook schema = Hook("parsed", GradeKind::kJson);
  schema.schema_file = scratch_ / "missing.json";
  GradeHook url = Hook("reward", GradeKind::kHttp);
  url.url = "localhost:80";
  GradeHook when = Hook("parsed", GradeKind::kJson);
  when.when = "tags ==";
  GradeHook tokens = Hook("parsed", GradeKind::kJson);
  tokens.when = "token.position > 3";
  GradeHook tags = Hook("tags", GradeKind::kJson);
  for (const GradeHook& hook : {phrases, empty, schema, url, when, tokens, tags}) {
    EXPECT_FALSE(GradeSet::Make({hook}, {}).has_value()) << hook.field << hook.when << hook.url;
  }
}

}  // namespace
}  // namespace kcc
