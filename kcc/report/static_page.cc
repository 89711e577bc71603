#include "kcc/report/static_page.h"

#include "kcc/report/page_assets.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

std::string GeneratorMark(std::string_view kind) {
  return "<meta name=\"generator\" content=\"kcc " + std::string(kind) + "\">";
}

std::string Bar(const StaticPage& page) {
  std::string bar = "<div class=\"bar\"><div class=\"wrap\"><div class=\"brand\">kcc <span>" +
                    MarkupEscaped(page.kind) + "</span></div><nav aria-label=\"Sections\">";
  for (const PageSection& section : page.sections) {
    bar +=
        "<a href=\"#" + MarkupEscaped(section.id) + "\">" + MarkupEscaped(section.title) + "</a>";
  }
  return bar + "</nav><button class=\"tool\" id=\"theme\" hidden>Dark</button></div></div>\n";
}

}  // namespace

std::string StaticPageHtml(const StaticPage& page) {
  std::string html =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'unsafe-inline'\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"robots\" "
      "content=\"noindex\">\n" +
      GeneratorMark(page.kind) + "\n<title>" + MarkupEscaped(page.title) + "</title>\n<style>\n" +
      std::string(kPage_style_css) + std::string(kPage_static_css) + std::string(page.style) +
      "</style>\n</head>\n<body>\n" + Bar(page) +
      "<main class=\"wrap\">\n<div class=\"hero lead\"><h1>" + MarkupEscaped(page.title) +
      "</h1><p class=\"headline\">" + MarkupEscaped(page.lead) + "</p>" + page.note + "</div>\n";
  for (const PageSection& section : page.sections) {
    html += "<section id=\"" + MarkupEscaped(section.id) + "\"><header><div><h2>" +
            MarkupEscaped(section.title) + "</h2><p>" + MarkupEscaped(section.explained) +
            "</p></div></header>\n" + section.body + "</section>\n";
  }
  return html + "<footer>" + MarkupEscaped(page.foot) + "</footer>\n</main>\n<script>" +
         std::string(kPage_theme_js) + std::string(kPage_static_js) +
         "</script>\n</body>\n</html>\n";
}

bool IsStaticPage(std::string_view bytes, std::string_view kind) {
  return bytes.substr(0, 1024).find(GeneratorMark(kind)) != std::string_view::npos;
}

std::string TableHtml(std::span<const std::string> head,
                      std::span<const std::vector<std::string>> rows) {
  std::string table = "<div class=\"table-scroll\"><table class=\"grid\"><thead><tr>";
  for (const std::string& cell : head) table += "<th>" + MarkupEscaped(cell) + "</th>";
  table += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    table += "<tr>";
    for (const std::string& cell : row) table += "<td>" + MarkupEscaped(cell) + "</td>";
    table += "</tr>\n";
  }
  return table + "</tbody></table></div>";
}

}  // namespace kcc
