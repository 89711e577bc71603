#include "tests/report/sample/sample_quantities.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace kcc {
namespace {

constexpr size_t kDrawn = 6000;
constexpr size_t kBucketsShown = 56;

double At(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

// Buckets by the seven leading bits of the fraction, as summaries keep them.
ReportHistogram HistogramOf(const std::vector<double>& sorted, const std::string& quantity,
                            const std::string& slice, int64_t scale) {
  const auto edge_below = [](double v) {
    const uint64_t kept = ~((uint64_t{1} << 45) - 1);
    return std::bit_cast<double>(std::bit_cast<uint64_t>(v) & kept);
  };
  const auto next_edge = [](double v) {
    return std::bit_cast<double>(std::bit_cast<uint64_t>(v) + (uint64_t{1} << 45));
  };
  ReportHistogram fine{quantity, slice, {}, {}, 0};
  std::map<double, int64_t> counts;  // by lower edge
  for (const double v : sorted) {
    counts[v >= 0 ? edge_below(v) : -next_edge(edge_below(-v))] += scale;
  }
  for (const auto& [lo, count] : counts) {
    const double hi = lo >= 0 ? next_edge(lo) : -edge_below(std::nextafter(-lo, 0.0));
    if (!fine.edges.empty() && fine.edges.back() < lo) {  // a gap is an empty bucket
      fine.counts.push_back(0);
      fine.edges.push_back(lo);
    } else if (fine.edges.empty()) {
      fine.edges.push_back(lo);
    }
    fine.counts.push_back(count);
    fine.edges.push_back(hi);
  }
  return Coarsen(std::move(fine), kBucketsShown);
}

}  // namespace

void AddQuantity(const QuantityShape& shape, const SliceShape& slice, uint64_t seed,
                 ReportData* report) {
  Random random(seed);
  std::vector<double> values(kDrawn);
  for (double& v : values) {
    const double normal = random.Normal();
    // A few tokens in a thousand are far worse than the rest, as in real builds.
    const double tail = random.Uniform() < 0.004 ? 5 : 1;
    v = shape.is_signed ? shape.center * slice.drift * normal * tail
                        : shape.center * slice.drift * std::exp(shape.spread * normal) * tail;
    if (shape.name.ends_with("overlap")) v = std::clamp(1 - v, 0.0, 1.0);
  }
  std::sort(values.begin(), values.end());
  QuantityStatistics s;
  const int64_t scale = std::max<int64_t>(1, slice.tokens / static_cast<int64_t>(kDrawn));
  s.count = scale * static_cast<int64_t>(kDrawn);
  double sum = 0;
  for (const double v : values) sum += v;
  s.mean = sum / static_cast<double>(kDrawn);
  s.min = values.front();
  s.max = values.back();
  s.p50 = At(values, 0.5);
  s.p90 = At(values, 0.9);
  s.p95 = At(values, 0.95);
  s.p99 = At(values, 0.99);
  s.p999 = At(values, 0.999);
  report->quantities.push_back({shape.name, slice.name, s});
  report->histograms.push_back(HistogramOf(values, shape.name, slice.name, scale));
}

void AddCurve(const SliceShape& slice, uint64_t seed, ReportData* report) {
  Random random(seed);
  struct Token {
    double margin;
    bool top1, top5;
  };
  std::vector<Token> tokens(kDrawn);
  for (Token& token : tokens) {
    token.margin = std::exp(0.6 + 1.3 * random.Normal());
    token.top1 = random.Uniform() < 0.5 * std::exp(-token.margin / (0.06 * slice.drift));
    token.top5 = random.Uniform() < 0.9 * std::exp(-token.margin / (0.25 * slice.drift));
  }
  const int64_t scale = std::max<int64_t>(1, slice.tokens / static_cast<int64_t>(kDrawn));
  DisagreementCurve curve{slice.name, scale * static_cast<int64_t>(kDrawn), {}};
  for (int step = -12; step <= 10; ++step) {
    DisagreementPoint point;
    point.margin = std::ldexp(1.0, step / 2) * (step % 2 == 0 ? 1 : step > 0 ? 1.5 : 0.75);
    for (const Token& token : tokens) {
      if (token.margin > point.margin) continue;
      point.tokens += scale;
      point.top1 += token.top1 ? scale : 0;
      point.top5 += token.top5 ? scale : 0;
    }
    curve.points.push_back(point);
  }
  report->curves.push_back(std::move(curve));
}

void AddWorst(const SliceShape& slice, const std::string& quantity, int rows, uint64_t seed,
              ReportData* report) {
  constexpr std::array<std::string_view, 5> kContexts = {
      "…therefore the integral converges only if ⟦p⟧ > 1, since the tail…",
      "…    return cache.get(key, ⟦default⟧)\n\n  def evict(self):…",
      "…le traité fut signé à ⟦Utrecht⟧ en 1713, mettant fin à…",
      "…I can't help with that, but here is ⟦a⟧ safer alternative you might…",
      "…在这种情况下，模型应当⟦拒绝⟧回答并说明原因…"};
  double value = 0;
  for (const QuantitySlice& row : report->quantities) {
    if (row.quantity == quantity && row.slice == slice.name) value = row.statistics.max;
  }
  Random random(seed);
  for (int i = 0; i < rows; ++i) {
    WorstToken token{quantity, slice.name, value, "req-" + std::to_string(1000 + i * 37),
                     0,        0,          {},    {}};
    token.position = static_cast<int64_t>(random.Uniform() * 8000);
    token.token = static_cast<int64_t>(random.Uniform() * 150000);
    if (i % 3 != 2) token.context = kContexts[static_cast<size_t>(i) % kContexts.size()];
    if (i % 2 == 0) token.tags = {"code", "long"};
    report->worst.push_back(std::move(token));
    value *= 0.8 + 0.19 * random.Uniform();
  }
}

}  // namespace kcc
