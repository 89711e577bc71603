#include "kcc/kernel/ca_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace kcc {
namespace {

TEST(SystemCaFile, IsTheFirstPlaceThatIsAFile) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "kcc-ca-file-test";
  std::filesystem::create_directories(folder / "certs");
  const std::string missing = folder / "missing.crt";
  const std::string directory = folder / "certs";
  const std::string fedora = folder / "ca-bundle.crt";
  const std::string suse = folder / "ca-bundle.pem";
  std::ofstream(fedora) << "certificates";
  std::ofstream(suse) << "certificates";
  const auto found = [](std::vector<const char*> places) { return SystemCaFile(places); };
  EXPECT_EQ(found({missing.c_str(), directory.c_str(), fedora.c_str(), suse.c_str()}), fedora);
  EXPECT_EQ(found({suse.c_str(), fedora.c_str()}), suse);
  // None: libcurl's own place counts, so nothing must be named.
  EXPECT_EQ(found({missing.c_str(), directory.c_str()}), "");
  EXPECT_EQ(found({}), "");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kcc
