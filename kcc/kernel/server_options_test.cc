// Options, fields, waits and the probe's arithmetic, without a server.

#include "kcc/kernel/server_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kcc/base/file.h"
#include "kcc/kernel/http_pool.h"
#include "kcc/kernel/server_body.h"
#include "kcc/kernel/server_kernel.h"
#include "kcc/kernel/server_probe.h"
#include "kcc/kernel/server_table.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;

Result<ServerOptions> Read(const std::string& uri) {
  KCC_TRY(const KernelUri parsed, ParseKernelUri(uri));
  return ReadServerOptions(parsed, KernelOpenOptions{});
}

TEST(ServerOptions, AnAddressAndItsOptionsAreRead) {
  const auto options = Read(
      "openai+https://box:8000/prefix/?server=sglang&top=5&path=prefill&vocab_size=32000"
      "&in_flight=8&timeout=2.5&body_mib=1&probe=7,8,9&body.priority=3");
  ASSERT_TRUE(options.has_value()) << options.error().Format();
  EXPECT_EQ(options->http.base_url, "https://box:8000/prefix");
  EXPECT_EQ(options->server, &kSglangServer);
  EXPECT_EQ(options->top, 5);
  EXPECT_EQ(options->http.in_flight_max, 8);
  EXPECT_EQ(options->http.timeout_s, 2.5);
  EXPECT_EQ(options->http.body_bytes_max, size_t{1} << 20);
  EXPECT_EQ(options->probe_tokens, (std::vector<int32_t>{7, 8, 9}));
  ASSERT_EQ(options->fields.size(), 1u);
  EXPECT_EQ(options->fields[0].name, "priority");
}

TEST(ServerOptions, MistakesAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"openai+http://h:1", "say whose dialect the server speaks"},
      {"openai+http://h:1?server=tgi", "there is no server 'tgi'"},
      {"openai+http://h:1?server=vllm&tpo=3", "did you mean 'top'?"},
      {"openai+http://h:1?server=vllm&top=-1", "top=-1: it must be a number from 0"},
      {"openai+http://h:1?server=vllm&top=1.5", "top=1.5: it must be a whole number"},
      {"openai+http://h:1?server=vllm&path=sideways", "prefill or decode"},
      {"openai+http://h:1?server=vllm&semantics=cooked", "raw, temperature-scaled or processed"},
      {"openai+http://h:1?server=vllm&probe=1,2", "at least three token ids"},
      {"openai+http://h:1?server=vllm&probe=1,x,3", "token ids joined by commas"},
      {"openai+http://h:1?server=vllm&mask_missing=1", "true or false"},
      {"openai+http:h:1?server=vllm", "openai+http://HOST:PORT"},
      {"openai+http://me:pw@h:1?server=vllm", "api_key_file=PATH"},
      {"openai+http://h:1/v1?server=vllm", "leave out /v1 and write openai+http://h:1?server=…"},
      {"openai+http://h:1/v1/?server=vllm", "leave out /v1 and write"},
      {"openai+http://h:1/v1/chat/completions?server=vllm", "leave out /v1/chat/completions and"},
      {"openai+http://http://h:1?server=vllm",
       "two schemes stand in the address; write openai+http://h:1"},
      {"openai+http://h:99999?server=vllm", "'99999' is no port"},
      {"openai+http://h:8o00?server=vllm", "'8o00' is no port"},
      {"openai+http://h:1?server=vllm&api_key_file=/nowhere/key", "/nowhere/key"},
  };
  for (const auto& [uri, problem] : cases) {
    const auto options = Read(uri);
    ASSERT_FALSE(options.has_value()) << uri;
    EXPECT_THAT(options.error().Format(), HasSubstr(problem));
    EXPECT_THAT(options.error().Format(), ::testing::Not(HasSubstr("pw@")));
  }
}

TEST(ServerOptions, AnAddressMayHaveAPathThatIsNoRoute) {
  for (const std::string address : {"h", "h:1", "[::1]", "[::1]:8000", "h:1/v1beta", "h/a/v10"}) {
    EXPECT_TRUE(Read("openai+http://" + address + "?server=vllm").has_value()) << address;
  }
}

TEST(ServerBody, AFieldOfTheUsersMustBeKnownFreeAndJson) {
  const auto check = [](const ServerDialect& server, const std::string& name,
                        const std::string& json) {
    const std::vector<ServerOptions::Field> fields = {{name, json}};
    const auto checked = CheckUserFields(*server.paths[0].route, fields);
    return checked.has_value() ? std::string() : checked.error().message();
  };
  EXPECT_EQ(check(kVllmServer, "priority", "1"), "");
  EXPECT_THAT(check(kVllmServer, "prompt", "[1]"), HasSubstr("kcc sets this field"));
  EXPECT_THAT(check(kVllmServer, "priorty", "1"), HasSubstr("'priority'?"));
  EXPECT_THAT(check(kTrtllmServer, "cache_salt", "\"x\""), HasSubstr("is not sent"));
  EXPECT_THAT(check(kSglangServer, "lora_path", "abc"), HasSubstr("must be JSON"));
}

TEST(ServerBody, TheSameQuestionIsTheSameBytes) {
  RequestBody body(*kLlamacppServer.paths[0].route);
  const std::vector<int32_t> ids = {1, 2};
  body.Ids("prompt", ids).Field("n_predict", 1).Bias(7, 1000);
  const std::vector<ServerOptions::Field> extra = {{"id_slot", "3"}};
  const HttpCall call = body.Take(extra);
  EXPECT_EQ(call.path, "/completion");
  EXPECT_EQ(call.body,
            "{\"prompt\":[1,2],\"n_predict\":1,\"logit_bias\":[[7,1000]],\"id_slot\":3}\n");
}

TEST(HttpRetry, WaitsDoubleToALimitAndHeedRetryAfter) {
  HttpOptions options;
  options.retry_wait_ms = 100;
  options.retry_wait_ms_max = 500;
  EXPECT_EQ(RetryWaitMs(options, 1, 0).value(), 100);
  EXPECT_EQ(RetryWaitMs(options, 2, 0).value(), 200);
  EXPECT_EQ(RetryWaitMs(options, 3, 0).value(), 400);
  EXPECT_EQ(RetryWaitMs(options, 4, 0).value(), 500);
  EXPECT_EQ(RetryWaitMs(options, 40, 0).value(), 500);
  EXPECT_EQ(RetryWaitMs(options, 1, 3).value(), 3000);
  EXPECT_FALSE(RetryWaitMs(options, 1, 61).has_value());
}

TEST(HttpRetry, OnlyPassingTroubleIsRepeated) {
  for (const int status : {408, 429, 500, 502, 503, 504}) EXPECT_TRUE(IsRetriedStatus(status));
  for (const int status : {200, 301, 400, 401, 403, 404, 413, 422, 501}) {
    EXPECT_FALSE(IsRetriedStatus(status)) << status;
  }
}

// Log-probs of a little vocabulary at a temperature, the k best.
std::vector<TopEntry> Softmax(std::vector<double> logits, double temperature) {
  double sum = 0;
  for (double& logit : logits) sum += std::exp(logit /= temperature);
  std::vector<TopEntry> list;
  for (size_t i = 0; i < logits.size(); ++i) {
    list.push_back({static_cast<int32_t>(i), logits[i] - std::log(sum)});
  }
  SortTop(&list);
  return list;
}

TEST(ServerProbe, TellsRawScaledAndProcessedApartDespiteNoise) {
  const std::vector<double> logits = {3.0, 1.0, 0.5, -2.0, -4.0};
  const auto raw = Softmax(logits, 1);
  const auto scaled = Softmax(logits, kProbeTemperature);
  auto noisy = raw;
  for (size_t i = 0; i < noisy.size(); ++i) noisy[i].logprob += i % 2 == 0 ? 0.02 : -0.02;
  const std::vector<TopEntry> cut(scaled.begin(), scaled.begin() + 2);
  auto renormalised = raw;
  for (TopEntry& entry : renormalised) entry.logprob -= 0.5;
  EXPECT_EQ(FindSemantics({{raw}, {raw}, {raw}}).value(), LogprobSemantics::kRaw);
  EXPECT_EQ(FindSemantics({{raw}, {noisy}, {raw}}).value(), LogprobSemantics::kRaw);
  EXPECT_EQ(FindSemantics({{raw}, {scaled}, {raw}}).value(), LogprobSemantics::kTemperatureScaled);
  EXPECT_EQ(FindSemantics({{raw}, {cut}, {raw}}).value(), LogprobSemantics::kProcessed);
  EXPECT_EQ(FindSemantics({{raw}, {renormalised}, {raw}}).value(), LogprobSemantics::kProcessed);
}

TEST(ServerProbe, RefusesWhatItCannotTell) {
  const auto raw = Softmax({3.0, 1.0, 0.5, -2.0}, 1);
  const auto other = Softmax({-1.0, 2.0, 3.5, 0.0}, 1);
  const auto flat = Softmax({0.0, 0.0, 0.0}, 1);
  const auto odd = Softmax({3.0, 1.0, 0.5, -2.0}, 4);
  const std::vector<TopEntry> logits = {{0, 3.0}, {1, 1.0}};
  const std::vector<TopEntry> heavy = {{0, -0.1}, {1, -0.2}};
  const auto problem = [](const ProbeAnswers& answers) {
    const auto found = FindSemantics(answers);
    return found.has_value() ? std::string(Name(*found)) : found.error().message();
  };
  EXPECT_THAT(problem({{raw}, {raw}, {other}}), HasSubstr("shifted by one"));
  EXPECT_THAT(problem({{flat}, {flat}, {flat}}), HasSubstr("cannot tell"));
  EXPECT_THAT(problem({{raw}, {odd}, {raw}}), HasSubstr("keep 25 % of their differences"));
  EXPECT_THAT(problem({{logits}, {logits}, {logits}}), HasSubstr("these are logits"));
  EXPECT_THAT(problem({{heavy}, {heavy}, {heavy}}), HasSubstr("sum to"));
  EXPECT_THAT(problem({{raw}, {}, {raw}}), HasSubstr("different lengths"));
}

TEST(ServerOptions, ThePageShowsTheTable) {
  const std::string page = ReadFile("docs/servers.md", size_t{1} << 20).value();
  for (const ServerOptionRow& row : ServerOptionTable()) {
    std::string value(row.value);
    for (size_t at = value.find('|'); at != std::string::npos; at = value.find('|', at + 2)) {
      value.replace(at, 1, "\\|");
    }
    EXPECT_THAT(page, HasSubstr("| `" + std::string(row.name) + "` | `" + value + "` | " +
                                std::string(row.meaning) + " |"));
  }
}

}  // namespace
}  // namespace kcc
