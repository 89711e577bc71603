// The frame of the pages that are written whole, without a script that draws them: experiments and
// attribution. Head, bar with the sections, theme, and the report's own style, so that all pages of
// kcc look alike. Pictures are inline SVG without text in them, so that they stretch with the page;
// words and numbers around them are HTML. No script but the choice of theme.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kcc {

struct PageSection {
  std::string_view id;
  std::string_view title;
  std::string_view explained;  // one paragraph
  std::string body;            // HTML
};

struct StaticPage {
  std::string_view kind;  // "lab", beside the name of the program
  std::string_view title;
  std::string_view lead;
  std::string note;  // HTML under the lead; may be empty
  std::span<const PageSection> sections;
  std::string_view foot;
  std::string_view style;  // what the page adds to the report's
};

// One self-contained page. Texts are escaped, HTML is not.
std::string StaticPageHtml(const StaticPage& page);

// Whether StaticPageHtml made the bytes for a page of this kind.
bool IsStaticPage(std::string_view bytes, std::string_view kind);

// Written by kcc attribute, and linked from report.html where both stand in one directory.
inline constexpr std::string_view kAttributionPage = "attribution.html";
inline constexpr std::string_view kAttributionKind = "attribute";

// A table of texts, which are escaped here.
std::string TableHtml(std::span<const std::string> head,
                      std::span<const std::vector<std::string>> rows);

}  // namespace kcc
