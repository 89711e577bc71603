#include <algorithm>
#include <cmath>

#include "bench/bounds/toy_quantize.h"
#include "bench/bounds/toy_transformer.h"

namespace kcc::bench {
namespace {

Matrix SampleMatrix(Random& random, int64_t rows, int64_t columns, double scale) {
  Matrix m{rows, columns, {}};
  for (int64_t i = 0; i < rows * columns; ++i) {
    // A few outliers, as trained weights have; fp32, as checkpoints are.
    const double outlier = random.Chance(0.002) ? 6 : 1;
    m.values.push_back(static_cast<float>(outlier * scale * random.Normal() /
                                          std::sqrt(static_cast<double>(columns))));
  }
  return m;
}

std::vector<double> SampleGain(Random& random, int64_t n) {
  std::vector<double> gain;
  for (int64_t i = 0; i < n; ++i) {
    gain.push_back(static_cast<float>(1 + 0.2 * random.Normal()));
  }
  return gain;
}

double MaxAbs(const std::vector<double>& x) {
  double most = 0;
  for (const double v : x) most = std::fmax(most, std::fabs(v));
  return most;
}

// ||W||_2^2 <= ||(W^T W)^16||_F^{1/16}: an upper bound within n^{1/64}, unlike power iteration.
double SpectralUpperBound(const Matrix& m) {
  const auto n = static_cast<size_t>(m.columns);
  std::vector<double> gram(n * n);
  for (int64_t r = 0; r < m.rows; ++r) {
    for (size_t i = 0; i < n; ++i) {
      const double a = m.At(r, static_cast<int64_t>(i));
      for (size_t j = 0; j < n; ++j) gram[i * n + j] += a * m.At(r, static_cast<int64_t>(j));
    }
  }
  for (int squaring = 0; squaring < 4; ++squaring) {
    std::vector<double> square(n * n);
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < n; ++k) {
        for (size_t j = 0; j < n; ++j) square[i * n + j] += gram[i * n + k] * gram[k * n + j];
      }
    }
    gram = std::move(square);
  }
  double squares = 0;
  for (const double g : gram) squares += g * g;
  return std::pow(squares, 1.0 / 64) * (1 + 1e-12);
}

WeightNorms Norms(const Matrix& m) {
  WeightNorms n;
  n.rows = m.rows;
  n.columns = m.columns;
  double squares = 0, row_max_squares = 0, group_squares = 0;
  for (int64_t i = 0; i < m.rows; ++i) {
    double row_squares = 0, row_max = 0;
    for (int64_t begin = 0; begin < m.columns; begin += kToyGroup) {
      const int64_t end = std::min(begin + kToyGroup, m.columns);
      double group_max = 0;
      for (int64_t j = begin; j < end; ++j) {
        const double a = std::fabs(m.At(i, j));
        row_squares += a * a;
        group_max = std::fmax(group_max, a);
      }
      group_squares += static_cast<double>(end - begin) * group_max * group_max;
      row_max = std::fmax(row_max, group_max);
    }
    squares += row_squares;
    row_max_squares += row_max * row_max;
    n.max_abs = std::fmax(n.max_abs, row_max);
    n.max_row_l2 = std::fmax(n.max_row_l2, std::sqrt(row_squares));
  }
  n.frobenius = std::sqrt(squares) * (1 + 1e-12);
  n.row_max_l2 = std::sqrt(row_max_squares) * (1 + 1e-12);
  n.group_max_l2 = std::sqrt(group_squares) * (1 + 1e-12);
  n.spectral = SpectralUpperBound(m);
  return n;
}

void QuantizeMatrix(Matrix& m, const QuantizerDescription& quantizer) {
  const int64_t all = m.rows * m.columns;
  int64_t chunk = all;
  if (quantizer.granularity == Granularity::kPerChannel) chunk = m.columns;
  if (quantizer.granularity == Granularity::kPerGroup) chunk = kToyGroup;
  for (int64_t begin = 0; begin < all; begin += chunk) {
    QuantizeVector(m.values.data() + begin, std::min(chunk, all - begin), quantizer);
  }
}

}  // namespace

ToyTransformer ToyTransformer::Sample(Random& random, int64_t layers) {
  ToyTransformer t;
  t.width = 32;
  t.heads = 4;
  t.head_dim = 8;
  t.hidden = 64;
  t.vocabulary = 96;
  t.embedding = SampleMatrix(random, t.vocabulary, t.width, std::sqrt(32.0));
  for (int64_t l = 0; l < layers; ++l) {
    ToyLayer layer;
    layer.attention_gain = SampleGain(random, t.width);
    layer.mlp_gain = SampleGain(random, t.width);
    layer.query = SampleMatrix(random, t.width, t.width, 1);
    layer.key = SampleMatrix(random, t.width, t.width, 1);
    layer.value = SampleMatrix(random, t.width, t.width, 0.5);
    layer.output = SampleMatrix(random, t.width, t.width, 0.5);
    layer.gate = SampleMatrix(random, t.hidden, t.width, 0.7);
    layer.up = SampleMatrix(random, t.hidden, t.width, 0.7);
    layer.down = SampleMatrix(random, t.width, t.hidden, 0.5);
    t.layers.push_back(std::move(layer));
  }
  t.final_gain = SampleGain(random, t.width);
  t.lm_head = SampleMatrix(random, t.vocabulary, t.width, 2);
  return t;
}

ToyTransformer QuantizeWeights(const ToyTransformer& network, const QuantizerDescription& quantizer,
                               bool lm_head) {
  ToyTransformer q = network;
  for (ToyLayer& l : q.layers) {
    for (Matrix* m : {&l.query, &l.key, &l.value, &l.output, &l.gate, &l.up, &l.down}) {
      QuantizeMatrix(*m, quantizer);
    }
  }
  if (lm_head) QuantizeMatrix(q.lm_head, quantizer);
  return q;
}

ModelDescription Describe(const ToyTransformer& network, int64_t context) {
  ModelDescription d;
  d.width = network.width;
  d.heads = network.heads;
  d.head_dim = network.head_dim;
  d.context = context;
  for (const ToyLayer& l : network.layers) {
    LayerDescription layer;
    layer.query = Norms(l.query);
    layer.key = Norms(l.key);
    layer.value = Norms(l.value);
    layer.output = Norms(l.output);
    layer.gate = Norms(l.gate);
    layer.up = Norms(l.up);
    layer.down = Norms(l.down);
    layer.attention_gain_max = MaxAbs(l.attention_gain);
    layer.mlp_gain_max = MaxAbs(l.mlp_gain);
    d.layers.push_back(layer);
  }
  d.final_gain_max = MaxAbs(network.final_gain);
  d.lm_head = Norms(network.lm_head);
  return d;
}

}  // namespace kcc::bench
