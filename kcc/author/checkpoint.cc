#include "kcc/author/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "kcc/format/mapped_file.h"
#include "kcc/format/safetensors.h"
#include "kcc/numeric/target.h"
#include "kcc/numeric/widen.h"

namespace kcc {
namespace {

// Sums of up to 2^32 squares err by less than this, relatively.
constexpr double kOutwardSum = 1 + 1e-6;
// Up to this many columns ||(W^T W)^8||_F is affordable.
constexpr int64_t kGramColumnsMax = 192;

// Everything about a matrix that can be added up row by row.
// So a checkpoint larger than memory is read once, from front to back. Norms are rounded outward
// (kOutwardSum): an envelope is a promise, and one that is a rounding too small would be none.
class NormsOfRows {
 public:
  NormsOfRows(int64_t rows, int64_t columns)
      : columns_(columns), column_sums_(static_cast<size_t>(columns)) {
    norms_.rows = rows;
    norms_.columns = columns;
    if (columns <= kGramColumnsMax) gram_.resize(static_cast<size_t>(columns * columns));
  }

  void Add(const float* row) {
    double squares = 0;
    double row_max = 0;
    double row_sum = 0;
    for (int64_t begin = 0; begin < columns_; begin += kWeightGroup) {
      const int64_t end = std::min(begin + kWeightGroup, columns_);
      double group_max = 0;
      for (int64_t j = begin; j < end; ++j) {
        const double a = std::fabs(static_cast<double>(row[j]));
        squares += a * a;
        row_sum += a;
        column_sums_[static_cast<size_t>(j)] += a;
        group_max = std::max(group_max, a);
      }
      group_squares_ += static_cast<double>(end - begin) * group_max * group_max;
      row_max = std::max(row_max, group_max);
    }
    if (!gram_.empty()) AddToGram(row);
    squares_ += squares;
    row_max_squares_ += row_max * row_max;
    row_sum_max_ = std::max(row_sum_max_, row_sum);
    norms_.max_abs = std::max(norms_.max_abs, row_max);
    norms_.max_row_l2 = std::max(norms_.max_row_l2, std::sqrt(squares) * kOutwardSum);
  }

  WeightNorms Finish() {
    norms_.frobenius = std::sqrt(squares_) * kOutwardSum;
    norms_.row_max_l2 = std::sqrt(row_max_squares_) * kOutwardSum;
    norms_.group_max_l2 = std::sqrt(group_squares_) * kOutwardSum;
    // Upper bounds, of which the smallest is kept; the true norm needs an eigenvalue.
    // ||W||_2 <= ||W||_F and <= sqrt(||W||_1 ||W||_inf).
    const double column_sum_max = *std::max_element(column_sums_.begin(), column_sums_.end());
    norms_.spectral =
        std::min(norms_.frobenius, std::sqrt(row_sum_max_ * column_sum_max) * kOutwardSum);
    if (!gram_.empty()) norms_.spectral = std::min(norms_.spectral, GramBound());
    return norms_;
  }

 private:
  void AddToGram(const float* row) {
    const auto n = static_cast<size_t>(columns_);
    for (size_t i = 0; i < n; ++i) {
      const double a = row[i];
      for (size_t j = 0; j < n; ++j) gram_[i * n + j] += a * row[j];
    }
  }

  // ||W||_2^2 = lambda_max(G) <= ||G^8||_F^(1/8), G = W^T W; scaled to stay in range.
  double GramBound() {
    const auto n = static_cast<size_t>(columns_);
    double scale = 0;
    for (size_t i = 0; i < n; ++i) scale += gram_[i * n + i];  // the trace
    if (scale == 0) return 0;
    for (double& g : gram_) g /= scale;
    for (int squaring = 0; squaring < 3; ++squaring) {
      std::vector<double> square(n * n);
      for (size_t i = 0; i < n; ++i) {
        for (size_t k = 0; k < n; ++k) {
          const double a = gram_[i * n + k];
          for (size_t j = 0; j < n; ++j) square[i * n + j] += a * gram_[k * n + j];
        }
      }
      gram_ = std::move(square);
    }
    double squares = 0;
    for (const double g : gram_) squares += g * g;
    return std::sqrt(scale * std::pow(squares, 1.0 / 16)) * kOutwardSum;
  }

  int64_t columns_;
  WeightNorms norms_;
  double squares_ = 0;
  double row_max_squares_ = 0;
  double group_squares_ = 0;
  double row_sum_max_ = 0;
  std::vector<double> column_sums_;
  std::vector<double> gram_;
};

bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// Remembers which tensors were asked for. RequireAllUsed then refuses a checkpoint with any other,
// such as biases or experts: the envelope would not hold for it.
class CheckpointReader {
 public:
  CheckpointReader(MappedFile file, SafetensorsHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}

  bool Has(const std::string& name) const { return header_.Find(name) != nullptr; }
  const SafetensorsHeader& header() const { return header_; }

  // Rows of a matrix; a vector is one row.
  template <class Visit>
  Result<> ForEachRow(const TensorInfo& tensor, int64_t columns, Visit visit) {
    // Through windows, since a matrix may be larger than what one window may hold; rows are never
    // split between two.
    const auto row_bytes = static_cast<size_t>(columns) * DTypeBits(tensor.dtype) / 8;
    const int64_t rows = tensor.elements() / columns;
    const auto rows_at_once = static_cast<int64_t>(
        std::max<size_t>(1, kWindowBytesMax / 4 / std::max<size_t>(1, row_bytes)));
    std::vector<float> row(static_cast<size_t>(columns));
    for (int64_t first = 0; first < rows; first += rows_at_once) {
      const int64_t count = std::min(rows_at_once, rows - first);
      const int64_t offset = tensor.begin + first * static_cast<int64_t>(row_bytes);
      KCC_TRY(const FileWindow window, file_.Map(offset, row_bytes * static_cast<size_t>(count)));
      for (int64_t r = 0; r < count; ++r) {
        WidenToFloat(window.At(offset + r * static_cast<int64_t>(row_bytes)), tensor.dtype,
                     static_cast<size_t>(columns), BestTarget(), row.data());
        for (const float value : row) {
          if (!std::isfinite(value)) {
            return BrokenEvidenceError("tensor '" + tensor.name + "', row " +
                                           std::to_string(first + r) + ": a weight is not finite",
                                       Place{file_.path()});
          }
        }
        visit(row.data());
      }
    }
    return {};
  }

  Result<const TensorInfo*> Find(const std::string& name, size_t dimensions) {
    const TensorInfo* tensor = header_.Find(name);
    if (tensor == nullptr) {
      return InvalidError("no tensor '" + name +
                              "': a Llama-style checkpoint under its Hugging Face names is needed",
                          Place{file_.path()});
    }
    const auto wrong = [&](const std::string& what) {
      return InvalidError("tensor '" + name + "' is " + std::string(DTypeName(tensor->dtype)) +
                              " " + tensor->ShapeText() + "; " + what,
                          Place{file_.path()});
    };
    if (!IsFloat(tensor->dtype)) return wrong("norms are read from F32, F16 or BF16 weights");
    if (tensor->shape.size() != dimensions || tensor->elements() == 0) {
      return wrong(dimensions == 1 ? "a vector was expected" : "a matrix was expected");
    }
    // Everything that ForEachRow relies on is checked here, before a byte is read.
    constexpr int64_t kColumnsMax = int64_t{1} << 22;  // a row fits a window
    if (tensor->shape.back() > kColumnsMax) return wrong("its rows are too long");
    return tensor;
  }

  Result<WeightNorms> Matrix(const std::string& name) {
    used_.insert(name);
    KCC_TRY(const TensorInfo* tensor, Find(name, 2));
    NormsOfRows norms(tensor->shape[0], tensor->shape[1]);
    KCC_TRY_VOID(ForEachRow(*tensor, tensor->shape[1], [&](const float* row) { norms.Add(row); }));
    return norms.Finish();
  }

  Result<double> MaxAbs(const std::string& name) {
    used_.insert(name);
    KCC_TRY(const TensorInfo* tensor, Find(name, 1));
    const int64_t columns = tensor->shape[0];
    double most = 0;
    KCC_TRY_VOID(ForEachRow(*tensor, columns, [&](const float* row) {
      for (int64_t i = 0; i < columns; ++i) {
        most = std::max(most, std::fabs(static_cast<double>(row[i])));
      }
    }));
    return most;
  }

  // A tensor that was not asked for: something that the description leaves out.
  Result<> RequireAllUsed() const {
    for (const TensorInfo& tensor : header_.tensors) {
      const std::string_view name = tensor.name;
      if (used_.contains(tensor.name) || name == "model.embed_tokens.weight" ||
          name.ends_with("rotary_emb.inv_freq")) {
        continue;
      }
      return InvalidError("tensor '" + tensor.name +
                              "' belongs to no plain Llama block (RMSNorm, attention, SwiGLU); an "
                              "envelope that left it out would promise too much",
                          Place{file_.path()});
    }
    return {};
  }

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  std::set<std::string> used_;
};

Result<LayerDescription> ReadLayer(const std::string& prefix, const ModelFacts& facts,
                                   CheckpointReader* reader) {
  LayerDescription layer;
  const std::pair<const char*, WeightNorms*> matrices[] = {
      {"self_attn.q_proj.weight", &layer.query}, {"self_attn.k_proj.weight", &layer.key},
      {"self_attn.v_proj.weight", &layer.value}, {"self_attn.o_proj.weight", &layer.output},
      {"mlp.gate_proj.weight", &layer.gate},     {"mlp.up_proj.weight", &layer.up},
      {"mlp.down_proj.weight", &layer.down}};
  for (const auto& [name, norms] : matrices) {
    KCC_TRY(*norms, reader->Matrix(prefix + name));
  }
  KCC_TRY(layer.attention_gain_max, reader->MaxAbs(prefix + "input_layernorm.weight"));
  KCC_TRY(layer.mlp_gain_max, reader->MaxAbs(prefix + "post_attention_layernorm.weight"));
  layer.attention_rms_min = layer.mlp_rms_min = facts.rms_min;
  layer.residual_rms_max = facts.rms_max;
  return layer;
}

}  // namespace

Result<ModelDescription> DescribeCheckpoint(const std::string& path, const ModelFacts& facts) {
  KCC_TRY(MappedFile file, MappedFile::Open(path));
  KCC_TRY(const std::string prefix,
          file.Read(0, std::min<size_t>(8, static_cast<size_t>(file.size()))));
  KCC_TRY(const int64_t size, SafetensorsHeaderSize(prefix, file.size(), path));
  KCC_TRY(const std::string text, file.Read(8, static_cast<size_t>(size)));
  KCC_TRY(SafetensorsHeader header, ParseSafetensorsHeader(text, file.size(), path));
  CheckpointReader reader(std::move(file), std::move(header));

  ModelDescription model;
  model.heads = facts.heads;
  model.context = facts.context;
  const auto layer_name = [](size_t layer) {
    return "model.layers." + std::to_string(layer) + ".";
  };
  // Layers are counted by their names, from 0 on until one is missing. Layer 0 is read in any case,
  // so that a file without layers says which tensor it lacks.
  while (model.layers.size() < kCheckpointLayersMax &&
         (model.layers.empty() ||
          reader.Has(layer_name(model.layers.size()) + "self_attn.q_proj.weight"))) {
    KCC_TRY(LayerDescription layer, ReadLayer(layer_name(model.layers.size()), facts, &reader));
    model.layers.push_back(layer);
  }
  KCC_TRY(model.final_gain_max, reader.MaxAbs("model.norm.weight"));
  model.final_rms_min = facts.rms_min;
  // A model without an output matrix uses its embedding as one.
  const bool tied = !reader.Has("lm_head.weight");
  KCC_TRY(model.lm_head, reader.Matrix(tied ? "model.embed_tokens.weight" : "lm_head.weight"));
  KCC_TRY_VOID(reader.RequireAllUsed());

  // Shapes are compared with each other, since no config says what they should be.
  model.width = model.lm_head.columns;
  for (const LayerDescription& layer : model.layers) {
    const bool fits = layer.query.columns == model.width && layer.output.rows == model.width &&
                      layer.output.columns == layer.query.rows && layer.down.rows == model.width &&
                      layer.up.columns == model.width;
    if (!fits) {
      return InvalidError(
          "the matrices' shapes do not fit a model of width " + std::to_string(model.width),
          Place{path});
    }
  }
  // Safetensors do not say how many heads there are: it is the user's word, checked for sense.
  const int64_t query_rows = model.layers[0].query.rows;
  if (facts.heads < 1 || query_rows % facts.heads != 0) {
    return InvalidError(std::to_string(facts.heads) + " heads do not divide the " +
                            std::to_string(query_rows) + " rows of the queries (--heads)",
                        Place{path});
  }
  model.head_dim = query_rows / facts.heads;
  return model;
}

}  // namespace kcc
