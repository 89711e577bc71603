#include "bench/gateway/model.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <vector>

#include "bench/gateway/endpoint.h"

namespace kcc::bench {
namespace {

constexpr std::string_view kFingerprint = "bench-upstream/1";
constexpr int kTop = 20;
constexpr std::array<int, 3> kPrompt = {1, 2, 3};

int BestAfter(int token) { return 7 * token % kVocab; }

double LogProb(int before, int token) {
  static const double log_z = -std::log(1 - std::exp(-0.1));  // but for e^-51
  const int rank = ((token - 7 * before) % kVocab + kVocab) % kVocab;
  return -0.1 * rank - log_z;
}

std::string Number(double value) {
  char text[32];
  return {text, static_cast<size_t>(std::snprintf(text, sizeof text, "%.7g", value))};
}

std::array<int, kAnswerTokens> AnswerTokens() {
  std::array<int, kAnswerTokens> tokens = {};
  int before = kPrompt.back();
  for (int& token : tokens) before = token = BestAfter(before);
  return tokens;
}

std::string ChatEntry(int before, int token) {
  const auto entry = [&](int id) {
    return "{\"token\":\"token_id:" + std::to_string(id) +
           "\",\"logprob\":" + Number(LogProb(before, id)) + ",\"bytes\":null";
  };
  std::string text = entry(token) + ",\"top_logprobs\":[";
  for (int rank = 0; rank < kTop; ++rank) {
    if (rank > 0) text += ',';
    text += entry((BestAfter(before) + rank) % kVocab) + '}';
  }
  return text + "]}";
}

// The log-probs of every token of the answer, made once: they are the same for each request.
const std::vector<std::string>& ChatEntries() {
  static const std::vector<std::string> entries = [] {
    std::vector<std::string> made;
    int before = kPrompt.back();
    for (const int token : AnswerTokens()) {
      made.push_back(ChatEntry(before, token));
      before = token;
    }
    return made;
  }();
  return entries;
}

template <typename Ids>
std::string List(const Ids& ids) {
  std::string text = "[";
  for (const int id : ids) text += (text.size() > 1 ? "," : "") + std::to_string(id);
  return text + ']';
}

std::string Begin(const Ask& ask, std::string_view object) {
  return "{\"id\":\"chatcmpl-" + ask.id + "\",\"object\":\"" + std::string(object) +
         "\",\"created\":1750000000,\"model\":\"kcc-lab\",\"choices\":[";
}

std::string Chunked(const std::string& data) {
  char size[20];
  const auto [end, error] = std::to_chars(size, size + sizeof size, data.size(), 16);
  return std::string(size, end) + "\r\n" + data + "\r\n";
}

std::string Event(const Ask& ask, const std::string& delta, const std::string& more,
                  std::string_view finish) {
  return Chunked("data: " + Begin(ask, "chat.completion.chunk") + "{\"index\":0,\"delta\":{" +
                 delta + "}," + more + "\"finish_reason\":" + std::string(finish) +
                 "}],\"system_fingerprint\":\"" + std::string(kFingerprint) + "\"}\n\n");
}

}  // namespace

Ask ReadAsk(std::string_view body) {
  Ask ask;
  ask.id = "ask-" + std::to_string(NumberAfter(body, "ask-", 0));
  ask.stream = body.find("\"stream\":true") != std::string_view::npos ||
               body.find("\"stream\": true") != std::string_view::npos;
  ask.sampled = body.find("\"logprobs\"") != std::string_view::npos;
  ask.chunks = NumberAfter(body, "chunks-", 16);
  ask.every_us = NumberAfter(body, "every-", 1000);
  return ask;
}

std::string Head(int status, size_t length) {
  return "HTTP/1.1 " + std::to_string(status) + (status == 200 ? " OK" : " Error") +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(length) +
         "\r\n\r\n";
}

std::string StreamHead() {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
         "Transfer-Encoding: chunked\r\n\r\n";
}

std::string WholeAnswer(const Ask& ask) {
  std::string choice = "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"" + ask.id +
                       " and then some words, as an answer has\",\"refusal\":null},\"logprobs\":";
  if (ask.sampled) {
    choice += "{\"content\":[";
    for (const std::string& entry : ChatEntries()) {
      choice += (choice.back() == '[' ? "" : ",") + entry;
    }
    choice += "]},\"token_ids\":" + List(AnswerTokens());
  } else {
    choice += "null,\"token_ids\":null";
  }
  choice += ",\"finish_reason\":\"stop\",\"stop_reason\":null}]";
  std::string answer = Begin(ask, "chat.completion") + choice;
  answer += ",\"prompt_token_ids\":" + (ask.sampled ? List(kPrompt) : "null");
  return answer +
         ",\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":16,\"total_tokens\":19},"
         "\"system_fingerprint\":\"" +
         std::string(kFingerprint) + "\"}";
}

std::string StreamChunk(const Ask& ask, int64_t number, int64_t now_ns) {
  const std::string delta = "\"content\":\"" + ask.id + ':' + std::to_string(number) + ':' +
                            std::to_string(now_ns) + " \"";
  std::string more = "\"logprobs\":null,\"token_ids\":null,";
  if (ask.sampled) {
    const size_t place = static_cast<size_t>(number) % kAnswerTokens;
    more = "\"logprobs\":{\"content\":[" + ChatEntries()[place] + "]},\"token_ids\":[" +
           std::to_string(AnswerTokens()[place]) + "],";
  }
  return Event(ask, number == 0 ? "\"role\":\"assistant\"," + delta : delta, more, "null");
}

std::string StreamEnd(const Ask& ask) {
  return Event(ask, "\"content\":\"\"", "\"logprobs\":null,\"token_ids\":null,", "\"stop\"") +
         Chunked("data: [DONE]\n\n") + "0\r\n\r\n";
}

std::string Version() { return "{\"version\":\"0.11.0\"}"; }

std::string Models() {
  return "{\"object\":\"list\",\"data\":[{\"id\":\"kcc-lab\",\"object\":\"model\",\"owned_by\":"
         "\"vllm\",\"max_model_len\":4096}]}";
}

bool IsScoring(std::string_view body) {
  return body.find("\"prompt_logprobs\"") != std::string_view::npos;
}

bool AsksVocabulary(std::string_view body) {
  return body.find("2147483647") != std::string_view::npos;
}

std::string VocabularyError() {
  return "{\"error\":{\"message\":\"token_id(s) [2147483647] in logit_bias contain out-of-vocab "
         "token ids. Vocabulary size: 512\",\"type\":\"invalid_request_error\",\"param\":null,"
         "\"code\":400}}";
}

namespace {

// The ids of "prompt".
std::vector<int> PromptOf(std::string_view body) {
  std::vector<int> prompt;
  const size_t list = body.find("\"prompt\":[");
  size_t at = list == std::string_view::npos ? body.size() : list + 10;
  while (at < body.size() && body[at] != ']') {
    int id = 0;
    const auto [end, error] = std::from_chars(body.data() + at, body.data() + body.size(), id);
    if (error == std::errc()) prompt.push_back(id);
    at = static_cast<size_t>(end - body.data());
    if (at < body.size() && body[at] != ']') ++at;
  }
  return prompt;
}

std::string CompletionOf(const std::vector<int>& prompt, const std::string& choice) {
  return "{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,\"model\":\"kcc-lab\","
         "\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\",\"prompt_token_"
         "ids\":" +
         List(prompt) + ',' + choice +
         "}],\"usage\":{\"prompt_tokens\":" + std::to_string(prompt.size()) +
         ",\"completion_tokens\":1},\"system_fingerprint\":\"" + std::string(kFingerprint) + "\"}";
}

}  // namespace

size_t PromptTokens(std::string_view body) { return PromptOf(body).size(); }

std::string Scored(std::string_view body) {
  const std::vector<int> prompt = PromptOf(body);
  std::string lists = "null";
  for (size_t i = 1; i < prompt.size(); ++i) {
    const auto entry = [&](int id) {
      const int rank = ((id - 7 * prompt[i - 1]) % kVocab + kVocab) % kVocab + 1;
      return '"' + std::to_string(id) + "\":{\"logprob\":" + Number(LogProb(prompt[i - 1], id)) +
             ",\"rank\":" + std::to_string(rank) + ",\"decoded_token\":null}";
    };
    lists += ",{" + entry(prompt[i]);
    for (int rank = 0; rank < kTop; ++rank) {
      const int id = (BestAfter(prompt[i - 1]) + rank) % kVocab;
      if (id != prompt[i]) lists += ',' + entry(id);
    }
    lists += '}';
  }
  return CompletionOf(prompt,
                      "\"logprobs\":null,\"token_ids\":[0],\"prompt_logprobs\":[" + lists + ']');
}

bool IsGeneration(std::string_view body) {
  return body.find("\"prompt\":[") != std::string_view::npos;
}

std::string Generated(std::string_view body) {
  const std::vector<int> prompt = PromptOf(body);
  std::vector<int> ids;
  std::string offsets, names, numbers, tops;
  int before = prompt.empty() ? 0 : prompt.back();
  for (int64_t i = NumberAfter(body, "\"max_tokens\":", 1); i > 0; --i) {
    const int token = BestAfter(before);
    const std::string comma = ids.empty() ? "" : ",";
    offsets += comma + '0';
    names += comma + "\"token_id:" + std::to_string(token) + '"';
    numbers += comma + Number(LogProb(before, token));
    tops += comma + '{';
    for (int rank = 0; rank < kTop; ++rank) {
      const int id = (token + rank) % kVocab;
      tops += (rank > 0 ? ",\"token_id:" : "\"token_id:") + std::to_string(id) +
              "\":" + Number(LogProb(before, id));
    }
    tops += '}';
    ids.push_back(token);
    before = token;
  }
  return CompletionOf(prompt, "\"prompt_logprobs\":null,\"token_ids\":" + List(ids) +
                                  ",\"logprobs\":{\"text_offset\":[" + offsets + "],\"tokens\":[" +
                                  names + "],\"token_logprobs\":[" + numbers +
                                  "],\"top_logprobs\":[" + tops + "]}");
}

std::string Tokenized() {
  return "{\"count\":3,\"max_model_len\":4096,\"tokens\":" + List(kPrompt) + '}';
}

}  // namespace kcc::bench
