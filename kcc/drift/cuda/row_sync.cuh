// How warps and kernels wait for each other: an exchange of messages between the warps of a row,
// sent and received in two calls so that work can be done between them, and the start of a kernel.
#pragma once

#include "kcc/drift/cuda/barrier.cuh"

namespace kcc {

// A kernel that was started early begins here: what the one before it in the stream wrote is seen.
__device__ __forceinline__ void AwaitPreviousKernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// From here on the kernel after this one may start on multiprocessors that are free.
__device__ __forceinline__ void AllowNextKernelToStart() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

struct WarpMessage {
  float4 first, second;
};

// An all-gather among the warps of a row, also across its blocks: when a round is complete, the
// message of every warp lies in the shared memory of every block. Two buffers take turns, so that a
// message of the next round does not overwrite one of this round before all have read it; a thread
// may be behind by one round at most.
template <int kMembersMax>
class WarpExchange {
 public:
  // By one thread, before any other uses it. Between blocks one warp of each arrives at the barrier
  // and says how many bytes to expect.
  __device__ __forceinline__ void Init() {
    for (int turn = 0; turn < 2; ++turn) InitBarrier(&state_[turn], 1);
  }

  // By a warp, whose first lanes, at least as many as there are blocks, know the message.
  // `member` of `members` sends it to each of `blocks` blocks; it is the `warp`-th in its own.
  __device__ __forceinline__ void Send(int round, const WarpMessage& message, int member,
                                       int members, int blocks, int warp, int lane) {
    const int turn = round & 1;
    if (blocks == 1) {
      if (lane == 0) messages_[turn][member] = message;
      return;
    }
#if __CUDA_ARCH__ >= 900
    if (lane < blocks) {
      const uint32_t state = AddressIn(lane, &state_[turn]);
      const uint32_t to = AddressIn(lane, &messages_[turn][member]);
      SendTo(to, message.first, state);
      SendTo(to + sizeof(float4), message.second, state);
    }
    if (lane == 0 && warp == 0) {
      ArriveExpecting(&state_[turn], members * static_cast<int>(sizeof(WarpMessage)) +
                                         static_cast<int>(sizeof(int) + sizeof(float4)));
    }
#endif
  }

  // By one warp of the row, before its message: the row that all take after the next one.
  __device__ __forceinline__ void SendRowNumber(int round, int number, int blocks, int lane) {
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

  // By one warp of each block, before its message: a value that all of the block will find at
  // `to`, in shared memory. `block`: of the row's.
  __device__ __forceinline__ void SendWithinBlock(int round, const float4& what, float4* to,
                                                  int block, int blocks, int lane) {
    if (lane != 0) return;
    if (blocks == 1) {
      *to = what;
      return;
    }
#if __CUDA_ARCH__ >= 900
    SendTo(AddressIn(block, to), what, AddressIn(block, &state_[round & 1]));
#endif
  }

  // Waits until round `round`, counted from 0, is complete; then all messages are here.
  __device__ __forceinline__ const WarpMessage* Receive(int round, int blocks) const {
    if (blocks == 1) {
      __syncthreads();
      return messages_[round & 1];
    }
#if __CUDA_ARCH__ >= 900
    AwaitPhase(&state_[round & 1], static_cast<unsigned>(round) >> 1 & 1);
#endif
    return messages_[round & 1];
  }
  __device__ __forceinline__ int RowNumberOf(int round) const { return numbers_[round & 1]; }

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
  WarpMessage messages_[2][kMembersMax];
  int numbers_[2];
};

// A barrier for all threads of the blocks of a row.
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
