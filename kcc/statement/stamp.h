// The digests of a contract and a triple in a checkpoint's own metadata, so that the contract
// travels with the weights: the keys "kcc.contract" and "kcc.triple" of `__metadata__` in a
// safetensors file.
//
// Only the header changes: tensors keep their bytes, their order and their entries, of whatever
// dtype, and offsets count from the end of the header. A stamp is a note, not a proof: who can
// write the file can write the note. What it names can be verified (verify.h).
#pragma once

#include <cstdint>
#include <string>

#include "kcc/base/result.h"

namespace kcc {

struct CheckpointStamp {
  std::string contract;  // digest; empty: not stamped
  std::string triple;

  bool operator==(const CheckpointStamp&) const = default;
};

struct StampedCheckpoint {
  CheckpointStamp before;      // what the file said already
  std::string payload_digest;  // of the tensors' bytes, the same in both files
  int64_t payload_bytes = 0;
  std::string file_digest;  // of the new file
};

// Copies `from` to `to` with the stamp, in pieces and atomically (base/file.h); both may be one
// file. Fails (kInvalid) if a digest is none or `from` is no safetensors file whose header
// describes its bytes.
Result<StampedCheckpoint> StampCheckpoint(const std::string& from, const std::string& to,
                                          const CheckpointStamp& stamp);

// Empty digests where it has no stamp. A value that is not a digest is an error.
Result<CheckpointStamp> ReadCheckpointStamp(const std::string& file);

}  // namespace kcc
