// The style of the monitor's page (web/monitor/), embedded at build by cmake/embed.cmake.
#pragma once

#include <string_view>

namespace kcc {

extern const std::string_view kPage_monitor_css;

}  // namespace kcc
