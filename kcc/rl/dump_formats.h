// Inside of dump.cc: the formats that have files of their own.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/dtype.h"
#include "kcc/rl/dump.h"

namespace kcc {

// Takes an array under a known name; others are left alone. Two of one meaning are an error.
Result<> AddDumpArray(std::string_view name, std::vector<int64_t> shape, std::vector<double> values,
                      RlDump* dump);
// One element of raw memory, widened.
Result<double> DumpElement(DType dtype, const std::byte* data, size_t i);

// torch.save of a dictionary of tensors, which may hold dictionaries of tensors in turn.
Result<> ReadTorchDump(const std::string& path, RlDump* dump);
// One object a row: {"train": […], "rollout": […], "mask": […]?, "advantage": x or […]?,
// "slice": "…"?}, under any of the names known. prime-rl's token exports are such rows, with null
// for what is not finite and the slice under env_name. The files are one table.
Result<> ReadJsonDump(const std::vector<std::string>& paths, RlDump* dump);
// Adds the rank files of a step, or of all steps, of prime-rl's token_exports.
Result<> ListTokenExports(const std::string& directory, std::vector<std::string>* files);
// Two traces of the same sampled tokens.
Result<> ReadTraceDump(const std::string& train, const std::string& infer,
                       const RlDumpOptions& options, RlDump* dump);

}  // namespace kcc
