// Random small evidence for the soundness tests: two sides' answers about the same few requests, as
// plain data that a test can change, and its forms: traces on disk, arrays in memory.
//
// Everything is drawn from one printed seed, with integer arithmetic alone, so that a case can be
// repeated anywhere.
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kcc/trace/trace.h"

namespace kcc::soundness {

inline constexpr const char* kModelDigest =
    "sha256:0000000000000000000000000000000000000000000000000000000000000000";

class Dice {
 public:
  explicit Dice(uint64_t seed) : bits_(seed) {}

  uint64_t Seed() { return bits_(); }
  int Below(int n) { return static_cast<int>(bits_() % static_cast<uint64_t>(n)); }
  int From(int least, int most) { return least + Below(most - least + 1); }
  bool Chance(double p) { return Real() < p; }
  double Real() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }  // in [0, 1)
  double Normal();                                                        // a sum of uniforms
  template <class T>
  const T& Pick(const std::vector<T>& items) {
    return items[static_cast<size_t>(Below(static_cast<int>(items.size())))];
  }
  template <class T>
  void Shuffle(std::vector<T>* items) {
    for (size_t i = items->size(); i > 1; --i) {
      std::swap((*items)[i - 1], (*items)[static_cast<size_t>(Below(static_cast<int>(i)))]);
    }
  }

 private:
  std::mt19937_64 bits_;
};

struct Row {
  int32_t request = 0;  // index of the side's requests
  int32_t position = 0;
  int32_t token = 0;
  std::vector<float> logits;
  std::vector<int32_t> top_ids;
  std::vector<float> top_logprobs;
  float logprob = std::numeric_limits<float>::quiet_NaN();
  float advantage = std::numeric_limits<float>::quiet_NaN();
  bool masked = false;
  int32_t gold = -1;
};

// One side. Rows stand in any order.
struct SideEvidence {
  TraceInfo info;
  std::vector<Request> requests;
  std::vector<Row> rows;
  int64_t rows_a_file = std::numeric_limits<int64_t>::max();
  bool advantage = false, mask = false, gold = false;  // columns
};

struct Evidence {
  SideEvidence train;
  SideEvidence infer;
};

struct EvidenceOptions {
  bool one_request = false;  // all that is said of a request is the same on both sides
  bool logits_only = false;  // scored tokens with raw full logits
  double drift_max = 2;
};

// Both sides agree about what belongs to the request, wherever both say it, and about its times.
Evidence MakeEvidence(Dice* dice, const EvidenceOptions& options);

// The distribution of a row's logits at a temperature, as log-probs.
std::vector<double> LogSoftmax(const std::vector<float>& logits, double temperature);

// Writes a trace, replacing what is there. Nothing is checked but the rows' numbers: requests and
// trace.json are written as they are, so that a forged trace can be written too.
Result<> WriteSide(const SideEvidence& side, const std::string& directory);

// A directory in memory that goes away with the object.
class MemoryDir {
 public:
  MemoryDir();
  ~MemoryDir();
  MemoryDir(const MemoryDir&) = delete;
  MemoryDir& operator=(const MemoryDir&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace kcc::soundness
