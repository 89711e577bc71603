// Any bytes as the input of an importer, which the first byte chooses: an error and nothing left
// behind, or a trace that passes verification.
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fuzz/memory_file.h"
#include "kcc/base/check.h"
#include "kcc/trace/import.h"
#include "kcc/trace/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto importers = kcc::Importers();
  const kcc::Importer& importer = importers[data[0] % importers.size()];
  const kcc::MemoryFile file(data + 1, size - 1);
  kcc::ImportOptions options;
  options.fingerprint = "fuzz";
  options.vocab_size = importer.name == "llama-kld" ? 0 : 32;
  options.side = kcc::ImportSide::kInfer;
  options.temperature = (data[0] & 0x80) != 0 ? std::optional<double>(1.0) : std::nullopt;
  options.mask_missing = (data[0] & 0x40) != 0;
  static const std::string scratch =
      (std::filesystem::temp_directory_path() / ("kcc-fuzz-" + std::to_string(::getpid())))
          .string();
  std::filesystem::create_directories(scratch);
  const std::vector<std::string> inputs = {file.path()};
  const auto report = importer.run(inputs, scratch + "/trace", options);
  if (report.has_value()) {
    const auto reader = kcc::TraceReader::Open(scratch + "/trace");
    KCC_CHECK(reader.has_value());
    const auto verified = reader->VerifyPayload();
    // A position may stand twice in a response; that is for verification and pairing to say.
    KCC_CHECK(verified.has_value() ||
              verified.error().message().find("twice") != std::string::npos);
    std::filesystem::remove_all(scratch + "/trace");
  }
  KCC_CHECK(std::filesystem::is_empty(scratch));
  std::filesystem::remove(scratch);
  return 0;
}
