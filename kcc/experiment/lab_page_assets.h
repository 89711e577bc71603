// The sources of the experiments' pages (web/lab/), embedded at build by cmake/embed.cmake.
#pragma once

#include <string_view>

namespace kcc {

extern const std::string_view kPage_experiment_css;

}  // namespace kcc
