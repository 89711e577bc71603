#include "bench/bounds/report_case.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "bench/bounds/token_case.h"

namespace kcc::bench {
namespace {

constexpr Aggregate kAggregates[] = {Aggregate::kMean, Aggregate::kMax, Aggregate::kP50,
                                     Aggregate::kP90,  Aggregate::kP99, Aggregate::kRate};

// Nodes of one depth: all prefixes of that length, or one.
size_t NodesAt(const ReportCase& c, int depth) {
  size_t count = 1;
  const auto branches = static_cast<size_t>(c.ends ? c.vocabulary - 1 : c.vocabulary);
  for (int d = 0; d < depth && !c.by_depth; ++d) count *= branches;
  return count;
}

// The least value that no more than `beyond` of the mass exceeds. Rows are (value, mass).
Real Quantile(std::vector<std::pair<Real, Real>> rows, Real beyond) {
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a > b; });
  Real total = 0;
  for (const auto& row : rows) total += row.second;
  Real above = 0;
  for (const auto& [value, mass] : rows) {
    above += mass;
    if (above > beyond * total * (1 + 1e-15L)) return value;
  }
  return rows.empty() ? 0 : std::fmin(0.0L, rows.back().first);
}

// Rows are (value, mass).
Real Aggregated(const std::vector<std::pair<Real, Real>>& rows, Aggregate how) {
  Real total = 0;
  Real sum = 0;
  Real nonzero = 0;
  Real most = rows.front().first;
  for (const auto& [value, mass] : rows) {
    total += mass;
    sum += mass * value;
    nonzero += value == 0 ? 0 : mass;
    most = std::fmax(most, value);
  }
  if (how == Aggregate::kMean) return sum / total;
  if (how == Aggregate::kRate) return nonzero / total;
  if (how == Aggregate::kMax) return most;
  return Quantile(rows, 1 - static_cast<Real>(PercentilePpm(how)) / 1'000'000);
}

double Moved(double value, double by, double limit) {
  return std::clamp(value + by, -limit, limit);
}

int SignOf(Real value) { return value < 0 ? -1 : 1; }

}  // namespace

ReportCase ReportCase::Sample(Random& random) {
  ReportCase c;
  c.ends = random.Chance(0.7);
  c.vocabulary = 2 + random.Below(c.ends ? 3 : 2);
  const int branches = c.ends ? c.vocabulary - 1 : c.vocabulary;
  c.tokens = 1 + random.Below(branches <= 2 ? 6 : 4);
  if (random.Chance(0.3)) c.tokens = 2;
  c.by_depth = random.Chance(0.4);
  c.train_draws = random.Chance(0.25);
  c.temperature = random.Chance(0.5) ? 1 : random.LogUniform(0.2, 3);
  c.offset = random.Chance(0.5) ? 0 : random.Normal();
  c.cut = random.Chance(0.3) ? 0.99 : random.Uniform(0.3, 1);
  c.aggregate = random.Chance(0.4) ? Aggregate::kMean : kAggregates[random.Below(6)];
  const double span = random.LogUniform(1e-5, 12);
  const double spread = random.Chance(0.3) ? 0 : random.LogUniform(0.1, 8);
  const bool two_point = random.Chance(0.6);
  const double still = random.Chance(0.5) ? 0 : random.Uniform();  // share of nodes without drift
  const int prompts = 1 + random.Below(3);
  for (int i = 0; i < prompts; ++i) {
    Prompt prompt;
    prompt.weight = random.Chance(0.5) ? 1 : random.LogUniform(1e-3, 1);
    // Prompts may differ in how early they end and in how far the two sides are apart.
    const double end = random.Chance(0.5) ? 0 : 6 * random.Normal();
    const double drift = random.Chance(0.5) ? span : span * random.LogUniform(1e-3, 1);
    for (int depth = 0; depth < c.tokens; ++depth) {
      for (size_t n = NodesAt(c, depth); n > 0; --n) {
        const bool moved = !random.Chance(still);
        for (int v = 0; v < c.vocabulary; ++v) {
          const double level = two_point ? (random.Chance(0.5) ? 1.0 : 0.0) : random.Uniform();
          prompt.logits.push_back(spread * random.Normal() + (v == 0 && c.ends ? end : 0));
          prompt.delta.push_back(moved ? drift * level : 0);
        }
      }
    }
    c.prompts.push_back(std::move(prompt));
  }
  c.Derive();
  return c;
}

ReportCase ReportCase::Perturbed(Random& random, double step) const {
  ReportCase c = *this;
  const bool all = random.Chance(0.3);
  int places = 2;
  for (const Prompt& prompt : prompts) places += 2 + 2 * static_cast<int>(prompt.logits.size());
  const int pick = random.Below(places);
  int at = 0;
  const auto move = [&] { return (all || at++ == pick) ? step * random.Normal() : 0.0; };
  c.offset = Moved(c.offset, move(), 20);
  c.cut = std::clamp(c.cut + 0.1 * move(), 0.01, 1.0);
  for (Prompt& prompt : c.prompts) {
    prompt.weight = std::clamp(prompt.weight * std::exp(move()), 1e-6, 1.0);
    const double scale = std::exp(0.5 * move());
    for (size_t i = 0; i < prompt.logits.size(); ++i) {
      prompt.logits[i] = Moved(prompt.logits[i], move(), 30);
      prompt.delta[i] = Moved(scale * prompt.delta[i], widest * 0.3 * move(), 30);
    }
  }
  c.Derive();
  return c;
}

void ReportCase::Derive() {
  nodes.clear();
  paths.clear();
  implied = {};
  widest = 0;
  Real total = 0;
  for (const Prompt& prompt : prompts) total += prompt.weight;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Path path;
    path.prompt = i;
    path.mass = prompts[i].weight / total;
    Grow(i, 0, 0, path);
  }
}

void ReportCase::Grow(size_t prompt, size_t depth, size_t index, const Path& path) {
  const auto width = static_cast<size_t>(vocabulary);
  size_t base = by_depth ? depth : index;
  for (int d = 0; d < static_cast<int>(depth) && !by_depth; ++d) base += NodesAt(*this, d);
  const double* logits = prompts[prompt].logits.data() + base * width;
  const double* delta = prompts[prompt].delta.data() + base * width;
  // Relative to infer's likeliest token, as in TokenCase.
  const auto mode = static_cast<size_t>(std::max_element(logits, logits + width) - logits);
  Node node;
  node.prompt = prompt;
  node.mass = path.mass;
  node.log_w = path.log_w;
  Real sum = 0;
  for (size_t v = 0; v < width; ++v) {
    node.q.push_back(std::exp(static_cast<Real>(logits[v]) - logits[mode]));
    sum += node.q.back();
  }
  Real excess = 0;
  for (size_t v = 0; v < width; ++v) {
    node.q[v] /= sum;
    node.x.push_back(static_cast<Real>(delta[v]) - delta[mode]);
    excess += node.q[v] * std::expm1(node.x[v]);
  }
  const Real log_mean = std::log1p(excess);
  Real mean = 0;
  for (size_t v = 0; v < width; ++v) mean += delta[v] / static_cast<Real>(width);
  const auto [least, most] = std::minmax_element(delta, delta + width);
  Real tv = 0, kl = 0, reverse = 0, squares = 0, raw_squares = 0, raw = 0;
  for (size_t v = 0; v < width; ++v) {
    node.x[v] -= log_mean;
    if (*most == *least) node.x[v] = 0;
    if (node.x[v] < 0) tv += node.q[v] * -std::expm1(node.x[v]);
    kl += node.q[v] * KlTerm(node.x[v]);
    reverse += node.q[v] * ReverseKlTerm(node.x[v]);
    squares += (delta[v] - mean) * (delta[v] - mean);
    const Real shifted = static_cast<Real>(delta[v]) + offset;
    raw_squares += shifted * shifted;
    raw = std::fmax(raw, std::fabs(shifted));
  }
  if (*most == *least) squares = 0;
  const Real span = static_cast<Real>(*most) - *least;
  widest = std::fmax(widest, static_cast<double>(span));
  const Real tau = temperature;
  node.values = {
      span, tau * span / 2, tau * raw, tau * std::sqrt(squares), tau * std::sqrt(raw_squares), tv,
      kl,   reverse};
  const size_t here = nodes.size();
  nodes.push_back(node);
  for (size_t v = 0; v < width; ++v) {
    Path next = path;
    next.mass *= node.q[v];
    next.log_w += node.x[v];
    next.steps.push_back({here, v});
    const bool over = (ends && v == 0) || depth + 1 == static_cast<size_t>(tokens);
    if (over) {
      paths.push_back(std::move(next));
    } else {
      const size_t branch = ends ? v - 1 : v;
      Grow(prompt, depth + 1, index * (ends ? width - 1 : width) + branch, next);
    }
  }
}

Real ReportCase::Drawn(const Node& node) const {
  return train_draws ? node.mass * std::exp(node.log_w) : node.mass;
}

Real ReportCase::Drawn(const Path& path) const {
  return train_draws ? path.mass * std::exp(path.log_w) : path.mass;
}

Real ReportCase::Value(size_t quantity, const Step& step) const {
  const Node& node = nodes[step.node];
  if (quantity < kFirstSampled) return node.values[quantity];
  return std::fabs(node.x[step.token]);  // the others have no single values that imply anything
}

Real ReportCase::Metric(size_t quantity, Aggregate how) const {
  // In expectation w log w is kl, and k1 and k3 are reverse_kl.
  if (quantity >= kFirstMeanOnly) return Metric(quantity == kFirstMeanOnly ? 6 : 7, how);
  std::vector<std::pair<Real, Real>> rows;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (quantity < kFirstSampled) {
      rows.emplace_back(nodes[n].values[quantity], Drawn(nodes[n]));
      continue;
    }
    for (size_t v = 0; v < nodes[n].q.size(); ++v) {
      rows.emplace_back(Value(quantity, {n, v}), nodes[n].mass * nodes[n].q[v]);
    }
  }
  return Aggregated(rows, how);
}

Real ReportCase::MetricOf(const Path& path, size_t quantity, Aggregate how) const {
  std::vector<std::pair<Real, Real>> rows;
  for (const Step& step : path.steps) rows.emplace_back(Value(quantity, step), 1);
  return Aggregated(rows, how);
}

Real ReportCase::WindowQuantile(const std::vector<Real>& values, Real beyond) const {
  std::vector<std::pair<Real, Real>> rows;
  for (size_t i = 0; i < paths.size(); ++i) rows.emplace_back(values[i], Drawn(paths[i]));
  return Quantile(std::move(rows), beyond);
}

Real ReportCase::WindowsBeyond(const std::vector<Real>& values, Real value) const {
  Real beyond = 0;
  Real total = 0;
  for (size_t i = 0; i < paths.size(); ++i) {
    total += Drawn(paths[i]);
    if (values[i] > value) beyond += Drawn(paths[i]);
  }
  return beyond / total;
}

// The sum of a term over prompts (each times its share), or the largest of one prompt.
template <class Term>
Real ReportCase::OverPrompts(bool every, Term add) const {
  std::vector<Real> sums(prompts.size());
  add(&sums);
  Real sum = 0;
  Real most = 0;
  Real total = 0;
  for (const Prompt& prompt : prompts) total += prompt.weight;
  for (size_t i = 0; i < prompts.size(); ++i) {
    sum += sums[i];
    most = std::fmax(most, sums[i] / (prompts[i].weight / total));
  }
  return every ? most : sum;
}

Real ReportCase::SequenceTv(bool every) const {
  return OverPrompts(every, [&](std::vector<Real>* sums) {
    for (const Path& path : paths) {
      (*sums)[path.prompt] += path.mass * std::fabs(std::expm1(path.log_w)) / 2;
    }
  });
}

Real ReportCase::SequenceKl(bool reverse) const {
  Real most = 0;
  for (const Path& path : paths) {
    Real sum = 0;
    for (const Step& step : path.steps) sum += nodes[step.node].values[reverse ? 7 : 6];
    most = std::fmax(most, sum);
  }
  return most;
}

Real ReportCase::TrajectoryBias(AdvantageKind kind, bool every) const {
  return OverPrompts(every, [&](std::vector<Real>* sums) {
    if (kind == AdvantageKind::kOutcome) {
      for (const Path& path : paths) {
        (*sums)[path.prompt] +=
            path.mass * std::fabs(std::expm1(path.log_w)) * static_cast<Real>(path.steps.size());
      }
      return;
    }
    for (const Node& node : nodes) {
      for (size_t v = 0; v < node.q.size(); ++v) {
        (*sums)[node.prompt] +=
            node.mass * node.q[v] * std::fabs(std::expm1(node.log_w + node.x[v]));
      }
    }
  });
}

// For outcomes what is attained: A and the scores S_t are signs, each the best for the others in
// turn. At two tokens A = S_1 S_2 with S_t = sign(w_t - 1) is the best there is.
Real ReportCase::TokenWeightBias(AdvantageKind kind, bool every) const {
  return OverPrompts(every, [&](std::vector<Real>* sums) {
    if (kind == AdvantageKind::kToken) {
      for (const Node& node : nodes) {
        (*sums)[node.prompt] += node.mass * std::fabs(std::expm1(node.log_w));
      }
      return;
    }
    const auto width = static_cast<size_t>(vocabulary);
    const auto cost = [&](const Path& path, const Step& step) {  // Q (W - w_t)
      const Real x = nodes[step.node].x[step.token];
      return path.mass * std::exp(x) * std::expm1(path.log_w - x);
    };
    std::vector<Real> score(nodes.size() * width);
    for (size_t n = 0; n < nodes.size(); ++n) {
      for (size_t v = 0; v < width; ++v) score[n * width + v] = SignOf(nodes[n].x[v]);
    }
    for (int round = 0; round < 4; ++round) {
      std::vector<Real> pull(score.size());
      std::fill(sums->begin(), sums->end(), 0.0L);
      for (const Path& path : paths) {
        Real bias = 0;
        for (const Step& step : path.steps) {
          // A path of one token has W = w_1, whatever rounding says.
          if (path.steps.size() > 1) {
            bias += cost(path, step) * score[step.node * width + step.token];
          }
        }
        (*sums)[path.prompt] += std::fabs(bias);
        for (const Step& step : path.steps) {
          pull[step.node * width + step.token] += SignOf(bias) * cost(path, step);
        }
      }
      for (size_t i = 0; i < score.size(); ++i) score[i] = SignOf(pull[i]);
    }
  });
}

std::string ReportCase::Describe() const {
  char text[160];
  std::snprintf(text, sizeof text, "V=%d T=%d s=%.3g%s%s prompts=%zu %s cut=%.3g%s", vocabulary,
                tokens, widest, ends ? " ends" : "", by_depth ? " by depth" : "", prompts.size(),
                std::string(AggregateName(aggregate)).c_str(), cut,
                train_draws ? " train draws" : "");
  return text;
}

}  // namespace kcc::bench
