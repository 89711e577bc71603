// The sources of the HTML page (web/report/), embedded at build by cmake/embed.cmake.
#pragma once

#include <string_view>

namespace kcc {

extern const std::string_view kPage_page_html;
extern const std::string_view kPage_style_css;
extern const std::string_view kPage_theme_js;
extern const std::string_view kPage_elements_js;
extern const std::string_view kPage_glyphs_js;
extern const std::string_view kPage_copy_js;
extern const std::string_view kPage_data_js;
extern const std::string_view kPage_share_js;
extern const std::string_view kPage_charts_js;
extern const std::string_view kPage_findings_js;
extern const std::string_view kPage_page_js;
// Of the pages that are written whole (static_page.h).
extern const std::string_view kPage_static_css;
extern const std::string_view kPage_static_js;

}  // namespace kcc
