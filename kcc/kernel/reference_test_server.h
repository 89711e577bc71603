// tests/kernel/reference_server.py as a process of the test program, and its model in C++.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kcc/kernel/server_kernel.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc::testing {

inline constexpr int32_t kReferenceVocab = 64;
inline constexpr int32_t kReferenceEos = 2;

// The formula of reference_server.py.
inline std::vector<double> ReferenceLogprobs(std::span<const int32_t> prefix,
                                             double temperature = 1.0) {
  const double last = prefix.back();
  const double second = prefix.size() > 1 ? prefix[prefix.size() - 2] : 0;
  std::vector<double> row;
  for (int v = 0; v < kReferenceVocab; ++v) {
    const auto step = static_cast<double>(prefix.size() % 7 + 1);
    row.push_back(
        (2.5 * std::sin(0.7 * v + 1.3 * last) + 1.5 * std::cos(0.31 * v * step + 0.9 * second)) /
        temperature);
  }
  double sum = 0;
  for (const double logit : row) sum += std::exp(logit);
  for (double& logit : row) logit -= std::log(sum);
  return row;
}

// A server program that prints its address as the first line and ends when its stdin is closed.
class TestServer {
 public:
  explicit TestServer(std::vector<std::string> command) {
    int to_child[2];
    int from_child[2];
    EXPECT_EQ(::pipe2(to_child, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(from_child, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to_child[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from_child[1], 1);
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    EXPECT_EQ(::posix_spawnp(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(to_child[0]);
    ::close(from_child[1]);
    stdin_ = to_child[1];
    char c = 0;
    while (::read(from_child[0], &c, 1) == 1 && c != '\n') address_ += c;
    ::close(from_child[0]);
    EXPECT_FALSE(address_.empty()) << command[1] << " does not start";
  }
  ~TestServer() {
    ::close(stdin_);
    int status = 0;
    ::waitpid(pid_, &status, 0);
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  const std::string& address() const { return address_; }

 private:
  pid_t pid_ = -1;
  int stdin_ = -1;
  std::string address_;  // "127.0.0.1:PORT"
};

class ReferenceServer {
 public:
  // Each call has counters of its own on the server.
  std::string Base(const std::string& dialect, const std::string& faults) {
    return server_.address() + "/" + dialect + "/" + faults + "/" + std::to_string(++keys_);
  }

 private:
  TestServer server_{{"python3", "tests/kernel/reference_server.py"}};
  int keys_ = 0;
};

// The URI of a dialect with quick retries; vLLM and SGLang are told the vocabulary.
inline std::string ServerUri(const std::string& base, const std::string& dialect,
                             const std::string& options) {
  std::string uri = "openai+http://" + base + "?server=" + dialect + "&retry_wait_ms=1";
  if (dialect != "llamacpp") uri += "&vocab_size=" + std::to_string(kReferenceVocab);
  return uri + (options.empty() ? "" : "&" + options);
}

inline Result<std::unique_ptr<Kernel>> OpenServer(const std::string& uri,
                                                  const KernelOpenOptions& how = {}) {
  const std::vector<KernelScheme> schemes = {ServerScheme(false), ServerScheme(true)};
  return OpenKernel(uri, how, schemes);
}

inline KernelRequest MakeRequest(const std::string& id, std::vector<int32_t> tokens,
                                 int32_t prompt_tokens) {
  KernelRequest request;
  request.request.id = id;
  request.tokens = std::move(tokens);
  request.prompt_tokens = prompt_tokens;
  return request;
}

inline std::vector<KernelRequest> ThreeRequests() {
  return {MakeRequest("a", {5, 17, 40, 9, 33}, 2), MakeRequest("b", {8, 3}, 1),
          MakeRequest("c", {63, 0, 12, 12, 50, 7, 21}, 3)};
}

inline int OpenDescriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

}  // namespace kcc::testing
