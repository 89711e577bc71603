#include "kcc/train/examples.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <variant>

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

// The field `positions`, which the reader of requests keeps as a list of texts.
Result<std::vector<int32_t>> PositionsOf(const Request& request, size_t tokens) {
  std::vector<int32_t> positions;
  const auto at = request.fields.find("positions");
  if (at == request.fields.end()) return positions;
  const auto* texts = std::get_if<std::vector<std::string>>(&at->second);
  const std::string wrong = "example '" + request.id +
                            "': 'positions' must be a list of whole numbers from 0, one for "
                            "each of its " +
                            std::to_string(tokens) + " tokens";
  if (texts == nullptr || texts->size() != tokens) return InvalidError(wrong);
  for (const std::string& text : *texts) {
    int32_t position = -1;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), position);
    if (problem != std::errc() || end != text.data() + text.size() || position < 0)
      return InvalidError(wrong);
    positions.push_back(position);
  }
  return positions;
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
    auto positions = PositionsOf(request.request, example.tokens.size());
    if (!positions.has_value()) return std::move(positions.error()).At(source->place());
    example.positions = std::move(*positions);
    hash.Update(example.id + "\n" + std::to_string(example.prompt) + "\n" +
                std::to_string(example.tokens.size()) + "\n");
    hash.Update({reinterpret_cast<const char*>(example.tokens.data()),
                 example.tokens.size() * sizeof(int32_t)});
    hash.Update(std::to_string(example.positions.size()) + "\n");
    hash.Update({reinterpret_cast<const char*>(example.positions.data()),
                 example.positions.size() * sizeof(int32_t)});
    made.tokens += example.tokens.size();
    made.examples.push_back(std::move(example));
    request = {};
  }
  if (made.examples.empty()) return InvalidError("there is no example to train on", Place{path});
  made.digest = hash.Finish();
  return made;
}

std::vector<size_t> EpochOrder(size_t count, uint64_t seed, int64_t epoch) {
  std::vector<uint64_t> keys(count);
  const uint64_t pass = Mix(Mix(seed) ^ static_cast<uint64_t>(epoch));
  for (size_t i = 0; i < count; ++i) keys[i] = Mix(pass ^ i);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; });
  return order;
}

ExampleOrder::ExampleOrder(std::span<const TrainExample> examples, uint64_t seed,
                           DataPosition start)
    : examples_(examples), seed_(seed), position_(start) {
  Arrange();
}

void ExampleOrder::Arrange() { order_ = EpochOrder(examples_.size(), seed_, position_.epoch); }

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
