// The import functions, one file each (import_<name>.cc); the table is in import.cc.
#pragma once

#include <span>
#include <string>

#include "kcc/trace/import.h"

namespace kcc {

using ImportInputs = std::span<const std::string>;

// Numbers that are said to be other than raw are at a temperature, which must be said, too.
Result<> CheckTemperatureGiven(const ImportOptions& options);

Result<ImportReport> ImportNpy(ImportInputs inputs, const std::string& output,
                               const ImportOptions& options);
Result<ImportReport> ImportVllm(ImportInputs inputs, const std::string& output,
                                const ImportOptions& options);
Result<ImportReport> ImportSglang(ImportInputs inputs, const std::string& output,
                                  const ImportOptions& options);
Result<ImportReport> ImportLlamacpp(ImportInputs inputs, const std::string& output,
                                    const ImportOptions& options);
Result<ImportReport> ImportLlamaKld(ImportInputs inputs, const std::string& output,
                                    const ImportOptions& options);
Result<ImportReport> ImportPrimeRl(ImportInputs inputs, const std::string& output,
                                   const ImportOptions& options);
Result<ImportReport> ImportVexact(ImportInputs inputs, const std::string& output,
                                  const ImportOptions& options);
Result<ImportReport> ImportTrtllm(ImportInputs inputs, const std::string& output,
                                  const ImportOptions& options);
Result<ImportReport> ImportTgi(ImportInputs inputs, const std::string& output,
                               const ImportOptions& options);

}  // namespace kcc
