// The hooks on a thread of their own: a grader that is slow holds nobody up but answers that wait
// to be graded, and those are given up when they have waited too long.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "kcc/rescore/grade.h"

namespace kcc {

struct GradeTask {
  uint64_t job = 0;
  int slot = 0;
  GradeAsk ask;              // what it points to lives until the task is answered
  double waits_since_s = 0;  // set by Submit
};

class GradeStation {
 public:
  // Called on the station's thread, or by Submit.
  using Done = std::function<void(uint64_t job, int slot, Grades grades)>;
  // The owner makes the graders' stop_fd readable before it destroys the station.
  GradeStation(GradeSet graders, size_t waiting_max, double patience_s, Done done);
  ~GradeStation();  // answers what waits, without grades
  GradeStation(const GradeStation&) = delete;
  GradeStation& operator=(const GradeStation&) = delete;

  void Submit(GradeTask task);

 private:
  void Run();
  void Refuse(const GradeTask& task, const std::string& fault);

  GradeSet graders_;
  const size_t waiting_max_;
  const double patience_s_;
  const Done done_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<GradeTask> waiting_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace kcc
