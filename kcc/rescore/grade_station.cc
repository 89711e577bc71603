#include "kcc/rescore/grade_station.h"

#include <utility>

#include "kcc/base/clock.h"
#include "kcc/gateway/background_thread.h"

namespace kcc {

GradeStation::GradeStation(GradeSet graders, size_t waiting_max, double patience_s, Done done)
    : graders_(std::move(graders)),
      waiting_max_(waiting_max),
      patience_s_(patience_s),
      done_(std::move(done)) {
  thread_ = std::thread([this] { Run(); });
}

GradeStation::~GradeStation() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
  for (const GradeTask& task : waiting_) Refuse(task, "the gateway ends");
}

void GradeStation::Refuse(const GradeTask& task, const std::string& fault) {
  Grades grades;
  grades.faults.push_back(fault);
  done_(task.job, task.slot, std::move(grades));
}

void GradeStation::Submit(GradeTask task) {
  {
    const std::lock_guard lock(mutex_);
    if (!ending_ && waiting_.size() < waiting_max_) {
      task.waits_since_s = TheSystemClock().MonotonicSeconds();
      waiting_.push_back(task);
      wake_.notify_all();
      return;
    }
  }
  Refuse(task, "the queue of the graders is full");
}

void GradeStation::Run() {
  GoBehindTraffic("kcc-grade");
  while (true) {
    GradeTask task;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      if (ending_) return;
      task = waiting_.front();
      waiting_.pop_front();
    }
    if (TheSystemClock().MonotonicSeconds() - task.waits_since_s > patience_s_) {
      Refuse(task, "the graders are too slow: the answer waited too long");
      continue;
    }
    done_(task.job, task.slot, graders_.Grade(task.ask));
  }
}

}  // namespace kcc
