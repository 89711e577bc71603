#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/bounds/fp32_dot.h"
#include "bench/bounds/toy_quantize.h"
#include "bench/bounds/toy_transformer.h"

namespace kcc::bench {
namespace {

using Vector = std::vector<double>;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

class Run {
 public:
  Run(const ToyTransformer& network, const ToyKernel& kernel, ModelDescription* model)
      : net_(network), kernel_(kernel), model_(model) {}

  Logits Logits_(const std::vector<int>& tokens) {
    std::vector<Vector> x;
    for (const int token : tokens) {
      const auto row = net_.embedding.values.begin() + token * net_.width;
      x.emplace_back(row, row + net_.width);
    }
    for (size_t l = 0; l < net_.layers.size(); ++l) {
      LayerDescription* stats = model_ ? &model_->layers[l] : nullptr;
      if (stats) stats->residual_rms_max = 0;
      if (stats) stats->attention_rms_min = LeastRms(x);
      Attention(net_.layers[l], x, stats);
      if (stats) stats->residual_rms_max = MostRms(x);
      if (stats) stats->mlp_rms_min = LeastRms(x);
      for (Vector& row : x) Mlp(net_.layers[l], row, stats);
      if (stats) stats->residual_rms_max = std::fmax(stats->residual_rms_max, MostRms(x));
    }
    if (model_) model_->final_rms_min = LeastRms(x);
    Logits logits;
    for (const Vector& row : x) {
      Vector y = Norm(row, net_.final_gain);
      Vector z;
      for (int64_t i = 0; i < net_.vocabulary; ++i) {
        z.push_back(Store(Dot(net_.lm_head.values.data() + i * net_.width, y.data(), net_.width)));
        if (kernel_.rounds_logits) z.back() = RoundTo(DType::kBF16, z.back());
      }
      logits.push_back(std::move(z));
    }
    return logits;
  }

 private:
  static double NormOf(const double* x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
    return std::sqrt(sum);
  }
  static void Raise(double& most, double value) { most = std::fmax(most, value * (1 + 1e-12)); }
  static double Rms(const Vector& x) {
    const auto n = static_cast<int64_t>(x.size());
    return NormOf(x.data(), n) / std::sqrt(static_cast<double>(n));
  }
  static double LeastRms(const std::vector<Vector>& x) {
    double least = std::numeric_limits<double>::infinity();
    for (const Vector& row : x) least = std::fmin(least, Rms(row));
    return least * (1 - 1e-12);
  }
  static double MostRms(const std::vector<Vector>& x) {
    double most = 0;
    for (const Vector& row : x) most = std::fmax(most, Rms(row));
    return most * (1 + 1e-12);
  }

  // Every elementary result passes here: fp32 kernels round it, others keep the double.
  double Op(double value) const {
    return kernel_.fp32 ? static_cast<double>(static_cast<float>(value)) : value;
  }
  double Store(double value) const {
    return kernel_.rounds_store ? RoundTo(kernel_.store, value) : value;
  }

  double Dot(const double* a, const double* b, int64_t n) const {
    if (kernel_.fp32) {
      return static_cast<double>(Fp32Dot(a, b).Run(kernel_.schedule, n, kernel_.block));
    }
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
  }

  Vector Norm(const Vector& x, const Vector& gain) const {
    const auto n = static_cast<int64_t>(x.size());
    const double mean = Op(Dot(x.data(), x.data(), n) / static_cast<double>(n));
    const double root = Op(std::sqrt(mean));
    Vector y;
    for (size_t i = 0; i < x.size(); ++i) y.push_back(Store(Op(Op(x[i] / root) * gain[i])));
    return y;
  }

  Vector Linear(const Matrix& m, const Vector& input) const {
    Vector x = input;
    QuantizeVector(x.data(), static_cast<int64_t>(x.size()), kernel_.activations);
    Vector y;
    for (int64_t i = 0; i < m.rows; ++i) {
      y.push_back(Store(Dot(m.values.data() + i * m.columns, x.data(), m.columns)));
    }
    return y;
  }

  void Rope(Vector& x, int64_t position) const {
    for (int64_t i = 0; i < net_.width; i += 2) {
      const double frequency = std::pow(
          10000.0, -static_cast<double>(i % net_.head_dim) / static_cast<double>(net_.head_dim));
      const double angle = static_cast<double>(position) * frequency;
      const double c = Op(std::cos(angle));
      const double s = Op(std::sin(angle));
      const double a = x[Index(i)];
      const double b = x[Index(i + 1)];
      x[Index(i)] = Store(Op(Op(a * c) - Op(b * s)));
      x[Index(i + 1)] = Store(Op(Op(a * s) + Op(b * c)));
    }
  }

  void Cache(Vector& x) const {
    for (int64_t h = 0; h < net_.heads; ++h) {
      QuantizeVector(x.data() + h * net_.head_dim, net_.head_dim, kernel_.kv_cache);
    }
  }

  void Attention(const ToyLayer& layer, std::vector<Vector>& x, LayerDescription* stats) const {
    std::vector<Vector> keys, values;
    for (size_t t = 0; t < x.size(); ++t) {
      const Vector y = Norm(x[t], layer.attention_gain);
      Vector q = Linear(layer.query, y);
      keys.push_back(Linear(layer.key, y));
      values.push_back(Linear(layer.value, y));
      Rope(q, static_cast<int64_t>(t));
      Rope(keys.back(), static_cast<int64_t>(t));
      if (stats) {
        Raise(stats->maxima.attention_input, NormOf(y.data(), net_.width));
        for (int64_t h = 0; h < net_.width; h += net_.head_dim) {
          Raise(stats->maxima.query_head, NormOf(q.data() + h, net_.head_dim));
          Raise(stats->maxima.key_head, NormOf(keys.back().data() + h, net_.head_dim));
          Raise(stats->maxima.value_head, NormOf(values.back().data() + h, net_.head_dim));
        }
      }
      Cache(keys.back());
      Cache(values.back());
      Vector o;
      for (int64_t h = 0; h < net_.heads; ++h) {
        const Vector head = kernel_.fp32 || kernel_.fp32_attention || kernel_.bf16_probabilities
                                ? OnlineHead(q, keys, values, h)
                                : ExactHead(q, keys, values, h);
        for (const double v : head) o.push_back(Store(v));
      }
      const Vector added = Linear(layer.output, o);
      for (size_t i = 0; i < x[t].size(); ++i) x[t][i] = Store(Op(x[t][i] + added[i]));
    }
  }

  Vector ExactHead(const Vector& q, const std::vector<Vector>& keys,
                   const std::vector<Vector>& values, int64_t head) const {
    const int64_t at = head * net_.head_dim;
    Vector scores;
    for (const Vector& k : keys) {
      scores.push_back(Dot(q.data() + at, k.data() + at, net_.head_dim) /
                       std::sqrt(static_cast<double>(net_.head_dim)));
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (double& s : scores) total += s = std::exp(s - top);
    Vector o(Index(net_.head_dim));
    for (size_t j = 0; j < keys.size(); ++j) {
      for (size_t i = 0; i < o.size(); ++i) o[i] += scores[j] / total * values[j][Index(at) + i];
    }
    return o;
  }

  // Online softmax in fp32: running maximum, sum and output, rescaled a tile at a time.
  Vector OnlineHead(const Vector& q, const std::vector<Vector>& keys,
                    const std::vector<Vector>& values, int64_t head) const {
    const size_t at = Index(head * net_.head_dim);
    const size_t n = Index(net_.head_dim);
    const float scale = 1.0f / std::sqrt(static_cast<float>(net_.head_dim));
    const size_t tile = kernel_.attention_tile == 0 ? keys.size() : Index(kernel_.attention_tile);
    float top = -std::numeric_limits<float>::infinity();
    float total = 0;
    std::vector<float> o(n, 0.0f);
    for (size_t begin = 0; begin < keys.size(); begin += tile) {
      const size_t end = std::min(begin + tile, keys.size());
      std::vector<float> scores;
      float tile_top = top;
      for (size_t j = begin; j < end; ++j) {
        const Fp32Dot dot(q.data() + at, keys[j].data() + at);
        scores.push_back(dot.Run(kernel_.schedule, net_.head_dim, kernel_.block) * scale);
        tile_top = std::fmax(tile_top, scores.back());
      }
      const float rescale = std::exp(top - tile_top);
      top = tile_top;
      float tile_total = 0;
      std::vector<float> tile_o(n, 0.0f);
      for (size_t j = begin; j < end; ++j) {
        const float p = std::exp(scores[j - begin] - top);
        tile_total += p;
        const float cast = kernel_.bf16_probabilities ? BF16ToFloat(FloatToBF16(p)) : p;
        for (size_t i = 0; i < n; ++i) {
          tile_o[i] += cast * static_cast<float>(values[j][at + i]);
        }
      }
      total = total * rescale + tile_total;
      for (size_t i = 0; i < n; ++i) o[i] = o[i] * rescale + tile_o[i];
    }
    Vector out;
    for (const float v : o) out.push_back(static_cast<double>(v / total));
    return out;
  }

  void Mlp(const ToyLayer& layer, Vector& x, LayerDescription* stats) const {
    const Vector y = Norm(x, layer.mlp_gain);
    const Vector a = Linear(layer.gate, y);
    const Vector b = Linear(layer.up, y);
    Vector h;
    for (size_t i = 0; i < a.size(); ++i) {
      const double silu = Op(a[i] / Op(1.0 + Op(std::exp(-a[i]))));
      h.push_back(Store(Op(silu * b[i])));
    }
    if (stats) {
      Raise(stats->maxima.mlp_input, NormOf(y.data(), net_.width));
      Raise(stats->maxima.hidden, NormOf(h.data(), net_.hidden));
      for (size_t i = 0; i < a.size(); ++i) {
        Raise(stats->maxima.gate_abs, std::fabs(a[i]));
        Raise(stats->maxima.up_abs, std::fabs(b[i]));
      }
    }
    const Vector added = Linear(layer.down, h);
    for (size_t i = 0; i < x.size(); ++i) x[i] = Store(Op(x[i] + added[i]));
  }

  const ToyTransformer& net_;
  const ToyKernel& kernel_;
  ModelDescription* model_;
};

}  // namespace

Logits Forward(const ToyTransformer& network, const ToyKernel& kernel,
               const std::vector<int>& tokens, ModelDescription* model) {
  return Run(network, kernel, model).Logits_(tokens);
}

}  // namespace kcc::bench
