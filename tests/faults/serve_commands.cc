#include "tests/faults/serve_commands.h"

#include <csignal>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <streambuf>
#include <string>
#include <utility>

#include "tests/faults/commands.h"
#include "tests/faults/inputs.h"

namespace kcc::faults {
namespace {

// Ends a server as soon as it has said that it started: it flushes that line, and whoever waits for
// the line could send the signal at once. Sent only to a handler, since a start that failed after
// all flushes its output when the handler has gone.
class EndsAtFlush final : public std::streambuf {
 public:
  explicit EndsAtFlush(std::streambuf* to) : to_(to) {}

 protected:
  int_type overflow(int_type c) override {
    written_ = true;
    return to_->sputc(traits_type::to_char_type(c));
  }
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    written_ = written_ || count > 0;
    return to_->sputn(bytes, count);
  }
  int sync() override {
    const int result = to_->pubsync();
    struct sigaction now {};
    ::sigaction(SIGTERM, nullptr, &now);
    if (std::exchange(written_, false) && now.sa_handler != SIG_DFL) std::raise(SIGTERM);
    return result;
  }

 private:
  std::streambuf* to_;
  bool written_ = false;
};

// A server from its start to its end. The port is any that is free.
class ServeSubject final : public CommandSubject {
 public:
  explicit ServeSubject(const std::vector<std::string>& words)
      : CommandSubject(words, TheInputs().out(), {}) {}

  void Run() override {
    EndsAtFlush ending(std::cout.rdbuf());
    std::streambuf* const kept = std::cout.rdbuf(&ending);
    CommandSubject::Run();
    std::cout.rdbuf(kept);
  }

  Outcome Take() override {
    static const std::regex port("127\\.0\\.0\\.1:[0-9]+");
    Outcome outcome = CommandSubject::Take();
    std::string& said = outcome.results["standard output"];
    said = std::regex_replace(said, port, "127.0.0.1:PORT");
    return outcome;
  }
};

Case ServeCase(const std::string& name, std::vector<std::string> words) {
  return {name, [words = std::move(words)] { return std::make_unique<ServeSubject>(words); },
          /*slow=*/true};
}

}  // namespace

std::vector<Case> ServeCases() {
  const std::string kernel = "?kv_tokens=256&model=" + TheInputs().In("model");
  return {
      ServeCase("lab serve", {"lab", "serve", "lab:f32" + kernel, "--port", "0", "--threads", "1"}),
      ServeCase("lab serve --threads 3 --allow-faults",
                {"lab", "serve", "lab:bf16" + kernel, "--port", "0", "--threads", "3",
                 "--allow-faults"})};
}

}  // namespace kcc::faults
