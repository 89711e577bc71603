#include "kcc/contract/policy_metadata.h"

#include <utility>

#include "kcc/contract/yaml_build.h"

namespace kcc {

void WriteNonEmpty(std::string_view key, const std::string& text, JsonWriter* json) {
  if (!text.empty()) json->Field(key, text);
}

void BeginPolicyJson(DocumentKind kind, const MetadataView& metadata, JsonWriter* json) {
  json->BeginObject().Field("apiVersion", "kcc/v1").Field("kind", Name(kind));
  json->Key("metadata").BeginObject();
  WriteNonEmpty("description", metadata.description, json);
  if (!metadata.labels.empty()) {
    json->Key("labels").BeginObject();
    for (const auto& [key, text] : metadata.labels) json->Field(key, text);
    json->EndObject();
  }
  json->Field("name", metadata.name);
  WriteNonEmpty("owner", metadata.owner, json);
  json->Field("version", metadata.version).EndObject();
  json->Key("spec").BeginObject();
}

std::string EndPolicyJson(JsonWriter* json) {
  json->EndObject().EndObject();
  return json->Take();
}

std::string PolicyYaml(DocumentKind kind, const MetadataView& metadata, YamlValue spec) {
  YamlValue identity = YamlValue::Map(kBlock);
  identity.Add("name", YamlValue::Text(metadata.name));
  identity.Add("version", YamlValue::Token(metadata.version));
  AddText("owner", metadata.owner, &identity);
  AddText("description", metadata.description, &identity);
  AddIfAny("labels", TextMap(metadata.labels), &identity);
  YamlValue document = YamlValue::Map(kBlock);
  document.Add("apiVersion", YamlValue::Token("kcc/v1"));
  document.Add("kind", YamlValue::Token(Name(kind)));
  document.Add("metadata", std::move(identity));
  document.Add("spec", std::move(spec));
  return WriteYaml(document);
}

}  // namespace kcc
