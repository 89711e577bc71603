#include "apps/kcc/shipped.h"

#include <filesystem>
#include <system_error>

namespace kcc::cli {
namespace {

// A folder of "." adds nothing to a name, so that messages show what the user would type.
std::string In(const std::string& folder, std::string_view name) {
  return folder == "." ? std::string(name) : folder + "/" + std::string(name);
}

// `name` is a file or a directory; `instead` says how the user names another.
Result<std::string> Find(const Console& console, std::string_view what, std::string_view name,
                         std::string_view instead) {
  std::string looked;
  for (const std::string& folder : console.shipped) {
    std::string path = In(folder, name);
    std::error_code failed;  // what cannot be looked at is not there
    if (std::filesystem::exists(path, failed)) return path;
    looked += (looked.empty() ? "" : ", nor ") + path;
  }
  return IoError(std::string(what) + " was not found: there is no " + looked + ". Give " +
                 std::string(instead) +
                 ", run in a checkout of kcc, or install the program with its data: cmake "
                 "--install build/release --prefix PREFIX");
}

}  // namespace

ShippedModel ShippedModelOf(const Console& console) {
  return [&console] {
    return Find(console, "the lab's model", kLabModelDirectory,
                "--model DIR or lab:NAME?model=DIR");
  };
}

Result<std::string> ShippedRequests(const Console& console) {
  return Find(console, "the evaluation set of the lab's model",
              std::string(kLabModelDirectory) + "/eval.jsonl", "--requests FILE");
}

Result<std::string> ShippedLabContract(const Console& console) {
  return Find(console, "the lab's contract", "contracts/lab.yaml", "--contract FILE");
}

Result<std::string> ShippedRlContract(const Console& console) {
  return Find(console, "the contract of rollouts", "contracts/rl-post-training.yaml",
              "--contract FILE");
}

}  // namespace kcc::cli
