// Barriers in shared memory that count arrivals and bytes, and copies in bulk that count as they
// arrive. But for the first these are of sm_90; below it they do nothing.
#pragma once

#include "kcc/drift/cuda/device_types.cuh"

namespace kcc {

__device__ __forceinline__ void InitBarrier(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(arrivals)
               : "memory");
}

// Copies see barriers that the thread has made.
__device__ __forceinline__ void PublishBarriers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
// `bytes` more are to come before the phase ends.
__device__ __forceinline__ void ArriveExpecting(uint64_t* barrier, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .b64 state;\n"
      "mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1;\n}" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
#endif
}
__device__ __forceinline__ void AwaitPhase(const uint64_t* barrier, unsigned parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
#endif
}

// How L2 should treat what is read: keep it before others, or give it up first.
__device__ __forceinline__ uint64_t KeepInL2Policy() {
  uint64_t policy = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}
__device__ __forceinline__ uint64_t EvictFirstPolicy() {
  uint64_t policy = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}
// True in one lane of a warp that is together.
__device__ __forceinline__ bool IsElected() {
  unsigned elected = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .pred elected;\n"
      "elect.sync _|elected, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, elected;\n}"
      : "=r"(elected)::"memory");
#endif
  return elected != 0;
}
// By one thread; both ends at multiples of 16 bytes.
__device__ __forceinline__ void CopyInBulk(void* to, const char* from, int bytes, uint64_t* barrier,
                                           uint64_t policy) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(barrier)), "l"(policy)
      : "memory");
#endif
}

}  // namespace kcc
