// The answer to a sampled request: what it tells of its tokens is kept, and what the client did not
// ask for is cut out, so that its bytes are those of an answer to the client's own request. Whole
// answers and the events of a stream.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/gateway/json_scan.h"
#include "kcc/gateway/request_edit.h"
#include "kcc/gateway/served_record.h"
#include "kcc/gateway/text_edit.h"
#include "kcc/gateway/wire_dialect.h"

namespace kcc {

// Of the first choice.
struct ServedAnswer {
  std::string text;
  std::string finish_reason;
  std::string fingerprint;
  std::vector<int32_t> prompt_ids;
  std::vector<ServedToken> tokens;
  bool any_choice = false;
  // Why it is no evidence; empty: it is.
  std::string fault;
};

class AnswerReader {
 public:
  // The dialect outlives it. Past `bytes_max` of answer nothing more is kept, and `fault` says so.
  AnswerReader(const WireDialect& dialect, bool chat, const Injected& injected, bool token_id_texts,
               size_t bytes_max);
  ~AnswerReader();

  enum class Outcome : uint8_t {
    kAsIs,     // nothing is to be cut out, or it is no JSON object: then `fault` says so
    kEdited,   // `edited` is what the client gets
    kDropped,  // an event that the client's own request would not have had
  };
  Outcome Read(std::string_view json, std::string* edited);

  // What cannot be read was passed on, for this reason.
  void Lose(std::string_view fault);
  ServedAnswer& answer() { return answer_; }
  size_t bytes() const { return bytes_; }  // that were read
  // At the end: tokens are of use only with an id each.
  ServedAnswer Take();

 private:
  struct ChoicePart;
  static bool Keep(const JsonCursor& cursor, bool went, JsonPart* part,
                   std::vector<JsonPart>* members);
  std::optional<Unasked> CutOf(std::string_view key) const;
  void CutOut(const std::vector<JsonPart>& members, bool choice);
  // Over a value of the answer; false: it is not JSON.
  bool Choices(JsonCursor& cursor);
  bool Choice(JsonCursor& cursor);
  bool Logprobs(JsonCursor& cursor, std::vector<ServedToken>* entries);
  bool Content(JsonCursor& cursor, std::vector<ServedToken>* entries);
  template <class Others>
  bool Entry(JsonCursor& cursor, int32_t* id, double* logprob, const Others& others);

  void TakeChoice(ChoicePart& choice);
  void Merge(const std::vector<int32_t>& ids, std::vector<ServedToken> entries);
  bool IsPromptEvent(const ChoicePart& part) const;

  const WireRoute& route_;
  const Injected injected_;
  const bool token_id_texts_;
  const size_t bytes_max_;
  size_t bytes_ = 0;
  ServedAnswer answer_;
  // Of the text that is being read.
  std::string_view json_;
  std::vector<TextEdit> edits_;
  std::vector<ChoicePart> choices_;
};

}  // namespace kcc
