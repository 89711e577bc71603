// Replay as JSON and as one self-contained HTML page: the JSON inside, a script that draws it.
#include "kcc/base/check.h"
#include "kcc/base/json_writer.h"
#include "kcc/rl/replay.h"
#include "kcc/rl/replay_assets.h"

namespace kcc {
namespace {

void WriteFigures(const RlCorrectionFigures& f, JsonWriter& json) {
  json.BeginObject().Field("slice", f.slice).Field("tokens", f.tokens);
  json.Field("tokens_kept", f.tokens_kept).Field("rows", f.rows).Field("rows_kept", f.rows_kept);
  json.Field("ess", f.ess).Field("mean_weight", f.mean_weight);
  json.Field("bias_token", f.bias_token).Field("bias_sequence", f.bias_sequence);
  json.Field("variance", f.variance).Field("everything_rejected", f.everything_rejected());
  json.EndObject();
}

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

std::string ReplayJson(const RlReplay& replay) {
  JsonWriter json;
  json.BeginObject().Field("recommended", replay.recommended).Field("reason", replay.reason);
  json.Key("corrections").BeginArray();
  for (const RlReplayRow& row : replay.rows) {
    json.BeginObject().Field("text", DescribeCorrection(row.correction));
    json.Field("bias_bound", BiasExpression(row.correction));
    json.Key("correction").Raw(CorrectionJson(row.correction));
    json.Field("pareto", row.pareto).Field("kept_min", row.kept_min);
    json.Field("kept_min_slice", row.kept_min_slice);
    json.Key("figures").BeginArray();
    for (const RlCorrectionFigures& f : row.figures) WriteFigures(f, json);
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

std::string ReplayHtml(const RlReplay& replay, std::string_view title) {
  std::string page(kPage_replay_html);
  Fill(&page, "title", Escaped(title, "&lt;", "&amp;"));
  Fill(&page, "style", kPage_replay_css);
  Fill(&page, "data", Escaped(ReplayJson(replay), "\\u003c", "&"));
  Fill(&page, "script", kPage_replay_js);
  return page;
}

}  // namespace kcc
