// Requests and the toy program, for the tests of this folder.
#pragma once

#include <string>
#include <vector>

#include "kcc/kernel/kernel.h"

namespace kcc::testing {

// Request r has 2 prompt tokens and 4 + r % 2 others, all below 11.
inline std::vector<KernelRequest> SomeRequests(int count) {
  std::vector<KernelRequest> requests;
  for (int r = 0; r < count; ++r) {
    KernelRequest request;
    request.request.id = "r" + std::to_string(r);
    request.prompt_tokens = 2;
    request.request.fields["prompt_tokens"] = 2.0;
    for (int i = 0; i < 6 + r % 2; ++i) request.tokens.push_back((r * 5 + i * 3) % 11);
    requests.push_back(std::move(request));
  }
  return requests;
}

// The URI of tests/kernel/toy.py; tests run in the checkout.
inline std::string Toy(const std::string& arguments) {
  return "exec:/usr/bin/python3 tests/kernel/toy.py " + arguments;
}

}  // namespace kcc::testing
