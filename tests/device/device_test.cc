// Logits on a device become the summary that the CPU would have made: through the real loader and
// the real spine, on the fake library that lies beside this program (fake_cuda.cc).
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "kcc/contract/reader.h"
#include "kcc/device/cuda_device.h"
#include "kcc/device/cuda_library.h"
#include "kcc/measure/measure.h"
#include "kcc/measure/measure_arrays.h"
#include "kcc/metric/token_slots.h"
#include "kcc/summary/file.h"
#include "kcc/summary/series.h"
#include "kcc/trace/requests.h"
#include "kcc/trace/trace_test_data.h"
#include "tests/device/batch_test_data.h"
#include "tests/device/fake_cuda.h"

namespace kcc {
namespace {

using testing::Batch;
using ::testing::HasSubstr;
using testing::ScratchDir;
using testing::SyntheticSpec;

constexpr float kInf = std::numeric_limits<float>::infinity();

template <class Function>
Function* Fake(const char* name) {
  void* const handle = dlopen(LoadCudaLibrary({}).value().path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  auto* const found = reinterpret_cast<Function*>(dlsym(handle, name));
  EXPECT_NE(found, nullptr) << name;
  return found;
}

FakeCounts Counts() {
  FakeCounts counts;
  Fake<decltype(kcc_fake_counts)>("kcc_fake_counts")(&counts);
  return counts;
}

// Quantities that the fake takes from the CPU's kernels as they are; of the others it computes the
// log-probs by itself, and they differ in their last bits.
Plan PlanOf(Plan::Breadth breadth) {
  const ReadOutcome read = ReadContract(R"(
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: device, version: 1.0.0}
spec:
  slices:
    - {name: even, where: "'even' in tags"}
    - {name: late, where: "token.position >= 3"}
  numerical:
    - {id: N-1, metric: p99_abs_log_ratio, atMost: 0.05, slices: [all, even, late], level: L3}
    - {id: N-2, metric: mean_kl, atMost: 0.01, exceedance: 10%, window: request, level: L2}
    - {id: N-3, metric: max_tv, atMost: 0.5, slices: [all, late], level: L2}
    - {id: N-4, metric: p99_logit_linf, atMost: 5, level: L2}
    - {id: N-5, metric: mean_js, atMost: 0.5, level: L2}
    - {id: N-6, metric: p99_rank, atMost: 400, level: L2}
  statistical:
    - {id: S-1, metric: mean_top5_overlap, atLeast: 0.1, level: L3}
)");
  return Plan::FromContract(read.contract.value(), breadth);
}

class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<RowDevice>> opened = OpenCudaDevice();
    ASSERT_TRUE(opened.has_value()) << opened.error().Format();
    device_ = std::move(*opened);
    Fake<decltype(kcc_fake_reset)>("kcc_fake_reset")();
  }
  void TearDown() override { Fake<decltype(kcc_fake_reset)>("kcc_fake_reset")(); }

  // The same arrays with their logits on the device.
  static ArrayPair OnDevice(ArrayPair pair, int index = 0) {
    auto* const address = Fake<decltype(kcc_fake_device_address)>("kcc_fake_device_address");
    pair.train.logits = address(pair.train.logits);
    pair.infer.logits = address(pair.infer.logits);
    pair.place = DevicePlace{.index = index};
    return pair;
  }
  MeasureOptions Options(int threads = 1) const {
    MeasureOptions options;
    options.threads = threads;
    options.device = device_.get();
    return options;
  }
  static void Spoil(int64_t row, const char* value, double to) {
    Fake<decltype(kcc_fake_spoil)>("kcc_fake_spoil")(row, value, to);
  }
  static void FailIn(const char* function) {
    Fake<decltype(kcc_fake_fail)>("kcc_fake_fail")(function);
  }

  // The bytes of a summary, but for the word that a device measured it.
  static std::string BytesButBackend(const Result<Summary>& summary, std::string_view backend) {
    EXPECT_TRUE(summary.has_value()) << summary.error().Format();
    if (!summary) return {};
    Summary copy = *summary;
    for (Source& source : copy.sources) {
      EXPECT_EQ(source.backend, backend);
      source.backend.clear();
    }
    return EncodeSummary(copy);
  }
  void ExpectSameBytes(const Batch& batch) const {
    const Plan plan = PlanOf(Plan::Breadth::kClauses);
    EXPECT_EQ(BytesButBackend(MeasureArrays(OnDevice(batch.View()), plan, Options()), "cuda"),
              BytesButBackend(MeasureArrays(batch.View(), plan), ""));
  }
  // Both refuse, in the same words.
  void ExpectSameError(const Batch& batch, std::string_view words) const {
    const Plan plan = PlanOf(Plan::Breadth::kClauses);
    const Result<Summary> on_cpu = MeasureArrays(batch.View(), plan);
    ASSERT_FALSE(on_cpu.has_value());
    EXPECT_THAT(on_cpu.error().message(), HasSubstr(std::string(words)));
    for (const int threads : {1, 3}) {
      const Result<Summary> on_device =
          MeasureArrays(OnDevice(batch.View()), plan, Options(threads));
      ASSERT_FALSE(on_device.has_value());
      EXPECT_EQ(on_device.error().message(), on_cpu.error().message());
      EXPECT_EQ(on_device.error().code(), on_cpu.error().code());
    }
  }

  std::unique_ptr<RowDevice> device_;
};

TEST(CudaLibrary, IsFoundBesideTheProgram) {
  const Result<CudaLibrary> library = LoadCudaLibrary({});
  ASSERT_TRUE(library.has_value()) << library.error().Format();
  EXPECT_THAT(library->path, HasSubstr("/libkcc_cuda.so"));
}

TEST(CudaLibrary, AnErrorNamesWhatIsMissing) {
  const Result<CudaLibrary> nowhere = LoadCudaLibrary("/nowhere/libkcc_cuda.so");
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code(), ErrorCode::kIo);
  EXPECT_THAT(nowhere.error().message(), HasSubstr("/nowhere/libkcc_cuda.so is not there"));
  EXPECT_THAT(nowhere.error().message(), HasSubstr("docs/gpu.md"));
}

TEST(CudaLibrary, AnotherLibraryIsRefused) {
  const Result<CudaLibrary> other = LoadCudaLibrary("libm.so.6");
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message(), HasSubstr("lacks the function kcc_cuda_abi_version"));
  const Result<CudaLibrary> none = LoadCudaLibrary("README.md");
  ASSERT_FALSE(none.has_value());
}

TEST_F(DeviceTest, ArraysGiveTheBytesOfTheCpu) {
  const Batch batch;
  const Plan plan = PlanOf(Plan::Breadth::kClauses);
  const std::string bytes = BytesButBackend(MeasureArrays(batch.View(), plan), "");
  for (const int threads : {1, 2, 5}) {
    EXPECT_EQ(
        BytesButBackend(MeasureArrays(OnDevice(batch.View()), plan, Options(threads)), "cuda"),
        bytes);
  }
  EXPECT_EQ(Counts().bytes_read, 0) << "logits came back to the host";
}

TEST_F(DeviceTest, EveryQuantityOfTheDefaultPlanIsThere) {
  const Batch batch;
  const Result<Summary> on_cpu = MeasureArrays(batch.View(), Plan::Default());
  const Result<Summary> on_device =
      MeasureArrays(OnDevice(batch.View()), Plan::Default(), Options());
  ASSERT_TRUE(on_device.has_value()) << on_device.error().Format();
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    const SeriesView want(*on_cpu, 0, slot);
    const SeriesView got(*on_device, 0, slot);
    ASSERT_EQ(got.count(), want.count()) << SlotName(slot);
    EXPECT_EQ(got.missing(), want.missing()) << SlotName(slot);
    if (want.count() == 0) continue;
    using End = SeriesView::End;
    if (SlotName(slot) == "ulp_gap" || SlotName(slot) == "bit_mismatch") continue;  // last bits
    EXPECT_NEAR(got.Mean(End::kLow), want.Mean(End::kLow),
                1e-9 * std::fabs(want.Mean(End::kLow)) + 1e-12)
        << SlotName(slot);
  }
}

TEST_F(DeviceTest, TemperaturesAndUnlikeFormatsPassThrough) {
  const Batch batch;
  ArrayPair pair = batch.View();
  pair.temperature = 0.7;
  const Plan plan = PlanOf(Plan::Breadth::kClauses);
  EXPECT_EQ(BytesButBackend(MeasureArrays(OnDevice(pair), plan, Options()), "cuda"),
            BytesButBackend(MeasureArrays(pair, plan), ""));
}

TEST_F(DeviceTest, BrokenRowsAreRefusedInTheWordsOfTheCpu) {
  const auto at = [](Batch& batch, int64_t row, int64_t entry, bool train) -> float& {
    auto& side = train ? batch.train : batch.infer;
    return side[static_cast<size_t>(row * Batch::kStride + entry)];
  };
  {
    Batch batch;
    at(batch, 3, 7, true) = std::numeric_limits<float>::quiet_NaN();
    ExpectSameError(batch, "train logits[7] is NaN");
  }
  {
    Batch batch;
    at(batch, 26, 399, false) = kInf;
    ExpectSameError(batch, "infer logits[399] is +inf");
  }
  {
    Batch batch;
    for (int64_t i = 0; i < Batch::kVocab; ++i) at(batch, 2, i, true) = -kInf;
    ExpectSameError(batch, "request 'r0', position 2");
  }
  {
    Batch batch;
    const int64_t token = batch.tokens[4];
    at(batch, 4, token, true) = at(batch, 4, token, false) = -kInf;
    ExpectSameError(batch, "position 4");
  }
  {
    Batch batch;
    batch.tokens[0] = Batch::kVocab;
    ExpectSameError(batch, "outside the vocabulary");
  }
}

TEST_F(DeviceTest, TheFirstBrokenRowInTheOrderOfReadingIsNamed) {
  Batch batch;
  batch.train[static_cast<size_t>(50 * Batch::kStride)] = kInf;
  batch.tokens[26] = -7;
  batch.infer[static_cast<size_t>(27 * Batch::kStride)] = kInf;
  ExpectSameError(batch, "the token id -7 is negative");
}

TEST_F(DeviceTest, BrokenRowsThatDoNotCountDoNotMatter) {
  Batch batch;
  batch.train[static_cast<size_t>(1 * Batch::kStride)] = kInf;  // masked
  ExpectSameBytes(batch);
}

TEST_F(DeviceTest, MaskedTokensAreLeftOutAsOnTheCpu) {
  Batch batch;
  for (int64_t row = 0; row < 5; ++row) {
    for (const int64_t entry : {3, 77, 200}) {
      const auto place = static_cast<size_t>(row * Batch::kStride + entry);
      if (batch.tokens[static_cast<size_t>(row)] == entry) continue;
      batch.train[place] = -kInf;
      if (row != 2) batch.infer[place] = -kInf;  // row 2: on one side alone
    }
  }
  ExpectSameBytes(batch);
}

// A device that gives nonsense is not believed: the CPU measures the row.
TEST_F(DeviceTest, ValuesThatCannotBeAreMeasuredAgainOnTheCpu) {
  const Batch batch;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [value, to] : {std::pair<const char*, double>("kl", -1.0),
                                  {"kl", nan},
                                  {"tv", 0.9},
                                  {"js", -0.5},
                                  {"top5_overlap", nan},
                                  {"log_ratio", nan},
                                  {"logprob", nan},
                                  {"confidence", 2.0},
                                  {"rank", nan}}) {
    Fake<decltype(kcc_fake_reset)>("kcc_fake_reset")();
    Spoil(3, value, to);
    ExpectSameBytes(batch);
    EXPECT_EQ(Counts().bytes_read, 2 * Batch::kVocab * 4) << value;  // that row and no other
  }
}

// What a device says is taken from where it says it: another number gives another summary.
TEST_F(DeviceTest, ValuesAreTheDevices) {
  const Batch batch;
  const Plan plan = PlanOf(Plan::Breadth::kClauses);
  const std::string bytes = BytesButBackend(MeasureArrays(batch.View(), plan), "");
  Spoil(3, "logit_linf", 1.5);
  EXPECT_NE(BytesButBackend(MeasureArrays(OnDevice(batch.View()), plan, Options()), "cuda"), bytes);
}

TEST_F(DeviceTest, FailuresOfTheDeviceAreErrors) {
  const Batch batch;
  for (const char* function : {"new", "begin", "add", "wait"}) {
    const Result<std::unique_ptr<RowDevice>> device = OpenCudaDevice();
    FailIn(function);
    MeasureOptions options;
    options.device = device->get();
    const Result<Summary> summary = MeasureArrays(OnDevice(batch.View()), Plan::Default(), options);
    ASSERT_FALSE(summary.has_value()) << function;
    EXPECT_EQ(summary.error().code(), ErrorCode::kIo);
    EXPECT_THAT(summary.error().message(), HasSubstr("CUDA: the fake device was told to fail"));
    Fake<decltype(kcc_fake_reset)>("kcc_fake_reset")();
  }
}

TEST_F(DeviceTest, RowsFarFromAnyThatCountAreNotMeasured) {
  Batch batch(60);
  std::fill(batch.mask.begin(), batch.mask.end(), uint8_t{0});
  batch.mask[0] = batch.mask[600] = 1;
  ExpectSameBytes(batch);
  EXPECT_EQ(Counts().rows, 2);
  EXPECT_EQ(Counts().adds, 2);
}

TEST_F(DeviceTest, AMeasurementCanBeFinishedLaterOrGivenUp) {
  const Batch batch;
  const Plan plan = PlanOf(Plan::Breadth::kClauses);
  const ArrayPair pair = OnDevice(batch.View());
  {
    const Result<ArrayMeasurement> given_up = ArrayMeasurement::Begin(pair, plan, Options());
    ASSERT_TRUE(given_up.has_value());
  }
  Result<ArrayMeasurement> first = ArrayMeasurement::Begin(pair, plan, Options());
  Result<ArrayMeasurement> second = ArrayMeasurement::Begin(pair, plan, Options());
  const std::string bytes = BytesButBackend(MeasureArrays(batch.View(), plan), "");
  EXPECT_EQ(BytesButBackend(second->Finish(), "cuda"), bytes);
  EXPECT_EQ(BytesButBackend(first->Finish(), "cuda"), bytes);
}

TEST_F(DeviceTest, SessionsAreUsedAgain) {
  const Batch batch;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(MeasureArrays(OnDevice(batch.View()), Plan::Default(), Options()).has_value());
  }
  EXPECT_EQ(Counts().sessions, 1);
}

// Between two measurements the caller may make another device the current one.
TEST_F(DeviceTest, ASessionForTheCurrentDeviceIsNotUsedAgain) {
  const Batch batch;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(MeasureArrays(OnDevice(batch.View(), -1), Plan::Default(), Options()).has_value());
  }
  EXPECT_EQ(Counts().sessions, 3);
}

TEST_F(DeviceTest, WithoutALoadedDeviceAndForLogProbsItIsRefused) {
  const Batch batch;
  const Result<Summary> none = MeasureArrays(OnDevice(batch.View()), Plan::Default());
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message(), HasSubstr("no library for it was loaded"));
  ArrayPair logprobs = OnDevice(batch.View());
  const std::vector<float> values(batch.tokens.size(), -1.0f);
  logprobs.train.logits = logprobs.infer.logits = nullptr;
  logprobs.train.logprobs = logprobs.infer.logprobs = values.data();
  ASSERT_FALSE(MeasureArrays(logprobs, Plan::Default(), Options()).has_value());
}

PairedTraces TracePair(const ScratchDir& dir, SyntheticSpec spec) {
  testing::WriteSynthetic(dir / "train", spec);
  spec.noise = 0.05;
  testing::WriteSynthetic(dir / "infer", spec);
  return PairedTraces::Make(testing::MustOpen(dir / "train"), testing::MustOpen(dir / "infer"))
      .value();
}

SyntheticSpec TraceSpec(DType dtype) {
  SyntheticSpec spec;
  spec.requests = 23;
  spec.gold = true;
  spec.dtype = dtype;
  return spec;
}

TEST_F(DeviceTest, TracesGiveTheBytesOfTheCpuForAnyThreadsAndShards) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const ScratchDir dir;
    const PairedTraces pair = TracePair(dir, TraceSpec(dtype));
    const Plan plan = PlanOf(Plan::Breadth::kClauses);
    const std::string bytes = BytesButBackend(Measure(pair, plan), "");
    for (const int threads : {1, 3}) {
      EXPECT_EQ(BytesButBackend(Measure(pair, plan, Options(threads)), "cuda"), bytes);
    }
    std::optional<Summary> merged;
    for (int32_t i = 1; i <= 3; ++i) {
      MeasureOptions options = Options();
      options.shard = {i, 3};
      const Result<Summary> part = Measure(pair, plan, options);
      ASSERT_TRUE(part.has_value()) << part.error().Format();
      merged = merged ? *Merge(*merged, *part) : *part;
    }
    EXPECT_TRUE(merged->Complete());
    EXPECT_EQ(BytesButBackend(*merged, "cuda"), bytes);
  }
  EXPECT_GT(Counts().rows, 0);
}

TEST_F(DeviceTest, ValuesOfTracesThatCannotBeAreMeasuredAgainOnTheCpu) {
  const ScratchDir dir;
  const PairedTraces pair = TracePair(dir, TraceSpec(DType::kF32));
  const Plan plan = PlanOf(Plan::Breadth::kClauses);
  const std::string bytes = BytesButBackend(Measure(pair, plan), "");
  Spoil(2, "kl", -1);
  EXPECT_EQ(BytesButBackend(Measure(pair, plan, Options()), "cuda"), bytes);
}

TEST_F(DeviceTest, TracesWithoutLogitsAreRefused) {
  const ScratchDir dir;
  SyntheticSpec spec = TraceSpec(DType::kF32);
  spec.evidence = EvidenceLevel::kSampledToken;
  const PairedTraces pair = TracePair(dir, spec);
  const Result<Summary> summary = Measure(pair, Plan::Default(), Options());
  ASSERT_FALSE(summary.has_value());
  EXPECT_THAT(summary.error().message(), HasSubstr("a device measures full logits"));
}

TEST_F(DeviceTest, PartsOfOnePairByTwoBackendsDoNotMerge) {
  const ScratchDir dir;
  const PairedTraces pair = TracePair(dir, TraceSpec(DType::kF32));
  MeasureOptions first = Options();
  first.shard = {1, 2};
  MeasureOptions second;
  second.shard = {2, 2};
  const Result<Summary> merged =
      Merge(*Measure(pair, Plan::Default(), first), *Measure(pair, Plan::Default(), second));
  ASSERT_FALSE(merged.has_value());
  EXPECT_THAT(merged.error().message(), HasSubstr("measure all parts on one of them"));
}

TEST_F(DeviceTest, TheBackendIsInTheFileAndTheCpuLeavesItsBytes) {
  const Batch batch;
  const Summary on_device = *MeasureArrays(OnDevice(batch.View()), Plan::Default(), Options());
  const Summary on_cpu = *MeasureArrays(batch.View(), Plan::Default());
  EXPECT_TRUE(EncodeSummary(on_cpu).starts_with("KCCSUM2\n"));
  const std::string bytes = EncodeSummary(on_device);
  EXPECT_TRUE(bytes.starts_with("KCCSUM3\n"));
  const Result<Summary> read = DecodeSummary(bytes);
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_EQ(read->sources, on_device.sources);
  EXPECT_EQ(EncodeSummary(*read), bytes);
}

}  // namespace
}  // namespace kcc
