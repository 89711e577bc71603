// How warps and kernels wait for each other: a meeting point in shared memory where arriving and
// waiting are apart, so that work can lie between, and the start of a kernel.
#pragma once

#include <cstdint>

namespace kcc {

// A kernel that was started early begins here: what the one before it in the stream wrote is seen.
__device__ __forceinline__ void AwaitKernelBefore() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

class Meeting {
 public:
  // By one thread, before any other uses it.
  __device__ __forceinline__ void Init(int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(Address()), "r"(arrivals) : "memory");
  }
  // What this thread did before is seen by those that wait.
  __device__ __forceinline__ void Arrive() {
    asm volatile(
        "{\n.reg .b64 state;\n"
        "mbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(Address())
        : "memory");
  }
  // Until the round-th meeting, from 0, is complete. A thread may be behind by one round at most.
  __device__ __forceinline__ void Wait(int round) {
    const unsigned parity = static_cast<unsigned>(round) & 1;
    unsigned done = 0;
    while (done == 0) {
#if __CUDA_ARCH__ >= 900
      asm volatile(
          "{\n.reg .pred done;\n"
          "mbarrier.try_wait.parity.shared.b64 done, [%1], %2;\n"
          "selp.u32 %0, 1, 0, done;\n}"
          : "=r"(done)
          : "r"(Address()), "r"(parity)
          : "memory");
#else
      asm volatile(
          "{\n.reg .pred done;\n"
          "mbarrier.test_wait.parity.shared.b64 done, [%1], %2;\n"
          "selp.u32 %0, 1, 0, done;\n}"
          : "=r"(done)
          : "r"(Address()), "r"(parity)
          : "memory");
#endif
    }
  }

 private:
  __device__ __forceinline__ uint32_t Address() const {
    return static_cast<uint32_t>(__cvta_generic_to_shared(&state_));
  }

  uint64_t state_;
};

}  // namespace kcc
