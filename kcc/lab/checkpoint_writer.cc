#include "kcc/lab/checkpoint_writer.h"

#include <unistd.h>

#include <array>

#include "kcc/base/file.h"
#include "kcc/base/json_writer.h"
#include "kcc/format/json.h"
#include "kcc/format/safetensors.h"

namespace kcc {
namespace {

constexpr size_t kCompanionBytesMax = size_t{64} << 20;
constexpr std::array<const char*, 8> kCompanions = {"tokenizer.json",
                                                    "tokenizer_config.json",
                                                    "special_tokens_map.json",
                                                    "added_tokens.json",
                                                    "vocab.json",
                                                    "merges.txt",
                                                    "generation_config.json",
                                                    "chat_template.jinja"};

void WriteElement(json::element element, JsonWriter* writer);

void WriteObject(json::object object, std::string_view dtype, JsonWriter* writer) {
  writer->BeginObject();
  for (const auto& [key, value] : object) {
    writer->Key(key);
    const bool names_dtype = !dtype.empty() && (key == "dtype" || key == "torch_dtype");
    if (names_dtype) {
      writer->Value(dtype);
    } else {
      WriteElement(value, writer);
    }
  }
  if (!dtype.empty() && !JsonMember(object, "dtype") && !JsonMember(object, "torch_dtype")) {
    writer->Field("dtype", dtype);
  }
  writer->EndObject();
}

// Numbers keep their kind: a whole number stays one, and a fraction is written in its shortest
// form.
void WriteElement(json::element element, JsonWriter* writer) {
  switch (element.type()) {
    case json::element_type::OBJECT:
      return WriteObject(element.get_object().value_unsafe(), {}, writer);
    case json::element_type::ARRAY: {
      const std::vector<json::element> items = *JsonList(element);
      writer->BeginArray();
      for (const json::element& item : items) WriteElement(item, writer);
      writer->EndArray();
      return;
    }
    case json::element_type::STRING:
      writer->Value(element.get_string().value_unsafe());
      return;
    case json::element_type::INT64:
      writer->Value(element.get_int64().value_unsafe());
      return;
    case json::element_type::UINT64:
      writer->Value(element.get_uint64().value_unsafe());
      return;
    case json::element_type::BOOL:
      writer->Value(element.get_bool().value_unsafe());
      return;
    case json::element_type::NULL_VALUE:
      writer->Null();
      return;
    case json::element_type::DOUBLE: {
      // transformers tells 10000.0 from 10000.
      const std::string raw = simdjson::minify(element);
      writer->Raw(raw);
      return;
    }
  }
}

void AppendTensor(const std::vector<float>& values, DType dtype, std::string* bytes) {
  if (dtype == DType::kF32) {
    bytes->append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    return;
  }
  for (const float value : values) {
    const uint16_t bits = FloatToBF16(value);
    bytes->push_back(static_cast<char>(bits & 0xff));
    bytes->push_back(static_cast<char>(bits >> 8));
  }
}

}  // namespace

Result<std::vector<CompanionFile>> ReadCompanions(const std::string& directory) {
  std::vector<CompanionFile> files;
  for (const char* name : kCompanions) {
    const std::string path = directory + "/" + name;
    if (::access(path.c_str(), F_OK) != 0) continue;
    KCC_TRY(std::string bytes, ReadRegularFile(path, kCompanionBytesMax));
    files.push_back({name, std::move(bytes)});
  }
  return files;
}

Result<std::string> ConfigWithDType(std::string_view text, DType dtype) {
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, text));
  json::object object;
  if (root.get(object) != simdjson::SUCCESS) {
    return InvalidError("config.json must be an object, not " + std::string(JsonTypeName(root)));
  }
  JsonWriter writer;
  WriteObject(object, dtype == DType::kBF16 ? "bfloat16" : "float32", &writer);
  return writer.Take();
}

Result<> WriteCheckpoint(const std::string& directory, std::string_view config_json,
                         const ModelConfig& config, const ModelWeights& weights, DType dtype,
                         const std::vector<CompanionFile>& companions) {
  KCC_TRY(const std::string config_text, ConfigWithDType(config_json, dtype));
  std::vector<TensorInfo> infos;
  std::string bytes;
  for (const ModelTensor& tensor : TensorsOf(config, const_cast<ModelWeights*>(&weights))) {
    infos.push_back({tensor.name, dtype, tensor.shape, 0, 0});
    AppendTensor(*tensor.values, dtype, &bytes);
  }
  const std::string model =
      SafetensorsPrefix(infos, {{"format", "pt"}}) + bytes;  // transformers asks for it
  std::vector<NamedBytes> files;
  files.reserve(companions.size() + 2);
  for (const CompanionFile& file : companions) files.push_back({file.name, file.bytes});
  files.push_back({"config.json", config_text});
  files.push_back({"model.safetensors", model});
  return WriteFilesTogether(directory, files);
}

}  // namespace kcc
