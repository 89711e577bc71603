// What a page says in its Content-Security-Policy about the scripts and styles that are written in
// it.
#pragma once

#include <string>
#include <string_view>

namespace kcc {

// 'sha256-…', quotes included: the name of a script or a style by its exact text.
std::string SourceHash(std::string_view source);

}  // namespace kcc
