// Any bytes as the answer to a sampled request, by every dialect: what comes out is JSON where what
// went in was, without what was asked for beyond the client's request, and a second time over it
// nothing is left to cut out.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "kcc/base/check.h"
#include "kcc/gateway/answer_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool chat = (data[0] & 1) != 0;
  const kcc::Injected injected{(data[0] & 2) != 0, (data[0] & 4) != 0};
  for (const char* server : {"vllm", "sglang", "llamacpp", "trtllm"}) {
    const kcc::WireDialect& dialect = *kcc::FindWireDialect(server);
    kcc::AnswerReader reader(dialect, chat, injected, true, 1 << 16);
    std::string edited;
    const auto outcome = reader.Read(text, &edited);
    using Outcome = kcc::AnswerReader::Outcome;
    if (!injected.any()) KCC_CHECK(outcome == Outcome::kAsIs);
    if (outcome == Outcome::kEdited) {
      KCC_CHECK(kcc::IsWholeJson(text) && kcc::IsWholeJson(edited));
      kcc::AnswerReader second(dialect, chat, injected, true, 1 << 16);
      std::string again;
      KCC_CHECK(second.Read(edited, &again) != Outcome::kEdited);
    }
    const kcc::ServedAnswer answer = reader.Take();
    for (const kcc::ServedToken& token : answer.tokens) {
      KCC_CHECK(token.id >= 0);
      for (size_t i = 0; i < token.top.size(); ++i) {
        KCC_CHECK(token.top[i].first >= 0 && !std::isnan(token.top[i].second));
        KCC_CHECK(i == 0 || token.top[i - 1].second >= token.top[i].second);
      }
    }
  }
  return 0;
}
