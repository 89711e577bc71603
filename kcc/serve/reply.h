// What the server says to a client, without an HTTP library: a whole answer, or a stream of events.
// The plane (serve_beast.cc) implements ReplySink for its connections; tests collect what is said.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kcc/serve/api_error.h"

namespace kcc {

struct HttpAsk {
  std::string method;        // "POST"
  std::string path;          // without the query
  std::string content_type;  // as sent
  std::string body = {};
};

struct HttpAnswer {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};

  static HttpAnswer Of(const ApiError& error) { return {error.status, error.Json()}; }
};

// One request's way back. Functions may be called from any thread and return at once; what they say
// reaches the client in order. `wait_ms` is how long the connection rests before it: a fault, or 0.
// After Answer, Finish or Cut nothing more is said.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  virtual void Answer(HttpAnswer answer, int wait_ms) = 0;
  // One event of a stream (server-sent events); the first begins it.
  virtual void Event(std::string data, int wait_ms) = 0;
  virtual void Finish() = 0;
  // Breaks the connection off.
  virtual void Cut(int wait_ms) = 0;
};

}  // namespace kcc
