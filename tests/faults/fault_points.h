// Makes allocations and thread starts fail on demand.
//
// malloc and its relatives, and with them operator new and what C libraries ask for, are replaced
// in the whole test program, and so is pthread_create. Memory that the kernel hands out directly
// (mmap, thread stacks) is not counted. Not for sanitizers, which replace the same functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace kcc::faults {

enum class Fault {
  kNone,
  kOneAllocation,    // the n-th fails, later ones succeed
  kAllocationsFrom,  // the n-th fails and all after it: memory is out
  kThreadsFrom,      // the n-th thread does not start, nor any after it
};

std::string_view Name(Fault fault);

struct Seen {
  int64_t allocations = 0;
  int64_t threads = 0;
  bool failed = false;  // whether something was made to fail
};

// Counts from 1, over all threads, from here to Disarm.
void Arm(Fault fault, int64_t n);
Seen Disarm();
// Between the two nothing fails and nothing is counted.
void Pause();
void Resume();

// Blocks that are allocated now.
int64_t LiveAllocations();

}  // namespace kcc::faults
