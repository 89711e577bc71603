// How warps and kernels wait for each other: a meeting where saying and hearing are apart, so that
// work can lie between, and the start of a kernel.
#pragma once

#include "kcc/drift/cuda/barrier.cuh"

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

struct MeetingWord {
  float4 first, second;
};

// What the warps of a row tell each other, also across its blocks: everybody's word is in every
// block's shared memory once its meeting is complete. Rounds take turns, so that a word of the next
// one cannot be taken for one of this. A thread may be behind by one round at most.
template <int kMembersMax>
class Meeting {
 public:
  // By one thread, before any other uses it. Between blocks arrives, in each, the warp that says
  // how many bytes will come.
  __device__ __forceinline__ void Init() {
    for (int turn = 0; turn < 2; ++turn) InitBarrier(&state_[turn], 1);
  }

  // By a warp, whose first lanes, at least as many as there are blocks, know the word. `member` of
  // `members` has its word in each of `blocks` blocks; it is the `warp`-th in its own.
  __device__ __forceinline__ void Say(int round, const MeetingWord& word, int member, int members,
                                      int blocks, int warp, int lane) {
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
                                         static_cast<int>(sizeof(int) + sizeof(float4)));
    }
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

  // By one warp of each block, before its word: something that everybody in the block will find at
  // `to`, in shared memory. `block`: of the row's.
  __device__ __forceinline__ void Leave(int round, const float4& what, float4* to, int block,
                                        int blocks, int lane) {
    if (lane != 0) return;
    if (blocks == 1) {
      *to = what;
      return;
    }
#if __CUDA_ARCH__ >= 900
    SendTo(AddressIn(block, to), what, AddressIn(block, &state_[round & 1]));
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
