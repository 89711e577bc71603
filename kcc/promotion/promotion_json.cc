// Each type lists its fields once, in Fields(); a writer and a reader go through the same list, so
// that they cannot disagree. Always() fields are always there; Usual() ones are left out at their
// default.
#include "kcc/promotion/promotion_json.h"

#include <algorithm>
#include <set>
#include <type_traits>

#include "kcc/base/json_writer.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

template <class T>
inline constexpr int kWordsOf = 0;
template <>
inline constexpr int kWordsOf<Phase> = kPhases;
template <>
inline constexpr int kWordsOf<PromotionEventKind> = kPromotionEventKinds;
template <>
inline constexpr int kWordsOf<CommandKind> = 8;
template <>
inline constexpr int kWordsOf<HookState> = 3;
template <>
inline constexpr int kWordsOf<TestKind> = 3;
template <>
inline constexpr int kWordsOf<Stage> = 4;
template <>
inline constexpr int kWordsOf<ViolationLevel> = 3;
template <>
inline constexpr int kWordsOf<Action> = 5;
template <>
inline constexpr int kWordsOf<Verdict> = 4;

template <class Archive, class T>
void DeploymentFields(Archive& a, T& x) {
  a.Usual("model", x.model);
  a.Usual("train", x.train);
  a.Usual("infer", x.infer);
  a.Usual("contract", x.contract);
  a.Usual("routing", x.routing);
  a.Usual("hardware", x.hardware);
}

template <class Archive, class T>
void FindingFields(Archive& a, T& x) {
  a.Always("id", x.id);
  a.Always("level", x.level);
  a.Always("hard", x.hard);
  a.Always("action", x.action);
  a.Always("verdict", x.verdict);
  a.Usual("reason", x.reason);
  a.Usual("audited", x.audited);
  a.Usual("exceeding", x.exceeding);
  a.Usual("incumbent", x.incumbent);
}

template <class Archive, class T>
void EvaluationFields(Archive& a, T& x) {
  a.Always("stage", x.stage);
  a.Always("evidence", x.evidence);
  a.Usual("continues", x.continues);
  a.Always("test", x.test);
  a.Usual("alpha", x.alpha);
  a.Always("requests", x.requests);
  a.Always("contract", x.contract);
  a.Always("clauses", x.clauses);
  a.Usual("oldContract", x.old_contract);
  a.Usual("underOld", x.under_old);
}

template <class Archive, class T>
void ProgressFields(Archive& a, T& x) {
  a.Always("enteredMs", x.entered_ms);
  a.Usual("evidence", x.evidence);
  a.Usual("requests", x.requests);
  a.Usual("looks", x.looks);
  a.Usual("satisfiedSinceMs", x.satisfied_since_ms);
  a.Usual("ready", x.ready);
  a.Usual("guarded", x.guarded);
  a.Usual("missing", x.missing);
  a.Usual("exceeded", x.exceeded);
  a.Usual("held", x.held);
  a.Usual("loosened", x.loosened);
  a.Usual("watched", x.watched);
  a.Usual("approvals", x.approvals);
  a.Usual("hooks", x.hooks);
}

template <class Archive, class T>
void StateFields(Archive& a, T& x) {
  a.Always("id", x.id);
  a.Usual("lane", x.lane);
  a.Always("policy", x.policy);
  a.Usual("proposedBy", x.proposed_by);
  a.Usual("retriedBy", x.retried_by);
  a.Always("candidate", x.candidate);
  a.Usual("incumbent", x.incumbent);
  a.Always("asked", x.asked);
  a.Usual("askedOld", x.asked_old);
  a.Always("phase", x.phase);
  a.Usual("frozenFrom", x.frozen_from);
  a.Usual("step", x.step);
  a.Always("nowMs", x.now_ms);
  a.Usual("started", x.started);
  a.Usual("settled", x.settled);
  a.Usual("rollbacks", x.rollbacks);
  a.Usual("endedMs", x.ended_ms);
  a.Always("progress", x.progress);
  a.Usual("passed", x.passed);
  a.Usual("earlier", x.earlier);
  a.Usual("counted", x.counted);
  a.Always("reason", x.reason);
}

template <class Archive, class T>
void EventFields(Archive& a, T& x) {
  a.Always("event", x.kind);
  a.Always("atMs", x.at_ms);
  a.Usual("by", x.by);
  a.Usual("role", x.role);
  a.Usual("key", x.key);
  a.Usual("hook", x.hook);
  a.Usual("yes", x.yes);
  a.Usual("text", x.text);
  a.Usual("level", x.level);
  a.Usual("incumbent", x.incumbent);
  a.Usual("evaluation", x.evaluation);
}

template <class Archive, class T>
void Fields(Archive& a, T& x) {
  using Type = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Type, Deployment>) {
    DeploymentFields(a, x);
  } else if constexpr (std::is_same_v<Type, ClauseFinding>) {
    FindingFields(a, x);
  } else if constexpr (std::is_same_v<Type, Evaluation>) {
    EvaluationFields(a, x);
  } else if constexpr (std::is_same_v<Type, StepProgress>) {
    ProgressFields(a, x);
  } else if constexpr (std::is_same_v<Type, PromotionState>) {
    StateFields(a, x);
  } else if constexpr (std::is_same_v<Type, PromotionEvent>) {
    EventFields(a, x);
  } else if constexpr (std::is_same_v<Type, AskedClause>) {
    a.Always("id", x.id);
    a.Always("level", x.level);
    a.Always("hard", x.hard);
    a.Always("stages", x.stages);
    a.Usual("never", x.never);
  } else if constexpr (std::is_same_v<Type, Command>) {
    a.Always("command", x.kind);
    a.Usual("share", x.share);
    a.Usual("mirror", x.mirror);
    a.Usual("stage", x.stage);
    a.Usual("hook", x.hook);
    a.Usual("text", x.text);
  } else if constexpr (std::is_same_v<Type, Approval>) {
    a.Always("by", x.by);
    a.Usual("role", x.role);
    a.Always("atMs", x.at_ms);
    a.Usual("key", x.key);
  } else if constexpr (std::is_same_v<Type, HookStatus>) {
    a.Always("hook", x.hook);
    a.Always("state", x.state);
  } else if constexpr (std::is_same_v<Type, HeldClause>) {
    a.Always("id", x.id);
    a.Always("clean", x.clean);
    a.Always("excludedRate", x.excluded_rate);
  } else if constexpr (std::is_same_v<Type, PassedStep>) {
    a.Always("stage", x.stage);
    a.Always("step", x.step);
    a.Always("evidence", x.evidence);
    a.Always("requests", x.requests);
    a.Always("atMs", x.at_ms);
    a.Usual("held", x.held);
  } else {
    static_assert(std::is_same_v<Type, Transition>);
    a.Always("from", x.from);
    a.Always("to", x.to);
    a.Always("cause", x.cause);
    a.Always("reason", x.reason);
  }
}

class Writer {
 public:
  template <class T>
  void Always(std::string_view key, const T& value) {
    json_.Key(key);
    Write(value);
  }
  template <class T>
  void Usual(std::string_view key, const T& value) {
    if (value != T()) Always(key, value);
  }
  template <class T>
  void Write(const T& value) {
    if constexpr (kWordsOf < T >> 0) {
      json_.Value(Name(value));
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      json_.Value(value);
    } else {
      json_.BeginObject();
      Fields(*this, value);
      json_.EndObject();
    }
  }
  template <class T>
  void Write(const std::optional<T>& value) {
    Write(*value);  // where there is none, Usual leaves it out
  }
  template <class T>
  void Write(const std::vector<T>& values) {
    json_.BeginArray();
    for (const T& value : values) Write(value);
    json_.EndArray();
  }
  JsonWriter& json() { return json_; }
  std::string Take() {
    std::string text = json_.Take();
    while (text.ends_with('\n')) text.pop_back();
    return text;
  }

 private:
  JsonWriter json_{JsonWriter::Style::kCompact};
};

class Reader {
 public:
  Reader(json::object object, std::string path, std::string* problem)
      : object_(object), path_(std::move(path)), problem_(*problem) {}

  template <class T>
  void Always(std::string_view key, T& value) {
    if (!Read(key, value)) Say(std::string(key), "is missing");
  }
  template <class T>
  void Usual(std::string_view key, T& value) {
    (void)Read(key, value);
  }

  // What nobody asked for is a word that somebody misspelt, or of a later version.
  void Finish() {
    for (const auto field : object_) {
      if (known_.count(field.key) == 0) Say(std::string(field.key), "is not known");
    }
  }

 private:
  template <class T>
  bool Read(std::string_view key, T& value) {
    known_.insert(key);
    const std::optional<json::element> element = JsonMember(object_, key);
    if (!element) return false;
    Take(*element, std::string(key), value);
    return true;
  }

  void Say(const std::string& where, std::string_view what) {
    if (problem_.empty()) problem_ = path_ + where + " " + std::string(what);
  }

  void Take(json::element element, const std::string& where, std::string& value) {
    std::string_view text;
    if (element.get(text) != simdjson::SUCCESS) return Say(where, "is not a text");
    value = text;
  }
  void Take(json::element element, const std::string& where, bool& value) {
    if (element.get(value) != simdjson::SUCCESS) Say(where, "is not true or false");
  }
  void Take(json::element element, const std::string& where, int64_t& value) {
    if (const auto number = JsonInteger(element)) {
      value = *number;
    } else {
      Say(where, "is not a whole number");
    }
  }
  void Take(json::element element, const std::string& where, double& value) {
    if (const auto number = JsonNumber(element)) {
      value = *number;
    } else {
      Say(where, "is not a number");
    }
  }
  template <class T>
  void Take(json::element element, const std::string& where, std::optional<T>& value) {
    Take(element, where, value.emplace());
  }
  template <class T>
  void Take(json::element element, const std::string& where, std::vector<T>& values) {
    const auto items = JsonList(element);
    if (!items) return Say(where, "is not a list");
    values.clear();
    for (size_t i = 0; i < items->size(); ++i) {
      Take((*items)[i], where + "[" + std::to_string(i) + "]", values.emplace_back());
    }
  }
  template <class T>
  void Take(json::element element, const std::string& where, T& value) {
    if constexpr (kWordsOf < T >> 0) {
      std::string word;
      Take(element, where, word);
      for (int i = 0; i < kWordsOf<T>; ++i) {
        if (Name(static_cast<T>(i)) != word) continue;
        value = static_cast<T>(i);
        return;
      }
      Say(where, "is not a word that is known: '" + word.substr(0, 64) + "'");
    } else {
      json::object object;
      if (element.get(object) != simdjson::SUCCESS) return Say(where, "is not an object");
      Reader reader(object, path_ + where + ".", &problem_);
      Fields(reader, value);
      reader.Finish();
    }
  }

  json::object object_;
  std::string path_;
  std::string& problem_;
  std::set<std::string_view> known_;
};

template <class T>
std::string JsonOf(const T& value) {
  Writer writer;
  writer.Write(value);
  return writer.Take();
}

template <class T>
Result<T> ReadJson(std::string_view text, std::string_view what) {
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, text));
  json::object object;
  if (root.get(object) != simdjson::SUCCESS) {
    return InvalidError(std::string(what) + " is an object, and this is " +
                        std::string(JsonTypeName(root)));
  }
  T value;
  std::string problem;
  Reader reader(object, "", &problem);
  Fields(reader, value);
  reader.Finish();
  if (!problem.empty()) return InvalidError(std::string(what) + ": " + problem);
  return value;
}

}  // namespace

std::string ToJson(const PromotionState& state) { return JsonOf(state); }
std::string ToJson(const PromotionEvent& event) { return JsonOf(event); }
std::string ToJson(const Command& command) { return JsonOf(command); }
std::string ToJson(const Transition& transition) { return JsonOf(transition); }

std::string ToJson(const StepResult& result) {
  Writer writer;
  writer.json().BeginObject();
  writer.Always("state", result.state);
  writer.Always("commands", result.commands);
  writer.Always("transitions", result.transitions);
  writer.Always("note", result.note);
  writer.json().EndObject();
  return writer.Take();
}

Result<PromotionState> ReadPromotionState(std::string_view json) {
  KCC_TRY(PromotionState state, ReadJson<PromotionState>(json, "the state of a promotion"));
  const StepProgress& progress = state.progress;
  for (const int64_t time : {state.now_ms, state.ended_ms, progress.entered_ms,
                             progress.satisfied_since_ms.value_or(0)}) {
    if (time < 0 || time > kTimeMaxMs) {
      return InvalidError("the state of a promotion: a time lies outside 1970 to 9999");
    }
  }
  constexpr int64_t kCountMax = 1'000'000;
  if (state.step < 0 || state.rollbacks < 0 || state.rollbacks > kCountMax || progress.looks < 0) {
    return InvalidError("the state of a promotion: a count lies outside 0 to 1000000");
  }
  return state;
}
Result<PromotionEvent> ReadPromotionEvent(std::string_view json) {
  return ReadJson<PromotionEvent>(json, "an event of a promotion");
}
Result<Command> ReadCommand(std::string_view json) { return ReadJson<Command>(json, "a command"); }
Result<Transition> ReadTransition(std::string_view json) {
  return ReadJson<Transition>(json, "a transition");
}

}  // namespace kcc
