// What kcc doctor looks at, one finding each: what was found, and what to do where it is not right.
#pragma once

#include <string>
#include <vector>

#include "apps/kcc/commands.h"

namespace kcc::cli {

enum class Found {
  kOk,
  kMissing,  // not there; kcc does without it unless it is needed
  kBroken,   // there, and does not work
};

struct Finding {
  std::string_view group;  // "installation", "engines", "gpu" or "server"
  std::string name;
  Found found = Found::kOk;
  std::string detail;
  std::string remedy;   // empty where it is right
  bool needed = false;  // without it doctor fails
};

// Each adds its findings in a fixed order.
void CheckInstallation(const Console& console, std::vector<Finding>* findings);
void CheckEngines(const DoctorOptions& options, std::vector<Finding>* findings);
void CheckGpu(const DoctorOptions& options, std::vector<Finding>* findings);
void CheckServer(const DoctorOptions& options, Console& console, std::vector<Finding>* findings);

}  // namespace kcc::cli
