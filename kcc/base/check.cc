#include "kcc/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace kcc {

void CheckFailed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: kcc bug: check failed: %s\n", file, line, expression);
  std::abort();
}

}  // namespace kcc
