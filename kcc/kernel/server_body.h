// Request bodies that hold what a route knows and nothing else.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kcc/base/json_writer.h"
#include "kcc/base/result.h"
#include "kcc/kernel/http_pool.h"
#include "kcc/kernel/server_options.h"

namespace kcc {

// A route of a server and the fields it knows; nothing else is sent: TensorRT-LLM rejects what it
// does not know, the others silently ignore it. `own` are set by kcc; `user` may be added with
// body.NAME. Names inside sampling_params stand beside the others: no route has one name in both
// places.
struct ServerRoute {
  std::string_view path;
  std::span<const std::string_view> own;
  std::span<const std::string_view> user;
};

// Fields are written in the order of the calls, so the same question gives the same bytes. A field
// that the route's list does not have is a mistake of the programmer. The route must outlive the
// body.
class RequestBody {
 public:
  explicit RequestBody(const ServerRoute& route);

  template <class T>
  RequestBody& Field(std::string_view name, const T& value) {
    Key(name);
    writer_.Value(value);
    return *this;
  }
  RequestBody& Ids(std::string_view name, std::span<const int32_t> ids);
  // logit_bias of one token, as llama.cpp writes it: [[id, bias]].
  RequestBody& Bias(int32_t id, double bias);
  // The same as vLLM writes it: {"id": bias}.
  RequestBody& BiasByName(int32_t id, double bias);
  // An object inside the body; End closes it.
  RequestBody& Begin(std::string_view name);
  RequestBody& End();

  // Closes the body, the user's fields last.
  HttpCall Take(std::span<const ServerOptions::Field> extra);

 private:
  void Key(std::string_view name);

  const ServerRoute& route_;
  JsonWriter writer_{JsonWriter::Style::kCompact};
};

// Every field must be one that the route knows and that kcc does not set, and valid JSON.
Result<> CheckUserFields(const ServerRoute& route, std::span<const ServerOptions::Field> fields);

}  // namespace kcc
