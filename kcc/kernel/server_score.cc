#include "kcc/kernel/server_score.h"

#include <algorithm>

#include "kcc/base/strings.h"
#include "kcc/kernel/server_probe.h"
#include "kcc/kernel/server_table.h"

namespace kcc {
namespace {

// The one sequence of an answer, read with the request it answers.
struct Parsed {
  json::parser response_parser;
  json::parser request_parser;
  json::object response;
  ImportedSequence sequence;
};

Result<> Parse(const ServerFacts& facts, const HttpCall& call, const std::string& body,
               const ImportOptions& options, Parsed* parsed) {
  const auto root = ParseJson(parsed->response_parser, body);
  if (!root.has_value() || root->get(parsed->response) != simdjson::SUCCESS) {
    return BrokenEvidenceError(
        "the answer is no JSON object: " +
        (root.has_value() ? "it is " + std::string(JsonTypeName(*root)) : root.error().message()));
  }
  KCC_TRY(const json::element request, ParseJson(parsed->request_parser, call.body));
  std::vector<std::string> warnings;
  ResponseContext context;
  context.options = &options;
  json::object object;
  if (request.get(object) == simdjson::SUCCESS) context.request = object;
  context.warnings = &warnings;
  KCC_TRY(std::vector<ImportedSequence> sequences, facts.server->parse(parsed->response, context));
  if (sequences.size() != 1) {
    return BrokenEvidenceError("the answer holds " + std::to_string(sequences.size()) +
                               " choices for one request");
  }
  parsed->sequence = std::move(sequences[0]);
  return {};
}

std::string FingerprintOf(const ImportedSequence& sequence) {
  if (!sequence.fingerprint.empty()) return sequence.fingerprint;
  const auto version = sequence.fields.find("weight_version");
  if (version == sequence.fields.end()) return "";
  const auto* text = std::get_if<std::string>(&version->second);
  return text != nullptr ? *text : "";
}

Result<> CheckTops(const ServerFacts& facts, const std::vector<ImportedToken>& tokens,
                   int32_t top) {
  const auto asked = std::min<int64_t>(top, facts.vocab_size);
  const auto least = static_cast<size_t>(std::max<int64_t>(0, asked - facts.path->tops_lost));
  for (const ImportedToken& token : tokens) {
    if (token.logits.empty() && token.top.size() < least) {
      return BrokenEvidenceError("position " + std::to_string(token.position) + " has " +
                                 std::to_string(token.top.size()) +
                                 " alternatives with ids, asked for were " + std::to_string(asked) +
                                 "; the server gives fewer, or names them by text alone");
    }
  }
  return {};
}

// The forced end token's list holds every token; the answer is made to be about the one meant.
Result<> PickFromWhole(int32_t meant, std::vector<ImportedToken>* tokens) {
  if (tokens->size() != 1) return {};  // the alignment has words for it
  ImportedToken& token = (*tokens)[0];
  for (const TopEntry& entry : token.top) {
    if (entry.id != meant) continue;
    token.token = meant;
    token.logprob = entry.logprob;
    return {};
  }
  return BrokenEvidenceError("token " + std::to_string(meant) +
                             " is not among the alternatives, though the whole vocabulary was "
                             "asked for");
}

// Where the entries show what they mean themselves, they must mean what was asked for.
Result<> CheckSaidSemantics(const ServerFacts& facts, LogprobSemantics expected,
                            const ImportedSequence& sequence) {
  if (!facts.server->says_semantics) return {};
  return CheckSemantics(facts.server->raw_remedy, expected, sequence.semantics);
}

const ServerPath* FindPath(const ServerDialect& server, TracePath kind) {
  for (const ServerPath& path : server.paths) {
    if (path.kind == kind) return &path;
  }
  return nullptr;
}

bool Contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

std::vector<int64_t> TokenIds(const std::vector<ImportedToken>& tokens) {
  std::vector<int64_t> ids;
  ids.reserve(tokens.size());
  for (const ImportedToken& token : tokens) ids.push_back(token.token);
  return ids;
}

}  // namespace

Result<const ServerPath*> ChoosePath(const ServerDialect& server, std::optional<TracePath> asked) {
  if (!asked) return server.paths.data();
  if (const ServerPath* path = FindPath(server, *asked)) return path;
  std::vector<std::string> words;
  for (const ServerDialect* other : kServers) {
    const ServerPath* path = FindPath(*other, *asked);
    if (path == nullptr) continue;
    words.emplace_back(other->name);
    if (!path->needs.empty()) words.back() += " with " + std::string(path->needs);
  }
  const std::vector<std::string_view> others(words.begin(), words.end());
  const bool decode = *asked == TracePath::kDecode;
  return InvalidError(std::string(server.name) +
                      (decode ? " has no way to force tokens while it decodes; use path="
                              : " has no way to score the tokens of a prompt; use path=") +
                      std::string(Name(server.paths[0].kind)) + ", or " + JoinWords(others, "or") +
                      " for the " + std::string(Name(*asked)) + " path");
}

Result<> CheckAskable(const ServerFacts& facts, const ScoreAsk& ask) {
  const auto count = static_cast<int64_t>(ask.tokens.size());
  if (ask.prompt_tokens < 1 || ask.prompt_tokens > count) {
    return InvalidError("the prompt has " + std::to_string(ask.prompt_tokens) + " of " +
                        std::to_string(count) +
                        " tokens; it must have at least one, since nothing predicts the first");
  }
  for (int64_t i = 0; i < count; ++i) {
    const int32_t id = ask.tokens[static_cast<size_t>(i)];
    if (id < 0 || (facts.vocab_size > 0 && id >= facts.vocab_size)) {
      return InvalidError("the token id " + std::to_string(id) + " at position " +
                          std::to_string(i) + " is outside the server's vocabulary of " +
                          std::to_string(facts.vocab_size) + ": another tokeniser?");
    }
  }
  return {};
}

std::vector<ScoreAsk> SplitAsk(const ServerFacts& facts, const ScoreAsk& ask) {
  const auto forceable = [&](int32_t id) {
    const auto known = facts.forceable.find(id);
    return known == facts.forceable.end() || known->second;
  };
  std::vector<ScoreAsk> parts;
  const size_t count = ask.tokens.size();
  for (auto first = static_cast<size_t>(ask.prompt_tokens); first < count;) {
    size_t end = count;
    if (facts.path->by_token || !forceable(ask.tokens[first])) {
      end = first + 1;
    } else if (facts.path->learn != nullptr) {
      end = first + 1;
      while (end < count && forceable(ask.tokens[end])) ++end;
      // The token that ends the generation for good is what is left once a run is complete.
      if (end + 1 == count && Contains(facts.end, ask.tokens[end])) ++end;
    }
    ScoreAsk part = ask;
    part.tokens = ask.tokens.first(end);
    part.prompt_tokens = static_cast<int32_t>(first);
    parts.push_back(part);
    first = end;
  }
  return parts;
}

Result<ScoreAnswer> ReadScore(const ServerFacts& facts, const ScoreAsk& ask,
                              const std::string& body) {
  const ServerPath& path = *facts.path;
  const auto first = static_cast<int64_t>(ask.prompt_tokens);
  ImportOptions options;
  options.prompt = path.about_prompt;
  options.prompt_tokens = first;
  Parsed parsed;
  KCC_TRY_VOID(Parse(facts, path.score(facts, ask, ""), body, options, &parsed));
  if (path.check != nullptr) KCC_TRY_VOID(path.check(parsed.response, ask));
  KCC_TRY_VOID(CheckSaidSemantics(facts, LogprobSemantics::kRaw, parsed.sequence));
  ScoreAnswer answer;
  answer.fingerprint = FingerprintOf(parsed.sequence);
  for (ImportedToken& token : parsed.sequence.tokens) {
    if (token.position >= first) answer.tokens.push_back(std::move(token));
  }
  if (ask.whole) {
    KCC_TRY_VOID(PickFromWhole(ask.tokens[static_cast<size_t>(first)], &answer.tokens));
  }
  const std::vector<int64_t> expected(ask.tokens.begin() + first, ask.tokens.end());
  KCC_TRY_VOID(CheckAlignment("the log-probs of the answer", expected, 0, TokenIds(answer.tokens)));
  for (size_t i = 0; i < answer.tokens.size(); ++i) {
    if (answer.tokens[i].position != first + static_cast<int64_t>(i)) {
      return BrokenEvidenceError(
          "the server counts " +
          std::to_string(answer.tokens[i].position - static_cast<int64_t>(i)) +
          " prompt tokens, sent were " + std::to_string(first) + ": it adds or cuts tokens");
    }
  }
  // What sampling leaves of a list is what the narrow probe asks about.
  if (!ask.narrow) KCC_TRY_VOID(CheckTops(facts, answer.tokens, ask.top));
  return answer;
}

Result<ScoreAnswer> ReadGenerated(const ServerFacts& facts, const GenerateAsk& ask,
                                  const std::string& body) {
  ImportOptions options;
  options.prompt = false;
  options.semantics = ask.semantics;
  options.prompt_tokens = static_cast<int64_t>(ask.prompt.size());
  Parsed parsed;
  KCC_TRY_VOID(Parse(facts, facts.server->generate(facts, ask, ""), body, options, &parsed));
  KCC_TRY_VOID(CheckSaidSemantics(facts, ask.semantics, parsed.sequence));
  ScoreAnswer answer;
  answer.fingerprint = FingerprintOf(parsed.sequence);
  answer.tokens = std::move(parsed.sequence.tokens);
  auto position = static_cast<int64_t>(ask.prompt.size());
  const int64_t vocab_size = facts.vocab_size > 0 ? facts.vocab_size : kVocabSizeMax;
  for (const ImportedToken& token : answer.tokens) {
    if (token.token < 0 || token.token >= vocab_size) {
      return BrokenEvidenceError("the server wrote the token id " + std::to_string(token.token) +
                                 ", outside its vocabulary of " + std::to_string(vocab_size));
    }
    if (token.position != position++) {
      return BrokenEvidenceError("the server counts another prompt than the " +
                                 std::to_string(ask.prompt.size()) + " tokens that were sent");
    }
  }
  return answer;
}

}  // namespace kcc
