// Runs a fuzz target over the files of a folder, for builds without libFuzzer. A crash fails the
// test; so does an input that takes more processor time than the limit, and a folder without
// inputs.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  constexpr double kLimitSeconds = 1.0;
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  int slow = 0;
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const std::clock_t start = std::clock();
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    if (seconds > kLimitSeconds) {
      std::fprintf(stderr, "%s took %.2f s\n", path.c_str(), seconds);
      ++slow;
    }
  }
  std::printf("%zu inputs, %d slow\n", paths.size(), slow);
  return paths.empty() || slow > 0 ? 1 : 0;
}
