#include "kcc/api/version.h"

namespace kcc::api {

const char* Version() { return KCC_VERSION; }

}  // namespace kcc::api
