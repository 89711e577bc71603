// What is wrong with a plane's options, as far as it can be said without a network.
#pragma once

#include <string>

#include "kcc/base/result.h"
#include "kcc/plane/plane.h"

namespace kcc {

// Limits and times that make sense, hosts that are addresses, an admin port on the loopback, hashes
// of keys that are hashes. Files are not read.
Result<> CheckPlaneOptions(const PlaneOptions& options);

// What cannot change while the plane runs has not changed.
Result<> CheckPlaneReload(const PlaneOptions& old, const PlaneOptions& now);

// "localhost" as the address it stands for.
std::string ListenAddress(const std::string& host);

}  // namespace kcc
