// The canary's share as an operator set it last, kept over a restart: what was taken back at night
// must not be given again by a deploy. It counts as long as the configuration says what it said
// then, and only where it is less.
#pragma once

#include <string>

#include "kcc/base/result.h"
#include "kcc/control/route_plan.h"

namespace kcc {

Result<> KeepCanary(const std::string& path, const RouteWishes& configured,
                    const RouteWishes& asked);
// The configuration's wishes with the kept share. A file that is not there, or cannot be read,
// changes nothing.
RouteWishes WithKeptCanary(const std::string& path, const RouteWishes& configured);

}  // namespace kcc
