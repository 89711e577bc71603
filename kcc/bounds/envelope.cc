#include "kcc/bounds/envelope.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/check.h"
#include "kcc/bounds/divergence.h"
#include "kcc/bounds/rounding.h"

namespace kcc {
namespace {

// A vector at every position: the exact one's norm and the kernel's distance from it, both l2.
struct Tracked {
  double norm = 0;
  double error = 0;
  double Reach() const { return norm + error; }  // the kernel's own norm at most
};

// A measured maximum, where there is one, against what the weights allow.
double Least(double measured, double allowed) {
  return measured > 0 ? std::fmin(measured, allowed) : allowed;
}

double Root(double x) { return std::sqrt(x); }
double Root(int64_t n) { return std::sqrt(static_cast<double>(n)); }

// The scalar recursion over one model and kernel. In the statistical form independent errors add
// as squares, local errors are root mean squares, and a random error meets a matrix's Frobenius
// norm over sqrt(columns) instead of its spectral norm.
class Recursion {
 public:
  Recursion(const ModelDescription& model, const KernelDescription& kernel, EnvelopeForm form)
      : model_(model), kernel_(kernel), form_(form) {}

  Envelope Run() {
    Envelope envelope;
    double error = 0;  // embeddings are looked up, not computed
    for (const LayerDescription& layer : model_.layers) {
      error = Residual(error, Attention(layer, error), layer.residual_rms_max);
      error = Residual(error, Mlp(layer, error), layer.residual_rms_max);
      envelope.residual.push_back(error);
    }
    envelope.linf = Logits(error);
    envelope.vacuous = vacuous_;
    return envelope;
  }

 private:
  bool statistical() const { return form_ == EnvelopeForm::kStatistical; }
  double Add(double a, double b) const { return statistical() ? std::hypot(a, b) : a + b; }
  // A rounding error uniform in +-u|x| has root mean square u|x|/sqrt 3.
  double Local(double relative, double reach) const {
    return relative * reach * (statistical() ? 1 / Root(3.0) : 1);
  }

  // x/||x|| moves by at most 2||d||/(||x|| + ||x'||) (Dunkl-Williams); eps only lengthens both.
  Tracked Norm(double error, double rms_min, double gain_max, double measured) {
    const double out = gain_max * Root(model_.width);
    const double least = rms_min * Root(model_.width);
    double turn = 2;
    if (error < least) turn = 2 * error / (2 * least - error);
    if (turn >= 1) vacuous_ = true;
    const double u = kernel_.u_accumulate;
    const double relative = statistical() ? Add(3 * u, kernel_.u_store)
                                          : RmsNormRelativeError(model_.width, u, kernel_.u_store);
    return {Least(measured, out), Add(out * turn, Local(relative, out))};
  }

  double Gain(const WeightNorms& w) const {
    return statistical() ? std::min(w.spectral, w.frobenius / Root(w.columns)) : w.spectral;
  }

  // ||(W' - W) x|| and the rounding of the reduction, for ||x|| = reach; `frobenius` may be that
  // of the matrix or of its longest row, for which the same inequalities hold.
  double LinearLocal(const WeightNorms& w, double frobenius, double weight_error,
                     double reach) const {
    const double u = kernel_.u_accumulate;
    if (statistical()) {
      const double reduction = u / Root(2.0) * frobenius * reach;
      return Add(weight_error / Root(w.columns) * reach, reduction);
    }
    const double factor =
        ReductionFactor(kernel_.schedule, w.columns, kernel_.block, u, kernel_.products_round);
    return weight_error * reach + factor * (frobenius + weight_error) * reach;
  }

  Tracked Linear(const Tracked& input, const WeightNorms& w) const {
    const Tracked x = Quantized(input, w.columns, kernel_.activations);
    const double weight_error = WeightErrorFrobenius(w, kernel_.weights, form_);
    Tracked y;
    y.norm = w.spectral * x.norm;
    y.error = Add(Gain(w) * x.error, LinearLocal(w, w.frobenius, weight_error, x.Reach()));
    y.error = Add(y.error, Local(kernel_.u_store, y.Reach()));
    return y;
  }

  Tracked Rope(Tracked x) const {
    const double relative =
        RopeRelativeError(static_cast<double>(model_.context), 1.0, kernel_.u_angle,
                          kernel_.u_accumulate, kernel_.u_store);
    x.error = Add(x.error, Local(relative, x.Reach()));
    return x;
  }

  // A vector quantised with its own scale: amax <= its norm.
  Tracked Quantized(Tracked x, int64_t length, const QuantizerDescription& quantizer) const {
    WeightNorms row;
    row.rows = 1;
    row.columns = length;
    row.frobenius = row.max_abs = row.row_max_l2 = x.Reach();
    row.group_max_l2 = x.Reach() * Root(length);
    x.error = Add(x.error, WeightErrorFrobenius(row, quantizer, form_));
    return x;
  }

  Tracked Cached(const Tracked& x) const { return Quantized(x, model_.head_dim, kernel_.kv_cache); }

  Tracked Head(const Tracked& whole, double measured) const {
    const double share = statistical() ? 1 / Root(model_.heads) : 1;
    return {Least(measured, whole.norm), whole.error * share};
  }

  double Attention(const LayerDescription& layer, double error) {
    const Tracked y = Norm(error, layer.attention_rms_min, layer.attention_gain_max,
                           layer.maxima.attention_input);
    // One head's vector is part of the whole: its error is no larger, its norm often far smaller.
    const Tracked q = Rope(Head(Linear(y, layer.query), layer.maxima.query_head));
    const Tracked k = Cached(Rope(Head(Linear(y, layer.key), layer.maxima.key_head)));
    const Tracked v = Cached(Head(Linear(y, layer.value), layer.maxima.value_head));
    const double scale = Root(model_.head_dim);
    const double score = q.norm * k.norm / scale;
    double score_error = Add(q.error * k.norm, q.Reach() * k.error) / scale;
    if (statistical()) score_error /= scale;  // a random error and a vector: not aligned
    const double u = std::max(kernel_.u_accumulate, kernel_.u_attention);
    score_error = Add(score_error, ScoreError(model_.head_dim, u, q.Reach() * k.Reach(), 0, 0));
    const AttentionTiling tiling = {model_.context, kernel_.attention_tile, u, kernel_.exp_error,
                                    kernel_.u_probability};
    const bool exact = u == 0 && kernel_.exp_error == 0 && kernel_.u_probability == 0;
    const double local = exact ? 0.0 : AttentionRelativeError(tiling, 2 * (score + score_error));
    // |sum (p' - p) v| <= TV * diameter <= 2 TV max||v||; softmax outputs never leave that hull.
    const double drift = std::min(2 * TvOfSpan(2 * score_error) * v.norm, 2 * v.norm);
    double head_error = Add(v.error, drift);
    head_error = Add(head_error, std::isfinite(local) ? Local(local, v.Reach()) : 2 * v.Reach());
    Tracked o = {Root(model_.heads) * v.norm, Root(model_.heads) * head_error};
    o.error = Add(o.error, Local(kernel_.u_store, o.Reach()));
    return Linear(o, layer.output).error;
  }

  double Mlp(const LayerDescription& layer, double error) {
    const Tracked y = Norm(error, layer.mlp_rms_min, layer.mlp_gain_max, layer.maxima.mlp_input);
    const Tracked gate = Linear(y, layer.gate);
    const Tracked up = Linear(y, layer.up);
    // Entries that errors are multiplied with: the largest, or the typical ones.
    double gate_size = Least(layer.maxima.gate_abs, layer.gate.max_row_l2 * y.norm);
    double up_size = Least(layer.maxima.up_abs, layer.up.max_row_l2 * y.norm);
    Tracked h;
    h.norm = Least(layer.maxima.hidden, std::min(gate_size * up.norm, up_size * gate.norm));
    if (statistical()) {
      gate_size = std::min(gate_size, Gain(layer.gate) * y.norm / Root(layer.gate.rows));
      up_size = std::min(up_size, Gain(layer.up) * y.norm / Root(layer.up.rows));
    }
    // silu(a')b' - silu(a)b = (silu(a') - silu(a)) b' + silu(a)(b' - b).
    h.error = Add(kSiluSlopeMax * (up_size + (statistical() ? 0 : up.error)) * gate.error,
                  gate_size * up.error);
    const double relative =
        GatedRelativeError(kernel_.exp_error, kernel_.u_accumulate, kernel_.u_store);
    h.error = Add(h.error, Local(relative, h.Reach()));
    return Linear(h, layer.down).error;
  }

  double Residual(double error, double added, double rms_max) const {
    const double sum = Add(error, added);
    const double u = std::max(kernel_.u_accumulate, kernel_.u_store);
    return Add(sum, Local(u, rms_max * Root(model_.width) + sum));
  }

  double Logits(double error) {
    Tracked y = Norm(error, model_.final_rms_min, model_.final_gain_max, 0);
    const WeightNorms& w = model_.lm_head;
    double weight_error = 0;
    if (kernel_.quantizes_lm_head) {
      y = Quantized(y, w.columns, kernel_.activations);
      WeightNorms row = w;  // the worst row under the tensor's largest step
      row.rows = 1;
      row.frobenius = w.max_row_l2;
      row.row_max_l2 = w.max_abs;
      row.group_max_l2 = w.max_abs * Root(w.columns);
      weight_error = WeightErrorFrobenius(row, kernel_.weights, form_);
    }
    const double gain = statistical() ? w.max_row_l2 / Root(w.columns) : w.max_row_l2;
    double linf = Add(gain * y.error, LinearLocal(w, w.max_row_l2, weight_error, y.Reach()));
    const double u = std::max(kernel_.u_store, kernel_.u_logits);
    linf = Add(linf, Local(u, w.max_row_l2 * y.norm + linf));
    // Four standard deviations for a proposal; a last outward step for the recursion's rounding.
    return linf * (statistical() ? 4.0 : 1.0 + 1e-9);
  }

  const ModelDescription& model_;
  const KernelDescription& kernel_;
  EnvelopeForm form_;
  bool vacuous_ = false;
};

}  // namespace

double WeightErrorFrobenius(const WeightNorms& weights, const QuantizerDescription& quantizer,
                            EnvelopeForm form) {
  const bool statistical = form == EnvelopeForm::kStatistical;
  if (quantizer.quantizer == Quantizer::kExact) return 0;
  // sqrt(sum over numbers of their scale block's amax^2).
  const double entries = Root(weights.rows) * Root(weights.columns);
  double spread = weights.max_abs * entries;
  if (quantizer.granularity == Granularity::kPerChannel) {
    spread = weights.row_max_l2 * Root(weights.columns);
  } else if (quantizer.granularity == Granularity::kPerGroup) {
    spread = weights.group_max_l2;
  }
  if (quantizer.quantizer == Quantizer::kInt) {
    const double step = IntStep(quantizer.bits, 1.0);
    return spread * (statistical ? IntRms(step) : IntError(quantizer.bits, step));
  }
  const FloatFormat format = FloatFormatOf(quantizer.format);
  if (statistical) return ScaledFloatRms(format, weights.frobenius);
  // amax may land a rounding above the largest value of the format; S rnd(x/S) itself is formed in
  // fp32: both inside the added 2^-22.
  const double u = format.unit_roundoff;
  const double subnormal = format.min_subnormal / 2.0 / format.largest;
  return RoundUp((u / (1.0 + u) + 0x1p-22) * weights.frobenius + subnormal * spread);
}

Envelope EnvelopeOf(const ModelDescription& model, const KernelDescription& kernel,
                    EnvelopeForm form) {
  KCC_CHECK(model.width > 0 && model.head_dim > 0 && model.context > 0);
  return Recursion(model, kernel, form).Run();
}

std::string_view SourceName(EnvelopeSource source) {
  switch (source) {
    case EnvelopeSource::kWeights:
      return "weight quantisation";
    case EnvelopeSource::kActivations:
      return "activation quantisation";
    case EnvelopeSource::kKvCache:
      return "KV cache";
    case EnvelopeSource::kReduction:
      return "reduction order";
    case EnvelopeSource::kStorage:
      return "activation storage";
    case EnvelopeSource::kAngles:
      return "rotary angles";
    case EnvelopeSource::kAttention:
      return "attention tiling";
    case EnvelopeSource::kLogits:
      return "logit storage";
  }
  return "";
}

KernelDescription OnlySource(const KernelDescription& kernel, EnvelopeSource source) {
  KernelDescription only;
  switch (source) {
    case EnvelopeSource::kWeights:
      only.weights = kernel.weights;
      only.quantizes_lm_head = kernel.quantizes_lm_head;
      break;
    case EnvelopeSource::kActivations:
      only.activations = kernel.activations;
      only.quantizes_lm_head = kernel.quantizes_lm_head;
      break;
    case EnvelopeSource::kKvCache:
      only.kv_cache = kernel.kv_cache;
      break;
    case EnvelopeSource::kReduction:
      only.u_accumulate = kernel.u_accumulate;
      only.schedule = kernel.schedule;
      only.block = kernel.block;
      only.products_round = kernel.products_round;
      break;
    case EnvelopeSource::kStorage:
      only.u_store = kernel.u_store;
      break;
    case EnvelopeSource::kAngles:
      only.u_angle = kernel.u_angle;
      break;
    case EnvelopeSource::kAttention:
      only.attention_tile = kernel.attention_tile;
      only.u_attention = kernel.u_attention;
      only.exp_error = kernel.exp_error;
      only.u_probability = kernel.u_probability;
      break;
    case EnvelopeSource::kLogits:
      only.u_logits = kernel.u_logits;
      break;
  }
  return only;
}

}  // namespace kcc
