// The source of the page of runs (web/curves/), embedded at build by cmake/embed.cmake.
#pragma once

#include <string_view>

namespace kcc {

extern const std::string_view kPage_curves_css;

}  // namespace kcc
