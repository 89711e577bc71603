// The version of the build, in one place of the library.
#pragma once

namespace kcc::api {

const char* Version();

}  // namespace kcc::api
