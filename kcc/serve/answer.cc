#include "kcc/serve/answer.h"

#include <algorithm>
#include <set>

#include "kcc/base/json_writer.h"

namespace kcc {
namespace {

std::string_view Name(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : "length";
}

std::string WithoutNewline(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

// Writes one body. Completions keep a choice's parts in the choice, chat and generate keep those of
// the prompt at the top: the members follow vLLM.
class AnswerWriter::Body {
 public:
  Body(const AnswerWriter& writer, bool chunk) : writer_(writer), chunk_(chunk) {
    json_.BeginObject();
    const AnswerHead& head = writer.head_;
    if (kind() == ApiKind::kGenerate) {
      json_.Field("output_mode", "tokens").Field("request_id", head.id);
    } else {
      json_.Field("id", head.id).Field("object", ObjectName());
    }
    json_.Field("created", head.created_s).Field("model", writer.model_.name);
  }

  void Choice(const AnswerChoice& choice) {
    json_.BeginObject().Field("index", choice.index);
    if (kind() == ApiKind::kCompletion) {
      json_.Field("text", choice.text);
    } else if (kind() == ApiKind::kChat) {
      Message(choice);
    }
    Logprobs(choice);
    json_.Key("finish_reason");
    if (choice.finish) {
      json_.Value(Name(*choice.finish));
    } else {
      json_.Null();
    }
    Stop(choice.stop);
    json_.Key("token_ids");
    if (request().token_ids) {
      json_.BeginArray();
      for (const TokenRecord& record : choice.records) json_.Value(record.token);
      json_.EndArray();
    } else {
      json_.Null();
    }
    if (kind() == ApiKind::kCompletion) Prompt(choice);
    json_.EndObject();
  }

  // The ids of a prompt and their log-probs.
  void Prompt(const AnswerChoice& choice) {
    json_.Key("prompt_logprobs");
    if (request().prompt_top && choice.prompt_records != nullptr) {
      json_.BeginArray().Null();  // nothing predicts the first token
      for (const TokenRecord& record : *choice.prompt_records) PromptEntry(record);
      json_.EndArray();
    } else {
      json_.Null();
    }
    json_.Key("prompt_token_ids");
    if (request().token_ids && choice.prompt != nullptr) {
      json_.BeginArray();
      for (const int32_t token : *choice.prompt) json_.Value(token);
      json_.EndArray();
    } else {
      json_.Null();
    }
  }

  void Usage(const AnswerUsage& usage) {
    json_.Key("usage").BeginObject().Field("prompt_tokens", usage.prompt_tokens);
    json_.Field("total_tokens", usage.prompt_tokens + usage.output_tokens);
    json_.Field("completion_tokens", usage.output_tokens);
    json_.Key("prompt_tokens_details").Null().EndObject();
  }

  JsonWriter& json() { return json_; }
  std::string Take() {
    json_.Field("system_fingerprint", writer_.head_.fingerprint).EndObject();
    return WithoutNewline(json_.Take());
  }

 private:
  const GenerationRequest& request() const { return writer_.request_; }
  ApiKind kind() const { return request().kind; }

  std::string_view ObjectName() const {
    if (kind() == ApiKind::kCompletion) return "text_completion";
    return chunk_ ? "chat.completion.chunk" : "chat.completion";
  }

  void Message(const AnswerChoice& choice) {
    json_.Key(chunk_ ? "delta" : "message").BeginObject();
    if (!chunk_ || choice.first) json_.Field("role", "assistant");
    json_.Field("content", choice.text);
    if (!chunk_) json_.Key("refusal").Null();
    json_.EndObject();
  }

  void Stop(const StopReason& stop) {
    json_.Key("stop_reason");
    if (const auto* text = std::get_if<std::string>(&stop)) {
      json_.Value(*text);
    } else if (const auto* id = std::get_if<int32_t>(&stop)) {
      json_.Value(*id);
    } else {
      json_.Null();
    }
  }

  void Number(float logprob) { json_.Value(static_cast<double>(logprob)); }

  void PromptEntry(const TokenRecord& record) {
    json_.BeginObject();
    const auto entry = [&](int32_t token, float logprob, int64_t rank) {
      json_.Key(std::to_string(token)).BeginObject().Key("logprob");
      Number(logprob);
      json_.Field("rank", rank).Field("decoded_token", writer_.model_.Bytes(token, false));
      json_.EndObject();
    };
    entry(record.token, record.logprob, record.rank);
    int64_t rank = 0;
    for (const TopLogprob& top : record.top) {
      ++rank;
      if (top.token != record.token) entry(top.token, top.logprob, rank);
    }
    json_.EndObject();
  }

  void Logprobs(const AnswerChoice& choice) {
    json_.Key("logprobs");
    if (!request().top || (chunk_ && choice.records.empty() && choice.prompt_records == nullptr)) {
      json_.Null();
    } else if (kind() == ApiKind::kCompletion) {
      Arrays(choice);
    } else {
      Content(choice);
    }
  }

  // The arrays of completions; with echo the prompt's tokens come first.
  void Arrays(const AnswerChoice& choice) {
    std::vector<TokenRecord> echoed;
    const bool echo =
        request().echo && choice.prompt != nullptr && choice.prompt_records != nullptr;
    if (echo) {
      echoed.push_back({.token = choice.prompt->front()});
      echoed.insert(echoed.end(), choice.prompt_records->begin(), choice.prompt_records->end());
    }
    const auto each = [&](const auto& write) {
      for (size_t i = 0; i < echoed.size(); ++i) write(echoed[i], i == 0);
      for (const TokenRecord& record : choice.records) write(record, false);
    };
    json_.BeginObject().Key("text_offset").BeginArray();
    size_t offset = choice.text_offset;
    each([&](const TokenRecord& record, bool) {
      json_.Value(offset);
      offset += CountCharacters(writer_.TokenText(record.token));
    });
    json_.EndArray().Key("token_logprobs").BeginArray();
    each([&](const TokenRecord& record, bool unpredicted) {
      if (unpredicted) {
        json_.Null();
      } else {
        Number(record.logprob);
      }
    });
    json_.EndArray().Key("tokens").BeginArray();
    each([&](const TokenRecord& record, bool) { json_.Value(writer_.TokenText(record.token)); });
    json_.EndArray().Key("top_logprobs").BeginArray();
    each([&](const TokenRecord& record, bool unpredicted) {
      if (unpredicted) {
        json_.Null();
      } else {
        TopByText(record);
      }
    });
    json_.EndArray().EndObject();
  }

  // The token itself first, then the best. Two tokens with one text are one key, that of the
  // better: clients that need all ask for return_tokens_as_token_ids.
  void TopByText(const TokenRecord& record) {
    std::set<std::string> seen;
    json_.BeginObject();
    const auto entry = [&](int32_t token, float logprob) {
      std::string text = writer_.TokenText(token);
      if (!seen.insert(text).second) return;
      json_.Key(text);
      Number(logprob);
    };
    entry(record.token, record.logprob);
    for (const TopLogprob& top : record.top) entry(top.token, top.logprob);
    json_.EndObject();
  }

  // logprobs.content of chat and generate.
  void Content(const AnswerChoice& choice) {
    json_.BeginObject().Key("content").BeginArray();
    for (const TokenRecord& record : choice.records) {
      json_.BeginObject();
      Entry(record.token, record.logprob);
      json_.Key("top_logprobs").BeginArray();
      for (const TopLogprob& top : record.top) {
        json_.BeginObject();
        Entry(top.token, top.logprob);
        json_.EndObject();
      }
      json_.EndArray().EndObject();
    }
    json_.EndArray().EndObject();
  }

  void Entry(int32_t token, float logprob) {
    json_.Field("token", writer_.TokenText(token)).Key("logprob");
    Number(logprob);
    json_.Key("bytes").BeginArray();
    for (const char byte : writer_.model_.Bytes(token, false)) {
      json_.Value(static_cast<int>(static_cast<unsigned char>(byte)));
    }
    json_.EndArray();
  }

  const AnswerWriter& writer_;
  bool chunk_;
  JsonWriter json_{JsonWriter::Style::kCompact};
};

// Bytes that are not a character alone come out as U+FFFD: the writer sees to it, and their length
// is counted so.
std::string AnswerWriter::TokenText(int32_t token) const {
  if (request_.tokens_as_token_ids) return "token_id:" + std::to_string(token);
  Utf8Stream stream;
  std::string text = stream.Push(model_.Bytes(token, false));
  return text + stream.Finish();
}

std::string AnswerWriter::Whole(const std::vector<AnswerChoice>& choices,
                                const AnswerUsage& usage) const {
  Body body(*this, false);
  body.json().Key("choices").BeginArray();
  for (const AnswerChoice& choice : choices) body.Choice(choice);
  body.json().EndArray();
  if (request_.kind != ApiKind::kCompletion) body.Prompt(choices.front());
  body.Usage(usage);
  return body.Take();
}

std::string AnswerWriter::Chunk(const AnswerChoice& choice) const {
  Body body(*this, true);
  body.json().Key("choices").BeginArray();
  body.Choice(choice);
  body.json().EndArray();
  if (request_.kind != ApiKind::kCompletion && choice.prompt != nullptr) body.Prompt(choice);
  body.json().Key("usage").Null();
  return body.Take();
}

std::string AnswerWriter::UsageChunk(const AnswerUsage& usage) const {
  Body body(*this, true);
  body.json().Key("choices").BeginArray().EndArray();
  body.Usage(usage);
  return body.Take();
}

}  // namespace kcc
