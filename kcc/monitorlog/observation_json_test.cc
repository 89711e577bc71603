#include "kcc/monitorlog/observation_json.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "kcc/metric/own_metric.h"
#include "kcc/metric/token_slots.h"
#include "kcc/monitorlog/json_place.h"

namespace kcc {
namespace {

std::string Written(const MonitorObservation& observation) {
  JsonWriter writer(JsonWriter::Style::kCompact);
  WriteObservation(observation, &writer);
  std::string text = writer.Take();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

constexpr std::string_view kAll =
    R"({"time_ms":12,"request":"r1","kernel":"fp8","session":"s","probe":true,"repeat":true,"audited":true,"broken":"another prompt",)"
    R"("infer":{"latency_ms":12.5,"prompt_tokens":3,"tags":["a","b"]},"train":{"reward":1},)"
    R"("asked":{"prompt_tokens":3},"tokens":{"position":[3,4],"token":[7,8],"gold":[-1,8],)"
    R"("advantage":[0.5,null],"logprob":{"infer":[-1,-2],"train":[-1.5,"-inf"]},)"
    R"("argmax":{"infer":[7,-1]},"confidence":{"infer":[0.5,null]},)"
    R"("kl":{"lo":[0,0.25],"hi":[0.5,"inf"]},"log_ratio":[0.5,null],"masked":2},)"
    R"("values":{"max_kl":{"lo":0,"hi":1},"mean_kl":0.002},)"
    R"("outputs":{"known":true,"same":false,"common":4}})";

TEST(Observation, EveryKeyIsReadAndWrittenAsItWas) {
  ObservationReader reader;
  const auto read = reader.Read(kAll);
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_EQ(read->time_ms, 12);
  EXPECT_EQ(read->id(), "r1");
  EXPECT_TRUE(read->repeat);
  EXPECT_EQ(read->broken, "another prompt");
  EXPECT_EQ(read->train->id, "r1");
  EXPECT_EQ(read->asked->id, "r1");
  EXPECT_EQ(read->infer.Number("latency_ms"), 12.5);
  EXPECT_EQ(read->tokens.rows(), 2u);
  EXPECT_TRUE(std::isnan(read->tokens.advantage[1]));
  EXPECT_TRUE(std::isinf(read->tokens.logprob[1][1]));
  ASSERT_EQ(read->tokens.columns.size(), 2u);
  EXPECT_EQ(read->tokens.columns[0].slot, TokenSlot("kl"));
  EXPECT_TRUE(std::isinf(read->tokens.columns[0].hi[1]));
  EXPECT_EQ(read->values.at("mean_kl"), (Interval{0.002, 0.002}));
  EXPECT_EQ(read->outputs->common, 4);
  EXPECT_EQ(Written(*read), kAll);
}

TEST(Observation, OneObservationHasOneText) {
  ObservationReader reader;
  const auto read = reader.Read(
      R"( { "kernel" : "a" , "tokens":{"kl":[-0.0],"position":[0]}, "probe":false, "session":null,)"
      R"( "request":"x", "infer":{"reward":-0.0, "seed":null}, "time_ms":1.0, "values":{}} )");
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  const std::string text = Written(*read);
  EXPECT_EQ(text, R"({"time_ms":1,"request":"x","kernel":"a","infer":{"reward":0},)"
                  R"("tokens":{"position":[0],"kl":[0]}})");
  const auto again = reader.Read(text);
  ASSERT_TRUE(again.has_value()) << again.error().Format();
  EXPECT_EQ(Written(*again), text);
}

// Arrays come with one record. Without its key the line would say that train has no word, and what
// infer says of slices would not be vouched for.
TEST(Observation, OneRecordForBothSidesIsReadAndWritten) {
  constexpr std::string_view kOne =
      R"({"time_ms":1,"request":"r","kernel":"k","audited":true,"one_record":true,)"
      R"("infer":{"tags":["a"]},"tokens":{"position":[0],"kl":[0.5]}})";
  ObservationReader reader;
  const auto read = reader.Read(kOne);
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_TRUE(read->one_record);
  EXPECT_FALSE(read->train.has_value());
  EXPECT_EQ(Written(*read), kOne);
}

// Columns of train's side of a metric of the contract's own, as arrays name them.
TEST(Observation, OwnColumnsAreReadOfBothSides) {
  OwnMetric metric{"queue", QuantityLevel::kToken, *Expression::Parse("token.logprob")};
  const auto row = OwnRow(metric);
  ASSERT_TRUE(row.has_value()) << row.error().Format();
  const std::vector<const Quantity*> own = {*row};
  ObservationReader reader(own);
  const std::string line = R"({"time_ms":1,"request":"r","kernel":"k",)"
                           R"("tokens":{"position":[0],"own":{"queue":[1],"train_queue":[2]}}})";
  const auto read = reader.Read(line);
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_EQ(Written(*read), line);
  EXPECT_FALSE(
      reader.Read(R"({"time_ms":1,"request":"r","kernel":"k","tokens":{"own":{"infer_queue":[]}}})")
          .has_value());
}

struct BadLine {
  const char* name;
  std::string line;
  const char* message;  // a part of it
  int column;
};

std::string With(const std::string& members) {
  return R"({"time_ms":1,"request":"r","kernel":"k",)" + members + "}";
}
constexpr int kFirst = 41;  // column of the first byte of `members`

TEST(Observation, ABadLineIsNamedWithItsPlace) {
  const std::array<BadLine, 25> cases = {{
      {"nothing", "", "nothing here", 1},
      {"not JSON", R"({"time_ms":1,})", "not JSON", 14},
      {"cut", R"({"time_ms":1)", "not JSON", 13},
      {"not an object", "[1]", "must be an object, this is a list", 1},
      {"no request", R"({"time_ms":1,"kernel":"k"})", "'request' is missing", 1},
      {"no time", R"({"request":"r","kernel":"k"})", "'time_ms' is missing", 1},
      {"an empty id", R"({"time_ms":1,"request":"","kernel":"k"})", "'request' is empty", 24},
      {"a misspelt key", With(R"("audted":true)"), "did you mean 'audited'?", kFirst},
      {"a key twice", With(R"("probe":true,"probe":true)"), "'probe' stands twice", kFirst + 13},
      {"a text for a flag", With(R"("probe":"yes")"), "'probe' must be true or false", kFirst + 8},
      {"a fraction of time", R"({"time_ms":1.5,"request":"r","kernel":"k"})", "whole number", 12},
      {"a misspelt quantity", With(R"("tokens":{"position":[0],"klx":[0]})"),
       "unknown key 'tokens.klx'; did you mean 'kl'?", kFirst + 25},
      {"columns of two lengths", With(R"("tokens":{"position":[0,1],"kl":[0]})"),
       "kl does not have one value for each of 2 positions", kFirst + 9},
      {"a text in a column", With(R"("tokens":{"position":[0,1],"kl":[0,"x"]})"),
       "'tokens.kl[1]' must be a number", kFirst + 35},
      {"a negative position", With(R"("tokens":{"position":[-1]})"), "must lie between 0",
       kFirst + 22},
      {"one end of an interval", With(R"("tokens":{"position":[0],"kl":{"lo":[0]}})"),
       "must have both lo and hi", kFirst + 30},
      {"an empty interval", With(R"("tokens":{"position":[0],"kl":{"lo":[1],"hi":[0]}})"),
       "empty interval", kFirst + 9},
      {"a third side", With(R"("tokens":{"logprob":{"other":[0]}})"),
       "unknown key 'tokens.logprob.other'", kFirst + 21},
      {"an own metric that nobody defined", With(R"("tokens":{"own":{"queue":[]}})"),
       "not a metric that the contract defines", kFirst + 17},
      {"an unknown metric", With(R"("values":{"mean_lk":1})"), "mean_k", kFirst + 10},
      {"a value that is no number", With(R"("values":{"mean_kl":"nan"})"), "must be a number",
       kFirst + 20},
      {"a second id", With(R"("infer":{"id":"x"})"), "written once", kFirst + 9},
      {"a count below 0", With(R"("train":{"prompt_tokens":-1})"), "'train': 'prompt_tokens'",
       kFirst + 8},
      {"one record and another", With(R"("one_record":true,"train":{"reward":1})"),
       "'one_record' says that infer's speaks for both", kFirst + 18},
      {"a number beyond all", With(R"("values":{"mean_kl":1e999})"), "not JSON", 0},
  }};
  ObservationReader reader;
  for (const BadLine& bad : cases) {
    SCOPED_TRACE(bad.name);
    const auto read = reader.Read(bad.line);
    ASSERT_FALSE(read.has_value());
    EXPECT_EQ(read.error().code(), ErrorCode::kInvalid);
    EXPECT_NE(read.error().message().find(bad.message), std::string::npos)
        << read.error().message();
    EXPECT_EQ(bad.column == 0 ? 0 : read.error().place().column, bad.column);
  }
}

TEST(Observation, NamesAndRowsAreBounded) {
  ObservationReader reader;
  const std::string name(kObservationNameBytesMax + 1, 'x');
  EXPECT_FALSE(reader.Read(R"({"time_ms":1,"kernel":"k","request":")" + name + "\"}").has_value());
  std::string column = "0";
  for (size_t i = 0; i < kObservationRowsMax; ++i) column += ",0";
  const auto rows = reader.Read(With("\"tokens\":{\"position\":[" + column + "]}"));
  ASSERT_FALSE(rows.has_value());
  EXPECT_NE(rows.error().message().find("rows"), std::string::npos);
}

TEST(Observation, WhatCouldNotBeReadBackIsNotWritten) {
  ObservationReader reader;
  const MonitorObservation good = *reader.Read(kAll);
  EXPECT_TRUE(CheckWritable(good).has_value());
  const auto refuses = [&](const auto& spoil) {
    MonitorObservation observation = good;
    spoil(&observation);
    return !CheckWritable(observation).has_value();
  };
  EXPECT_TRUE(refuses([](MonitorObservation* o) { o->tokens.token[0] = -1; }));
  EXPECT_TRUE(refuses([](MonitorObservation* o) { o->tokens.gold[0] = -2; }));
  EXPECT_TRUE(refuses([](MonitorObservation* o) { o->tokens.position[0] = -1; }));
  EXPECT_TRUE(refuses([](MonitorObservation* o) { o->tokens.masked = int64_t{1} << 40; }));
  EXPECT_TRUE(refuses([](MonitorObservation* o) { o->time_ms = int64_t{1} << 54; }));
  EXPECT_TRUE(refuses([](MonitorObservation* o) { o->session.assign(1025, 's'); }));
  EXPECT_TRUE(refuses(
      [](MonitorObservation* o) { o->tokens.position.assign(kObservationRowsMax + 1, 0); }));
}

TEST(JsonPlace, LeadsToValuesAndKeys) {
  constexpr std::string_view text = R"({"a": {"b": [1, "x\"]", {"c": 3}]}, "d": null})";
  const std::array<JsonStep, 4> c = {{{"a"}, {"b"}, {{}, 2, true}, {"c"}}};
  EXPECT_EQ(text.substr(static_cast<size_t>(ColumnOfValue(text, c)) - 1, 1), "3");
  EXPECT_EQ(text.substr(static_cast<size_t>(ColumnOfKey(text, c)) - 1, 3), "\"c\"");
  const std::array<JsonStep, 1> d = {{{"d"}}};
  EXPECT_EQ(text.substr(static_cast<size_t>(ColumnOfValue(text, d)) - 1, 4), "null");
  const std::array<JsonStep, 1> none = {{{"z"}}};
  EXPECT_EQ(ColumnOfValue(text, none), 1);
  EXPECT_EQ(ColumnOfFault(R"({"a": [1, 2}})"), 12);
  EXPECT_EQ(ColumnOfFault(R"({"a" 1})"), 6);
  EXPECT_EQ(ColumnOfFault("{} x"), 4);
}

}  // namespace
}  // namespace kcc
