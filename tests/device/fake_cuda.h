// What the fake CUDA library has beyond the real one. Tests find these functions by name.
#pragma once

#include <cstdint>

// Set in the addresses of its "device".
inline constexpr uintptr_t kFakeDeviceBit = uintptr_t{1} << 62;

// Since the last reset.
struct FakeCounts {
  int64_t sessions = 0;
  int64_t adds = 0;
  int64_t rows = 0;
  int64_t bytes_read = 0;  // back to the host, of logits
};

extern "C" {
void* kcc_fake_device_address(const void* host);
void kcc_fake_reset(void);
// The n-th row of each run gets this value.
void kcc_fake_spoil(int64_t row, const char* value, double to);
// "new", "begin", "add", "wait" or "read" fails.
void kcc_fake_fail(const char* function);
void kcc_fake_counts(FakeCounts* to);
}
