// How much of its time a thread of traffic gives to sampled answers. They are some forty times as
// long as others, since they tell of every token, and are read to the last number: a thread that is
// busy would serve fewer requests for it. So while it runs, or waits for a core, for more than half
// of the time, sampled answers may take a hundredth of it. What is beyond is dropped before it is
// asked.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kcc {

class SamplingBudget {
 public:
  // For how long the calling thread ran or waited for a core, in microseconds.
  using LoadClock = int64_t (*)();
  explicit SamplingBudget(LoadClock load_us = ThreadLoadUs) : load_us_(load_us) {}

  // Whether one more may be asked for, at a time of a clock that never goes back.
  bool Allows(int64_t now_us);
  // One was read, of so many bytes.
  void Spend(size_t bytes);

  static int64_t ThreadLoadUs();

 private:
  const LoadClock load_us_;
  bool begun_ = false;
  bool busy_ = false;
  int64_t window_us_ = 0;  // when the window began by which it is busy or not
  int64_t window_load_us_ = 0;
  int64_t filled_us_ = 0;  // when the balance was last filled
  double balance_us_ = 0;  // that may be spent
};

}  // namespace kcc
