#include "kcc/kernel/server_dialect.h"

namespace kcc {

void AddSampling(const GenerateAsk& ask, std::string_view seed, int32_t top_k_off,
                 RequestBody* body) {
  const Sampling& how = ask.sampling;
  body->Field("temperature", how.temperature);
  body->Field("top_k", how.top_k > 0 ? how.top_k : top_k_off);
  body->Field("top_p", how.top_p < 1 ? how.top_p : 1.0);
  body->Field(seed, ask.seed & 0x7fffffff);  // 31 bits are what every server takes
}

HttpCall TokenizePrompt(const std::string& model, const std::string& text, bool begins) {
  JsonWriter body(JsonWriter::Style::kCompact);
  body.BeginObject().Field("model", model).Field("prompt", text);
  return {"/tokenize", body.Field("add_special_tokens", begins).EndObject().Take()};
}

}  // namespace kcc
