// YAML text -> a light tree with source positions. The only file that includes yaml-cpp is this
// one's .cc; its exceptions end there.
//
// Built from yaml-cpp's events rather than from YAML::Node, which drops duplicate keys, forgets
// which scalars were quoted, and expands what it is given. Here:
//  - every scalar is text; what it means is decided by the key that asks (`NO` is the text NO);
//  - duplicate keys are all there, in order;
//  - an alias is the node it names (a shared index, no copy), within the limits below;
//  - tags, several documents, control characters and bytes that are not UTF-8 are refused.
// Time and memory are bounded by the limits, whatever the text.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "kcc/contract/diagnostic.h"
#include "kcc/contract/source_text.h"

namespace kcc {

inline constexpr uint32_t kYamlDepthMax = 64;
inline constexpr size_t kYamlNodesMax = 300'000;
inline constexpr size_t kYamlAnchorsMax = 10'000;
// What aliases may add: one unit per node and per 16 bytes of text.
inline constexpr size_t kYamlAliasBudget = 100'000;
// yaml-cpp holds every token of an outermost [...] or {...} before it reports the first. This
// bounds the tokens between two events, counted as indicator characters and line ends; it also
// bounds the lines of one text or comment.
inline constexpr size_t kYamlIndicatorsMax = 131'072;

struct YamlNode {
  enum class Kind : uint8_t { kNull, kScalar, kSequence, kMapping };
  Kind kind = Kind::kNull;
  bool quoted = false;    // a scalar in quotes or a block scalar
  uint32_t offset = 0;    // where it begins, in bytes of SourceText::text()
  std::string_view text;  // of a scalar
  uint32_t first = 0;     // children: items, or keys and values in turn
  uint32_t count = 0;
};

class YamlDocument {
 public:
  // `text` must outlive the document.
  static tl::expected<YamlDocument, Diagnostic> Parse(std::string_view text);

  const YamlNode& root() const { return nodes_[root_]; }
  const SourceText& source() const { return source_; }

  size_t size(const YamlNode& node) const {
    return node.kind == YamlNode::Kind::kMapping ? node.count / 2 : node.count;
  }
  const YamlNode& item(const YamlNode& sequence, size_t i) const {
    return nodes_[children_[sequence.first + i]];
  }
  const YamlNode& key(const YamlNode& mapping, size_t i) const {
    return nodes_[children_[mapping.first + 2 * i]];
  }
  const YamlNode& value(const YamlNode& mapping, size_t i) const {
    return nodes_[children_[mapping.first + 2 * i + 1]];
  }

  // Where the node begins, and how many columns of its first line it covers.
  Mark MarkOf(const YamlNode& node) const { return source_.MarkAt(node.offset); }
  int LengthOf(const YamlNode& node) const;
  // The offset in the source of the i-th byte of the scalar's text; the scalar's own where the
  // text was unescaped or folded.
  size_t OffsetWithin(const YamlNode& scalar, size_t i) const;

 private:
  friend class YamlTreeBuilder;
  explicit YamlDocument(std::string_view text) : source_(text) {}

  SourceText source_;
  std::vector<YamlNode> nodes_;
  std::vector<uint32_t> children_;
  std::deque<std::string> texts_;  // scalars that are not a piece of the source as they stand
  uint32_t root_ = 0;
};

}  // namespace kcc
