#include "kcc/train/examples.h"

#include <algorithm>
#include <numeric>

#include "kcc/base/sha256.h"
#include "kcc/kernel/request_source.h"

namespace kcc {
namespace {

// SplitMix64.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace

Result<ExampleSet> ReadExamples(const std::string& path) {
  KCC_TRY(const auto source, OpenRequestFile(path, RequestUse::kScore));
  ExampleSet made;
  Sha256 hash;
  KernelRequest request;
  for (;;) {
    KCC_TRY(const bool more, source->Next(&request));
    if (!more) break;
    TrainExample example;
    example.id = request.request.id;
    example.prompt = static_cast<size_t>(std::max(request.prompt_tokens, 0));
    example.tokens = std::move(request.tokens);
    if (example.prompt == 0 || example.prompt >= example.tokens.size()) {
      return InvalidError("example '" + example.id +
                              "' needs at least one token of prompt and one of output; the first "
                              "token of a sequence has nothing to predict it from",
                          source->place());
    }
    hash.Update(example.id + "\n" + std::to_string(example.prompt) + "\n" +
                std::to_string(example.tokens.size()) + "\n");
    hash.Update({reinterpret_cast<const char*>(example.tokens.data()),
                 example.tokens.size() * sizeof(int32_t)});
    made.tokens += example.tokens.size();
    made.examples.push_back(std::move(example));
    request = {};
  }
  if (made.examples.empty()) return InvalidError("there is no example to train on", Place{path});
  made.digest = hash.Finish();
  return made;
}

ExampleOrder::ExampleOrder(std::span<const TrainExample> examples, uint64_t seed,
                           DataPosition start)
    : examples_(examples), seed_(seed), position_(start) {
  Arrange();
}

void ExampleOrder::Arrange() {
  std::vector<uint64_t> keys(examples_.size());
  const uint64_t epoch = Mix(Mix(seed_) ^ static_cast<uint64_t>(position_.epoch));
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = Mix(epoch ^ i);
  order_.resize(examples_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::sort(order_.begin(), order_.end(),
            [&](size_t a, size_t b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; });
}

std::vector<const TrainExample*> ExampleOrder::Batch(size_t tokens) {
  std::vector<const TrainExample*> batch;
  size_t total = 0;
  while (batch.empty() || (total < tokens && batch.size() < examples_.size())) {
    if (position_.index == static_cast<int64_t>(order_.size())) {
      position_ = {position_.epoch + 1, 0};
      Arrange();
    }
    batch.push_back(&examples_[order_[static_cast<size_t>(position_.index++)]]);
    total += batch.back()->tokens.size();
  }
  return batch;
}

int64_t BatchesOf(std::span<const TrainExample> examples, uint64_t seed, size_t tokens,
                  int64_t epochs) {
  ExampleOrder order(examples, seed);
  const auto all = static_cast<int64_t>(examples.size());
  int64_t batches = 0;
  while (order.position().epoch + (order.position().index == all ? 1 : 0) < epochs) {
    order.Batch(tokens);
    ++batches;
  }
  return batches;
}

}  // namespace kcc
