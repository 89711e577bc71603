#include "kcc/plane/rate_limit.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "kcc/gateway/route_word.h"

namespace kcc {

uint64_t RateKey(std::string_view address, uint64_t salt) {
  const std::string text(address.substr(0, address.find('%')));  // without the zone
  in6_addr bytes;
  if (text.find(':') != text.npos && inet_pton(AF_INET6, text.c_str(), &bytes) == 1 &&
      !IN6_IS_ADDR_V4MAPPED(&bytes)) {
    return HashBytes(salt, {reinterpret_cast<const char*>(bytes.s6_addr), 8});
  }
  return HashBytes(salt, text);
}

int RateLimiter::WaitSeconds(uint64_t key, double per_second, int64_t now_us) {
  if (per_second <= 0) return 0;
  if (places_.empty()) places_.resize(kPlaces);
  auto& place = places_[key % kPlaces];
  const double full = std::max(1.0, per_second);
  const auto known = std::find_if(place.begin(), place.end(), [&](const Bucket& bucket) {
    return bucket.at_us != INT64_MIN && bucket.key == key;
  });
  Bucket& bucket =
      known != place.end()
          ? *known
          : *std::min_element(place.begin(), place.end(),
                              [](const Bucket& a, const Bucket& b) { return a.at_us < b.at_us; });
  if (known == place.end()) {
    bucket = {key, full, now_us};
  } else {
    const double gone_s = static_cast<double>(std::max<int64_t>(0, now_us - bucket.at_us)) * 1e-6;
    bucket.tokens = std::min(full, bucket.tokens + gone_s * per_second);
    bucket.at_us = std::max(bucket.at_us, now_us);
  }
  if (bucket.tokens >= 1) {
    bucket.tokens -= 1;
    return 0;
  }
  return std::max(1,
                  static_cast<int>(std::min(3600.0, std::ceil((1 - bucket.tokens) / per_second))));
}

}  // namespace kcc
