#include "kcc/gateway/answer_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "kcc/gateway/json_scan.h"

namespace kcc {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Servers write -9999, the smallest float or null for what is not told or has no probability.
double LogprobOf(std::string_view value) {
  const double number = JsonNumberOf(value).value_or(kNone);
  return number > -9999.0 && number <= 0.01 ? number : kNone;
}

int32_t IdOfNumber(std::string_view value) {
  const int64_t id = JsonIntegerOf(value).value_or(-1);
  return id >= 0 && id <= std::numeric_limits<int32_t>::max() ? static_cast<int32_t>(id) : -1;
}

// Over a value that may be a list of ids.
bool ReadIds(JsonCursor& cursor, std::vector<int32_t>* ids) {
  if (cursor.Peek() != '[') return cursor.Skip();
  return cursor.Array([&] {
    std::string_view value;
    if (!cursor.Skip(&value)) return false;
    ids->push_back(IdOfNumber(value));
    return true;
  });
}

// "token_id:N", as written in a key or between the quotes of a text.
int32_t IdOfText(std::string_view text) {
  constexpr std::string_view kPrefix = "token_id:";
  if (!text.starts_with(kPrefix)) return -1;
  text.remove_prefix(kPrefix.size());
  int32_t id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  return error == std::errc() && end == text.data() + text.size() && id >= 0 ? id : -1;
}

std::string_view BetweenQuotes(std::string_view value) {
  return value.size() >= 2 && value.front() == '"' ? value.substr(1, value.size() - 2)
                                                   : std::string_view();
}

// Lists of alternatives have the drawn token in front, whether it is one of the best or not, and
// chat then cuts the list to its length. Behind it they come best first. It is taken for one of the
// best only if it is better than another of the list; so the list never claims that what is not in
// it is rarer than a token that was drawn from far below.
void KeepBest(ServedToken* token) {
  auto& top = token->top;
  const bool in_front = !top.empty() && top.front().first == token->id && token->id >= 0;
  const auto better = [](const auto& a, const auto& b) { return a.second > b.second; };
  if (in_front) {
    const double own = top.front().second;
    const bool among = std::any_of(top.begin() + 1, top.end(),
                                   [&](const auto& other) { return other.second <= own; });
    if (!among) top.erase(top.begin());
  }
  std::stable_sort(top.begin(), top.end(), better);
}

}  // namespace

struct AnswerReader::ChoicePart {
  bool first = true;  // of the choices: the one that is kept
  std::string_view text, finish;
  std::vector<int32_t> ids, prompt_ids;
  std::vector<ServedToken> entries;
  bool ids_told = false;
};

AnswerReader::AnswerReader(const WireDialect& dialect, bool chat, const Injected& injected,
                           bool token_id_texts, size_t bytes_max)
    : route_(dialect.Route(chat)),
      injected_(injected),
      token_id_texts_(token_id_texts),
      bytes_max_(bytes_max) {}

AnswerReader::~AnswerReader() = default;

void AnswerReader::Lose(std::string_view fault) {
  if (answer_.fault.empty()) answer_.fault = fault;
  answer_.tokens = {};
  answer_.text = {};
}

// One pass: the text is checked to its end before anything that was found in it counts.
AnswerReader::Outcome AnswerReader::Read(std::string_view json, std::string* edited) {
  edits_.clear();
  choices_.clear();
  json_ = json;
  bytes_ += json.size();
  if (bytes_ > bytes_max_) Lose("the answer is too large");
  std::vector<JsonPart> members;
  members.reserve(12);
  std::vector<int32_t> prompt_ids;
  JsonCursor cursor(json);
  const bool good = cursor.Object([&](JsonPart& part) {
    const bool went = KeyIs(part.key, "choices")            ? Choices(cursor)
                      : KeyIs(part.key, "prompt_token_ids") ? ReadIds(cursor, &prompt_ids)
                                                            : cursor.Skip(&part.value);
    return Keep(cursor, went, &part, &members);
  });
  if (!good || cursor.Peek() != '\0' || cursor.at() != json.data() + json.size()) {
    Lose("the answer is not a JSON object");
    return Outcome::kAsIs;
  }
  for (const JsonPart& part : members) {
    if (!KeyIs(part.key, "system_fingerprint")) continue;
    if (auto text = JsonTextOf(part.value); text && !text->empty()) {
      answer_.fingerprint = std::move(*text);
    }
  }
  if (!prompt_ids.empty()) answer_.prompt_ids = std::move(prompt_ids);
  bool dropped = false;
  for (ChoicePart& choice : choices_) {
    dropped = dropped || IsPromptEvent(choice);
    if (choice.first) TakeChoice(choice);
  }
  if (dropped) return Outcome::kDropped;
  CutOut(members, false);
  if (edits_.empty()) return Outcome::kAsIs;
  *edited = ApplyEdits(json, edits_);
  return Outcome::kEdited;
}

// What `Object` finds out behind the value is wanted with the part.
bool AnswerReader::Keep(const JsonCursor& cursor, bool went, JsonPart* part,
                        std::vector<JsonPart>* members) {
  if (!went) return false;
  // The value begins behind the key, its colon and blanks.
  const char* begin = part->key.data() + part->key.size() + 1;
  while (*begin != ':') ++begin;
  for (++begin; *begin == ' ' || *begin == '\n' || *begin == '\r' || *begin == '\t';) ++begin;
  part->value = std::string_view(begin, static_cast<size_t>(cursor.at() - begin));
  members->push_back(*part);
  return true;
}

// What a member becomes, by its name; nothing: it stays.
std::optional<Unasked> AnswerReader::CutOf(std::string_view key) const {
  if (injected_.logprobs && KeyIs(key, "logprobs")) return route_.logprobs_unasked;
  if (injected_.ids && (KeyIs(key, "token_ids") || KeyIs(key, "response_token_ids") ||
                        KeyIs(key, "prompt_token_ids"))) {
    return route_.ids_unasked;
  }
  return std::nullopt;
}

// A member that goes takes the comma before it along, or, with none before it that stays, the one
// behind it.
void AnswerReader::CutOut(const std::vector<JsonPart>& members, bool choice) {
  const auto place = [&](const char* at) { return static_cast<size_t>(at - json_.data()); };
  bool kept = false;          // a member before this one stays
  size_t last_end = 0;        // of the member before this one
  std::optional<size_t> cut;  // where a cut began that takes the next comma along
  for (const JsonPart& part : members) {
    const size_t end = place(part.value.data() + part.value.size());
    std::optional<Unasked> becomes = CutOf(part.key);
    if (!choice && !KeyIs(part.key, "prompt_token_ids")) becomes.reset();  // others are a choice's
    if (becomes == Unasked::kAbsent) {
      if (kept) {
        edits_.push_back({last_end, end, ""});
      } else if (!cut) {
        cut = place(part.begin);
      }
    } else {
      if (cut) edits_.push_back({*cut, place(part.begin), ""});
      cut.reset();
      kept = true;
      if (becomes && part.value != "null") {
        edits_.push_back({place(part.value.data()), end, "null"});
      }
    }
    last_end = end;
  }
  if (cut) edits_.push_back({*cut, last_end, ""});
}

bool AnswerReader::Choices(JsonCursor& cursor) {
  if (cursor.Peek() != '[') return cursor.Skip();
  return cursor.Array([&] { return cursor.Peek() == '{' ? Choice(cursor) : cursor.Skip(); });
}

bool AnswerReader::Choice(JsonCursor& cursor) {
  ChoicePart found;
  std::vector<JsonPart> members;
  members.reserve(12);
  const bool good = cursor.Object([&](JsonPart& part) {
    const std::string_view key = part.key;
    bool went = false;
    if (KeyIs(key, "message") || KeyIs(key, "delta")) {
      went = cursor.Skip(&part.value);
      if (went) found.text = JsonMemberOf(part.value, "content").value_or("");
    } else if (KeyIs(key, "logprobs")) {
      went = Logprobs(cursor, &found.entries);
    } else if (KeyIs(key, "token_ids") || KeyIs(key, "response_token_ids")) {
      found.ids_told = cursor.Peek() == '[';
      went = ReadIds(cursor, &found.ids);
    } else if (KeyIs(key, "prompt_token_ids")) {
      went = ReadIds(cursor, &found.prompt_ids);
    } else {
      went = cursor.Skip(&part.value);
      if (!went) return false;
      if (KeyIs(key, "index")) found.first = JsonIntegerOf(part.value).value_or(0) == 0;
      if (KeyIs(key, "text")) found.text = part.value;
      if (KeyIs(key, "finish_reason")) found.finish = part.value;
    }
    return Keep(cursor, went, &part, &members);
  });
  if (!good) return false;
  CutOut(members, true);
  choices_.push_back(std::move(found));
  return true;
}

void AnswerReader::TakeChoice(ChoicePart& choice) {
  answer_.any_choice = true;
  if (auto reason = JsonTextOf(choice.finish)) answer_.finish_reason = std::move(*reason);
  if (!choice.prompt_ids.empty()) answer_.prompt_ids = std::move(choice.prompt_ids);
  if (!answer_.fault.empty()) return;
  if (const auto text = JsonTextOf(choice.text)) answer_.text += *text;
  Merge(choice.ids, std::move(choice.entries));
}

// It has the prompt's ids, and nothing else.
bool AnswerReader::IsPromptEvent(const ChoicePart& part) const {
  return injected_.ids && route_.prompt_event && part.text == "\"\"" && part.finish == "null" &&
         !part.prompt_ids.empty() && part.ids_told && part.ids.empty();
}

bool AnswerReader::Logprobs(JsonCursor& cursor, std::vector<ServedToken>* entries) {
  if (cursor.Peek() != '{') return cursor.Skip();
  return cursor.Object([&](JsonPart& part) {
    if (KeyIs(part.key, "content")) return Content(cursor, entries);
    const auto each = [&](const auto& take) {
      if (cursor.Peek() != '[') return cursor.Skip();
      size_t i = 0;
      return cursor.Array([&] {
        if (entries->size() <= i) entries->push_back({-1, kNone, {}});
        return take(&(*entries)[i++]);
      });
    };
    // Of completions: {"tokens": [], "token_logprobs": [], "top_logprobs": [{text: logprob}]}.
    std::string_view value;
    if (KeyIs(part.key, "token_logprobs")) {
      return each([&](ServedToken* token) {
        const bool went = cursor.Skip(&value);
        token->logprob = LogprobOf(value);
        return went;
      });
    }
    if (!token_id_texts_) return cursor.Skip();
    if (KeyIs(part.key, "tokens")) {
      return each([&](ServedToken* token) {
        const bool went = cursor.Skip(&value);
        token->id = IdOfText(BetweenQuotes(value));
        return went;
      });
    }
    if (!KeyIs(part.key, "top_logprobs")) return cursor.Skip();
    return each([&](ServedToken* token) {
      if (cursor.Peek() != '{') return cursor.Skip();
      return cursor.Object([&](const JsonPart& other) {
        if (!cursor.Skip(&value)) return false;
        const int32_t id = IdOfText(other.key);
        const double logprob = LogprobOf(value);
        if (id >= 0 && !std::isnan(logprob)) token->top.emplace_back(id, logprob);
        return true;
      });
    });
  });
}

// Of chat: [{"token", "logprob", "top_logprobs": [{"token", "logprob"}]}].
bool AnswerReader::Content(JsonCursor& cursor, std::vector<ServedToken>* entries) {
  if (cursor.Peek() != '[') return cursor.Skip();
  return cursor.Array([&] {
    ServedToken token{-1, kNone, {}};
    if (!entries->empty()) token.top.reserve(entries->back().top.size());
    const bool went = Entry(cursor, &token.id, &token.logprob, [&] {
      if (cursor.Peek() != '[') return cursor.Skip();
      return cursor.Array([&] {
        int32_t id = -1;
        double logprob = kNone;
        const bool good = Entry(cursor, &id, &logprob, [&] { return cursor.Skip(); });
        if (id >= 0 && !std::isnan(logprob)) token.top.emplace_back(id, logprob);
        return good;
      });
    });
    entries->push_back(std::move(token));
    return went;
  });
}

template <class Others>
bool AnswerReader::Entry(JsonCursor& cursor, int32_t* id, double* logprob, const Others& others) {
  if (cursor.Peek() != '{') return cursor.Skip();
  return cursor.Object([&](const JsonPart& part) {
    if (KeyIs(part.key, "top_logprobs")) return others();
    std::string_view value;
    if (!cursor.Skip(&value)) return false;
    if (KeyIs(part.key, "logprob")) {
      *logprob = LogprobOf(value);
    } else if (KeyIs(part.key, "token")) {
      if (token_id_texts_) *id = IdOfText(BetweenQuotes(value));
    } else if (KeyIs(part.key, "id")) {
      *id = IdOfNumber(value);
    }
    return true;
  });
}

// Ids and log-probs come in two lists; where both are there, they speak of the same tokens.
void AnswerReader::Merge(const std::vector<int32_t>& ids, std::vector<ServedToken> entries) {
  if (!ids.empty() && !entries.empty() && ids.size() != entries.size()) {
    return Lose("ids and log-probs are not of one length");
  }
  if (entries.empty()) entries.resize(ids.size(), {-1, kNone, {}});
  for (size_t i = 0; i < entries.size(); ++i) {
    ServedToken& token = entries[i];
    if (i < ids.size()) {
      if (token.id >= 0 && token.id != ids[i]) return Lose("ids and log-probs disagree");
      token.id = ids[i];
    }
    KeepBest(&token);
    answer_.tokens.push_back(std::move(token));
  }
}

ServedAnswer AnswerReader::Take() {
  const auto without_id = [](const ServedToken& token) { return token.id < 0; };
  if (std::any_of(answer_.tokens.begin(), answer_.tokens.end(), without_id)) answer_.tokens.clear();
  return std::move(answer_);
}

}  // namespace kcc
