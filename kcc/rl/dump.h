// Dumps: the arrays of an RL step from files, under the names that trainers give them.
//
// Read: .npz and .npy (np.savez, np.save), .safetensors, .pt (torch.save of a dictionary of
// tensors or of a TensorDict), .pkl and whatever else begins as a pickle of verl's DataProto
// (save_to_disk), .jsonl (one object a row), directories of prime-rl token exports, and a pair of
// kcc traces with the sampled tokens' log-probs or full logits (two directories, train then infer).
// Names are looked up in tables of aliases (docs/rl.md) and in the caller's own; arrays that no
// table knows are left alone, and named in the error where something is missing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
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
  std::vector<std::string> found;     // the names that arrays had in the files, sorted
  std::vector<std::string> warnings;  // each a full sentence, such as that there is no mask

  const Array* Find(std::string_view name) const;
  // Views of the arrays; they live as long as the dump.
  Result<RlBatch> Batch() const;
};

// Whose array of which name means what: ("logp_new", "train").
using RlNameMap = std::vector<std::pair<std::string, std::string>>;

struct RlDumpOptions {
  std::string slice_by = {};  // a field of requests or rows whose values are slices; empty: none
  RlNameMap names = {};       // read before the table of aliases
};

// "THEIRS=OURS", where OURS is a name that dumps know.
Result<RlNameMap> ParseNameMap(const std::vector<std::string>& texts);

// Files are read together: .npy files are named by their stem. Without a mask every token counts,
// but for zeros on both sides at the ends of rows, which are padding; a warning says so.
Result<RlDump> ReadRlDump(const std::vector<std::string>& paths, const RlDumpOptions& options = {});

// The canonical name of an array, or empty.
std::string_view CanonicalArrayName(std::string_view name);

// A pair of directories with a trace.json each.
bool IsTracePair(const std::vector<std::string>& paths);

}  // namespace kcc
