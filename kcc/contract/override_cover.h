// Which violations earlier overrides of a list catch: of overrides the first that matches wins.
// Internal to contract/.
#pragma once

#include <optional>

#include "kcc/contract/contract.h"

namespace kcc {

class OverrideCover {
 public:
  // False if earlier overrides catch everything that this one would.
  bool Add(std::optional<Family> family, std::optional<ViolationLevel> level) {
    unsigned catches = 0;
    for (unsigned row = 0; row < 4; ++row) {
      for (unsigned column = 0; column < 3; ++column) {
        const bool fits = (!family || *family == static_cast<Family>(row)) &&
                          (!level || *level == static_cast<ViolationLevel>(column));
        if (fits) catches |= 1u << (row * 3 + column);
      }
    }
    const bool reached = (catches & ~caught_) != 0;
    caught_ |= catches;
    return reached;
  }

 private:
  unsigned caught_ = 0;  // a bit for each family and level
};

}  // namespace kcc
