// One forward step: a few tokens of several sequences through all layers, flat.
//
// Rows are independent but for attention, which reads the sequence's own cache; whatever the
// batch decides (split-K, split-KV) is an argument. Work is spread over threads by outputs, rows
// and heads, never inside a sum.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kcc/lab/attention.h"
#include "kcc/lab/audit.h"
#include "kcc/lab/fork_join.h"
#include "kcc/lab/kv_cache.h"
#include "kcc/lab/lab_model.h"
#include "kcc/lab/switches.h"
#include "kcc/lab/tape.h"

namespace kcc {

// A run of consecutive tokens of one sequence.
struct StepRun {
  size_t request = 0;  // whose they are, for the probe
  std::span<const int32_t> tokens;
  size_t first_position = 0;
  const BlockTable* table = nullptr;  // holds room for all of them
  // Tokens [logits_from, tokens.size()) have their logits computed.
  size_t logits_from = 0;
  // Where RoPE takes the tokens to be; empty: where they are in the sequence.
  std::span<const int32_t> rope_positions;
  AuditTrail* audit = nullptr;  // may be null
};

// How this step sums: the kernel's own choice, or what batch or route made of it.
struct StepChoice {
  int split_k = 1;
  AttentionChoice attention;
};

// Called with every tensor at every audit point, one row a token: for first-divergence tensors.
using TensorProbe =
    std::function<void(size_t request, size_t position, size_t point, std::span<const float> row)>;

class Forward {
 public:
  // The target changes no bit.
  Forward(const LabModel& model, const LabSwitches& switches, ForkJoin& pool,
          Target target = BestTarget());

  // Computes the runs, writes their keys and values, and returns the logits of the tokens that
  // want them, run by run ([vocab] each), valid until the next call.
  std::span<const float> Run(std::span<const StepRun> runs, const StepChoice& choice,
                             KvCache* cache);

  void set_probe(TensorProbe probe) { probe_ = std::move(probe); }
  // The runs of the next calls are appended to the tape, which outlives them; null: none.
  void set_tape(Tape* tape) { tape_ = tape; }
  size_t scratch_bytes() const;

 private:
  struct Product {
    const PackedMatrix* weights;
    float* y;
  };
  void Embed(std::span<const StepRun> runs);
  void Layer(size_t layer, std::span<const StepRun> runs, const StepChoice& choice, KvCache* cache);
  void AttendAll(size_t layer, std::span<const StepRun> runs, const StepChoice& choice,
                 const KvCache& cache);
  void Multiply(const float* x, size_t rows, std::span<const Product> products, int split_k);
  // The products that a row is an input of.
  enum class InputOf : uint8_t { kAttention, kMlp, kHead };
  void Normalise(const float* x, const std::vector<float>& gain, InputOf product, float* out) const;
  void NormaliseRow(const float* x, const std::vector<float>& gain, float* out) const;
  void NormaliseHeads(const std::vector<float>& gain, size_t heads, float* row) const;
  void Gate(size_t layer, size_t row);
  void AddResidual(const float* add, float* x) const;
  bool CastsAt(InputOf product) const;
  void StoreRow(float* row, size_t count) const;  // storage between operators
  void PrepareInput(InputOf product, float* row, size_t count) const;
  void Record(std::span<const StepRun> runs, size_t point, const float* rows, size_t width);
  void BeginTape(std::span<const StepRun> runs);
  void Keep(std::vector<float>* matrix, size_t row, const float* values, size_t width) const;
  void KeepAll(std::vector<float> LayerTape::*matrix, size_t layer,
               const std::vector<float>& rows) const;
  void KeepCached(size_t layer, size_t row, const float* key, const float* value) const;
  void KeepLogits(std::span<const size_t> rows);
  void RotateAndCache(size_t layer, std::span<const StepRun> runs, KvCache* cache);
  std::span<const float> Logits(std::span<const StepRun> runs, const StepChoice& choice);

  const LabModel& model_;
  const LabSwitches& switches_;
  ForkJoin& pool_;
  Target target_;
  const RowOps& ops_;
  bool wide_;
  DType stored_;  // between operators
  size_t rows_ = 0;
  struct RowPlace {
    size_t run;
    size_t position;
    size_t rope;  // position that RoPE rotates by
  };
  std::vector<RowPlace> places_;
  std::vector<float> x_, normed_, query_, key_, value_, attended_, gate_, up_, out_, logits_;
  std::vector<AttentionScratch> scratch_;  // a thread
  TensorProbe probe_;
  Tape* tape_ = nullptr;
  size_t tape_base_ = 0;  // row of the tape that is row 0 of this step
};

}  // namespace kcc
