// What every kind of policy begins with: its kind and what identifies it. Internal to contract/.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "kcc/base/json_writer.h"
#include "kcc/contract/document_kind.h"
#include "kcc/contract/mapping_reader.h"
#include "kcc/contract/yaml_writer.h"

namespace kcc {

// The members that all policies have, by reference.
struct MetadataView {
  const std::string& name;
  const std::string& version;
  const std::string& owner;
  const std::string& description;
  const std::map<std::string, std::string>& labels;
};

template <class Policy>
MetadataView ViewMetadata(const Policy& policy) {
  return {policy.name, policy.version, policy.owner, policy.description, policy.labels};
}

template <class Policy>
void ReadPolicyMetadata(const MappingReader& mapping, Policy* policy) {
  policy->name = mapping.Text("name").value_or("");
  policy->version = mapping.Text("version").value_or("");
  policy->owner = mapping.Text("owner").value_or("");
  policy->description = mapping.Text("description").value_or("");
  policy->labels = mapping.TextMap("labels");
}

// What all policies have, and then the spec, which `read_spec` goes through.
template <class Policy, class ReadSpec>
void ReadPolicyRoot(const MappingReader& root, Policy* policy, ReadSpec read_spec) {
  (void)root.Word("apiVersion");
  (void)root.Word("kind");
  if (const auto metadata = root.Mapping("metadata")) ReadPolicyMetadata(*metadata, policy);
  if (const auto spec = root.Mapping("spec")) read_spec(*spec);
}

// The document up to the first key of spec; the caller writes spec and closes it with
// EndPolicyJson.
void BeginPolicyJson(DocumentKind kind, const MetadataView& metadata, JsonWriter* json);
std::string EndPolicyJson(JsonWriter* json);

// Leaves empty texts out.
void WriteNonEmpty(std::string_view key, const std::string& text, JsonWriter* json);

// The whole document.
std::string PolicyYaml(DocumentKind kind, const MetadataView& metadata, YamlValue spec);

}  // namespace kcc
