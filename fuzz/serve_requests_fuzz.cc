// Any bytes as a request body of the lab's server, as a fault and as a chat template: refused with
// words, or taken within the limits that the server relies on. The first byte says as what.
#include <simdjson.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "kcc/base/check.h"
#include "kcc/format/json.h"
#include "kcc/serve/faults.h"
#include "kcc/serve/generation_request.h"
#include "kcc/serve/served_model.h"

namespace {

kcc::ServedModel MakeModel() {
  std::string words;
  for (int byte = 0; byte < 256; ++byte) {
    char name[16];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    words += (byte == 0 ? "\"" : ",\"") + std::string(name) + "\":" + std::to_string(byte);
  }
  const std::string tokenizer =
      R"({"added_tokens":[{"id":256,"content":"<s>","special":true}],"model":{"vocab":{)" + words +
      "}}}";
  kcc::ServedModel model;
  model.name = "m";
  model.vocab = 260;
  model.positions = 4096;
  model.tokenizer = *kcc::ByteTokenizer::Parse(tokenizer, model.vocab, "tokenizer.json");
  return model;
}

void CheckGeneration(kcc::ApiKind kind, kcc::json::object body, const kcc::ServedModel& model) {
  kcc::GenerationRequest request;
  const auto error = kcc::ReadGenerationRequest(kind, body, model, &request);
  if (error) {
    KCC_CHECK(!error->message.empty() && error->status >= 400 && error->status < 500);
    return;
  }
  KCC_CHECK(!request.prompts.empty() && request.choices() <= kcc::kChoicesMax);
  for (const auto& prompt : request.prompts) {
    KCC_CHECK(!prompt.empty());
    KCC_CHECK(prompt.size() + static_cast<size_t>(request.output_tokens_max) <= model.positions);
    for (const int32_t token : prompt) KCC_CHECK(model.HasToken(token));
  }
  for (const int32_t token : request.forced) KCC_CHECK(model.HasToken(token));
  for (const auto& [token, bias] : request.bias) KCC_CHECK(model.HasToken(token));
  KCC_CHECK(request.sampling.top_p > 0 && request.sampling.temperature >= 0);
  KCC_CHECK(!request.top || static_cast<size_t>(*request.top) <= model.vocab);
  for (const std::string& stop : request.stop) KCC_CHECK(!stop.empty());
}

void CheckFault(kcc::json::object body) {
  kcc::FaultRule rule;
  const auto engine = [](std::string_view) -> kcc::Result<size_t> { return size_t{1}; };
  if (kcc::ReadFaultRule(body, engine, &rule)) return;
  kcc::Faults faults;
  faults.Set(rule);
  kcc::GenerationRequest request;
  request.prompts = {{1}};
  std::vector<std::string> applied;
  for (int i = 0; i < 3; ++i) {
    const kcc::FaultPlan plan = faults.Plan(request, &applied);
    KCC_CHECK(plan.change.temperature > 0 && plan.change.noise >= 0);
  }
  KCC_CHECK(!faults.Json().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const kcc::ServedModel model = MakeModel();
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 't') {
    const auto made = kcc::ChatTemplate::Parse(text, "t");
    const kcc::ChatMessage messages[] = {{"user", "a"}, {"assistant", "b"}};
    if (made.has_value()) (void)made->Render(messages, {"<s>", "</s>", true}).has_value();
    (void)kcc::ByteTokenizer::Parse(text, model.vocab, "t").has_value();
    return 0;
  }
  kcc::json::parser parser;
  const auto root = kcc::ParseJson(parser, text);
  kcc::json::object body;
  if (!root.has_value() || root->get(body) != simdjson::SUCCESS) return 0;
  if (data[0] == 'f') {
    CheckFault(body);
    return 0;
  }
  const auto kind = static_cast<kcc::ApiKind>(data[0] % 3);
  CheckGeneration(kind, body, model);
  return 0;
}
