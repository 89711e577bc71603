// How warps and kernels wait for each other: a meeting where saying and hearing are apart, so that
// work can lie between, and the start of a kernel.
#pragma once

#include <cstdint>

namespace kcc {

// A kernel that was started early begins here: what the one before it in the stream wrote is seen.
__device__ __forceinline__ void AwaitKernelBefore() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// From here on the kernel after this one may start on multiprocessors that are free.
__device__ __forceinline__ void LetKernelAfterStart() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Barriers in shared memory that count arrivals and bytes.
__device__ __forceinline__ uint32_t SharedAddress(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}
__device__ __forceinline__ void InitBarrier(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(arrivals)
               : "memory");
}
__device__ __forceinline__ void Arrive(uint64_t* barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(
                   SharedAddress(barrier))
               : "memory");
}

// Of sm_90; below it nothing calls them.
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
__device__ __forceinline__ uint64_t StayInL2() {
  uint64_t policy = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}
__device__ __forceinline__ uint64_t LeaveL2() {
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

struct MeetingWord {
  float4 first, second;
};

// What the warps of a row tell each other, also across its blocks: everybody's word is in every
// block's shared memory once its meeting is complete. Rounds take turns, so that a word of the next
// one cannot be taken for one of this. A thread may be behind by one round at most.
template <int kMembersMax>
class Meeting {
 public:
  // By one thread, before any other uses it. Between blocks arrive, in each, the warp that says how
  // many bytes will come and the one that publishes.
  __device__ __forceinline__ void Init() {
    for (int turn = 0; turn < 2; ++turn) InitBarrier(&state_[turn], 2);
  }

  // By a warp, whose first lanes, at least as many as there are blocks, know the word. `member` of
  // `members` has its word in each of `blocks` blocks; it is the `warp`-th in its own.
  // One warp of each block publishes: its other writes are then seen as well.
  __device__ __forceinline__ void Say(int round, const MeetingWord& word, int member, int members,
                                      int blocks, int warp, bool publishes, int lane) {
    const int turn = round & 1;
    if (blocks == 1) {
      if (lane == 0) words_[turn][member] = word;
      return;
    }
#if __CUDA_ARCH__ >= 900
    if (lane < blocks) {
      const uint32_t state = AddressIn(lane, &state_[turn]);
      const uint32_t to = AddressIn(lane, &words_[turn][member]);
      SendTo(to, word.first, state);
      SendTo(to + sizeof(float4), word.second, state);
    }
    if (lane == 0 && warp == 0) {
      ArriveExpecting(&state_[turn], members * static_cast<int>(sizeof(MeetingWord)) +
                                         static_cast<int>(sizeof(int)));
    }
    if (lane == 0 && publishes) Arrive(&state_[turn]);
#endif
  }

  // By one warp of the row, before its word: a number for everybody.
  __device__ __forceinline__ void SayNumber(int round, int number, int blocks, int lane) {
    const int turn = round & 1;
    if (blocks == 1) {
      if (lane == 0) numbers_[turn] = number;
      return;
    }
#if __CUDA_ARCH__ >= 900
    if (lane < blocks) {
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(
              AddressIn(lane, &numbers_[turn])),
          "r"(number), "r"(AddressIn(lane, &state_[turn]))
          : "memory");
    }
#endif
  }

  // Waits until the round-th meeting, from 0, is complete. Then everybody's words are here.
  __device__ __forceinline__ const MeetingWord* Hear(int round, int blocks) const {
    if (blocks == 1) {
      __syncthreads();
      return words_[round & 1];
    }
#if __CUDA_ARCH__ >= 900
    AwaitPhase(&state_[round & 1], static_cast<unsigned>(round) >> 1 & 1);
#endif
    return words_[round & 1];
  }
  __device__ __forceinline__ int NumberOf(int round) const { return numbers_[round & 1]; }

 private:
#if __CUDA_ARCH__ >= 900
  __device__ __forceinline__ static void SendTo(uint32_t to, float4 part, uint32_t state) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
        "[%5];" ::"r"(to),
        "f"(part.x), "f"(part.y), "f"(part.z), "f"(part.w), "r"(state)
        : "memory");
  }
  // The same place in another block of the cluster.
  __device__ __forceinline__ static uint32_t AddressIn(int block, const void* at) {
    uint32_t out;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(out) : "r"(SharedAddress(at)), "r"(block));
    return out;
  }
#endif

  uint64_t state_[2];
  MeetingWord words_[2][kMembersMax];
  int numbers_[2];
};

// The blocks of a row meet; also the threads of each.
__device__ __forceinline__ void SyncBlocks(int blocks) {
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    return;
  }
#endif
  __syncthreads();
}

}  // namespace kcc
