// Test only: random predicates, in random spelling, and random requests to evaluate them on.
#pragma once

#include <rapidcheck.h>

#include <map>
#include <string>
#include <vector>

#include "kcc/predicate/predicate.h"

namespace kcc {

// Fields from two maps; what is not there is absent.
struct MapSource : FieldSource {
  std::map<std::string, FieldValue, std::less<>> request;
  std::map<std::string, FieldValue, std::less<>> token;

  FieldValue RequestField(std::string_view name) const override { return Find(request, name); }
  FieldValue TokenField(std::string_view name) const override { return Find(token, name); }

 private:
  static FieldValue Find(const std::map<std::string, FieldValue, std::less<>>& fields,
                         std::string_view name) {
    const auto found = fields.find(name);
    return found == fields.end() ? FieldValue() : found->second;
  }
};

inline rc::Gen<std::string> GenQuotedText() {
  return rc::gen::element<std::string>("'safety'", "\"de\"", "'de'", "'it\\'s'", "\"a\\\\b\"",
                                       "'\xC3\xBC'", "''", "'# not: a, comment'");
}

inline rc::Gen<std::string> GenNumberText() {
  return rc::gen::element<std::string>("0", "1", "-0", "8192", "0.5", "1e-3", "+4", "-2.50", ".5",
                                       "9007199254740993", "1e300");
}

// One comparison or bare field; every field keeps one type throughout.
inline rc::Gen<std::string> GenPredicateLeaf() {
  return rc::gen::exec([] {
    const std::string order = *rc::gen::element<std::string>("==", "!=", "<", "<=", ">", " >= ");
    const std::string equal = *rc::gen::element<std::string>("==", " != ");
    const std::string member = *rc::gen::element<std::string>(" in ", " not in ", "  not  in ");
    switch (*rc::gen::inRange(0, 7)) {
      case 0:
        return *rc::gen::element<std::string>("prompt_tokens", "token.position", "reward") + order +
               *GenNumberText();
      case 1:
        return *GenNumberText() + order + "latency_ms";
      case 2:
        return *rc::gen::element<std::string>("lang", "id") + equal + *GenQuotedText();
      case 3:
        return *GenQuotedText() + member + "tags";
      case 4:
        return "lang" + member + "[" + *GenQuotedText() + "," + *GenQuotedText() + "]";
      case 5:
        return "seed" + member + "[" + *GenNumberText() + " , " + *GenNumberText() + "]";
      default:
        return *rc::gen::element<std::string>("failed", "parsed", "vip", "true", "false",
                                              "failed==parsed");
    }
  });
}

inline rc::Gen<std::string> GenPredicateText(int depth = 4) {
  return rc::gen::exec([depth]() -> std::string {
    const int kind = depth == 0 ? 0 : *rc::gen::inRange(0, 7);
    const auto part = [&] { return *GenPredicateText(depth - 1); };
    switch (kind) {
      case 1:
        return part() + " and " + part();
      case 2:
        return part() + " or " + part();
      case 3:
        return "not " + part();
      case 4:
        return "(" + part() + ")";
      case 5:
        return "not ( " + part() + " )";
      case 6:
        return "(" + part() + ") == (" + part() + ")";
      default:
        return *GenPredicateLeaf();
    }
  });
}

inline rc::Gen<MapSource> GenFieldSource() {
  return rc::gen::exec([] {
    static const std::vector<std::string> kNoTags;
    static const std::vector<std::string> kTags = {"safety", "it's"};
    MapSource source;
    const auto maybe = [](std::map<std::string, FieldValue, std::less<>>* fields, const char* name,
                          FieldValue value) {
      if (*rc::gen::arbitrary<bool>()) (*fields)[name] = value;
    };
    const auto number = [] { return *rc::gen::element(0.0, 1.0, 8192.0, 0.5, -2.5, 1e-3); };
    const auto text = [] {
      return *rc::gen::element<std::string_view>("safety", "de", "it's", "a\\b", "");
    };
    for (const char* name : {"prompt_tokens", "latency_ms", "reward", "seed"}) {
      maybe(&source.request, name, number());
    }
    for (const char* name : {"lang", "id"}) maybe(&source.request, name, text());
    for (const char* name : {"failed", "parsed", "vip"}) {
      maybe(&source.request, name, *rc::gen::arbitrary<bool>());
    }
    maybe(&source.request, "tags", *rc::gen::element(&kNoTags, &kTags));
    maybe(&source.token, "position", number());
    return source;
  });
}

}  // namespace kcc
