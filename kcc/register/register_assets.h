// The style of the register's page (web/register/), embedded at build by cmake/embed.cmake.
#pragma once

#include <string_view>

namespace kcc {

extern const std::string_view kPage_register_css;

}  // namespace kcc
