// Observations to JSON. What is empty or false is left out, so that one observation has one text.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kcc/metric/token_slots.h"
#include "kcc/monitorlog/observation_json.h"
#include "kcc/trace/requests.h"

namespace kcc {
namespace {

void WriteNumber(double value, JsonWriter* writer) {
  if (std::isnan(value)) {
    writer->Null();
  } else {
    writer->Value(value);
  }
}

void WriteColumn(std::string_view key, const std::vector<double>& column, JsonWriter* writer) {
  if (column.empty()) return;
  writer->Key(key).BeginArray();
  for (const double value : column) WriteNumber(value, writer);
  writer->EndArray();
}

void WriteColumn(std::string_view key, const std::vector<int32_t>& column, JsonWriter* writer) {
  if (column.empty()) return;
  writer->Key(key).BeginArray();
  for (const int32_t value : column) writer->Value(value);
  writer->EndArray();
}

template <class T>
void WriteSides(std::string_view key, const std::array<std::vector<T>, 2>& sides,
                JsonWriter* writer) {
  if (sides[0].empty() && sides[1].empty()) return;
  writer->Key(key).BeginObject();
  WriteColumn("infer", sides[0], writer);
  WriteColumn("train", sides[1], writer);
  writer->EndObject();
}

bool Nothing(const ObservedTokens& tokens) {
  return tokens.rows() == 0 && tokens.columns.empty() && tokens.own.empty() && tokens.masked == 0;
}

// Columns in the order of the catalog, whatever order they were read in.
void WriteColumns(const ObservedTokens& tokens, JsonWriter* writer) {
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    for (const TokenColumn& column : tokens.columns) {
      if (column.slot != slot || column.lo.empty()) continue;
      if (column.hi.empty()) {
        WriteColumn(SlotName(slot), column.lo, writer);
        continue;
      }
      writer->Key(SlotName(slot)).BeginObject();
      WriteColumn("lo", column.lo, writer);
      WriteColumn("hi", column.hi, writer);
      writer->EndObject();
    }
  }
}

void WriteTokens(const ObservedTokens& tokens, JsonWriter* writer) {
  writer->Key("tokens").BeginObject();
  WriteColumn("position", tokens.position, writer);
  WriteColumn("token", tokens.token, writer);
  WriteColumn("gold", tokens.gold, writer);
  WriteColumn("advantage", tokens.advantage, writer);
  WriteSides("logprob", tokens.logprob, writer);
  WriteSides("argmax", tokens.argmax, writer);
  WriteSides("confidence", tokens.confidence, writer);
  WriteColumns(tokens, writer);
  bool any = false;
  for (const OwnTokenColumn& own : tokens.own) any = any || !own.values.empty();
  if (any) {
    writer->Key("own").BeginObject();
    for (const OwnTokenColumn& own : tokens.own) WriteColumn(own.name, own.values, writer);
    writer->EndObject();
  }
  if (tokens.masked != 0) writer->Field("masked", tokens.masked);
  writer->EndObject();
}

void WriteRecord(std::string_view key, const Request& request, JsonWriter* writer) {
  writer->Key(key).BeginObject();
  WriteRequestFields(request, writer);
  writer->EndObject();
}

void WriteValues(const MonitorObservation& observation, JsonWriter* writer) {
  writer->Key("values").BeginObject();
  for (const auto& [name, value] : observation.values) {
    writer->Key(name);
    if (value.exact()) {
      writer->Value(value.lo);
    } else {
      writer->BeginObject().Field("lo", value.lo).Field("hi", value.hi).EndObject();
    }
  }
  writer->EndObject();
}

bool AtLeast(const std::vector<int32_t>& column, int32_t low) {
  return std::all_of(column.begin(), column.end(), [&](int32_t value) { return value >= low; });
}

bool IsCount(int64_t value) { return value >= 0 && value <= std::numeric_limits<int32_t>::max(); }

}  // namespace

Result<> CheckWritable(const MonitorObservation& observation) {
  const ObservedTokens& tokens = observation.tokens;
  const auto cannot = [&](const std::string& what) {
    return InvalidError("the observation of request '" + observation.id() +
                        "' cannot be written as a line: " + what);
  };
  for (const std::string* name : {&observation.id(), &observation.kernel, &observation.session}) {
    if (name->size() > kObservationNameBytesMax) {
      return cannot("a name of more than " + std::to_string(kObservationNameBytesMax) + " bytes");
    }
  }
  const int64_t time = observation.time_ms;
  if (time > kObservationTimeMax || time < -kObservationTimeMax) {
    return cannot("its time is beyond 2^53");
  }
  if (tokens.rows() > kObservationRowsMax) {
    return cannot("more than " + std::to_string(kObservationRowsMax) + " rows");
  }
  bool fits = AtLeast(tokens.position, 0) && AtLeast(tokens.token, 0) && AtLeast(tokens.gold, -1) &&
              IsCount(tokens.masked);
  for (const std::vector<int32_t>& argmax : tokens.argmax) fits = fits && AtLeast(argmax, -1);
  if (observation.outputs) fits = fits && IsCount(observation.outputs->common);
  if (!fits) return cannot("a position, a token or a count that is out of range");
  return {};
}

void WriteObservation(const MonitorObservation& observation, JsonWriter* writer) {
  writer->BeginObject();
  writer->Field("time_ms", observation.time_ms);
  writer->Field("request", observation.id());
  writer->Field("kernel", observation.kernel);
  if (!observation.session.empty()) writer->Field("session", observation.session);
  if (observation.probe) writer->Field("probe", true);
  if (observation.repeat) writer->Field("repeat", true);
  if (observation.audited) writer->Field("audited", true);
  if (!observation.broken.empty()) writer->Field("broken", observation.broken);
  if (observation.one_record) writer->Field("one_record", true);
  if (!observation.infer.fields.empty()) WriteRecord("infer", observation.infer, writer);
  if (observation.train) WriteRecord("train", *observation.train, writer);
  if (observation.asked) WriteRecord("asked", *observation.asked, writer);
  if (!Nothing(observation.tokens)) WriteTokens(observation.tokens, writer);
  if (!observation.values.empty()) WriteValues(observation, writer);
  if (observation.outputs) {
    writer->Key("outputs").BeginObject();
    writer->Field("known", observation.outputs->known);
    writer->Field("same", observation.outputs->same);
    writer->Field("common", observation.outputs->common);
    writer->EndObject();
  }
  writer->EndObject();
}

}  // namespace kcc
