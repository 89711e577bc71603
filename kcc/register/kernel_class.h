// Which kernels may stand in for one another under a contract: for each model and training kernel,
// the inference kernels whose last evaluation in every stage is satisfied.
//
// Each was judged against the training kernel, and not against the others of its class: drifts add
// up, so two members may differ by more than the contract allows a pair.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/register/register.h"

namespace kcc {

struct StageVerdict {
  std::string verdict;
  std::string evaluation;  // its id
};

struct ClassMember {
  std::string kernel;  // infer
  std::string triple;
  std::map<std::string, StageVerdict> stages;  // the last evaluation of each
  bool interchangeable = false;                // there is one, and all of them are satisfied
};

struct KernelClass {
  std::string model;
  std::string train;
  std::vector<ClassMember> members;  // by kernel
};

// Fails with kInvalid where the contract is not in the register.
Result<std::vector<KernelClass>> KernelClasses(Register& source, const std::string& contract);

}  // namespace kcc
