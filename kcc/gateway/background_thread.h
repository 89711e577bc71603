// Threads off the path of requests go behind those on it, where the two compete for a core.
#pragma once

namespace kcc {

// Gives the calling thread a name, of at most 15 characters, and a lower priority. Where the system
// does not let it, it stays as it was.
void GoBehindTraffic(const char* name);

}  // namespace kcc
