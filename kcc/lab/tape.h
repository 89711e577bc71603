// What a forward pass leaves for a backward pass: what every operator read, and the keys and values
// as attention saw them. The engine's own numbers, kept while they are computed; keeping them
// changes no bit.
//
// Row r of every matrix belongs to rows[r]. A step appends its rows, so a tape may hold several
// steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kcc {

struct TapeRow {
  size_t request = 0;  // StepRun::request
  size_t position = 0;
  size_t rope = 0;  // position that RoPE rotated by
  int32_t token = 0;
};

struct LayerTape {
  std::vector<float> input;            // before the first norm [hidden]
  std::vector<float> attention_input;  // of the query, key and value products [hidden]
  std::vector<float> query_raw;  // before their norms [queries], [keys]; of models with such norms
  std::vector<float> key_raw;
  std::vector<float> query;      // after RoPE, as stored [queries]
  std::vector<float> key;        // as the cache gives them back [keys]
  std::vector<float> value;      // likewise
  std::vector<float> attended;   // of the output product [queries]
  std::vector<float> middle;     // the residual after attention [hidden]
  std::vector<float> mlp_input;  // of the gate and up products [hidden]
  std::vector<float> gate, up;   // of SwiGLU [ffn]
  std::vector<float> gated;      // of the down product [ffn]
};

struct Tape {
  std::vector<TapeRow> rows;
  std::vector<LayerTape> layers;
  std::vector<float> output;      // of the last layer [hidden]
  std::vector<size_t> head_rows;  // the rows whose logits were wanted
  std::vector<float> head_input;  // of the output matrix, one for each of head_rows [hidden]
  std::vector<float> logits;      // likewise [vocab]

  // Forgets the rows and keeps the memory.
  void Clear();
};

}  // namespace kcc
