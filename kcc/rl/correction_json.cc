// Corrections as JSON, and read back.
#include "kcc/rl/correction_json.h"

#include <array>
#include <limits>

#include "kcc/base/strings.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

constexpr std::array kModes = {RlWeightMode::kOff, RlWeightMode::kFull, RlWeightMode::kTruncate,
                               RlWeightMode::kClip, RlWeightMode::kMask};
constexpr std::array kStatistics = {RlStatistic::kRatio, RlStatistic::kK1, RlStatistic::kK2,
                                    RlStatistic::kK3};
constexpr std::array kAggregates = {RlAggregate::kTokenwise, RlAggregate::kSequenceSum,
                                    RlAggregate::kSequenceMean, RlAggregate::kSequenceMax,
                                    RlAggregate::kSegmentSum};

template <class T, size_t kCount, class NameOf>
Result<T> ParseWord(const std::array<T, kCount>& all, NameOf name_of, json::element element,
                    std::string_view key) {
  const std::string_view word = JsonText(element);
  std::vector<std::string_view> names;
  for (const T value : all) {
    if (name_of(value) == word) return value;
    names.push_back(name_of(value));
  }
  return InvalidError(std::string(key) + " is \"" + std::string(word) + "\"; it can be " +
                      JoinWords(names, "or"));
}

Result<double> ParseBound(json::element element, std::string_view key) {
  const auto number = JsonNumber(element);
  if (!number.has_value()) return InvalidError(std::string(key) + " must be a number");
  return *number;
}

Error UnknownKey(std::string_view key, std::span<const std::string_view> known) {
  const auto nearest = NearestWord(key, known);
  return InvalidError("unknown key \"" + std::string(key) + "\"; " +
                      (nearest ? "did you mean \"" + std::string(*nearest) + "\"?"
                               : "known are " + JoinWords(known)));
}

Result<json::object> ObjectOf(json::element element, std::string_view key) {
  json::object object;
  if (element.get(object) != simdjson::SUCCESS) {
    return InvalidError(std::string(key) + " must be an object, not " +
                        std::string(JsonTypeName(element)));
  }
  return object;
}

Result<RlWeightRule> ParseWeight(json::object object) {
  static constexpr std::string_view kKeys[] = {"mode", "level", "low", "high", kBatchNormalizeKey};
  RlWeightRule rule;
  for (const auto [key, value] : object) {
    if (key == "mode") {
      KCC_TRY(rule.mode, ParseWord(kModes, RlWeightModeName, value, key));
    } else if (key == "level") {
      KCC_TRY(rule.level, ParseWord(kRlLevels, RlLevelName, value, key));
    } else if (key == "low") {
      KCC_TRY(rule.low, ParseBound(value, key));
    } else if (key == "high") {
      KCC_TRY(rule.high, ParseBound(value, key));
    } else if (key == kBatchNormalizeKey || key == "batch_normalize") {
      if (value.get(rule.batch_normalize) != simdjson::SUCCESS) {
        return InvalidError(std::string(key) + " must be true or false");
      }
    } else {
      return UnknownKey(key, kKeys);
    }
  }
  return rule;
}

Result<RlRejectRule> ParseReject(json::object object) {
  static constexpr std::string_view kKeys[] = {"statistic", "aggregate", "low", "high"};
  RlRejectRule rule;
  for (const auto [key, value] : object) {
    if (key == "statistic") {
      KCC_TRY(rule.statistic, ParseWord(kStatistics, RlStatisticName, value, key));
    } else if (key == "aggregate") {
      KCC_TRY(rule.aggregate, ParseWord(kAggregates, RlAggregateName, value, key));
    } else if (key == "low") {
      KCC_TRY(rule.low, ParseBound(value, key));
    } else if (key == "high") {
      KCC_TRY(rule.high, ParseBound(value, key));
    } else {
      return UnknownKey(key, kKeys);
    }
  }
  return rule;
}

Result<RlVeto> ParseVeto(json::object object) {
  static constexpr std::string_view kKeys[] = {"low", "high"};
  RlVeto veto;
  for (const auto [key, value] : object) {
    if (key == "low") {
      KCC_TRY(veto.low, ParseBound(value, key));
    } else if (key == "high") {
      KCC_TRY(veto.high, ParseBound(value, key));
    } else {
      return UnknownKey(key, kKeys);
    }
  }
  return veto;
}

}  // namespace

void WriteCorrection(const RlCorrection& correction, std::string_view normalize_key,
                     JsonWriter* to) {
  JsonWriter& json = *to;
  json.BeginObject();
  if (!correction.name.empty()) json.Field("name", correction.name);
  const RlWeightRule& weight = correction.weight;
  json.Key("weight").BeginObject().Field("mode", RlWeightModeName(weight.mode));
  if (weight.mode != RlWeightMode::kOff) {
    json.Field("level", RlLevelName(weight.level));
    if (weight.mode == RlWeightMode::kClip || weight.mode == RlWeightMode::kMask) {
      json.Field("low", weight.low);
    }
    if (weight.mode != RlWeightMode::kFull) json.Field("high", weight.high);
    json.Field(normalize_key, weight.batch_normalize);
  }
  json.EndObject();
  json.Key("reject").BeginArray();
  for (const RlRejectRule& rule : correction.reject) {
    json.BeginObject().Field("statistic", RlStatisticName(rule.statistic));
    json.Field("aggregate", RlAggregateName(rule.aggregate));
    if (rule.statistic == RlStatistic::kRatio || rule.statistic == RlStatistic::kK1) {
      json.Field("low", rule.low);
    }
    json.Field("high", rule.high).EndObject();
  }
  json.EndArray();
  if (correction.veto.has_value()) {
    json.Key("veto").BeginObject().Field("low", correction.veto->low);
    json.Field("high", correction.veto->high).EndObject();
  }
  json.EndObject();
}

Result<RlCorrection> ParseCorrection(std::string_view text) {
  static constexpr std::string_view kKeys[] = {"name", "weight", "reject", "veto"};
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, text));
  KCC_TRY(const json::object object, ObjectOf(root, "a correction"));
  RlCorrection correction;
  for (const auto [key, value] : object) {
    if (key == "name") {
      correction.name = JsonText(value);
    } else if (key == "weight") {
      KCC_TRY(const json::object inner, ObjectOf(value, key));
      KCC_TRY(correction.weight, ParseWeight(inner));
    } else if (key == "reject") {
      const auto list = JsonList(value);
      if (!list.has_value()) return InvalidError("reject must be a list of objects");
      for (const json::element element : *list) {
        KCC_TRY(const json::object inner, ObjectOf(element, "reject"));
        KCC_TRY(RlRejectRule rule, ParseReject(inner));
        correction.reject.push_back(rule);
      }
    } else if (key == "veto") {
      KCC_TRY(const json::object inner, ObjectOf(value, key));
      KCC_TRY(correction.veto, ParseVeto(inner));
    } else {
      return UnknownKey(key, kKeys);
    }
  }
  KCC_TRY_VOID(CheckCorrection(correction));
  return correction;
}

}  // namespace kcc
