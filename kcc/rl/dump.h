// Dumps: the arrays of an RL step from files, under the names that trainers give them.
//
// Read: .npz and .npy (np.savez, np.save), .safetensors, .pt (torch.save of a dictionary of
// tensors), .jsonl (one object a row), directories of prime-rl token exports, and a pair of kcc
// traces with the sampled tokens' log-probs or full logits (two directories, train then infer).
// Names are looked up in tables of aliases (docs/rl.md); arrays that no table knows are left alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/rl/batch.h"

namespace kcc {

struct RlDump {
  struct Array {
    std::string name;  // canonical: "train", "rollout", "mask" …
    std::vector<int64_t> shape;
    std::vector<double> values;
  };
  std::vector<Array> arrays;
  std::vector<int64_t> offsets;  // of a packed dump
  std::vector<int32_t> slice_of_row;
  std::vector<std::string> slice_names;

  const Array* Find(std::string_view name) const;
  // Views of the arrays; they live as long as the dump.
  Result<RlBatch> Batch() const;
};

struct RlDumpOptions {
  std::string slice_by;  // a request field of traces; empty: no slices
};

// Files are read together: .npy files are named by their stem.
Result<RlDump> ReadRlDump(const std::vector<std::string>& paths, const RlDumpOptions& options = {});

// The canonical name of an array, or empty.
std::string_view CanonicalArrayName(std::string_view name);

}  // namespace kcc
