// Requests a second of one client address: a token bucket for each, in a table of fixed size, so
// that no number of addresses takes more memory. Where four addresses share a place of the table
// and a fifth comes, the one that was quiet longest is forgotten, and begins anew with a full
// bucket.
//
// One thread's own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace kcc {

// Of an address as text; of IPv6 the first 64 bits alone, since a client commands all the rest.
uint64_t RateKey(std::string_view address, uint64_t salt);

class RateLimiter {
 public:
  static constexpr size_t kPlaces = 1024;
  static constexpr size_t kWays = 4;

  // Whole seconds until a request of `key` may come; 0: now, and it is counted. A bucket holds one
  // second's requests, at least one. `per_second` <= 0: any number.
  int WaitSeconds(uint64_t key, double per_second, int64_t now_us);

 private:
  struct Bucket {
    uint64_t key = 0;
    double tokens = 0;
    int64_t at_us = INT64_MIN;  // INT64_MIN: free
  };

  std::vector<std::array<Bucket, kWays>> places_;  // made when first needed
};

}  // namespace kcc
