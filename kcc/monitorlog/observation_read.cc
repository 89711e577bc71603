// Observations from JSON.
//
// Every function takes the way to the value it reads (Where), from which an error finds its column.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kcc/base/strings.h"
#include "kcc/format/json.h"
#include "kcc/metric/token_slots.h"
#include "kcc/monitorlog/json_place.h"
#include "kcc/monitorlog/observation_json.h"
#include "kcc/trace/request_value.h"
#include "kcc/trace/requests.h"

namespace kcc {
namespace {

// The way from the line's object to a value, from its end.
struct Where {
  std::string_view line;
  const Where* outer = nullptr;
  JsonStep step = {};

  Where Member(std::string_view key) const { return {line, this, {key, 0, false}}; }
  Where Element(size_t index) const { return {line, this, {{}, index, true}}; }

  std::vector<JsonStep> Steps() const {
    std::vector<JsonStep> steps;
    for (const Where* at = this; at->outer != nullptr; at = at->outer) steps.push_back(at->step);
    std::reverse(steps.begin(), steps.end());
    return steps;
  }
  // "tokens.kl[3]"
  std::string Name() const {
    std::string name;
    for (const JsonStep& step : Steps()) {
      if (step.of_list) {
        name += "[" + std::to_string(step.index) + "]";
      } else {
        name.append(name.empty() ? "" : ".").append(step.key);
      }
    }
    return name;
  }
};

Error Wrong(const Where& where, const std::string& message) {
  return InvalidError(message, Place{"", 0, ColumnOfValue(where.line, where.Steps())});
}

Error WrongKey(const Where& where, const std::string& message) {
  return InvalidError(message, Place{"", 0, ColumnOfKey(where.line, where.Steps())});
}

Error Must(const Where& where, std::string_view be, json::element element) {
  return Wrong(where, "'" + where.Name() + "' must be " + std::string(be) + ", this is " +
                          std::string(JsonTypeName(element)));
}

Error Unknown(const Where& where, std::span<const std::string_view> known) {
  const std::string_view key = where.step.key;
  std::string message = "unknown key '" + where.Name() + "'";
  if (const auto near = NearestWord(key, known)) {
    message += "; did you mean '" + std::string(*near) + "'?";
  } else if (known.size() <= 16) {
    message += "; the keys here are " + JoinWords(known);
  }
  return WrongKey(where, message);
}

// The members of an object, each once; null is as absent.
template <class Visit>
Result<> ForMembers(const Where& where, json::element element, const Visit& visit) {
  json::object object;
  if (element.get(object) != simdjson::SUCCESS) return Must(where, "an object", element);
  std::vector<std::string_view> seen;
  for (const auto [key, value] : object) {
    const Where member = where.Member(key);
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      return WrongKey(member, "'" + member.Name() + "' stands twice");
    }
    seen.push_back(key);
    if (!value.is_null()) KCC_TRY_VOID(visit(member, value));
  }
  return {};
}

Result<std::string> ReadName(const Where& where, json::element element) {
  if (!element.is_string()) return Must(where, "a text", element);
  const std::string_view text = JsonText(element);
  if (text.size() > kObservationNameBytesMax) {
    return Wrong(where, "'" + where.Name() + "' is longer than " +
                            std::to_string(kObservationNameBytesMax) + " bytes");
  }
  return std::string(text);
}

Result<bool> ReadFlag(const Where& where, json::element element) {
  bool value = false;
  if (element.get(value) != simdjson::SUCCESS) return Must(where, "true or false", element);
  return value;
}

Result<int64_t> ReadInteger(const Where& where, json::element element, int64_t low, int64_t high) {
  const auto value = JsonInteger(element);
  if (!value) return Must(where, "a whole number", element);
  if (*value < low || *value > high) {
    return Wrong(where, "'" + where.Name() + "' is " + std::to_string(*value) +
                            "; it must lie between " + std::to_string(low) + " and " +
                            std::to_string(high));
  }
  return *value;
}

// A number, or a word for one that JSON cannot write. -0 becomes 0: its text reads back as 0.
Result<double> ReadNumber(const Where& where, json::element element) {
  if (const auto number = JsonNumber(element)) return *number + 0.0;
  if (JsonText(element) == "inf") return std::numeric_limits<double>::infinity();
  if (JsonText(element) == "-inf") return -std::numeric_limits<double>::infinity();
  return Must(where, "a number, \"inf\" or \"-inf\"", element);
}

Result<json::array> ReadList(const Where& where, json::element element) {
  json::array list;
  if (element.get(list) != simdjson::SUCCESS) return Must(where, "a list", element);
  size_t rows = 0;
  for ([[maybe_unused]] const json::element item : list) ++rows;
  if (rows > kObservationRowsMax) {
    return Wrong(where, "'" + where.Name() + "' has more than " +
                            std::to_string(kObservationRowsMax) + " rows");
  }
  return list;
}

Result<> ReadIntegers(const Where& where, json::element element, int64_t low,
                      std::vector<int32_t>* column) {
  KCC_TRY(const json::array list, ReadList(where, element));
  for (const json::element item : list) {
    KCC_TRY(const int64_t value, ReadInteger(where.Element(column->size()), item, low,
                                             std::numeric_limits<int32_t>::max()));
    column->push_back(static_cast<int32_t>(value));
  }
  return {};
}

Result<> ReadNumbers(const Where& where, json::element element, std::vector<double>* column) {
  KCC_TRY(const json::array list, ReadList(where, element));
  for (const json::element item : list) {
    double value = std::numeric_limits<double>::quiet_NaN();
    if (!item.is_null()) {
      KCC_TRY(value, ReadNumber(where.Element(column->size()), item));
    }
    column->push_back(value);
  }
  return {};
}

constexpr std::array<std::string_view, 2> kSideKeys = {"infer", "train"};
constexpr std::array<std::string_view, 2> kEndKeys = {"lo", "hi"};

// {"infer": …, "train": …}: read(where, element, side).
template <class Read>
Result<> ReadSides(const Where& where, json::element element, const Read& read) {
  return ForMembers(where, element, [&](const Where& at, json::element value) -> Result<> {
    const auto side = std::find(kSideKeys.begin(), kSideKeys.end(), at.step.key);
    if (side == kSideKeys.end()) return Unknown(at, kSideKeys);
    return read(at, value, static_cast<size_t>(side - kSideKeys.begin()));
  });
}

// {"lo": …, "hi": …}, both of them.
template <class Read>
Result<> ReadEnds(const Where& where, json::element element, const Read& read) {
  int ends = 0;
  KCC_TRY_VOID(ForMembers(where, element, [&](const Where& at, json::element value) -> Result<> {
    const auto end = std::find(kEndKeys.begin(), kEndKeys.end(), at.step.key);
    if (end == kEndKeys.end()) return Unknown(at, kEndKeys);
    ++ends;
    return read(at, value, end == kEndKeys.begin());
  }));
  if (ends != 2) return Wrong(where, "'" + where.Name() + "' must have both lo and hi");
  return {};
}

Result<> ReadColumn(const Where& where, json::element element, size_t slot,
                    ObservedTokens* tokens) {
  TokenColumn& column = tokens->columns.emplace_back();
  column.slot = slot;
  if (!element.is_object()) return ReadNumbers(where, element, &column.lo);
  return ReadEnds(where, element, [&](const Where& at, json::element value, bool low) {
    return ReadNumbers(at, value, low ? &column.lo : &column.hi);
  });
}

constexpr std::array<std::string_view, 9> kTokenKeys = {
    "position", "token", "gold", "advantage", "logprob", "argmax", "confidence", "own", "masked"};

std::vector<std::string> SlotNames() {
  std::vector<std::string> names;
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) names.push_back(SlotName(slot));
  return names;
}

// "queue_ms" or "train_queue_ms" of the contract's own definitions.
bool IsOwnColumn(OwnRows own, std::string_view name) {
  constexpr std::string_view kTrain = "train_";
  if (FindOwn(own, name) != nullptr) return true;
  return name.starts_with(kTrain) && FindOwn(own, name.substr(kTrain.size())) != nullptr;
}

Result<> ReadOwnColumns(const Where& where, json::element element, OwnRows own,
                        ObservedTokens* tokens) {
  return ForMembers(where, element, [&](const Where& at, json::element value) -> Result<> {
    if (!IsOwnColumn(own, at.step.key)) {
      return WrongKey(at, "'" + at.Name() + "' is not a metric that the contract defines");
    }
    OwnTokenColumn& column = tokens->own.emplace_back();
    column.name = at.step.key;
    return ReadNumbers(at, value, &column.values);
  });
}

Result<> ReadToken(const Where& at, json::element value, OwnRows own, ObservedTokens* tokens) {
  const std::string_view key = at.step.key;
  if (key == "position") return ReadIntegers(at, value, 0, &tokens->position);
  if (key == "token") return ReadIntegers(at, value, 0, &tokens->token);
  if (key == "gold") return ReadIntegers(at, value, -1, &tokens->gold);
  if (key == "advantage") return ReadNumbers(at, value, &tokens->advantage);
  if (key == "own") return ReadOwnColumns(at, value, own, tokens);
  if (key == "logprob" || key == "confidence") {
    auto& sides = key == "logprob" ? tokens->logprob : tokens->confidence;
    return ReadSides(at, value, [&](const Where& in, json::element list, size_t side) {
      return ReadNumbers(in, list, &sides[side]);
    });
  }
  if (key == "argmax") {
    return ReadSides(at, value, [&](const Where& in, json::element list, size_t side) {
      return ReadIntegers(in, list, -1, &tokens->argmax[side]);
    });
  }
  if (key == "masked") {
    KCC_TRY(tokens->masked, ReadInteger(at, value, 0, std::numeric_limits<int32_t>::max()));
    return {};
  }
  static const std::vector<std::string> slots = SlotNames();
  const auto slot = std::find(slots.begin(), slots.end(), key);
  if (slot != slots.end()) {
    return ReadColumn(at, value, static_cast<size_t>(slot - slots.begin()), tokens);
  }
  std::vector<std::string_view> known(slots.begin(), slots.end());
  known.insert(known.begin(), kTokenKeys.begin(), kTokenKeys.end());
  return Unknown(at, known);
}

Result<> ReadFields(const Where& where, json::element element, Request* request) {
  KCC_TRY_VOID(ForMembers(where, element, [&](const Where& at, json::element value) -> Result<> {
    if (at.step.key == "id") {
      return WrongKey(at, "'" + at.Name() + "': the id of a request is written once, as 'request'");
    }
    const auto [field, fresh] = request->fields.try_emplace(std::string(at.step.key));
    KCC_TRY_VOID(ReadRequestValue(value, &field->second));
    if (double* number = std::get_if<double>(&field->second)) *number += 0.0;  // as ReadNumber
    return {};
  }));
  return {};
}

Result<> ReadValues(const Where& where, json::element element, OwnRows own,
                    MonitorObservation* observation) {
  return ForMembers(where, element, [&](const Where& at, json::element value) -> Result<> {
    const auto metric = ParseMetric(at.step.key, own);
    if (!metric.has_value()) return WrongKey(at, "'values': " + metric.error().message());
    const auto [row, fresh] = observation->values.try_emplace(MetricName(*metric));
    if (!fresh) return WrongKey(at, "'" + at.Name() + "' stands twice, under another name");
    Interval& interval = row->second;
    if (value.is_object()) {
      return ReadEnds(at, value, [&](const Where& in, json::element end, bool low) -> Result<> {
        KCC_TRY((low ? interval.lo : interval.hi), ReadNumber(in, end));
        return {};
      });
    }
    KCC_TRY(interval.lo, ReadNumber(at, value));
    interval.hi = interval.lo;
    return {};
  });
}

constexpr std::array<std::string_view, 3> kOutputKeys = {"known", "same", "common"};

Result<> ReadOutputs(const Where& where, json::element element, OutputComparison* outputs) {
  return ForMembers(where, element, [&](const Where& at, json::element value) -> Result<> {
    if (at.step.key == "known") {
      KCC_TRY(outputs->known, ReadFlag(at, value));
    } else if (at.step.key == "same") {
      KCC_TRY(outputs->same, ReadFlag(at, value));
    } else if (at.step.key == "common") {
      KCC_TRY(outputs->common, ReadInteger(at, value, 0, std::numeric_limits<int32_t>::max()));
    } else {
      return Unknown(at, kOutputKeys);
    }
    return {};
  });
}

constexpr std::array<std::string_view, 15> kKeys = {
    "time_ms",    "request", "kernel", "session", "probe",  "repeat", "audited", "broken",
    "one_record", "infer",   "train",  "asked",   "tokens", "values", "outputs"};

Result<> ReadMember(const Where& at, json::element value, OwnRows own, MonitorObservation* out) {
  const std::string_view key = at.step.key;
  if (key == "time_ms") {
    KCC_TRY(out->time_ms, ReadInteger(at, value, -kObservationTimeMax, kObservationTimeMax));
  } else if (key == "request") {
    KCC_TRY(out->infer.id, ReadName(at, value));
  } else if (key == "kernel") {
    KCC_TRY(out->kernel, ReadName(at, value));
  } else if (key == "session") {
    KCC_TRY(out->session, ReadName(at, value));
  } else if (key == "probe") {
    KCC_TRY(out->probe, ReadFlag(at, value));
  } else if (key == "audited") {
    KCC_TRY(out->audited, ReadFlag(at, value));
  } else if (key == "repeat") {
    KCC_TRY(out->repeat, ReadFlag(at, value));
  } else if (key == "broken") {
    KCC_TRY(out->broken, ReadName(at, value));
    if (out->broken.empty()) return Wrong(at, "'broken' must say why");
  } else if (key == "one_record") {
    KCC_TRY(out->one_record, ReadFlag(at, value));
  } else if (key == "infer") {
    return ReadFields(at, value, &out->infer);
  } else if (key == "train") {
    return ReadFields(at, value, &out->train.emplace());
  } else if (key == "asked") {
    return ReadFields(at, value, &out->asked.emplace());
  } else if (key == "tokens") {
    return ForMembers(at, value, [&](const Where& in, json::element member) {
      return ReadToken(in, member, own, &out->tokens);
    });
  } else if (key == "values") {
    return ReadValues(at, value, own, out);
  } else if (key == "outputs") {
    return ReadOutputs(at, value, &out->outputs.emplace());
  } else {
    return Unknown(at, kKeys);
  }
  return {};
}

// What holds of the whole: the keys that must be there, and what the records are held to.
Result<> CheckWhole(const Where& root, json::object object, MonitorObservation* out) {
  for (const std::string_view key : {"time_ms", "request", "kernel"}) {
    if (!JsonMember(object, key)) return Wrong(root, "'" + std::string(key) + "' is missing");
  }
  if (out->id().empty()) return Wrong(root.Member("request"), "'request' is empty");
  if (out->one_record && out->train) {
    return WrongKey(root.Member("train"),
                    "'train' is a record of its own, and 'one_record' says that infer's speaks for "
                    "both sides; leave one of them out");
  }
  if (out->train) out->train->id = out->id();
  if (out->asked) out->asked->id = out->id();
  const std::array<std::pair<std::string_view, const Request*>, 3> records = {
      {{"infer", &out->infer},
       {"train", out->train ? &*out->train : nullptr},
       {"asked", out->asked ? &*out->asked : nullptr}}};
  for (const auto& [key, record] : records) {
    if (record == nullptr) continue;
    const auto checked = CheckRequest(*record);
    if (!checked.has_value()) {
      return Wrong(root.Member(key), "'" + std::string(key) + "': " + checked.error().message());
    }
  }
  const auto checked = CheckObservation(*out);
  if (!checked.has_value()) return Wrong(root.Member("tokens"), checked.error().message());
  return {};
}

}  // namespace

struct ObservationReader::Memory {
  explicit Memory(OwnRows rows) : own(rows) {}
  OwnRows own;
  json::parser parser{kObservationLineBytesMax};
};

ObservationReader::ObservationReader(OwnRows own) : memory_(std::make_unique<Memory>(own)) {}
ObservationReader::ObservationReader(ObservationReader&&) noexcept = default;
ObservationReader::~ObservationReader() = default;

Result<MonitorObservation> ObservationReader::Read(std::string_view line) {
  if (line.size() > kObservationLineBytesMax) {
    return InvalidError("an observation of more than " + std::to_string(kObservationLineBytesMax) +
                        " bytes");
  }
  const auto root = ParseJson(memory_->parser, line);
  if (!root.has_value()) {
    return InvalidError(root.error().message(), Place{"", 0, ColumnOfFault(line)});
  }
  const Where where{line};
  json::object object;
  if (root->get(object) != simdjson::SUCCESS) {
    return Wrong(where,
                 "an observation must be an object, this is " + std::string(JsonTypeName(*root)));
  }
  MonitorObservation observation;
  KCC_TRY_VOID(ForMembers(where, *root, [&](const Where& at, json::element value) {
    return ReadMember(at, value, memory_->own, &observation);
  }));
  KCC_TRY_VOID(CheckWhole(where, object, &observation));
  return observation;
}

Error AtLine(const Error& error, const std::string& file, int line) {
  return Error(error.code(), error.message(), Place{file, line, error.place().column});
}

}  // namespace kcc
