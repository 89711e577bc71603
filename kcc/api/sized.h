// Structs that grow: the caller says how large its own is, so that a program compiled with an older
// header, or a newer one, works with this library.
//
// Fields are only ever added, at the end, and 0 in them means what held before they were there. So
// a smaller struct is copied into zeroes. Of a larger one the part beyond must be 0: it asks for
// what this library does not know, and leaving it out silently could change a verdict.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "include/kcc.h"
#include "kcc/base/result.h"

namespace kcc::api {

// The sizes in the first header that had them (tests/capi/first_structs.h holds them to it).
inline constexpr size_t kArraysFirstSize = offsetof(kcc_arrays, clauses_only);
inline constexpr size_t kRlBatchFirstSize = sizeof(kcc_rl_batch);

inline Result<> CheckStructSize(size_t size, size_t first_size, const char* name) {
  if (size >= first_size) return {};
  return InvalidError(std::string("struct_size must be sizeof(") + name + "), and it is " +
                      std::to_string(size));
}

// `given` starts with its struct_size. `name`: of the struct, for messages.
template <class Struct>
Result<Struct> Sized(const Struct* given, size_t first_size, const char* name) {
  const size_t size = given->struct_size;
  KCC_TRY_VOID(CheckStructSize(size, first_size, name));
  const char* bytes = reinterpret_cast<const char*>(given);
  const auto is_set = [](char byte) { return byte != 0; };
  if (size > sizeof(Struct) && std::any_of(bytes + sizeof(Struct), bytes + size, is_set)) {
    return InvalidError(std::string(name) +
                        ": a field is set that this library does not know; it is older than the "
                        "header that the program was compiled with");
  }
  Struct whole = {};
  std::memcpy(&whole, given, std::min(size, sizeof(Struct)));
  return whole;
}

// The other way: as much of `whole` as the caller's struct holds, and zeroes where it holds more.
template <class Struct>
Result<> GiveSized(Struct whole, size_t first_size, const char* name, Struct* to) {
  const size_t size = to->struct_size;
  KCC_TRY_VOID(CheckStructSize(size, first_size, name));
  whole.struct_size = size;
  std::memcpy(to, &whole, std::min(size, sizeof(Struct)));
  char* bytes = reinterpret_cast<char*>(to);
  if (size > sizeof(Struct)) std::fill(bytes + sizeof(Struct), bytes + size, '\0');
  return {};
}

}  // namespace kcc::api
