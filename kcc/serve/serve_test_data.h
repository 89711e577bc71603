// For tests: a small random model behind the server's parts, and a sink that keeps what is said.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "kcc/base/temporary.h"
#include "kcc/format/json.h"
#include "kcc/lab/lab_test_data.h"
#include "kcc/serve/reply.h"
#include "kcc/serve/served_model.h"

namespace kcc::testing {

// 256 bytes, then <s>, </s>, <user> and <assistant>, as models/kcc-lab.
inline std::string TokenizerJson() {
  std::string words;
  for (int byte = 0; byte < 256; ++byte) {
    char name[16];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    words += "\"" + std::string(name) + "\":" + std::to_string(byte) + ",";
  }
  std::string added;
  int id = 256;
  for (const char* name : {"<s>", "</s>", "<user>", "<assistant>"}) {
    words += "\"" + std::string(name) + "\":" + std::to_string(id) + ",";
    added += std::string(added.empty() ? "" : ",") + "{\"id\":" + std::to_string(id++) +
             ",\"content\":\"" + name + "\",\"special\":true}";
  }
  words.pop_back();
  return "{\"added_tokens\":[" + added + "],\"model\":{\"type\":\"BPE\",\"vocab\":{" + words +
         "},\"merges\":[]}}";
}

inline constexpr const char* kTemplate =
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}<user>"
    "{{ message['content'] }}{% else %}<assistant>{{ message['content'] }}{{ eos_token }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

inline constexpr size_t kVocab = 264;

inline ServedModel SmallServedModel() {
  ServedModel model;
  model.name = "small";
  model.vocab = kVocab;
  model.positions = 512;
  model.eos = {257};
  model.output_tokens_default = 24;
  auto tokenizer = ByteTokenizer::Parse(TokenizerJson(), kVocab, "tokenizer.json");
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().Format();
  model.tokenizer = std::move(*tokenizer);
  auto chat = ChatTemplate::Parse(kTemplate, "tokenizer_config.json");
  EXPECT_TRUE(chat.has_value()) << chat.error().Format();
  model.chat = *chat;
  model.bos_token = "<s>";
  model.eos_token = "</s>";
  return model;
}

inline Checkpoint SmallServedCheckpoint() {
  ModelConfig config = SmallConfig();
  config.vocab = kVocab;
  return RandomCheckpoint(config, 3);
}

// The model as a directory, for Service.
inline void WriteServedModel(const std::string& directory) {
  const Checkpoint checkpoint = SmallServedCheckpoint();
  WriteFiles(FilesOf(checkpoint), directory);
  std::ofstream(directory + "/tokenizer.json") << TokenizerJson();
  std::ofstream(directory + "/tokenizer_config.json")
      << "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"chat_template\":\"" << kTemplate << "\"}";
  std::ofstream(directory + "/generation_config.json")
      << "{\"eos_token_id\":257,\"max_new_tokens\":24}";
}

// Keeps what is said, and lets a test wait for the end of it.
class KeptReply final : public ReplySink {
 public:
  void Answer(HttpAnswer answer, int wait_ms) override {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
    waits_.push_back(wait_ms);
    End();
  }
  void Event(std::string data, int wait_ms) override {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(data));
    waits_.push_back(wait_ms);
  }
  void Finish() override {
    const std::lock_guard lock(mutex_);
    End();
  }
  void Cut(int wait_ms) override {
    const std::lock_guard lock(mutex_);
    cut_ = true;
    waits_.push_back(wait_ms);
    End();
  }

  void Wait() {
    std::unique_lock lock(mutex_);
    ended_signal_.wait(lock, [&] { return ended_; });
  }
  const HttpAnswer& answer() const { return answer_; }
  const std::vector<std::string>& events() const { return events_; }
  const std::vector<int>& waits() const { return waits_; }
  bool cut() const { return cut_; }

 private:
  void End() {
    ended_ = true;
    ended_signal_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable ended_signal_;
  HttpAnswer answer_;
  std::vector<std::string> events_;
  std::vector<int> waits_;
  bool cut_ = false;
  bool ended_ = false;
};

}  // namespace kcc::testing
