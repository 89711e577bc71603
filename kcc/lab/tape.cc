#include "kcc/lab/tape.h"

namespace kcc {

void Tape::Clear() {
  rows.clear();
  head_rows.clear();
  for (std::vector<float>* matrix : {&output, &head_input, &logits}) matrix->clear();
  for (LayerTape& layer : layers) {
    for (std::vector<float>* matrix :
         {&layer.input, &layer.attention_input, &layer.query_raw, &layer.key_raw, &layer.query,
          &layer.key, &layer.value, &layer.attended, &layer.middle, &layer.mlp_input, &layer.gate,
          &layer.up, &layer.gated}) {
      matrix->clear();
    }
  }
}

}  // namespace kcc
