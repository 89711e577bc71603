#include "kcc/stats/multiplicity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kcc/base/check.h"
#include "kcc/base/constants.h"

namespace kcc {
namespace {

// Positions sorted by value; equal values keep their order, so the answer is reproducible.
std::vector<size_t> Ascending(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] < values[b]; });
  return order;
}

std::vector<double> WithoutNan(std::span<const double> values, double replacement) {
  std::vector<double> out(values.begin(), values.end());
  for (double& v : out) {
    if (std::isnan(v)) v = replacement;
  }
  return out;
}

}  // namespace

std::vector<bool> HolmRejects(std::span<const double> p_values, double alpha) {
  const std::vector<double> p = WithoutNan(p_values, kInf);
  std::vector<bool> rejected(p.size(), false);
  double remaining = static_cast<double>(p.size());
  for (const size_t i : Ascending(p)) {
    if (!(p[i] <= alpha / remaining)) break;
    rejected[i] = true;
    remaining -= 1;
  }
  return rejected;
}

std::vector<bool> EBenjaminiHochbergRejects(std::span<const double> log_e_values, double alpha) {
  std::vector<double> negated = WithoutNan(log_e_values, -kInf);
  for (double& v : negated) v = -v;
  const std::vector<size_t> order = Ascending(negated);
  const double log_family = std::log(static_cast<double>(negated.size()) / alpha);
  size_t rejections = 0;
  for (size_t k = 1; k <= order.size(); ++k) {
    const double needed = log_family - std::log(static_cast<double>(k));
    if (-negated[order[k - 1]] >= needed) rejections = k;
  }
  std::vector<bool> rejected(negated.size(), false);
  for (size_t k = 0; k < rejections; ++k) rejected[order[k]] = true;
  return rejected;
}

double SpentAlpha(double alpha, int64_t j) {
  KCC_CHECK(j >= 1);
  constexpr double kPi = 3.14159265358979323846;
  const double step = kPi * static_cast<double>(j);
  return 6 * alpha / (step * step);
}

double LogMeanE(std::span<const double> log_e_values) {
  KCC_CHECK(!log_e_values.empty());
  const double top = *std::max_element(log_e_values.begin(), log_e_values.end());
  if (std::isinf(top)) return top;
  double sum = 0;
  for (const double v : log_e_values) sum += std::exp(v - top);
  return top + std::log(sum / static_cast<double>(log_e_values.size()));
}

}  // namespace kcc
