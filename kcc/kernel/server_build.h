// What a server says of itself on its own pages: its version, its model and the options that it
// tells. Two builds that tell the same are not told apart.
#pragma once

#include <string>

#include "kcc/base/result.h"
#include "kcc/kernel/http_pool.h"

namespace kcc {

struct ServerBuildAsk {
  std::string server;  // "vllm"
  std::string model;   // what it calls the model
  HttpOptions http;
};

// "version 0.11.0, model m, …", alike for equal answers. Fails where it does not answer, or has no
// such model.
Result<std::string> AskServerBuild(const ServerBuildAsk& ask);

}  // namespace kcc
