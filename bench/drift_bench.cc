// Speed of the drift kernels beside a plain read of the same bytes, in one run.
//
//   drift_bench [--json FILE] [--vocab N] [--mib N] [--sigma X] [--runs N]
//               [--dtype F32|BF16] [--target NAME] [--threads N]
//
// Logits are synthetic (bulk N(-1, 2.3), a head of 30 tokens, every fourth row sharpened), 64
// distinct row pairs repeated over the working set, the infer side perturbed by sigma. Every target
// is first checked against the reference backend. A figure is the best of `runs` medians; the
// arithmetic speed says how much of a slow run was the machine's. js, hellinger and rank,
// computed on demand, are timed apart: what they add to a pair.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kcc/base/file.h"
#include "kcc/base/json_writer.h"
#include "kcc/drift/reference.h"
#include "kcc/drift/row_quantities.h"
#include "kcc/drift/simd.h"

namespace kcc {
namespace {

struct Options {
  std::string json;
  size_t vocab = 128256;
  size_t mib = 1100;
  double sigma = 1e-2;
  int runs = 7;
  std::string dtype;  // only this one
  std::string target;
  int threads = 0;
};

double Seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// The distinct pairs, then copies of them up to the working set, on huge pages where there are any.
class WorkingSet {
 public:
  WorkingSet(const Options& options, DType dtype) : vocab_(options.vocab), dtype_(dtype) {
    row_bytes_ = vocab_ * DTypeBits(dtype) / 8;
    pairs_ = std::max<size_t>(options.mib * (size_t{1} << 20) / (2 * row_bytes_), 64);
    bytes_ = pairs_ * 2 * row_bytes_;
    void* memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    madvise(memory, bytes_, MADV_HUGEPAGE);
    data_ = static_cast<char*>(memory);
    std::mt19937_64 random(42);
    for (size_t i = 0; i < 64; ++i) Fill(options.sigma, i, &random);
    for (size_t i = 64; i < pairs_; ++i) {
      std::memcpy(data_ + i * 2 * row_bytes_, data_ + (i % 64) * 2 * row_bytes_, 2 * row_bytes_);
    }
  }
  ~WorkingSet() { munmap(data_, bytes_); }
  WorkingSet(const WorkingSet&) = delete;

  RowPair Pair(size_t i) const {
    RowPair pair;
    pair.train = data_ + i * 2 * row_bytes_;
    pair.infer = data_ + i * 2 * row_bytes_ + row_bytes_;
    pair.train_dtype = pair.infer_dtype = dtype_;
    pair.vocab = vocab_;
    pair.token = static_cast<int32_t>(i * 7919 % vocab_);
    return pair;
  }
  size_t pairs() const { return pairs_; }
  size_t bytes() const { return bytes_; }
  const char* data() const { return data_; }

 private:
  void Fill(double sigma, size_t i, std::mt19937_64* random) {
    std::normal_distribution<double> normal;
    std::vector<double> train(vocab_);
    for (double& z : train) z = -1 + 2.3 * normal(*random);
    for (int k = 0; k < 30; ++k) train[(*random)() % vocab_] = 8 + 3 * std::fabs(normal(*random));
    for (size_t j = 0; j < vocab_; ++j) {
      const auto z = static_cast<float>(i % 4 == 3 ? 2 * train[j] : train[j]);
      Put(i * 2 * row_bytes_, j, z);
      Put(i * 2 * row_bytes_ + row_bytes_, j, static_cast<float>(z + sigma * normal(*random)));
    }
  }
  void Put(size_t row, size_t j, float z) {
    if (dtype_ == DType::kF32) {
      std::memcpy(data_ + row + 4 * j, &z, 4);
    } else {
      const uint16_t bits = FloatToBF16(z);
      std::memcpy(data_ + row + 2 * j, &bits, 2);
    }
  }

  size_t vocab_;
  DType dtype_;
  size_t row_bytes_;
  size_t pairs_;
  size_t bytes_;
  char* data_;
};

std::atomic<uint64_t> sink{0};

template <class Work>
double Time(int threads, size_t count, Work work) {
  const double start = Seconds();
  std::vector<std::thread> others;
  const auto part = [&](int t) {
    const auto index = static_cast<size_t>(t);
    const auto of = static_cast<size_t>(threads);
    work(count * index / of, count * (index + 1) / of);
  };
  for (int t = 1; t < threads; ++t) others.emplace_back(part, t);
  part(0);
  for (std::thread& thread : others) thread.join();
  return Seconds() - start;
}

double TimeRead(const WorkingSet& set, int threads) {
  return Time(threads, set.bytes() / 4096, [&](size_t begin, size_t end) {
    uint64_t sums[16] = {};
    const auto* from = reinterpret_cast<const uint64_t*>(set.data());
    for (size_t i = begin * 512; i < end * 512; i += 16) {
      for (size_t k = 0; k < 16; ++k) sums[k] += from[i + k];
    }
    for (const uint64_t sum : sums) sink += sum;
  });
}

double TimeKernel(const WorkingSet& set, int threads, Target target, const SlotSet& wanted) {
  return Time(threads, set.pairs(), [&](size_t begin, size_t end) {
    RowScratch scratch;
    const size_t tv = TokenSlot("tv");
    double sum = 0;
    std::array<TokenDrift, 2> drifts;  // tv of a row is known once the next has been visited
    for (size_t i = begin; i < end; ++i) {
      const RowPair next = set.Pair(std::min(i + 1, set.pairs() - 1));
      TokenDrift& drift = drifts[i % 2];
      drift = TokenDrift();
      if (!BeginRowSimd(set.Pair(i), wanted, target, &scratch, &drift, &next)) std::abort();
      if (i > begin) sum += drifts[(i - 1) % 2].lo[tv];
    }
    FinishRowSimd(&scratch);
    if (end > begin) sum += drifts[(end - 1) % 2].lo[tv];
    sink += static_cast<uint64_t>(sum * 1e9);
  });
}

// Independent multiply-add chains: what the core has to give this moment, in billions a second.
double ArithmeticSpeed() {
  float x[64];
  std::fill(std::begin(x), std::end(x), static_cast<float>(sink % 7));
  const float factor = 1 - 1.0f / static_cast<float>(1000 + sink % 3);
  constexpr int kSteps = 4000000;
  const double start = Seconds();
  for (int i = 0; i < kSteps; ++i) {
    for (float& v : x) v = v * factor + 0.001f;
  }
  for (const float v : x) sink += static_cast<uint64_t>(v);
  return 64.0 * kSteps / (Seconds() - start) / 1e9;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

SlotSet TimedSlots() {
  SlotSet slots;
  for (const char* name : {"logit_span", "logit_linf", "logit_l2", "kl", "reverse_kl", "tv", "chi2",
                           "entropy", "train_entropy", "margin", "train_margin", "log_ratio",
                           "top1_overlap", "top5_overlap", "top10_overlap"}) {
    slots.set(TokenSlot(name));
  }
  return slots;
}

// The largest relative error of kl and tv against the reference backend; aborts where targets
// differ.
double Verify(const WorkingSet& set) {
  double worst = 0;
  RowScratch scratch;
  for (size_t i = 0; i < 8; ++i) {
    TokenDrift want;
    if (!MeasureRowReference(set.Pair(i), AllTokenSlots(), &want)) std::abort();
    std::vector<TokenDrift> got;
    for (const Target target : AvailableTargets()) {
      got.emplace_back();
      if (!MeasureRowSimd(set.Pair(i), TimedSlots(), target, &scratch, &got.back())) std::abort();
      if (got.back().lo != got.front().lo) {
        std::fprintf(stderr, "targets differ on row %zu\n", i);
        std::abort();
      }
    }
    for (const char* name : {"kl", "reverse_kl", "tv", "chi2", "entropy", "train_entropy"}) {
      const size_t slot = TokenSlot(name);
      worst = std::max(worst, std::fabs(got[0].lo[slot] / want.lo[slot] - 1));
    }
  }
  return worst;
}

struct Figure {
  std::string dtype;
  std::string target;
  int threads;
  double read_gbps;
  double gbps;
  double ratio;
  double us_per_pair;
};

Figure MeasureConfiguration(const WorkingSet& set, DType dtype, Target target, int threads,
                            const SlotSet& wanted, int runs) {
  Figure best{std::string(DTypeName(dtype)), std::string(TargetName(target)), threads, 0, 0, 0, 0};
  const double gigabytes = static_cast<double>(set.bytes()) / 1e9;
  for (int run = 0; run < runs; ++run) {
    std::vector<double> reads;
    std::vector<double> kernels;
    std::vector<double> ratios;
    for (int i = 0; i < 3; ++i) {
      reads.push_back(TimeRead(set, threads));
      kernels.push_back(TimeKernel(set, threads, target, wanted));
      ratios.push_back(reads.back() / kernels.back());
    }
    if (Median(ratios) <= best.ratio) continue;
    best.ratio = Median(ratios);
    best.read_gbps = gigabytes / Median(reads);
    best.gbps = gigabytes / Median(kernels);
    best.us_per_pair = 1e6 * Median(kernels) * threads / static_cast<double>(set.pairs());
  }
  return best;
}

// Microseconds that js, hellinger and rank add to a pair on the best target, over a few pairs.
double OnDemandCost(const WorkingSet& set) {
  constexpr size_t kPairs = 16;
  std::vector<double> extra;
  for (int i = 0; i < 3; ++i) {
    double seconds[2] = {};
    for (const bool all : {false, true}) {
      const SlotSet wanted = all ? TimedSlots() | OnDemandSlots() : TimedSlots();
      RowScratch scratch;
      const double start = Seconds();
      for (size_t pair = 0; pair < kPairs; ++pair) {
        TokenDrift drift;
        if (!MeasureRowSimd(set.Pair(pair), wanted, BestTarget(), &scratch, &drift)) std::abort();
      }
      seconds[all ? 1 : 0] = Seconds() - start;
    }
    extra.push_back(1e6 * (seconds[1] - seconds[0]) / kPairs);
  }
  return Median(extra);
}

void Report(const Options& options, const std::vector<Figure>& figures, double arithmetic_gmadds) {
  std::printf("%-6s %-8s %8s %11s %11s %7s %9s\n", "dtype", "target", "threads", "read GB/s",
              "kcc GB/s", "ratio", "us/pair");
  for (const Figure& f : figures) {
    std::printf("%-6s %-8s %8d %11.2f %11.2f %7.3f %9.1f\n", f.dtype.c_str(), f.target.c_str(),
                f.threads, f.read_gbps, f.gbps, f.ratio, f.us_per_pair);
  }
  std::printf("arithmetic: %.2f G float multiply-adds/s (SSE2, one thread)\n", arithmetic_gmadds);
  if (options.json.empty()) return;
  JsonWriter json;
  json.BeginObject().Field("vocab", options.vocab).Field("sigma", options.sigma);
  json.Field("arithmeticGmadds", arithmetic_gmadds).Key("figures").BeginArray();
  for (const Figure& f : figures) {
    json.BeginObject().Field("dtype", f.dtype).Field("target", f.target);
    json.Field("threads", f.threads).Field("readGBps", f.read_gbps).Field("kccGBps", f.gbps);
    json.Field("ratio", f.ratio).Field("usPerPair", f.us_per_pair).EndObject();
  }
  json.EndArray().EndObject();
  std::FILE* file = std::fopen(options.json.c_str(), "w");
  if (file == nullptr) std::abort();
  const std::string text = json.Take();
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string("0"); };
    if (flag == "--json") {
      options.json = value();
    } else if (flag == "--vocab") {
      options.vocab = std::stoul(value());
    } else if (flag == "--mib") {
      options.mib = std::stoul(value());
    } else if (flag == "--sigma") {
      options.sigma = std::stod(value());
    } else if (flag == "--runs") {
      options.runs = std::stoi(value());
    } else if (flag == "--dtype") {
      options.dtype = value();
    } else if (flag == "--target") {
      options.target = value();
    } else if (flag == "--threads") {
      options.threads = std::stoi(value());
    } else {
      std::fprintf(stderr, "drift_bench: unknown flag %s\n", argv[i]);
      return 2;
    }
  }
  const SlotSet wanted = TimedSlots();
  std::vector<Figure> figures;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    if (!options.dtype.empty() && options.dtype != DTypeName(dtype)) continue;
    const WorkingSet set(options, dtype);
    std::printf("%s: worst relative error against the reference %.1e, targets bit-identical\n",
                std::string(DTypeName(dtype)).c_str(), Verify(set));
    std::printf("%s: js, hellinger and rank, on demand: %.0f us a pair more\n",
                std::string(DTypeName(dtype)).c_str(), OnDemandCost(set));
    std::fflush(stdout);
    for (const Target target : AvailableTargets()) {
      if (target == Target::kScalar && options.target.empty()) continue;
      if (!options.target.empty() && options.target != TargetName(target)) continue;
      for (const int threads : {1, 2}) {
        if (options.threads != 0 && options.threads != threads) continue;
        figures.push_back(MeasureConfiguration(set, dtype, target, threads, wanted, options.runs));
      }
    }
  }
  Report(options, figures, ArithmeticSpeed());
  return 0;
}

}  // namespace
}  // namespace kcc

int main(int argc, char** argv) { return kcc::Main(argc, argv); }
