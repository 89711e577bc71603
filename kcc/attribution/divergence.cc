#include "kcc/attribution/divergence.h"

#include <cmath>
#include <optional>
#include <vector>

namespace kcc {
namespace {

struct AuditPlace {
  size_t position = 0;
  size_t point = 0;
};

Result<std::vector<RequestOutcome>> RunBatch(LabKernel& kernel,
                                             std::span<const KernelRequest> batch) {
  return kernel.engine().Score(
      batch, [](size_t, size_t, int32_t, std::span<const float>) { return Result<>(); });
}

// Positions are computed in order, and at a position the points are: the earliest difference is
// where the computations part.
std::optional<AuditPlace> FirstDifference(const AuditTrail& a, const AuditTrail& b) {
  for (size_t position = 0; position < a.positions(); ++position) {
    for (size_t point = 0; point < a.points(); ++point) {
      if (a.At(position, point) != b.At(position, point)) return AuditPlace{position, point};
    }
  }
  return std::nullopt;
}

Result<std::vector<float>> TensorAt(LabKernel& kernel, std::span<const KernelRequest> batch,
                                    size_t request, const AuditPlace& place) {
  std::vector<float> tensor;
  kernel.engine().forward().set_probe(
      [&](size_t r, size_t position, size_t point, std::span<const float> row) {
        if (r == request && position == place.position && point == place.point) {
          tensor.assign(row.begin(), row.end());
        }
      });
  const auto done = RunBatch(kernel, batch);
  kernel.engine().forward().set_probe(nullptr);
  if (!done.has_value()) return done.error();
  return tensor;
}

void CompareTensors(const std::vector<float>& a, const std::vector<float>& b,
                    FirstDivergence* found) {
  double gap_squares = 0;
  double squares = 0;
  double most = -1;
  found->width = a.size();
  for (size_t i = 0; i < a.size(); ++i) {
    const double gap = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    gap_squares += gap * gap;
    squares += static_cast<double>(a[i]) * static_cast<double>(a[i]);
    found->elements += gap > 0;
    if (gap <= most) continue;
    most = gap;
    found->element = i;
    found->train = a[i];
    found->infer = b[i];
  }
  found->relative = squares == 0 ? 0 : std::sqrt(gap_squares / squares);
}

}  // namespace

Result<FirstDivergence> FindFirstDivergence(LabKernel& train, LabKernel& infer,
                                            std::span<const KernelRequest> batch) {
  if (train.switches().audit != AuditLevel::kEverything ||
      infer.switches().audit != AuditLevel::kEverything) {
    return InvalidError("the first divergence needs audit=all on both kernels");
  }
  KCC_TRY(const std::vector<RequestOutcome> a, RunBatch(train, batch));
  KCC_TRY(const std::vector<RequestOutcome> b, RunBatch(infer, batch));
  const size_t layers = train.model().config.layers;
  FirstDivergence found;
  found.requests = static_cast<int64_t>(batch.size());
  std::optional<size_t> request;
  AuditPlace place;
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto first = FirstDifference(a[i].audit, b[i].audit);
    if (!first) continue;
    ++found.diverging;
    ++found.first_points[AuditPointName(first->point, layers)];
    if (!request) {
      request = i;
      place = *first;
    }
  }
  if (!request) return found;
  found.request = batch[*request].request.id;
  found.position = static_cast<int64_t>(place.position);
  found.point = place.point;
  found.point_name = AuditPointName(place.point, layers);
  found.operator_name = AuditOperatorName(place.point, layers);
  KCC_TRY(const std::vector<float> x, TensorAt(train, batch, *request, place));
  KCC_TRY(const std::vector<float> y, TensorAt(infer, batch, *request, place));
  CompareTensors(x, y, &found);
  return found;
}

}  // namespace kcc
