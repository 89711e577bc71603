#include "kcc/kernel/kernel.h"

namespace kcc {

std::map<std::string, std::string> DeclaredBy(const KernelInfo& info) {
  std::map<std::string, std::string> declared = info.declares;
  for (const KernelOption& option : info.options) declared.emplace(option.name, option.value);
  return declared;
}

}  // namespace kcc
