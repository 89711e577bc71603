#include "kcc/kernel/server_body.h"

#include <algorithm>

#include "kcc/base/check.h"
#include "kcc/base/strings.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

bool Holds(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

RequestBody::RequestBody(const ServerRoute& route) : route_(route) { writer_.BeginObject(); }

void RequestBody::Key(std::string_view name) {
  KCC_CHECK(Holds(route_.own, name));
  writer_.Key(name);
}

RequestBody& RequestBody::Ids(std::string_view name, std::span<const int32_t> ids) {
  Key(name);
  writer_.BeginArray();
  for (const int32_t id : ids) writer_.Value(id);
  writer_.EndArray();
  return *this;
}

RequestBody& RequestBody::Bias(int32_t id, double bias) {
  Key("logit_bias");
  writer_.BeginArray().BeginArray().Value(id).Value(bias).EndArray().EndArray();
  return *this;
}

RequestBody& RequestBody::BiasByName(int32_t id, double bias) {
  Key("logit_bias");
  writer_.BeginObject().Field(std::to_string(id), bias).EndObject();
  return *this;
}

RequestBody& RequestBody::Begin(std::string_view name) {
  Key(name);
  writer_.BeginObject();
  return *this;
}

RequestBody& RequestBody::End() {
  writer_.EndObject();
  return *this;
}

HttpCall RequestBody::Take(std::span<const ServerOptions::Field> extra) {
  for (const ServerOptions::Field& field : extra) {
    writer_.Key(field.name).Raw(field.json);
  }
  writer_.EndObject();
  return {std::string(route_.path), writer_.Take()};
}

Result<> CheckUserFields(const ServerRoute& route, std::span<const ServerOptions::Field> fields) {
  json::parser parser;
  for (const ServerOptions::Field& field : fields) {
    const std::string name = "body." + field.name;
    if (Holds(route.own, field.name)) {
      return InvalidError(name + ": kcc sets this field itself");
    }
    if (!Holds(route.user, field.name)) {
      const auto nearest = NearestWord(field.name, route.user);
      return InvalidError(name + ": " + std::string(route.path) + " is not sent this field; " +
                          (nearest ? "did you mean '" + std::string(*nearest) + "'?"
                                   : "it may be given " + JoinWords(route.user)));
    }
    if (!ParseJson(parser, field.json).has_value()) {
      return InvalidError(name + "=" + field.json + ": the value must be JSON");
    }
  }
  return {};
}

}  // namespace kcc
