// What is read of requests and what grades answers (gateway_parts.h): the two places where fields
// of the record come from. Fields of the request are the client's word, so that a slice may read
// them; what an answer shows is for hooks, and no client may say it.
#include <algorithm>
#include <array>
#include <vector>

#include "kcc/base/strings.h"
#include "kcc/contract/gateway_parts.h"
#include "kcc/contract/gateway_values.h"
#include "kcc/contract/predicate_reader.h"
#include "kcc/contract/read_document.h"
#include "kcc/contract/words.h"
#include "kcc/predicate/fields.h"

namespace kcc {
namespace {

// Of the catalog, what a client may say; the gateway knows the rest itself.
constexpr std::array<std::string_view, 2> kAsked = {"tags", "seed"};
constexpr std::array<std::string_view, 6> kReserved = {"and", "or", "not", "in", "true", "false"};

// What a request's record is for; each is looked for in every request.
constexpr size_t kSourcesMax = 16;
constexpr size_t kFieldsMax = 64;
constexpr size_t kHooksMax = 64;

template <class Names>
bool Holds(const Names& names, const typename Names::value_type& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What a predicate can name, without a dot: "token." begins the fields of tokens.
bool IsFieldName(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && letter(name[0]) && !Holds(kReserved, name) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

// The field, whatever it is for; none and reported if no slice could read it.
std::optional<std::string> FieldName(const MappingReader& row, std::string_view key,
                                     Problems* problems) {
  auto name = row.Text(key);
  if (!name || IsFieldName(*name)) return name;
  problems->Error(*row.Value(key), "bad-field",
                  "'" + *name + "' cannot be the name of a field: slices could not read it",
                  "write letters, digits and '_', beginning with a letter");
  return {};
}

class HookReader {
 public:
  HookReader(const YamlDocument& document, GatewayConfig* config, Problems* problems)
      : document_(document), config_(*config), problems_(*problems) {}

  void Read(const MappingReader& row) {
    GatewayHook hook;
    hook.mark = problems_.MarkOf(row.node());
    const auto field = FieldName(row, "field", &problems_);
    const bool one = Means(row, &hook);
    if (const YamlNode* when = row.Value("when")) {
      hook.when = ReadPredicate(document_, "when", *when, &problems_);
      if (hook.when) CheckWhen(*when, *hook.when);
    }
    if (!field) return;
    hook.field = *field;
    CheckField(row, hook, one);
    CheckReachable(row, hook);
    config_.hooks.push_back(std::move(hook));
  }

 private:
  // Exactly one of the four; false where it is not known which.
  bool Means(const MappingReader& row, GatewayHook* hook) {
    std::vector<std::string_view> given;
    for (size_t i = 0; i < kGradeWords.size(); ++i) {
      if (row.Key(kGradeWords[i]) == nullptr) continue;
      given.push_back(kGradeWords[i]);
      hook->kind = static_cast<GatewayHookKind>(i);
    }
    const std::string schema = FilledText(row, "json", &problems_);
    if (schema != "any") hook->schema_file = schema;
    for (const YamlNode* phrase : row.TextList("phrases")) hook->phrases.emplace_back(phrase->text);
    hook->command = FilledText(row, "exec", &problems_);
    if (row.ReadAs("http", ReadUrl, "bad-url")) hook->url = row.Text("http").value_or("");
    if (!row.is_mapping() || given.size() == 1) return row.is_mapping();
    problems_.Error(row.node(), "which-grader",
                    given.empty() ? "the hook has none of json, phrases, exec and http"
                                  : "the hook has " + JoinWords(given),
                    "a hook is one of json, phrases, exec and http; write a hook for each");
    return false;
  }

  void CheckField(const MappingReader& row, const GatewayHook& hook, bool kind_known) {
    const YamlNode& at = *row.Value("field");
    if (Holds(kGradedFieldWords, hook.field)) {
      const bool number = FindPredicateField(hook.field)->type == FieldType::kNumber;
      const bool flag =
          hook.kind == GatewayHookKind::kJson || hook.kind == GatewayHookKind::kPhrases;
      if (number && kind_known && flag) {
        problems_.Error(at, "grade-is-number",
                        hook.field + " is a number, and " + std::string(Name(hook.kind)) +
                            " gives true or false",
                        "give it by exec or http, or name a field of your own");
      }
      return;
    }
    if (FindPredicateField(hook.field) != nullptr) {
      problems_.Error(at, "not-graded", "'" + hook.field + "' is known without a hook",
                      "a hook gives parsed, refused, reward, or a field of your own");
    }
    for (const GatewayField& field : config_.fields) {
      if (field.name != hook.field) continue;
      problems_.Error(at, "field-twice",
                      "'" + hook.field + "' is read from requests, and here from answers",
                      "it is a field of the request on line " + std::to_string(field.mark.line) +
                          "; give one of them another name");
    }
  }

  // Known before the answer is, and read by the gateway at all: else it would never select.
  void CheckWhen(const YamlNode& at, const Predicate& when) {
    for (const std::string& name : when.Fields()) {
      const PredicateField* known = FindPredicateField(name);
      const bool own = std::any_of(config_.fields.begin(), config_.fields.end(),
                                   [&](const GatewayField& field) { return field.name == name; });
      if (own || name == "id" || name == "prompt_tokens") continue;
      if (known != nullptr && known->origin != FieldOrigin::kRequest) {
        problems_.Error(at, "when-not-of-request",
                        "when reads " + name + ", which the request does not have",
                        "select by fields of the request");
        continue;
      }
      std::vector<std::string_view> names;
      for (const GatewayField& field : config_.fields) names.push_back(field.name);
      const auto nearest = NearestWord(name, names);
      problems_.Error(
          at, "unknown-field", "when reads " + name + ", which is read of no request",
          nearest ? "did you mean '" + std::string(*nearest) + "'?"
                  : "add '- {name: " + name + ", from: \"header:x-kcc-" + name + "\"}' to fields");
    }
  }

  void CheckReachable(const MappingReader& row, const GatewayHook& hook) {
    for (const GatewayHook& before : config_.hooks) {
      if (before.field != hook.field) continue;
      const bool same =
          before.when && hook.when && before.when->Canonical() == hook.when->Canonical();
      if (before.when && !same) continue;
      problems_.Error(row.node(), "unreachable-hook",
                      "the hook on line " + std::to_string(before.mark.line) + " grades " +
                          hook.field + " of every request that this one would",
                      "give the first one a narrower 'when', or remove one");
      return;
    }
  }

  const YamlDocument& document_;
  GatewayConfig& config_;
  Problems& problems_;
};

// The items of a list, up to the most that it may have; more are reported.
std::vector<const YamlNode*> AtMost(size_t most, std::vector<const YamlNode*> items,
                                    const MappingReader& spec, std::string_view key,
                                    Problems* problems) {
  if (items.size() <= most) return items;
  problems->Error(*spec.Key(key), "too-many",
                  std::string(key) + " lists " + std::to_string(items.size()),
                  "list at most " + std::to_string(most));
  items.resize(most);
  return items;
}

}  // namespace

void ReadRequestFields(const YamlDocument& document, const MappingReader& spec,
                       GatewayConfig* config, Problems* problems) {
  for (const YamlNode* item :
       AtMost(kSourcesMax, spec.TextList("session"), spec, "session", problems)) {
    const Result<GatewaySource> source = ReadSource(item->text);
    if (!source.has_value()) {
      problems->Error(*item, "bad-source", "session: " + source.error().message());
    } else if (Holds(config->session, *source)) {  // header names differ in case alone
      problems->Error(*item, "duplicate-item", "session names " + SourceName(*source) + " twice",
                      "keep one");
    } else {
      config->session.push_back(*source);
    }
  }
  DistinctNames names("two fields have the name", problems);
  for (const YamlNode* item : AtMost(kFieldsMax, spec.Items("fields"), spec, "fields", problems)) {
    if (problems->full()) return;
    const MappingReader row(document, *item, TableOf("gatewayField"), problems);
    if (row.is_mapping()) names.Add(row.Value("name"));
    const auto name = FieldName(row, "name", problems);
    const auto from = row.ReadAs("from", ReadSource, "bad-source");
    if (name && FindPredicateField(*name) != nullptr && !Holds(kAsked, *name)) {
      problems->Error(*row.Value("name"), "not-asked", "'" + *name + "' is not for clients to say",
                      Holds(kGradedFieldWords, *name)
                          ? "give it by a hook"
                          : "the gateway knows it; remove this, or rename it");
    }
    if (name && from) config->fields.push_back({*name, *from, problems->MarkOf(*item)});
  }
}

void ReadGradeHooks(const YamlDocument& document, const MappingReader& spec, GatewayConfig* config,
                    Problems* problems) {
  HookReader reader(document, config, problems);
  for (const YamlNode* item : AtMost(kHooksMax, spec.Items("hooks"), spec, "hooks", problems)) {
    if (problems->full()) return;
    reader.Read(MappingReader(document, *item, TableOf("gradeHook"), problems));
  }
}

}  // namespace kcc
