// Test only: single draws from RapidCheck, inside a generator.
#pragma once

#include <rapidcheck.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kcc {

template <class T>
T Pick(const std::vector<T>& values) {
  return values[*rc::gen::inRange<size_t>(0, values.size())];
}

inline bool Flip() { return *rc::gen::arbitrary<bool>(); }
inline int64_t Whole(int64_t low, int64_t high) {
  return *rc::gen::inRange<int64_t>(low, high + 1);
}

template <class T>
T Word(int count) {
  return static_cast<T>(Whole(0, count - 1));
}

// An id or a name of a contract.
inline std::string Identifier() {
  return Pick<std::string>({"N", "safety", "long-context", "a.b", "X_1", "1"}) + "-" +
         std::to_string(Whole(0, 99));
}

}  // namespace kcc
