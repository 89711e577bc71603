// Threads off the path of requests go behind those on it, where the two compete for a core.
#pragma once

namespace kcc {

// Lowers the priority of the calling thread. Where the system does not let it, it stays as it was.
void GoBehindTraffic();

}  // namespace kcc
