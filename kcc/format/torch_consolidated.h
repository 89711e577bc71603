// Inside of torch_pickle.cc: TensorDict.consolidate(), which verl's DataProto is saved with, puts
// all tensors into one tensor of bytes and writes down where each begins.
#pragma once

#include <cstdint>

#include "kcc/base/result.h"
#include "kcc/format/torch_file.h"

namespace kcc {

// The dictionary of tensors that `metadata` ({"leaves": {name: (dtype, shape, start, stop, pad)}},
// tensordict 0.5 to 0.15) describes in the tensor of bytes `storage`. The tensors are added to the
// pickle's values. Tensors of tensors ("nested") are left out.
Result<TorchValue> ConsolidatedTensors(int32_t metadata, int32_t storage, TorchPickle* pickle);

}  // namespace kcc
