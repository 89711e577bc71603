#include "kcc/contract/comments.h"

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "kcc/contract/canonical.h"
#include "kcc/contract/gateway_reader.h"
#include "kcc/contract/monitor_reader.h"
#include "kcc/contract/policy_reader.h"
#include "kcc/contract/reader.h"

namespace kcc {
namespace {

constexpr auto kNone = std::string_view::npos;

// What a document's comments stand by, with the marks the reader left.
struct MarkedThing {
  Mark mark;
  std::string path;
};

std::vector<MarkedThing> MarkedThings(const Contract& contract) {
  std::vector<MarkedThing> things;
  const auto add = [&](const Mark& mark, std::string path) {
    things.push_back({mark, std::move(path)});
  };
  for (const Clause& clause : contract.clauses) {
    add(clause.mark, "/spec/" + std::string(Name(clause.family)) + "/" + clause.id);
  }
  for (const OwnDefinition& metric : contract.metrics) {
    add(metric.mark, "/spec/metrics/" + std::string(metric.row->id));
  }
  for (const Slice& slice : contract.slices) add(slice.mark, "/spec/slices/" + slice.name);
  const auto& overrides = contract.escalation.overrides;
  for (size_t i = 0; i < overrides.size(); ++i) {
    add(overrides[i].mark, "/spec/escalation/overrides/" + std::to_string(i));
  }
  return things;
}

std::vector<MarkedThing> MarkedThings(const PromotionPolicy& policy) {
  std::vector<MarkedThing> things;
  for (const EnforceRule& rule : policy.enforce) {
    things.push_back({rule.mark, "/spec/enforce/" + rule.clause});
  }
  for (const PolicyHook& hook : policy.hooks) {
    things.push_back({hook.mark, "/spec/hooks/" + hook.name});
  }
  const auto& steps = policy.stage(Stage::kCanary).steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    things.push_back({steps[i].mark, "/spec/canary/steps/" + std::to_string(i)});
  }
  return things;
}

std::vector<MarkedThing> MarkedThings(const MonitorPolicy& policy) {
  std::vector<MarkedThing> things;
  for (size_t i = 0; i < policy.overrides.size(); ++i) {
    things.push_back({policy.overrides[i].mark, "/spec/overrides/" + std::to_string(i)});
  }
  for (const MonitorKernel& kernel : policy.kernels) {
    things.push_back({kernel.mark, "/spec/kernels/" + kernel.name});
  }
  return things;
}

std::vector<MarkedThing> MarkedThings(const GatewayConfig& config) {
  std::vector<MarkedThing> things;
  for (const GatewayField& field : config.fields) {
    things.push_back({field.mark, "/spec/fields/" + field.name});
  }
  for (const GatewayKernel& kernel : config.kernels) {
    things.push_back({kernel.mark, "/spec/kernels/" + kernel.name});
  }
  for (size_t i = 0; i < config.hooks.size(); ++i) {
    things.push_back({config.hooks[i].mark, "/spec/hooks/" + std::to_string(i)});
  }
  return things;
}

struct CommentedText {
  std::string_view text;
  std::vector<MarkedThing> things;
};

struct Line {
  std::string_view content;  // without comment and trailing blanks
  std::string_view comment;  // from its '#'; empty if none
  size_t indent = 0;         // of the content, list dashes included
  size_t key_column = 0;     // past the dashes
  bool continues = false;    // inside brackets, quotes or a block scalar of an earlier line

  bool blank() const { return content.empty() && comment.empty(); }
};

std::string_view TrimEnd(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\r");
  return last == kNone ? std::string_view() : text.substr(0, last + 1);
}

// Splits lines into content and comment; keeps the state that crosses lines.
class Scanner {
 public:
  Line Next(std::string_view text) {
    Line line;
    line.indent = std::min(text.find_first_not_of(' '), text.size());
    line.key_column = line.indent;
    while (text.substr(line.key_column).starts_with("- ")) {
      line.key_column = std::min(text.find_first_not_of(' ', line.key_column + 1), text.size());
    }
    line.continues = quote_ != 0 || depth_ > 0;
    const bool blank = TrimEnd(text).empty();
    if (block_column_ != kNone && (blank || line.indent > block_column_)) {
      line.continues = true;
      line.content = TrimEnd(text);
      return line;
    }
    block_column_ = kNone;
    // "? key" and ": value" are the two halves of an entry whose key is not a plain word.
    const std::string_view entry = text.substr(line.key_column);
    const bool half = entry.starts_with("? ") || entry.starts_with(": ");
    const size_t hash = FindComment(text, line.key_column + (half ? 1 : 0));
    line.content = TrimEnd(text.substr(0, hash));
    if (hash != kNone) line.comment = TrimEnd(text.substr(hash));
    if (quote_ == 0 && depth_ == 0 && StartsBlockScalar(line.content)) {
      block_column_ = line.key_column;
    }
    return line;
  }

 private:
  size_t FindComment(std::string_view text, size_t start) {
    char before = 0;  // the last character that is not blank; 0 where a value may start
    for (size_t i = quote_ != 0 ? 0 : start; i < text.size(); ++i) {
      const char c = text[i];
      const bool doubled = quote_ == '\'' && text.substr(i).starts_with("''");
      if (doubled || (quote_ == '"' && c == '\\')) {
        ++i;  // an escaped character
      } else if (quote_ != 0) {
        if (c == quote_) quote_ = 0;
        before = c;
      } else if (c == '#' && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\t')) {
        return i;
      } else if (c != ' ' && c != '\t') {
        const bool value_start = before == 0 || before == ':' || before == '[' || before == '{' ||
                                 (depth_ > 0 && before == ',');
        if (value_start && (c == '"' || c == '\'')) quote_ = c;
        if (value_start && (c == '[' || c == '{')) ++depth_;
        if (depth_ > 0 && (c == ']' || c == '}')) --depth_;
        before = c;
      }
    }
    return kNone;
  }

  static bool StartsBlockScalar(std::string_view content) {
    const size_t last = content.find_last_not_of("+-0123456789");
    if (last == kNone || (content[last] != '|' && content[last] != '>')) return false;
    return last >= 2 && content[last - 1] == ' ' &&
           (content[last - 2] == ':' || content[last - 2] == '-');
  }

  char quote_ = 0;
  int depth_ = 0;
  size_t block_column_ = kNone;  // key of the block scalar we are in
};

std::vector<Line> Scan(std::string_view text) {
  Scanner scanner;
  std::vector<Line> lines;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(scanner.Next(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// "key" of "  - key: value"; empty if the line has none.
std::string_view KeyOf(const Line& line) {
  const std::string_view text = line.content.substr(std::min(line.key_column, line.content.size()));
  const size_t colon = text.find(':');
  if (colon == kNone || text.find_first_of(" {[\"'") < colon) return {};
  if (colon + 1 < text.size() && text[colon + 1] != ' ') return {};
  return text.substr(0, colon);
}

// Line number (from 0) -> the path of what the line starts with, "/spec/slices/safety", the same
// however the list around it is indented.
std::map<size_t, std::string> MarkedLines(const std::vector<Line>& lines,
                                          const std::vector<MarkedThing>& things) {
  std::map<size_t, std::string> marks;
  for (const MarkedThing& thing : things) {
    const auto line = static_cast<size_t>(thing.mark.line - 1);
    if (thing.mark.line < 1 || line >= lines.size()) continue;
    // What begins further right on the line is not what a comment above the line is about.
    if (static_cast<size_t>(thing.mark.column - 1) != lines[line].key_column) continue;
    marks.emplace(line, thing.path);
  }
  return marks;
}

// What each line of content stands for: a path of marks and keys, its enclosing things before it.
std::vector<std::string> Anchors(const std::vector<Line>& lines,
                                 const std::vector<MarkedThing>& things) {
  struct Open {
    size_t column;
    std::string path;
  };
  const std::map<size_t, std::string> marks = MarkedLines(lines, things);
  std::vector<std::string> anchors(lines.size());
  std::vector<Open> stack;
  for (size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    if (line.content.empty()) continue;
    const auto mark = marks.find(i);
    if (line.continues && mark == marks.end()) {
      anchors[i] = stack.empty() ? "" : stack.back().path;
      continue;
    }
    while (!stack.empty() && stack.back().column >= line.indent) stack.pop_back();
    std::string path = stack.empty() ? "" : stack.back().path;
    if (mark != marks.end()) {
      path = mark->second;
      stack.push_back({line.indent, path});
    } else if (const std::string_view key = KeyOf(line); !key.empty()) {
      path.append("/").append(key);
      stack.push_back({line.key_column, path});
    }
    anchors[i] = path;
  }
  return anchors;
}

struct Note {
  std::string_view text;  // empty: a blank line
};

struct Notes {
  std::vector<Note> above;
  std::string_view beside;
};

// The notes of a formatted text, by the line they go with. A note is never dropped: where its line
// is gone it goes to the nearest thing around it that is left, in the end to the first line.
// Example: the note above `/spec/numerical/N-1` of a contract without N-1 any more stands above
// `/spec/numerical`.
class Placement {
 public:
  Placement(const std::vector<Line>& lines, const std::vector<std::string>& anchors)
      : lines_(lines), notes_(lines.size() + 1) {
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!lines[i].content.empty()) where_.emplace(anchors[i], i);
    }
  }

  void Above(std::string anchor, const std::vector<Note>& notes) {
    auto& above = notes_[Find(std::move(anchor)).first].above;
    above.insert(above.end(), notes.begin(), notes.end());
  }

  void Beside(const std::string& anchor, std::string_view comment) {
    const auto [line, exact] = Find(anchor);
    if (exact && IsWhole(line) && notes_[line].beside.empty()) {
      notes_[line].beside = comment;
    } else {
      notes_[line].above.push_back({comment});
    }
  }

  void AtEnd(const std::vector<Note>& notes) { notes_.back().above = notes; }

  std::string Text() const {
    std::string out;
    for (size_t i = 0; i <= lines_.size(); ++i) {
      const size_t indent = i < lines_.size() ? lines_[i].indent : 0;
      for (const Note& note : notes_[i].above) {
        if (note.text.empty()) {
          if (!out.empty() && !out.ends_with("\n\n")) out += '\n';
        } else {
          out.append(indent, ' ').append(note.text).append("\n");
        }
      }
      if (i == lines_.size()) break;
      if (lines_[i].content.empty() && !lines_[i].continues && out.ends_with("\n\n")) continue;
      out.append(lines_[i].content);
      if (!notes_[i].beside.empty()) out.append("  ").append(notes_[i].beside);
      out += '\n';
    }
    return out;
  }

 private:
  // The line of the anchor or of the nearest thing around it; the first line if there is none.
  std::pair<size_t, bool> Find(std::string anchor) const {
    for (bool exact = true; !anchor.empty(); exact = false) {
      if (const auto found = where_.find(anchor); found != where_.end()) {
        return {found->second, exact};
      }
      anchor.resize(anchor.rfind('/'));
    }
    return {0, false};
  }

  // A comment may stand beside a line only if the thing ends there or opens a block there.
  bool IsWhole(size_t line) const {
    return line + 1 >= lines_.size() || !lines_[line + 1].continues;
  }

  const std::vector<Line>& lines_;
  std::map<std::string, size_t> where_;
  std::vector<Notes> notes_;
};

std::vector<std::string_view> CommentsOf(const std::vector<Line>& lines) {
  std::vector<std::string_view> comments;
  for (const Line& line : lines) {
    if (!line.comment.empty()) comments.push_back(line.comment);
  }
  std::sort(comments.begin(), comments.end());
  return comments;
}

void CarryAll(const std::vector<Line>& lines, const std::vector<std::string>& anchors,
              Placement* placement) {
  std::vector<Note> pending;
  bool has_comment = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    if (line.content.empty()) {
      // A blank line counts only beside a comment; at the start of a text it never does.
      if (!line.comment.empty() || i > 0) pending.push_back({line.comment});
      has_comment |= !line.comment.empty();
      continue;
    }
    if (has_comment) placement->Above(anchors[i], pending);
    pending.clear();
    has_comment = false;
    if (!line.comment.empty()) placement->Beside(anchors[i], line.comment);
  }
  while (!pending.empty() && pending.back().text.empty()) pending.pop_back();
  placement->AtEnd(pending);
}

std::optional<std::string> CarryComments(const CommentedText& source,
                                         const CommentedText& formatted,
                                         const std::function<bool(std::string_view)>& same) {
  const std::vector<Line> from = Scan(source.text);
  const std::vector<Line> to = Scan(formatted.text);
  Placement placement(to, Anchors(to, formatted.things));
  CarryAll(from, Anchors(from, source.things), &placement);
  std::string text = placement.Text();

  // Neither the scanner nor the anchors know all of YAML. Whatever they misread shows here: a
  // comment that was lost or a value that took one in. The caller then leaves the file alone.
  const std::vector<Line> result = Scan(text);
  if (CommentsOf(result) != CommentsOf(from)) return std::nullopt;
  if (!same(text)) return std::nullopt;
  return text;
}

// Of a policy of either kind, with what reads it.
template <class Policy, class Read>
std::optional<std::string> CarryPolicyComments(std::string_view source, const Policy& source_policy,
                                               std::string_view formatted,
                                               const Policy& formatted_policy, Read read) {
  return CarryComments({source, MarkedThings(source_policy)},
                       {formatted, MarkedThings(formatted_policy)}, [&](std::string_view text) {
                         const auto outcome = read(text);
                         return outcome.policy &&
                                PolicyDigest(*outcome.policy) == PolicyDigest(source_policy);
                       });
}

}  // namespace

bool HasComments(std::string_view yaml) { return !CommentsOf(Scan(yaml)).empty(); }

std::optional<std::string> CarryComments(std::string_view source, const Contract& source_contract,
                                         std::string_view formatted,
                                         const Contract& formatted_contract) {
  return CarryComments({source, MarkedThings(source_contract)},
                       {formatted, MarkedThings(formatted_contract)}, [&](std::string_view text) {
                         const ReadOutcome outcome = ReadContract(text);
                         return outcome.contract && ContractDigest(*outcome.contract) ==
                                                        ContractDigest(source_contract);
                       });
}

std::optional<std::string> CarryComments(std::string_view source,
                                         const PromotionPolicy& source_policy,
                                         std::string_view formatted,
                                         const PromotionPolicy& formatted_policy) {
  return CarryPolicyComments(source, source_policy, formatted, formatted_policy, ReadPolicy);
}

std::optional<std::string> CarryComments(std::string_view source,
                                         const MonitorPolicy& source_policy,
                                         std::string_view formatted,
                                         const MonitorPolicy& formatted_policy) {
  return CarryPolicyComments(source, source_policy, formatted, formatted_policy, ReadMonitorPolicy);
}

std::optional<std::string> CarryComments(std::string_view source,
                                         const GatewayConfig& source_config,
                                         std::string_view formatted,
                                         const GatewayConfig& formatted_config) {
  return CarryComments({source, MarkedThings(source_config)},
                       {formatted, MarkedThings(formatted_config)}, [&](std::string_view text) {
                         const GatewayOutcome outcome = ReadGateway(text);
                         return outcome.config &&
                                GatewayDigest(*outcome.config) == GatewayDigest(source_config);
                       });
}

}  // namespace kcc
