#include "kcc/contract/respell_test.h"

#include <rapidcheck.h>
#include <yaml-cpp/yaml.h>

#include <numeric>
#include <vector>

#include "kcc/base/strings.h"
#include "kcc/contract/yaml_writer.h"

namespace kcc {
namespace {

bool Flip() { return *rc::gen::arbitrary<bool>(); }

std::vector<size_t> Order(size_t size, bool shuffled) {
  std::vector<size_t> order(size);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = size; shuffled && i > 1; --i) {
    std::swap(order[i - 1], order[*rc::gen::inRange<size_t>(0, i)]);
  }
  return order;
}

// Numbers and booleans stay bare; a text may be in quotes or, where that is safe, not.
std::string Scalar(const YAML::Node& node) {
  const std::string text = node.Scalar();
  const bool quoted = node.Tag() == "!";
  const bool bare =
      !quoted && (ParseNumber(text) || text.ends_with('%') || text == "true" || text == "false");
  if (bare) return text;
  return Flip() ? YamlQuoted(text) : YamlScalar(text);
}

std::string Comment() { return Flip() ? "  # note: [to, self" : ""; }

std::string Flow(const YAML::Node& node, bool shuffled) {
  if (node.IsScalar()) return Scalar(node);
  std::string out;
  if (node.IsSequence()) {
    for (const size_t i : Order(node.size(), shuffled)) {
      out += (out.empty() ? "" : " , ") + Flow(node[i], true);
    }
    return "[ " + out + "]";
  }
  std::vector<std::pair<YAML::Node, YAML::Node>> entries;
  for (const auto& entry : node) entries.emplace_back(entry.first, entry.second);
  for (const size_t i : Order(entries.size(), true)) {
    const std::string key = Scalar(entries[i].first);
    out += (out.empty() ? "" : ", ") + (key.size() > 500 ? "? " + key + " : " : key + ": ") +
           Flow(entries[i].second, entries[i].first.Scalar() != "overrides");
  }
  return "{" + out + " }";
}

void Block(const YAML::Node& node, const std::string& indent, bool shuffled, std::string* out);

void BlockValue(const YAML::Node& node, const std::string& indent, bool shuffled,
                std::string* out) {
  if (node.IsScalar() || node.size() == 0 || *rc::gen::inRange(0, 3) == 0) {
    *out += " " + Flow(node, shuffled) + Comment() + "\n";
    return;
  }
  *out += Comment() + "\n";
  Block(node, indent + "   ", shuffled, out);
}

void Block(const YAML::Node& node, const std::string& indent, bool shuffled, std::string* out) {
  if (Flip()) *out += indent + "# - a comment: of its own\n";
  if (node.IsSequence()) {
    for (const size_t i : Order(node.size(), shuffled)) {
      *out += indent + "-";
      BlockValue(node[i], indent, true, out);
    }
    return;
  }
  std::vector<std::pair<YAML::Node, YAML::Node>> entries;
  for (const auto& entry : node) entries.emplace_back(entry.first, entry.second);
  for (const size_t i : Order(entries.size(), true)) {
    const std::string key = Scalar(entries[i].first);
    *out += indent + (key.size() > 500 ? "? " + key + "\n" + indent : key) + ":";
    BlockValue(entries[i].second, indent, entries[i].first.Scalar() != "overrides", out);
  }
}

}  // namespace

std::string Respell(const std::string& yaml) {
  std::string out = Flip() ? "---\n" : "";
  Block(YAML::Load(yaml), "", true, &out);
  return out;
}

}  // namespace kcc
