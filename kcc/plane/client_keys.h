// The keys that clients may come with, known by their SHA-256 alone.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

// Takes the same time whatever the bytes are.
bool EqualInConstantTime(std::string_view a, std::string_view b);

// The key of "Bearer KEY"; empty: there is none.
std::string_view BearerKey(std::string_view authorization);

class ClientKeys {
 public:
  // Hashes of 64 hexadecimal digits, "sha256:" before them or not.
  static Result<ClientKeys> Of(std::span<const std::string> hashes);

  bool any() const { return hashes_.empty(); }  // no key is asked for
  // All hashes are compared, so that the time says nothing of which was near.
  bool Knows(std::string_view authorization) const;

 private:
  std::vector<std::string> hashes_;
};

}  // namespace kcc
