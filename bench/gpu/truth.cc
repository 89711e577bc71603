#include "bench/gpu/truth.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kcc/drift/masked_rows.h"
#include "kcc/drift/row_truth.h"

namespace kcc {
namespace {

std::vector<int32_t> BestTen(const std::vector<float>& row) {
  std::vector<int32_t> ids(row.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(10, ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), [&](int32_t a, int32_t b) {
    const float of_a = row[static_cast<size_t>(a)];
    const float of_b = row[static_cast<size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  });
  ids.resize(std::min<size_t>(10, ids.size()));
  return ids;
}

double SharedOf(const std::vector<int32_t>& a, const std::vector<int32_t>& b, size_t k) {
  k = std::min(k, a.size());
  double shared = 0;
  for (size_t i = 0; i < k; ++i) {
    for (size_t j = 0; j < k; ++j) shared += a[i] == b[j] ? 1 : 0;
  }
  return shared / static_cast<double>(k);
}

double MarginOf(const std::vector<float>& row, const std::vector<int32_t>& best) {
  return double{row[static_cast<size_t>(best[0])]} - double{row[static_cast<size_t>(best[1])]};
}

// log of the sum of e^((z - top) / tau), top being the largest.
Quad LogMass(const std::vector<float>& row, float top, Quad tau) {
  Quad sum = 0;
  for (const float z : row) sum += QuadExp((static_cast<Quad>(z) - static_cast<Quad>(top)) / tau);
  return QuadLog(sum);
}

double RankOf(const std::vector<float>& row, size_t token) {
  double before = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    before += row[i] > row[token] || (row[i] == row[token] && i < token) ? 1 : 0;
  }
  return before;
}

}  // namespace

GpuTruth TruthOfRow(const std::vector<float>& train, const std::vector<float>& infer,
                    double temperature, int32_t token, bool costly) {
  GpuTruth truth;
  const auto by_name = RowTruth(train, infer, temperature, costly);
  for (int value = 0; value < kCudaValues; ++value) {
    const auto found = by_name.find(CudaValueName(value));
    truth.values[static_cast<size_t>(value)] = found == by_name.end() ? 0 : found->second;
  }
  const std::vector<int32_t> best_train = BestTen(train);
  const std::vector<int32_t> best_infer = BestTen(infer);
  truth.argmax = {best_infer[0], best_train[0]};
  truth.values[kCudaMargin] = MarginOf(infer, best_infer);
  truth.values[kCudaTrainMargin] = MarginOf(train, best_train);
  truth.values[kCudaTop1Overlap] = SharedOf(best_train, best_infer, 1);
  truth.values[kCudaTop5Overlap] = SharedOf(best_train, best_infer, 5);
  truth.values[kCudaTop10Overlap] = SharedOf(best_train, best_infer, 10);
  const auto tau = static_cast<Quad>(temperature);
  const float top_train = train[static_cast<size_t>(best_train[0])];
  const float top_infer = infer[static_cast<size_t>(best_infer[0])];
  const Quad train_mass = LogMass(train, top_train, tau);
  const Quad infer_mass = LogMass(infer, top_infer, tau);
  truth.values[kCudaConfidence] = static_cast<double>(QuadExp(-infer_mass));
  truth.values[kCudaTrainConfidence] = static_cast<double>(QuadExp(-train_mass));
  if (token >= 0) {
    const auto at = static_cast<size_t>(token);
    const auto quad = [](float z) { return static_cast<Quad>(z); };
    const Quad p = (quad(train[at]) - quad(top_train)) / tau - train_mass;
    const Quad q = (quad(infer[at]) - quad(top_infer)) / tau - infer_mass;
    truth.values[kCudaTrainLogprob] = static_cast<double>(p);
    truth.values[kCudaLogprob] = static_cast<double>(q);
    truth.values[kCudaLogRatio] = static_cast<double>(p - q);
    truth.values[kCudaTrainRank] = RankOf(train, at);
    truth.values[kCudaRank] = RankOf(infer, at);
  }
  return truth;
}

GpuMaskedRow MaskedRowOf(uint64_t seed) {
  MaskedCase made = MaskedCaseMaker(seed).Make();
  return {made.dtype,
          static_cast<int64_t>(made.train.size()),
          std::move(made.stored_train),
          std::move(made.stored_infer),
          made.temperature,
          made.token,
          made.costly};
}

std::string FaultOfMaskedRow(uint64_t seed, const double* values) {
  const MaskedCase made = MaskedCaseMaker(seed).Make();
  return FaultOf(made, made.Truth(), MaskedBands(), [&](const std::string& name) {
    for (int value = 0; value < kCudaValues; ++value) {
      if (name == CudaValueName(value)) return values[value];
    }
    return std::nan("");
  });
}

float LogitOf(const void* data, DType dtype, int64_t i) {
  const char* at = static_cast<const char*>(data) + i * static_cast<int64_t>(DTypeBits(dtype) / 8);
  uint16_t half = 0;
  float whole = 0;
  switch (dtype) {
    case DType::kF32:
      std::memcpy(&whole, at, 4);
      return whole;
    case DType::kF16:
      std::memcpy(&half, at, 2);
      return F16ToFloat(half);
    case DType::kBF16:
      std::memcpy(&half, at, 2);
      return BF16ToFloat(half);
    case DType::kF8E4M3:
      return F8E4M3ToFloat(static_cast<uint8_t>(*at));
    default:
      return F8E5M2ToFloat(static_cast<uint8_t>(*at));
  }
}

}  // namespace kcc
