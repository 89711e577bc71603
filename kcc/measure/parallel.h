// ParallelFor: the project's one way to run parts of a job on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace kcc {

// Calls work(0) … work(parts - 1), the first on the calling thread and each other one on a thread
// of its own, and returns when all have ended. Where a thread cannot be started, the caller does
// that part as well: slower, with the same result. An exception thrown by a part is thrown again
// here after all parts have ended; of several, that of the lowest part.
void ParallelFor(size_t parts, const std::function<void(size_t part)>& work);

}  // namespace kcc
