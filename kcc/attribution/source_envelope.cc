#include "kcc/attribution/source_envelope.h"

#include <algorithm>
#include <cmath>

#include "kcc/bounds/envelope.h"
#include "kcc/lab/lab_kernel.h"

namespace kcc {
namespace {

// M^T M. Each entry is summed over the rows in their order, whatever is done at once: four rows, so
// that a sum is loaded and stored once for all of them, in a band of sums that stays in the cache.
// The product is symmetric to the last bit, so half of it is computed.
std::vector<double> Gram(std::span<const double> m, size_t rows, size_t columns) {
  constexpr size_t kBand = 16;
  std::vector<double> gram(columns * columns);
  for (size_t begin = 0; begin < columns; begin += kBand) {
    const size_t end = std::min(columns, begin + kBand);
    size_t r = 0;
    for (; r + 4 <= rows; r += 4) {
      const double* a = &m[r * columns];
      const double* b = a + columns;
      const double* c = b + columns;
      const double* d = c + columns;
      for (size_t i = begin; i < end; ++i) {
        double* sums = &gram[i * columns];
        for (size_t j = begin; j < columns; ++j) {
          sums[j] = sums[j] + a[i] * a[j] + b[i] * b[j] + c[i] * c[j] + d[i] * d[j];
        }
      }
    }
    for (; r < rows; ++r) {
      const double* row = &m[r * columns];
      for (size_t i = begin; i < end; ++i) {
        for (size_t j = begin; j < columns; ++j) gram[i * columns + j] += row[i] * row[j];
      }
    }
    for (size_t i = begin; i < end; ++i) {
      for (size_t j = end; j < columns; ++j) gram[j * columns + i] = gram[i * columns + j];
    }
  }
  return gram;
}

// An upper bound on the spectral norm: ||G^8||_F^(1/16) for G = W^T W, which is at most
// columns^(1/32) above it; widened for its own rounding.
double SpectralBound(std::span<const float> w, size_t rows, size_t columns) {
  std::vector<double> gram = Gram(std::vector<double>(w.begin(), w.end()), rows, columns);
  double log_scale = 0;  // gram stands for e^log_scale times itself
  const auto frobenius = [&] {
    double sum = 0;
    for (const double value : gram) sum += value * value;
    return std::sqrt(sum);
  };
  for (int squaring = 0; squaring < 3; ++squaring) {
    const double size = frobenius();
    if (size == 0) return 0;
    for (double& value : gram) value /= size;
    log_scale = 2 * (log_scale + std::log(size));
    gram = Gram(gram, columns, columns);  // its square, since it is symmetric
  }
  return std::exp((log_scale + std::log(frobenius())) / 16) * (1 + 1e-9);
}

WeightNorms NormsOf(std::span<const float> w, size_t rows, size_t columns, size_t group) {
  WeightNorms norms;
  norms.rows = static_cast<int64_t>(rows);
  norms.columns = static_cast<int64_t>(columns);
  norms.spectral = SpectralBound(w, rows, columns);
  double squares = 0, row_max = 0, group_max = 0, longest = 0;
  for (size_t r = 0; r < rows; ++r) {
    double row_squares = 0;
    double largest = 0;
    for (size_t begin = 0; begin < columns; begin += group) {
      double of_group = 0;
      for (size_t i = begin; i < std::min(columns, begin + group); ++i) {
        const double value = std::fabs(static_cast<double>(w[r * columns + i]));
        row_squares += value * value;
        of_group = std::max(of_group, value);
      }
      group_max += of_group * of_group;
      largest = std::max(largest, of_group);
    }
    squares += row_squares;
    row_max += largest * largest;
    longest = std::max(longest, row_squares);
    norms.max_abs = std::max(norms.max_abs, largest);
  }
  norms.frobenius = std::sqrt(squares);
  norms.row_max_l2 = std::sqrt(row_max);
  norms.group_max_l2 = std::sqrt(group_max);
  norms.max_row_l2 = std::sqrt(longest);
  return norms;
}

double GainMax(const std::vector<float>& gain) {
  double most = 0;
  for (const float value : gain) most = std::max(most, std::fabs(static_cast<double>(value)));
  return most;
}

ModelDescription DescribeWeights(const Checkpoint& checkpoint, size_t group) {
  const ModelConfig& c = checkpoint.config;
  ModelDescription model;
  model.width = static_cast<int64_t>(c.hidden);
  model.heads = static_cast<int64_t>(c.heads);
  model.head_dim = static_cast<int64_t>(c.head_dim);
  const auto norms = [&](const std::vector<float>& w, size_t rows, size_t columns) {
    return NormsOf(w, rows, columns, group == 0 ? columns : group);
  };
  for (const LayerWeights& w : checkpoint.layers) {
    LayerDescription layer;
    layer.query = norms(w.query, c.queries(), c.hidden);
    layer.key = norms(w.key, c.keys(), c.hidden);
    layer.value = norms(w.value, c.keys(), c.hidden);
    layer.output = norms(w.output, c.hidden, c.queries());
    layer.gate = norms(w.gate, c.ffn, c.hidden);
    layer.up = norms(w.up, c.ffn, c.hidden);
    layer.down = norms(w.down, c.hidden, c.ffn);
    layer.attention_gain_max = GainMax(w.attention_gain);
    layer.mlp_gain_max = GainMax(w.mlp_gain);
    layer.attention_rms_min = layer.mlp_rms_min = 1e300;
    layer.residual_rms_max = 0;
    model.layers.push_back(layer);
  }
  model.final_gain_max = GainMax(checkpoint.final_gain);
  model.final_rms_min = 1e300;
  model.lm_head = norms(checkpoint.lm_head, c.vocab, c.hidden);
  return model;
}

double L2(std::span<const float> row) {
  double sum = 0;
  for (const float value : row) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

double HeadMax(std::span<const float> row, size_t dim) {
  double most = 0;
  for (size_t i = 0; i < row.size(); i += dim) most = std::max(most, L2(row.subspan(i, dim)));
  return most;
}

// What a row at an audit point says about the model's ranges.
void Observe(size_t point, std::span<const float> row, ModelDescription* model) {
  const size_t layers = model->layers.size();
  const double rms = L2(row) / std::sqrt(static_cast<double>(row.size()));
  if (point == kEmbeddingPoint) {
    model->layers[0].attention_rms_min = std::min(model->layers[0].attention_rms_min, rms);
    return;
  }
  if (point >= FinalNormPoint(layers)) return;
  const size_t index = (point - 1) / kLayerPoints;
  LayerDescription& layer = model->layers[index];
  ActivationMaxima& maxima = layer.maxima;
  const auto dim = static_cast<size_t>(model->head_dim);
  const auto raise = [](double value, double* most) { *most = std::max(*most, value); };
  switch (static_cast<AuditPoint>((point - 1) % kLayerPoints)) {
    case AuditPoint::kAttentionNorm:
      return raise(L2(row), &maxima.attention_input);
    case AuditPoint::kQuery:
      return raise(HeadMax(row, dim), &maxima.query_head);
    case AuditPoint::kKey:
      return raise(HeadMax(row, dim), &maxima.key_head);
    case AuditPoint::kValue:
      return raise(HeadMax(row, dim), &maxima.value_head);
    case AuditPoint::kAttentionResidual:
      layer.mlp_rms_min = std::min(layer.mlp_rms_min, rms);
      return raise(rms, &layer.residual_rms_max);
    case AuditPoint::kMlpNorm:
      return raise(L2(row), &maxima.mlp_input);
    case AuditPoint::kGated:
      return raise(L2(row), &maxima.hidden);
    case AuditPoint::kResidual:
      raise(rms, &layer.residual_rms_max);
      if (index + 1 < layers) {
        double& next = model->layers[index + 1].attention_rms_min;
        next = std::min(next, rms);
      } else {
        model->final_rms_min = std::min(model->final_rms_min, rms);
      }
      return;
    default:
      return;
  }
}

QuantizerDescription QuantizerOf(DType format, ScaleGrain grain, int largest_code = 7) {
  QuantizerDescription made;
  made.granularity = grain == ScaleGrain::kTensor    ? Granularity::kPerTensor
                     : grain == ScaleGrain::kChannel ? Granularity::kPerChannel
                                                     : Granularity::kPerGroup;
  if (format == DType::kF32) return made;
  if (format == DType::kI8 || format == DType::kI4) {
    made.quantizer = Quantizer::kInt;
    made.bits = format == DType::kI8 ? 8 : largest_code == 3 ? 3 : 4;
  } else {
    made.quantizer = Quantizer::kScaledFloat;
    made.format = format;
  }
  return made;
}

KernelDescription DescribeKernel(const LabSwitches& s, size_t context) {
  KernelDescription made;
  made.weights = QuantizerOf(s.weights, s.scale, s.largest_code);
  made.quantizes_lm_head = s.lm_head_quantized;
  // An input that is not cast is described as one that is: the envelope stays one.
  const bool casts = CastsActivations(s);
  const DType stored = casts ? s.cast_from : s.activations;
  made.u_store = stored == DType::kF32 ? 0x1p-24 : FloatFormatOf(stored).unit_roundoff;
  if (casts) made.activations = QuantizerOf(s.activations, ScaleGrain::kChannel);
  made.kv_cache = QuantizerOf(s.kv, ScaleGrain::kChannel);
  // A format of b mantissa bits has unit roundoff 2^-(b+1).
  made.u_accumulate = std::ldexp(1.0, -s.accumulator_bits - 1);
  const bool wide = s.accumulator_bits == 52;
  made.u_angle = s.rope == AnglePrecision::kF64   ? 0x1p-51
                 : s.rope == AnglePrecision::kF32 ? 0x1p-22
                                                  : 3 * 0x1p-8;
  const auto n = static_cast<int64_t>(s.attention.n);
  const auto keys = static_cast<int64_t>(context);
  if (s.attention.kind == AttentionKind::kTiles) made.attention_tile = n;
  if (s.attention.kind == AttentionKind::kSplit) made.attention_tile = (keys + n - 1) / n;
  made.u_attention = wide ? 0x1p-53 : 0x1p-24;
  made.exp_error = s.exp == ExpKind::kFast ? 9e-5 : wide ? 0x1p-50 : 2.5e-7;
  made.u_logits = s.logits == DType::kBF16 ? 0x1p-8 : 0x1p-24;
  return made;
}

}  // namespace

struct EnvelopeModel::State {
  ModelDescription model;
};

EnvelopeModel::EnvelopeModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
EnvelopeModel::EnvelopeModel(EnvelopeModel&&) noexcept = default;
EnvelopeModel::~EnvelopeModel() = default;

bool EnvelopeModel::Covers(const ModelConfig& config) {
  return !config.qkv_bias && !config.output_bias && !config.qk_norm;
}

Result<EnvelopeModel> EnvelopeModel::Measure(const Checkpoint& checkpoint,
                                             std::span<const KernelRequest> requests,
                                             size_t group) {
  if (!Covers(checkpoint.config)) {
    return InvalidError(
        "there is no envelope for a model with biases or with norms of its query and key heads; E1 "
        "and "
        "envelopes need one without, such as a Llama");
  }
  auto state = std::make_unique<State>();
  state->model = DescribeWeights(checkpoint, group);
  size_t context = 1;
  for (const KernelRequest& request : requests) context = std::max(context, request.tokens.size());
  state->model.context = static_cast<int64_t>(context);
  LabSwitches exact;
  exact.accumulator_bits = 52;
  exact.audit = AuditLevel::kOff;
  KCC_TRY(const std::unique_ptr<LabKernel> kernel, LabKernel::Make(checkpoint, exact));
  kernel->engine().forward().set_probe(
      [&](size_t, size_t, size_t point, std::span<const float> row) {
        Observe(point, row, &state->model);
      });
  const auto done = kernel->engine().Score(
      requests, [](size_t, size_t, int32_t, std::span<const float>) { return Result<>(); });
  if (!done.has_value()) return done.error();
  return EnvelopeModel(std::move(state));
}

SourceEnvelope EnvelopeModel::Between(const LabSwitches& train, const LabSwitches& infer) const {
  const auto context = static_cast<size_t>(state_->model.context);
  const KernelDescription a = DescribeKernel(train, context);
  const KernelDescription b = DescribeKernel(infer, context);
  const Envelope of_train = EnvelopeOf(state_->model, a, EnvelopeForm::kWorstCase);
  const Envelope of_infer = EnvelopeOf(state_->model, b, EnvelopeForm::kWorstCase);
  SourceEnvelope made;
  made.worst_linf = of_train.linf + of_infer.linf;
  made.vacuous = of_train.vacuous || of_infer.vacuous;
  made.statistical_linf = EnvelopeOf(state_->model, a, EnvelopeForm::kStatistical).linf +
                          EnvelopeOf(state_->model, b, EnvelopeForm::kStatistical).linf;
  return made;
}

std::array<SourceEnvelope, 5> EnvelopeModel::BySource(const LabSwitches& train,
                                                      const LabSwitches& infer) const {
  std::array<SourceEnvelope, 5> envelopes;
  for (size_t i = 0; i < kErrorSources.size(); ++i) {
    envelopes[i] = Between(train, WithSource(train, infer, kErrorSources[i]));
  }
  envelopes[4] = Between(train, infer);
  return envelopes;
}

}  // namespace kcc
