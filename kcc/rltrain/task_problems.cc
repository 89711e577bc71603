#include "kcc/rltrain/task_problems.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "kcc/base/strings.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

constexpr size_t kJsonProblems = 4096;
constexpr size_t kFieldsMax = 3;

// The words of the corpus (python/kcc/model/corpus.py).
constexpr std::array<std::string_view, 16> kFields = {
    "city", "days", "name",  "size",  "user",  "path",  "count", "mode",
    "lang", "unit", "topic", "limit", "color", "level", "code",  "date"};
constexpr std::array<std::string_view, 10> kVerbs = {"get",  "set",  "find", "add",  "send",
                                                     "open", "make", "read", "list", "check"};
constexpr std::array<std::string_view, 10> kNouns = {"rain", "timer", "song",  "file",  "mail",
                                                     "note", "route", "price", "light", "event"};

// SplitMix64: the same numbers everywhere.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}
  size_t Below(size_t count) {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t value = state_;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return static_cast<size_t>((value ^ (value >> 31)) % count);
  }
  template <class Words>
  std::string_view OneOf(const Words& words) {
    return words[Below(words.size())];
  }

 private:
  uint64_t state_;
};

std::vector<int32_t> PromptTokens(std::string_view text) {
  std::vector<int32_t> tokens = {kBeginToken, kUserToken};
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  tokens.push_back(kAssistantToken);
  return tokens;
}

struct Field {
  std::string_view name, kind;
  std::string said, json;  // its value in the request and in the call
};

Field MakeField(std::string_view name, Numbers* numbers) {
  static constexpr std::array<std::string_view, 4> kKinds = {"string", "string", "integer",
                                                             "boolean"};
  Field field;
  field.name = name;
  field.kind = numbers->OneOf(kKinds);
  if (field.kind == "integer") {
    field.said = std::to_string(numbers->Below(10000));
  } else if (field.kind == "boolean") {
    field.said = numbers->Below(2) == 0 ? "true" : "false";
  } else {
    const size_t length = 3 + numbers->Below(4);
    for (size_t i = 0; i < length; ++i)
      field.said += static_cast<char>('a' + static_cast<char>(numbers->Below(26)));
  }
  field.json = field.kind == "string" ? "\"" + field.said + "\"" : field.said;
  return field;
}

// As the corpus makes them: the request names its values in any order, and may name one that the
// schema does not have.
TaskProblem JsonProblem(Numbers* numbers) {
  const std::string tool =
      std::string(numbers->OneOf(kVerbs)) + "_" + std::string(numbers->OneOf(kNouns));
  std::vector<std::string_view> names(kFields.begin(), kFields.end());
  const size_t wanted = 1 + numbers->Below(kFieldsMax);
  std::vector<Field> fields;
  for (size_t i = 0; i <= wanted; ++i) {
    std::swap(names[i], names[i + numbers->Below(names.size() - i)]);
    fields.push_back(MakeField(names[i], numbers));
  }
  std::string schema, call;
  for (size_t i = 0; i < wanted; ++i) {
    schema += std::string(i == 0 ? "" : ", ") + std::string(fields[i].name) + ": " +
              std::string(fields[i].kind);
    call += std::string(i == 0 ? "" : ",") + "\"" + std::string(fields[i].name) +
            "\":" + fields[i].json;
  }
  if (numbers->Below(10) >= 3) fields.pop_back();
  for (size_t i = fields.size(); i > 1; --i) std::swap(fields[i - 1], fields[numbers->Below(i)]);
  std::string said;
  for (const Field& field : fields)
    said += (said.empty() ? "" : ", ") + std::string(field.name) + " " + field.said;
  TaskProblem problem;
  problem.id = tool + "(" + schema + ")\nUse " + said + ".";
  problem.prompt = PromptTokens(problem.id);
  problem.wanted = R"({"tool":")" + tool + R"(","args":{)" + call + "}}";
  return problem;
}

bool SameElement(json::element a, json::element b);

bool SameObject(json::object a, json::object b) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.begin(), a.end(), [&](const json::key_value_pair& member) {
    json::element other;
    return b.at_key(member.key).get(other) == simdjson::SUCCESS && SameElement(member.value, other);
  });
}

// Of the values that calls have.
bool SameElement(json::element a, json::element b) {
  if (a.type() != b.type()) return false;
  json::object left, right;
  if (a.get(left) == simdjson::SUCCESS && b.get(right) == simdjson::SUCCESS)
    return SameObject(left, right);
  return std::string(simdjson::minify(a)) == std::string(simdjson::minify(b));
}

}  // namespace

std::vector<TaskProblem> ProductProblems() {
  std::vector<TaskProblem> problems;
  for (int a = 100; a <= 999; ++a) {
    for (int b = 2; b <= 9; ++b) {
      TaskProblem problem;
      problem.id = std::to_string(a) + "*" + std::to_string(b);
      problem.prompt = PromptTokens(problem.id);
      problem.wanted = std::to_string(a * b);
      problems.push_back(std::move(problem));
    }
  }
  return problems;
}

bool SolvesProduct(std::string_view wanted, std::string_view answer) {
  const size_t blank = answer.rfind(' ');
  return (blank == std::string_view::npos ? answer : answer.substr(blank + 1)) == wanted;
}

std::vector<TaskProblem> JsonProblems() {
  std::vector<TaskProblem> problems;
  std::set<std::string> seen;
  Numbers numbers(2026);
  while (problems.size() < kJsonProblems) {
    TaskProblem problem = JsonProblem(&numbers);
    if (seen.insert(problem.id).second) problems.push_back(std::move(problem));
  }
  return problems;
}

bool SameCall(std::string_view wanted, std::string_view answer) {
  json::parser of_wanted, of_answer;
  const auto a = ParseJson(of_wanted, wanted);
  const auto b = ParseJson(of_answer, answer);
  return a.has_value() && b.has_value() && SameElement(*a, *b);
}

}  // namespace kcc
