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
// "slice": "…"?}, under any of the names known.
Result<> ReadJsonDump(const std::string& path, RlDump* dump);

}  // namespace kcc
