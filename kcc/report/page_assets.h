// The sources of the HTML page (web/report/), embedded at build by cmake/embed.cmake.
#pragma once

#include <string_view>

namespace kcc {

extern const std::string_view kPage_page_html;
extern const std::string_view kPage_style_css;
extern const std::string_view kPage_theme_js;
extern const std::string_view kPage_data_js;
extern const std::string_view kPage_charts_js;
extern const std::string_view kPage_page_js;

}  // namespace kcc
