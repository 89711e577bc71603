#include "kcc/lab/forward.h"

#include <algorithm>
#include <cmath>

#include "kcc/numeric/quantize.h"

namespace kcc {
namespace {

// Of models without biases there are none to add.
void AddBias(const std::vector<float>& bias, float* row) {
  for (size_t i = 0; i < bias.size(); ++i) row[i] += bias[i];
}

}  // namespace

// Row r of every buffer (x_, normed_, query_, …) belongs to places_[r]: first all tokens of run 0,
// then those of run 1. Example: run 0 is tokens 7 and 8 of request A, run 1 is token 3 of request
// B. Then rows 0 and 1 are A's and row 2 is B's.
//
// Invariant: no operator but attention reads another row than its own, and attention reads the keys
// of its own sequence alone, through the block table. So the bits of a row follow from its sequence
// and from `choice`. Who else is in the step cannot change them, which is what batch=invariant
// promises; batch=dynamic changes them through `choice` and in no other way.
//
// The second rule is about threads: they share out rows, heads and outputs, never the terms of one
// sum. So their number cannot be seen either.
Forward::Forward(const LabModel& model, const LabSwitches& switches, ForkJoin& pool, Target target)
    : model_(model),
      switches_(switches),
      pool_(pool),
      target_(target),
      ops_(RowOpsFor(target_)),
      wide_(switches.accumulator_bits == 52),
      stored_(CastsActivations(switches) ? switches.cast_from : switches.activations),
      scratch_(pool.threads()) {}

std::span<const float> Forward::Run(std::span<const StepRun> runs, const StepChoice& choice,
                                    KvCache* cache) {
  places_.clear();
  for (size_t r = 0; r < runs.size(); ++r) {
    for (size_t i = 0; i < runs[r].tokens.size(); ++i) {
      const size_t position = runs[r].first_position + i;
      const auto rope = runs[r].rope_positions;
      places_.push_back({r, position, rope.empty() ? position : static_cast<size_t>(rope[i])});
    }
  }
  rows_ = places_.size();
  const ModelConfig& config = model_.config;
  x_.resize(rows_ * config.hidden);
  normed_.resize(rows_ * config.hidden);
  out_.resize(rows_ * config.hidden);
  query_.resize(rows_ * config.queries());
  attended_.resize(rows_ * config.queries());
  key_.resize(rows_ * config.keys());
  value_.resize(rows_ * config.keys());
  gate_.resize(rows_ * config.ffn);
  up_.resize(rows_ * config.ffn);
  BeginTape(runs);
  Embed(runs);
  for (size_t layer = 0; layer < config.layers; ++layer) Layer(layer, runs, choice, cache);
  if (tape_ != nullptr) tape_->output.insert(tape_->output.end(), x_.begin(), x_.end());
  return Logits(runs, choice);
}

size_t Forward::scratch_bytes() const {
  size_t floats = x_.size() + normed_.size() + out_.size() + query_.size() + attended_.size() +
                  key_.size() + value_.size() + gate_.size() + up_.size() + logits_.size();
  for (const AttentionScratch& one : scratch_) floats += one.scores.size() + one.sums.size();
  return floats * sizeof(float);
}

// What an engine writes to memory between two operators. FP8 and INT8 are formats of what enters a
// matrix product, and leave the rest in float32, or in BF16 if that is what they are cast from.
void Forward::StoreRow(float* row, size_t count) const { RoundValues({row, count}, stored_); }

bool Forward::CastsAt(InputOf product) const {
  if (!CastsActivations(switches_)) return false;
  switch (switches_.casts) {
    case CastPlaces::kAll:
      return true;
    case CastPlaces::kLayers:
      return product != InputOf::kHead;
    case CastPlaces::kAttention:
      return product == InputOf::kAttention;
    case CastPlaces::kMlp:
      return product == InputOf::kMlp;
  }
  return false;
}

void Forward::PrepareInput(InputOf product, float* row, size_t count) const {
  StoreRow(row, count);
  if (CastsAt(product)) RoundScaled({row, count}, switches_.activations);
}

void Forward::Record(std::span<const StepRun> runs, size_t point, const float* rows, size_t width) {
  if (probe_) {
    for (size_t r = 0; r < rows_; ++r) {
      probe_(runs[places_[r].run].request, places_[r].position, point, {rows + r * width, width});
    }
  }
  // Signatures are hashes of whole rows: not computed unless a trail asks for them.
  const bool wanted = std::any_of(runs.begin(), runs.end(), [&](const StepRun& run) {
    return run.audit != nullptr && run.audit->Wants(point);
  });
  if (!wanted) return;
  pool_.Run(rows_, [&](size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      AuditTrail* trail = runs[places_[r].run].audit;
      if (trail != nullptr) trail->Record(places_[r].position, point, {rows + r * width, width});
    }
  });
}

void Forward::Embed(std::span<const StepRun> runs) {
  const size_t hidden = model_.config.hidden;
  for (size_t r = 0; r < rows_; ++r) {
    const StepRun& run = runs[places_[r].run];
    const auto token = static_cast<size_t>(run.tokens[places_[r].position - run.first_position]);
    std::copy_n(&model_.embedding[token * hidden], hidden, &x_[r * hidden]);
    StoreRow(&x_[r * hidden], hidden);
  }
  Record(runs, kEmbeddingPoint, x_.data(), hidden);
}

void Forward::Multiply(const float* x, size_t rows, std::span<const Product> products,
                       int split_k) {
  size_t panels = 0;
  for (const Product& product : products) panels += product.weights->panels();
  const size_t inputs = products[0].weights->inputs();
  const Reduction reduction{switches_.accumulator_bits, switches_.promote,
                            std::min(split_k, static_cast<int>(inputs / 32))};
  // Products of one input are one job (query, key and value; gate and up): their panels together
  // are enough for all threads where those of one are not.
  pool_.Run(panels, [&](size_t begin, size_t end) {
    size_t first = 0;
    for (const Product& product : products) {
      const size_t count = product.weights->panels();
      const size_t from = std::max(begin, first);
      const size_t to = std::min(end, first + count);
      if (from < to) {
        const size_t outputs = product.weights->outputs();
        Gemm({x, rows, inputs, product.y, outputs}, *product.weights, from - first, to - first,
             reduction, target_);
      }
      first += count;
    }
  });
}

void Forward::Normalise(const float* x, const std::vector<float>& gain, InputOf product,
                        float* out) const {
  NormaliseRow(x, gain, out);
  PrepareInput(product, out, gain.size());
}

// `out` may be `x`.
void Forward::NormaliseRow(const float* x, const std::vector<float>& gain, float* out) const {
  const size_t n = gain.size();
  // Both orders of the products are in use, and differ by a rounding. Which one a kernel takes is a
  // switch because it is a place where real engines differ.
  if (wide_) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    const double inverse = 1.0 / std::sqrt(sum / static_cast<double>(n) + model_.config.rms_eps);
    for (size_t i = 0; i < n; ++i) {
      out[i] = switches_.fused_norm ? static_cast<float>(x[i] * (inverse * gain[i]))
                                    : static_cast<float>(x[i] * inverse) * gain[i];
    }
  } else {
    const float mean = ops_.sum_squares(x, n) / static_cast<float>(n);
    const float inverse = 1.0f / std::sqrt(mean + static_cast<float>(model_.config.rms_eps));
    for (size_t i = 0; i < n; ++i) {
      out[i] = switches_.fused_norm ? x[i] * (inverse * gain[i]) : (x[i] * inverse) * gain[i];
    }
  }
}

// Of models that normalise queries and keys, head by head, before RoPE.
void Forward::NormaliseHeads(const std::vector<float>& gain, size_t heads, float* row) const {
  if (gain.empty()) return;
  for (size_t h = 0; h < heads; ++h)
    NormaliseRow(row + h * gain.size(), gain, row + h * gain.size());
}

void Forward::AddResidual(const float* add, float* x) const {
  const size_t n = model_.config.hidden;
  for (size_t i = 0; i < n; ++i) x[i] += add[i];
  StoreRow(x, n);
}

void Forward::RotateAndCache(size_t layer, std::span<const StepRun> runs, KvCache* cache) {
  const ModelConfig& config = model_.config;
  const PackedLayer& w = model_.layers[layer];
  pool_.Run(rows_, [&](size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      float* query = &query_[r * config.queries()];
      float* key = &key_[r * config.keys()];
      float* value = &value_[r * config.keys()];
      const RowPlace& place = places_[r];
      AddBias(w.query_bias, query);
      AddBias(w.key_bias, key);
      AddBias(w.value_bias, value);
      if (tape_ != nullptr && config.qk_norm) {
        Keep(&tape_->layers[layer].query_raw, r, query, config.queries());
        Keep(&tape_->layers[layer].key_raw, r, key, config.keys());
      }
      NormaliseHeads(w.query_gain, config.heads, query);
      NormaliseHeads(w.key_gain, config.kv_heads, key);
      for (size_t h = 0; h < config.heads; ++h) {
        model_.rope.Rotate(place.rope, wide_, query + h * config.head_dim);
      }
      for (size_t h = 0; h < config.kv_heads; ++h) {
        model_.rope.Rotate(place.rope, wide_, key + h * config.head_dim);
      }
      StoreRow(query, config.queries());
      StoreRow(key, config.keys());
      StoreRow(value, config.keys());
      cache->Write(layer, *runs[place.run].table, place.position, key, value);
      if (tape_ != nullptr) KeepCached(layer, r, key, value);
    }
  });
}

void Forward::AttendAll(size_t layer, std::span<const StepRun> runs, const StepChoice& choice,
                        const KvCache& cache) {
  const ModelConfig& config = model_.config;
  const size_t group = config.heads / config.kv_heads;
  // A job is one KV head and some tokens of one run, with all query heads that share it: its keys
  // are widened once for all of them.
  std::vector<AttentionJob> jobs;
  size_t row = 0;
  for (const StepRun& run : runs) {
    for (size_t at = 0; at < run.tokens.size(); at += kAttentionTokensMax) {
      for (size_t head = 0; head < config.kv_heads; ++head) {
        const size_t offset = (row + at) * config.queries() + head * group * config.head_dim;
        jobs.push_back({&cache, run.table, layer, head, run.first_position + at,
                        std::min(kAttentionTokensMax, run.tokens.size() - at), group,
                        config.head_dim, &query_[offset], config.queries(), &attended_[offset]});
      }
    }
    row += run.tokens.size();
  }
  // Long contexts come last in a prompt's chunk: threads take turns, so that each gets its share.
  const size_t threads = pool_.threads();
  pool_.Run(threads, [&](size_t begin, size_t end) {
    for (size_t thread = begin; thread < end; ++thread) {
      for (size_t j = thread; j < jobs.size(); j += threads) {
        Attend(jobs[j], choice.attention, switches_.exp, wide_, ops_, &scratch_[thread]);
      }
    }
  });
}

void Forward::Layer(size_t layer, std::span<const StepRun> runs, const StepChoice& choice,
                    KvCache* cache) {
  const ModelConfig& config = model_.config;
  const PackedLayer& w = model_.layers[layer];
  const size_t hidden = config.hidden;
  const auto at = [&](AuditPoint point) { return AuditIndex(layer, point); };
  const auto for_rows = [&](const auto& apply) {
    pool_.Run(rows_, [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) apply(r);
    });
  };
  KeepAll(&LayerTape::input, layer, x_);
  for_rows([&](size_t r) {
    Normalise(&x_[r * hidden], w.attention_gain, InputOf::kAttention, &normed_[r * hidden]);
  });
  KeepAll(&LayerTape::attention_input, layer, normed_);
  Record(runs, at(AuditPoint::kAttentionNorm), normed_.data(), hidden);
  const Product qkv[] = {
      {&w.query, query_.data()}, {&w.key, key_.data()}, {&w.value, value_.data()}};
  Multiply(normed_.data(), rows_, qkv, choice.split_k);
  // All rows are in the cache before any row attends: a token of a prompt's chunk attends to those
  // before it in the same chunk.
  RotateAndCache(layer, runs, cache);
  KeepAll(&LayerTape::query, layer, query_);
  Record(runs, at(AuditPoint::kQuery), query_.data(), config.queries());
  Record(runs, at(AuditPoint::kKey), key_.data(), config.keys());
  Record(runs, at(AuditPoint::kValue), value_.data(), config.keys());
  AttendAll(layer, runs, choice, *cache);
  for_rows([&](size_t r) {
    PrepareInput(InputOf::kAttention, &attended_[r * config.queries()], config.queries());
  });
  KeepAll(&LayerTape::attended, layer, attended_);
  Record(runs, at(AuditPoint::kAttention), attended_.data(), config.queries());
  const Product output[] = {{&w.output, out_.data()}};
  Multiply(attended_.data(), rows_, output, choice.split_k);
  for_rows([&](size_t r) {
    AddBias(w.output_bias, &out_[r * hidden]);
    StoreRow(&out_[r * hidden], hidden);
  });
  Record(runs, at(AuditPoint::kAttentionOutput), out_.data(), hidden);
  for_rows([&](size_t r) {
    AddResidual(&out_[r * hidden], &x_[r * hidden]);
    Normalise(&x_[r * hidden], w.mlp_gain, InputOf::kMlp, &normed_[r * hidden]);
  });
  KeepAll(&LayerTape::middle, layer, x_);
  KeepAll(&LayerTape::mlp_input, layer, normed_);
  Record(runs, at(AuditPoint::kAttentionResidual), x_.data(), hidden);
  Record(runs, at(AuditPoint::kMlpNorm), normed_.data(), hidden);
  const Product gates[] = {{&w.gate, gate_.data()}, {&w.up, up_.data()}};
  Multiply(normed_.data(), rows_, gates, choice.split_k);
  for_rows([&](size_t r) { Gate(layer, r); });
  KeepAll(&LayerTape::gated, layer, gate_);
  Record(runs, at(AuditPoint::kGated), gate_.data(), config.ffn);
  const Product down[] = {{&w.down, out_.data()}};
  Multiply(gate_.data(), rows_, down, choice.split_k);
  for_rows([&](size_t r) { StoreRow(&out_[r * hidden], hidden); });
  Record(runs, at(AuditPoint::kMlpOutput), out_.data(), hidden);
  for_rows([&](size_t r) { AddResidual(&out_[r * hidden], &x_[r * hidden]); });
  Record(runs, at(AuditPoint::kResidual), x_.data(), hidden);
}

void Forward::Gate(size_t layer, size_t row) {
  const size_t n = model_.config.ffn;
  float* gate = &gate_[row * n];
  float* up = &up_[row * n];
  StoreRow(gate, n);
  StoreRow(up, n);
  if (tape_ != nullptr) {
    Keep(&tape_->layers[layer].gate, row, gate, n);
    Keep(&tape_->layers[layer].up, row, up, n);
  }
  if (wide_) {
    for (size_t i = 0; i < n; ++i) {
      const double g = gate[i];
      if (switches_.fused_gate) {
        gate[i] = static_cast<float>(g * up[i] / (1.0 + WideExp(-g, switches_.exp, ops_)));
      } else {
        gate[i] = static_cast<float>(g / (1.0 + WideExp(-g, switches_.exp, ops_))) * up[i];
      }
    }
  } else {
    ops_.gate(gate, up, n, switches_.fused_gate, switches_.exp, gate);
  }
  PrepareInput(InputOf::kMlp, gate, n);
}

std::span<const float> Forward::Logits(std::span<const StepRun> runs, const StepChoice& choice) {
  const size_t hidden = model_.config.hidden;
  const size_t vocab = model_.config.vocab;
  // Most rows of a prompt want no logits: those that do are gathered, and normed_ is filled anew
  // from its first row on.
  std::vector<size_t> rows;
  size_t first = 0;
  for (const StepRun& run : runs) {
    for (size_t i = run.logits_from; i < run.tokens.size(); ++i) rows.push_back(first + i);
    first += run.tokens.size();
  }
  logits_.resize(rows.size() * vocab);
  if (rows.empty()) return {};
  pool_.Run(rows.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      Normalise(&x_[rows[i] * hidden], model_.final_gain, InputOf::kHead, &normed_[i * hidden]);
    }
  });
  const Product product[] = {{&model_.lm_head, logits_.data()}};
  Multiply(normed_.data(), rows.size(), product, choice.split_k);
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::span<float> row(&logits_[i * vocab], vocab);
    RoundValues(row, switches_.logits);
    const RowPlace place = places_[rows[i]];
    const std::span<const float> normed(&normed_[i * hidden], hidden);
    const size_t layers = model_.config.layers;
    if (AuditTrail* trail = runs[place.run].audit) {
      trail->Record(place.position, FinalNormPoint(layers), normed);
      trail->Record(place.position, LogitsPoint(layers), row);
    }
    if (probe_) {
      probe_(runs[place.run].request, place.position, FinalNormPoint(layers), normed);
      probe_(runs[place.run].request, place.position, LogitsPoint(layers), row);
    }
  }
  if (tape_ != nullptr) KeepLogits(rows);
  return logits_;
}

}  // namespace kcc
