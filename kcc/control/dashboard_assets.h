// The sources of the dashboard (web/dashboard/), embedded at build by cmake/embed.cmake.
#pragma once

#include <string_view>

namespace kcc {

extern const std::string_view kPage_dashboard_html;
extern const std::string_view kPage_dashboard_css;
extern const std::string_view kPage_state_js;
extern const std::string_view kPage_stream_js;
extern const std::string_view kPage_timeline_js;
extern const std::string_view kPage_sections_js;
extern const std::string_view kPage_dashboard_js;

}  // namespace kcc
