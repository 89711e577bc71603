#include "kcc/contract/schema.h"

#include <gtest/gtest.h>
#include <regex.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "kcc/contract/keys.h"
#include "kcc/metric/metric.h"

namespace kcc {
namespace {

// JSON is YAML, so the reader that tests have anyway will do.
YAML::Node Schema() { return YAML::Load(ContractJsonSchema()); }

void ExpectTables(const YAML::Node& definitions, std::span<const MappingTable> tables) {
  for (const MappingTable& table : tables) {
    const YAML::Node definition = definitions[std::string(table.name)];
    ASSERT_TRUE(definition.IsDefined()) << table.name;
    EXPECT_FALSE(definition["additionalProperties"].as<bool>());
    EXPECT_EQ(definition["properties"].size(), table.keys.size());
    std::set<std::string> required;
    for (const YAML::Node& key : definition["required"]) required.insert(key.Scalar());
    for (const KeyRow& row : table.keys) {
      const std::string name(row.name);
      const YAML::Node property = definition["properties"][name];
      ASSERT_TRUE(property.IsDefined()) << table.name << "." << name;
      EXPECT_TRUE(property["description"].Scalar().starts_with(row.doc)) << name;
      EXPECT_EQ(required.contains(name), row.required) << name;
      EXPECT_EQ(property["default"].IsDefined(), !row.default_text.empty()) << name;
      for (const std::string_view word : row.words) {
        const YAML::Node words = property["items"] ? property["items"]["enum"] : property["enum"];
        EXPECT_TRUE(std::any_of(words.begin(), words.end(),
                                [&](const YAML::Node& node) { return node.Scalar() == word; }))
            << name << ": " << word;
      }
    }
  }
}

TEST(ContractJsonSchema, DefinesEveryTableWithEveryKeyAndNoOther) {
  ExpectTables(Schema()["$defs"], MappingTables());
}

TEST(PolicyJsonSchema, DefinesEveryTableWithEveryKeyAndNoOther) {
  const YAML::Node definitions = YAML::Load(PolicyJsonSchema())["$defs"];
  ExpectTables(definitions, PolicyTables());
  EXPECT_EQ(definitions.size(), PolicyTables().size());
}

TEST(MonitorJsonSchema, DefinesEveryTableWithEveryKeyAndNoOther) {
  const YAML::Node definitions = YAML::Load(MonitorJsonSchema())["$defs"];
  ExpectTables(definitions, MonitorTables());
  EXPECT_EQ(definitions.size(), MonitorTables().size());
}

TEST(GatewayJsonSchema, DefinesEveryTableWithEveryKeyAndNoOther) {
  const YAML::Node definitions = YAML::Load(GatewayJsonSchema())["$defs"];
  ExpectTables(definitions, GatewayTables());
  EXPECT_EQ(definitions.size(), GatewayTables().size());
}

TEST(ContractJsonSchema, EveryReferenceLeadsToADefinition) {
  struct Case {
    std::string text;
    int references;
  };
  for (const auto& [text, references] :
       {Case{ContractJsonSchema(), 15}, Case{PolicyJsonSchema(), 15}, Case{MonitorJsonSchema(), 7},
        Case{GatewayJsonSchema(), 12}}) {
    const YAML::Node definitions = YAML::Load(text)["$defs"];
    constexpr std::string_view kStart = "\"$ref\": \"#/$defs/";
    int found = 0;
    for (size_t at = text.find(kStart); at != text.npos; at = text.find(kStart, at), ++found) {
      at += kStart.size();
      const std::string name = text.substr(at, text.find('"', at) - at);
      EXPECT_TRUE(definitions[name].IsDefined()) << name;
    }
    EXPECT_GE(found, references);
  }
}

TEST(ContractJsonSchema, KnowsEveryMetricByItsDirection) {
  const YAML::Node definitions = Schema()["$defs"];
  const auto names_of = [&](const char* definition) {
    std::set<std::string> names;
    for (const YAML::Node& node : definitions[definition]["enum"]) names.insert(node.Scalar());
    return names;
  };
  const std::set<std::string> lower = names_of("lowerIsBetterMetric");
  const std::set<std::string> higher = names_of("higherIsBetterMetric");
  const std::set<std::string> either = names_of("signedMetric");
  size_t metrics = 0;
  for (const std::set<std::string>* names : {&lower, &higher, &either}) {
    for (const std::string& name : *names) {
      EXPECT_TRUE(ParseMetric(name).has_value()) << name;
      ++metrics;
    }
  }
  size_t expected = 0;
  for (const Quantity& quantity : Catalog()) {
    const size_t sides = quantity.sided ? 2 : 1;
    expected += sides * (quantity.level == QuantityLevel::kPopulation ? 1 : Aggregates().size());
    expected += quantity.bare_mean ? 1 : 0;
    expected += quantity.rate_name.empty() ? 0 : 1;
  }
  EXPECT_EQ(metrics, expected);
  EXPECT_TRUE(lower.contains("p99_logit_linf"));
  EXPECT_TRUE(higher.contains("mean_top5_overlap"));
  EXPECT_TRUE(higher.contains("top5_overlap"));
  EXPECT_TRUE(either.contains("mean_log_ratio"));
  EXPECT_TRUE(lower.contains("rate_log_ratio"));
}

// The patterns mean the same as POSIX and as ECMAScript expressions. (std::regex would do, but g++
// 12 warns inside it under the address sanitizer.)
bool Matches(const std::string& pattern, const std::string& text) {
  regex_t compiled;
  EXPECT_EQ(regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB), 0) << pattern;
  const bool matches = regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  regfree(&compiled);
  return matches;
}

TEST(ContractJsonSchema, PatternsAcceptWhatTheReaderAccepts) {
  const YAML::Node definitions = Schema()["$defs"];
  const auto matches = [](const YAML::Node& pattern, const std::string& text) {
    return Matches(pattern.Scalar(), text);
  };
  const YAML::Node window = definitions["clause"]["properties"]["window"]["pattern"];
  for (const char* text : {"request", "100 requests", "1m", "250ms", "24h", "1.5s"}) {
    EXPECT_TRUE(matches(window, text)) << text;
  }
  for (const char* text : {"requests", "m", "100", "1d", "-1m"}) {
    EXPECT_FALSE(matches(window, text)) << text;
  }
  const YAML::Node ratio = definitions["clause"]["properties"]["exceedance"]["anyOf"][1]["pattern"];
  EXPECT_TRUE(matches(ratio, "0.1%"));
  EXPECT_TRUE(matches(ratio, "1e-3"));
  EXPECT_FALSE(matches(ratio, "0.1"));
  const YAML::Node version = definitions["metadata"]["properties"]["version"]["pattern"];
  EXPECT_TRUE(matches(version, "1.30.0"));
  EXPECT_FALSE(matches(version, "1.3"));
  EXPECT_FALSE(matches(version, "01.3.0"));
}

TEST(MonitorJsonSchema, PatternsAcceptWhatTheReaderAccepts) {
  const YAML::Node definitions = YAML::Load(MonitorJsonSchema())["$defs"];
  const auto pattern = [&](const char* table, const char* key) {
    return definitions[table]["properties"][key]["pattern"].Scalar();
  };
  const std::string budget = pattern("monitorSpec", "falseAlarms");
  for (const char* text : {"1 per 10^6 requests", "1 per 1000000 requests", "1 per 1e6 requests",
                           "0.5 per 30d", "2e-1 per 24h"}) {
    EXPECT_TRUE(Matches(budget, text)) << text;
  }
  for (const char* text : {"1", "1 per day", "per 10^6 requests", "1 per 10^6", "-1 per 1h"}) {
    EXPECT_FALSE(Matches(budget, text)) << text;
  }
  const std::string rate = pattern("monitorSpec", "auditedRate");
  EXPECT_TRUE(Matches(rate, "5 per s"));
  EXPECT_FALSE(Matches(rate, "5/s"));
  const std::string size = pattern("auditRule", "sessionFilter");
  EXPECT_TRUE(Matches(size, "1MiB"));
  EXPECT_TRUE(Matches(size, "64kB"));
  EXPECT_FALSE(Matches(size, "1Mi"));
}

TEST(GatewayJsonSchema, PatternsAcceptWhatTheReaderAccepts) {
  const YAML::Node definitions = YAML::Load(GatewayJsonSchema())["$defs"];
  const auto pattern = [&](const char* table, const char* key) {
    return definitions[table]["properties"][key]["pattern"].Scalar();
  };
  const std::string address = pattern("gatewaySpec", "listen");
  EXPECT_TRUE(Matches(address, "127.0.0.1:8080"));
  EXPECT_TRUE(Matches(address, "[::1]:0"));
  EXPECT_FALSE(Matches(address, "8080"));
  EXPECT_FALSE(Matches(address, "http://127.0.0.1:8080"));
  const std::string url = pattern("gatewayKernel", "url");
  EXPECT_TRUE(Matches(url, "http://127.0.0.1:8000"));
  EXPECT_TRUE(Matches(url, "https://kernels.example/v1"));
  EXPECT_TRUE(Matches(url, "http://[::1]:80"));
  EXPECT_FALSE(Matches(url, "127.0.0.1:8000"));
  const std::string source = pattern("gatewayField", "from");
  for (const char* text : {"header:x-session-id", "body:user", "body:metadata.task"}) {
    EXPECT_TRUE(Matches(source, text)) << text;
  }
  for (const char* text : {"user", "body:", "body:a.b.c", "header:a b"}) {
    EXPECT_FALSE(Matches(source, text)) << text;
  }
}

}  // namespace
}  // namespace kcc
