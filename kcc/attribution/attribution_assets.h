// The style of the attribution's page (web/attribution/), embedded at build by cmake/embed.cmake.
#pragma once

#include <string_view>

namespace kcc {

extern const std::string_view kPage_attribution_css;

}  // namespace kcc
