// The sources of the replay page (web/replay/), embedded at build by cmake/embed.cmake.
#pragma once

#include <string_view>

namespace kcc {

extern const std::string_view kPage_replay_html;
extern const std::string_view kPage_replay_css;
extern const std::string_view kPage_replay_js;

}  // namespace kcc
