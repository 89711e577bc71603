// What a model is trained on: examples, and the order in which a run takes them.
//
// An example is a line of a requests file: a prompt and its continuation, as token ids, and perhaps
// `positions`, where RoPE is to take each token to be: a short example then teaches long distances
// (Zhu et al. 2023, arXiv:2309.10400). The order
// is that of a hash of seed, epoch and place, so any place in a run can be found again from three
// numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

struct TrainExample {
  std::string id;
  std::vector<int32_t> tokens;
  size_t prompt = 1;               // tokens of the prompt, at least one
  std::vector<int32_t> positions;  // of RoPE, one a token; empty: 0, 1, 2 …
};

struct ExampleSet {
  std::vector<TrainExample> examples;
  std::string digest;  // of ids and tokens, in the file's order
  uint64_t tokens = 0;
};
// Reads a requests file. Fails, naming the line's id, on an example with an empty prompt or output,
// and on a file without examples.
Result<ExampleSet> ReadExamples(const std::string& path);

// Where a run stands in its data: the next example is the `index`-th of the `epoch`-th pass.
struct DataPosition {
  int64_t epoch = 0;
  int64_t index = 0;
  bool operator==(const DataPosition&) const = default;
};

// The order in which a pass takes `count` things.
std::vector<size_t> EpochOrder(size_t count, uint64_t seed, int64_t epoch);

class ExampleOrder {
 public:
  // The examples outlive it.
  ExampleOrder(std::span<const TrainExample> examples, uint64_t seed, DataPosition start = {});

  DataPosition position() const { return position_; }
  // Examples until there are `tokens` of them: at least one example, and none twice.
  std::vector<const TrainExample*> Batch(size_t tokens);

 private:
  void Arrange();

  std::span<const TrainExample> examples_;
  uint64_t seed_;
  DataPosition position_;
  std::vector<size_t> order_;  // of this epoch
};

// The batches until all examples have been taken `epochs` times; the last one may go on into the
// next epoch.
int64_t BatchesOf(std::span<const TrainExample> examples, uint64_t seed, size_t tokens,
                  int64_t epochs);

}  // namespace kcc
