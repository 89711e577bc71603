#include "kcc/contract/yaml_document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <istream>
#include <limits>
#include <streambuf>

#include "kcc/contract/text_check.h"

namespace kcc {
namespace {

// Leaves yaml-cpp from inside an event or a read; caught in Parse.
struct Stop {
  size_t offset;
  std::string code;
  std::string message;
  std::string hint;
};

// Feeds the text to yaml-cpp and meters it: tokens pile up between two events only, so the
// indicators fed since the last event bound the pile.
class MeteredBuffer : public std::streambuf {
 public:
  explicit MeteredBuffer(std::string_view text) {
    // The buffer is only read; std::streambuf has no const form.
    char* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
  void OnEvent() { since_event_ = 0; }

 protected:
  std::streamsize xsgetn(char* to, std::streamsize n) override {
    const std::streamsize got = std::streambuf::xsgetn(to, n);
    for (std::streamsize i = 0; i < got; ++i) since_event_ += kWeights[static_cast<uint8_t>(to[i])];
    if (since_event_ > kYamlIndicatorsMax) {
      throw Stop{static_cast<size_t>(gptr() - eback()), "too-large",
                 "too much in one piece: an outermost [...] or {...}, a text or a comment",
                 "write outer lists and mappings in block style, one item a line"};
    }
    return got;
  }

 private:
  // What may make a token. An opener also makes a potential key and a level.
  static constexpr std::array<uint8_t, 256> kWeights = [] {
    std::array<uint8_t, 256> weights{};
    for (const char c : std::string_view(",]}:?\"'&*!|>-%\n")) {
      weights[static_cast<uint8_t>(c)] = 1;
    }
    weights['['] = weights['{'] = 4;
    return weights;
  }();
  size_t since_event_ = 0;
};

struct Wording {
  std::string_view theirs;
  std::string_view code;
  std::string_view message;
  std::string_view hint;
};

// clang-format off
constexpr Wording kWordings[] = {
    {"illegal map value", "yaml-syntax", "a ':' that cannot start a value here",
     "put a text that contains ': ' in quotes, and check the indentation"},
    {"illegal map key", "yaml-syntax", "a key cannot stand here", "check the indentation"},
    {"illegal block entry", "yaml-syntax", "a '- ' item cannot stand here",
     "check the indentation; lists inside [...] use commas"},
    {"end of map not found", "yaml-syntax", "this does not continue the mapping it stands in",
     "check the indentation and for a missing ':'"},
    {"end of sequence not found", "yaml-syntax", "this does not continue the list it stands in",
     "check the indentation; every item starts with '- '"},
    {"end of map flow not found", "yaml-syntax", "a '{' is not closed, or a ',' is missing before this",
     "close it with '}'"},
    {"end of sequence flow not found", "yaml-syntax", "a '[' is not closed, or a ',' is missing before this",
     "close it with ']'"},
    {"illegal flow end", "yaml-syntax", "a closing bracket without its opening one", "remove it"},
    {"illegal EOF in scalar", "yaml-syntax", "the text ends inside quotes", "close the quotes"},
    {"the referenced anchor is not defined", "unknown-anchor", "this alias names no anchor",
     "define the anchor (&name) before its first use, or quote a text that starts with '*'"},
    {"unknown token", "yaml-syntax", "no YAML value can start with this character",
     "put the text in quotes"},
    {"tag handle with no suffix", "tag", "tags (!name) are no part of the contract language", "remove it"},
    {"bad file", "too-deep", "lists and mappings are nested too deeply", "a contract needs no more than 8 levels"},
};
// clang-format on

}  // namespace

// Turns events into nodes. Children are collected on a stack and become contiguous when their
// collection ends.
//
// Nodes are numbered in the order in which they begin, so a collection has a smaller number than
// what is in it. Example, `a: [x, y]`; the stack holds the numbers of nodes that wait for their
// collection:
//
//     MapStart        node 0, open             stack 0
//     Scalar a        node 1                   stack 0 1
//     SequenceStart   node 2, open             stack 0 1 2
//     Scalar x, y     nodes 3, 4               stack 0 1 2 3 4
//     SequenceEnd     children of 2 are 3, 4   stack 0 1 2
//     MapEnd          children of 0 are 1, 2   stack 0
//
// An alias pushes the number of a node that is already complete. So the nodes are a tree of bounded
// size with shared parts, never a cycle: an anchor has the number kOpen until its node is closed.
class YamlTreeBuilder : public YAML::EventHandler {
 public:
  YamlTreeBuilder(YamlDocument* document, MeteredBuffer* buffer)
      : document_(*document), text_(document->source_.text()), buffer_(*buffer) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (!done_) return;
    const size_t offset = OffsetOf(mark);
    const bool marker = text_.substr(offset).starts_with("---");
    throw Stop{offset, "several-documents",
               marker ? "a second document starts here" : "text after the end of the document",
               marker ? "a contract is one document; put the other into its own file"
                      : "check the indentation and the brackets before it"};
  }
  void OnDocumentEnd() override { done_ = true; }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const size_t offset = OffsetOf(mark);
    YamlNode node;
    // An empty value has the next token's mark; one that was written has its own text.
    const std::string_view rest = text_.substr(std::min(offset, text_.size()));
    for (const std::string_view word : {"~", "null", "Null", "NULL"}) {
      if (rest.starts_with(word)) node.text = rest.substr(0, word.size());
    }
    node.offset = static_cast<uint32_t>(offset);
    Leaf(node, anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const size_t offset = Begin(mark, tag, anchor);
    YamlNode node;
    node.kind = YamlNode::Kind::kScalar;
    node.quoted = tag == "!";
    node.offset = static_cast<uint32_t>(offset);
    const size_t skip = node.quoted ? 1 : 0;
    // Most values stand in the source as they are; only what escapes or folding changed is copied.
    if (text_.substr(std::min(offset + skip, text_.size())).starts_with(value)) {
      node.text = text_.substr(offset + skip, value.size());
    } else {
      if (CheckText(value)) {
        throw Stop{offset, "control-character", "an escape for a control or invisible character",
                   "remove it"};
      }
      node.text = document_.texts_.emplace_back(value);
    }
    Leaf(node, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    buffer_.OnEvent();
    const size_t offset = OffsetOf(mark);
    const uint32_t target = anchor < anchors_.size() ? anchors_[anchor] : kOpen;
    if (target == kOpen) {
      throw Stop{offset, "alias-cycle", "this alias stands inside the node that it names",
                 "write the value out"};
    }
    const Extent extent = extents_[target];
    alias_cost_ += extent.cost;
    if (alias_cost_ > kYamlAliasBudget || open_.size() + extent.height > kYamlDepthMax) {
      throw Stop{offset, "alias-limit", "aliases repeat more than a contract may hold",
                 "write the values out, or repeat less"};
    }
    stack_.push_back(target);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kSequence, Begin(mark, tag, anchor), anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kMapping, Begin(mark, tag, anchor), anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapEnd() override { Close(); }

  bool Finish() {
    if (!done_ || stack_.empty()) return false;
    document_.root_ = stack_.back();
    return true;
  }

 private:
  static constexpr uint32_t kOpen = std::numeric_limits<uint32_t>::max();

  // An alias costs nothing to store, but whoever visits the tree visits its target each time: nine
  // levels of ten aliases each would be 10^9 visits.
  // What repeating a node costs. Sums saturate: they are only compared with the budget.
  struct Extent {
    uint32_t cost = 1;
    uint32_t height = 0;
  };
  struct OpenNode {
    uint32_t node;
    size_t stack_size;
    YAML::anchor_t anchor;
  };

  static size_t OffsetOf(const YAML::Mark& mark) {
    return mark.pos < 0 ? 0 : static_cast<size_t>(mark.pos);
  }

  // Where the node itself begins: past its anchor. Refuses tags.
  size_t Begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    size_t offset = OffsetOf(mark);
    if (anchor != YAML::NullAnchor && offset < text_.size() && text_[offset] == '&') {
      const size_t blank = text_.find_first_of(" \t\r\n", offset);
      const size_t next = text_.find_first_not_of(" \t\r\n", std::min(blank, text_.size()));
      if (next != std::string_view::npos && text_[next] != '#') offset = next;
    }
    const bool tagged =
        (tag != "?" && tag != "!") || (tag == "!" && offset < text_.size() && text_[offset] == '!');
    if (tagged) {
      throw Stop{offset, "tag", "tags (!name) are no part of the contract language",
                 "remove it, or quote a text that starts with '!'"};
    }
    return offset;
  }

  uint32_t Add(const YamlNode& node, Extent extent) {
    buffer_.OnEvent();
    if (document_.nodes_.size() >= kYamlNodesMax) {
      throw Stop{node.offset, "too-large", "more than " + std::to_string(kYamlNodesMax) + " values",
                 "split the contract"};
    }
    document_.nodes_.push_back(node);
    extents_.push_back(extent);
    const auto index = static_cast<uint32_t>(document_.nodes_.size() - 1);
    stack_.push_back(index);
    return index;
  }

  void SetAnchor(YAML::anchor_t anchor, uint32_t index) {
    if (anchor == YAML::NullAnchor) return;
    if (anchor > kYamlAnchorsMax) {
      throw Stop{document_.nodes_.back().offset, "too-large",
                 "more than " + std::to_string(kYamlAnchorsMax) + " anchors",
                 "write the values out"};
    }
    if (anchor >= anchors_.size()) anchors_.resize(anchor + 1, kOpen);
    anchors_[anchor] = index;
  }

  void Leaf(const YamlNode& node, YAML::anchor_t anchor) {
    SetAnchor(anchor, Add(node, {static_cast<uint32_t>(1 + node.text.size() / 16), 1}));
  }

  void Open(YamlNode::Kind kind, size_t offset, YAML::anchor_t anchor) {
    if (open_.size() >= kYamlDepthMax) {
      throw Stop{
          offset, "too-deep",
          "lists and mappings are nested more than " + std::to_string(kYamlDepthMax) + " deep",
          "a contract needs no more than 8 levels"};
    }
    YamlNode node;
    node.kind = kind;
    node.offset = static_cast<uint32_t>(offset);
    const uint32_t index = Add(node, {});
    SetAnchor(anchor, kOpen);
    open_.push_back({index, stack_.size(), anchor});
  }

  void Close() {
    buffer_.OnEvent();
    const OpenNode open = open_.back();
    open_.pop_back();
    YamlNode& node = document_.nodes_[open.node];
    node.first = static_cast<uint32_t>(document_.children_.size());
    node.count = static_cast<uint32_t>(stack_.size() - open.stack_size);
    uint64_t cost = 1;
    uint32_t height = 0;
    for (size_t i = open.stack_size; i < stack_.size(); ++i) {
      document_.children_.push_back(stack_[i]);
      cost += extents_[stack_[i]].cost;
      height = std::max(height, extents_[stack_[i]].height);
    }
    cost = std::min<uint64_t>(cost, kYamlAliasBudget + 1);
    extents_[open.node] = {static_cast<uint32_t>(cost), height + 1};
    stack_.resize(open.stack_size);
    SetAnchor(open.anchor, open.node);
  }

  YamlDocument& document_;
  std::string_view text_;
  MeteredBuffer& buffer_;
  std::vector<Extent> extents_;
  std::vector<uint32_t> stack_;  // finished nodes whose collection is still open
  std::vector<OpenNode> open_;
  std::vector<uint32_t> anchors_;  // by yaml-cpp's anchor number
  size_t alias_cost_ = 0;
  bool done_ = false;
};

namespace {

Diagnostic ErrorAt(const SourceText& source, Stop stop) {
  return {DiagnosticKind::kError, std::move(stop.code),       std::move(stop.message),
          std::move(stop.hint),   source.MarkAt(stop.offset), 1};
}

// A tab in the indentation is behind most of yaml-cpp's errors on its line, and none says so.
std::optional<size_t> TabInIndentation(std::string_view text, size_t offset) {
  const size_t before = offset == 0 ? std::string_view::npos : text.rfind('\n', offset - 1);
  const size_t start = before == std::string_view::npos ? 0 : before + 1;
  const size_t content = text.find_first_not_of(" \t", start);
  const size_t tab = text.find('\t', start);
  if (tab == std::string_view::npos || tab > content) return {};
  return tab;
}

Diagnostic SyntaxError(const SourceText& source, const YAML::Exception& error) {
  const size_t offset =
      std::min(error.mark.pos < 0 ? 0 : static_cast<size_t>(error.mark.pos), source.text().size());
  if (const auto tab = TabInIndentation(source.text(), offset)) {
    return ErrorAt(source, {*tab, "tab", "a tab in the indentation", "YAML indents with blanks"});
  }
  for (const Wording& row : kWordings) {
    if (error.msg == row.theirs) {
      return ErrorAt(
          source, {offset, std::string(row.code), std::string(row.message), std::string(row.hint)});
    }
  }
  return ErrorAt(source, {offset, "yaml-syntax", "not YAML: " + error.msg, ""});
}

}  // namespace

tl::expected<YamlDocument, Diagnostic> YamlDocument::Parse(std::string_view text) {
  if (auto problem = CheckText(text)) return tl::unexpected(std::move(*problem));
  YamlDocument document(text);
  const SourceText& source = document.source_;
  try {
    MeteredBuffer buffer(source.text());
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    YamlTreeBuilder builder(&document, &buffer);
    while (parser.HandleNextDocument(builder)) {
    }
    if (!builder.Finish()) {
      return tl::unexpected(ErrorAt(
          source, {0, "empty", "the document is empty", "start with 'apiVersion: kcc/v1'"}));
    }
  } catch (Stop& stop) {
    return tl::unexpected(ErrorAt(source, std::move(stop)));
  } catch (const YAML::Exception& error) {
    return tl::unexpected(SyntaxError(source, error));
  }
  return document;
}

int YamlDocument::LengthOf(const YamlNode& node) const {
  if (node.kind != YamlNode::Kind::kScalar) return 1;
  const std::string_view first_line = node.text.substr(0, node.text.find('\n'));
  return static_cast<int>(std::max<size_t>(1, CodePoints(first_line) + (node.quoted ? 2 : 0)));
}

size_t YamlDocument::OffsetWithin(const YamlNode& scalar, size_t i) const {
  const std::string_view text = source_.text();
  const bool piece = scalar.text.data() >= text.data() &&
                     scalar.text.data() + scalar.text.size() <= text.data() + text.size();
  if (!piece) return scalar.offset;
  return static_cast<size_t>(scalar.text.data() - text.data()) + std::min(i, scalar.text.size());
}

}  // namespace kcc
