#include "kcc/kernel/server_dialect.h"

namespace kcc {

void AddSampling(const GenerateAsk& ask, std::string_view seed, RequestBody* body) {
  const Sampling& how = ask.sampling;
  body->Field("temperature", how.temperature);
  if (how.top_k > 0) body->Field("top_k", how.top_k);
  if (how.top_p < 1) body->Field("top_p", how.top_p);
  body->Field(seed, ask.seed & 0x7fffffff);  // 31 bits are what every server takes
}

HttpCall TokenizePrompt(const std::string& model, const std::string& text, bool begins) {
  JsonWriter body(JsonWriter::Style::kCompact);
  body.BeginObject().Field("model", model).Field("prompt", text);
  return {"/tokenize", body.Field("add_special_tokens", begins).EndObject().Take()};
}

}  // namespace kcc
