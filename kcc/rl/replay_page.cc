// Replay as one self-contained HTML page: the JSON inside, a script that draws it.
#include "kcc/base/check.h"
#include "kcc/base/json_writer.h"
#include "kcc/report/page_assets.h"
#include "kcc/rl/replay.h"
#include "kcc/rl/replay_assets.h"
#include "kcc/rl/rl_version1.h"

namespace kcc {
namespace {

// Fills {{name}} once.
void Fill(std::string* page, std::string_view name, std::string_view text) {
  const std::string mark = "{{" + std::string(name) + "}}";
  const size_t at = page->find(mark);
  KCC_CHECK(at != std::string::npos);
  page->replace(at, mark.size(), text);
}

// "<" cannot end the script element it stands in, nor open a tag.
std::string Escaped(std::string_view text, std::string_view less, std::string_view ampersand) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += less;
    } else if (c == '&') {
      out += ampersand;
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string ReplayHtml(const RlReplay& replay, std::string_view title,
                       const RlReplayAnswer& answer) {
  std::string page(kPage_replay_html);
  Fill(&page, "title", Escaped(title, "&lt;", "&amp;"));
  Fill(&page, "style", kPage_replay_css);
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("unneeded", answer.unneeded).Field("advised", answer.advised);
  json.Field("clip", answer.clip).Field("framework", answer.framework);
  json.Key("settings").BeginArray();
  for (const std::string& line : answer.settings) json.Value(line);
  json.EndArray().EndObject();
  Fill(&page, "answer", Escaped(json.Take(), "\\u003c", "&"));
  Fill(&page, "data", Escaped(rl_version1::ReplayJson(replay), "\\u003c", "&"));
  Fill(&page, "script", std::string(kPage_theme_js) + std::string(kPage_replay_js));
  return page;
}

}  // namespace kcc
