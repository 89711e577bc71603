#include "kcc/control/evaluator.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace kcc {
namespace {

constexpr auto kTurn = std::chrono::milliseconds(200);
constexpr size_t kRiskMax = 720;
constexpr double kLookEveryS = 0.1;
constexpr double kWatchEveryS = 1;

// Nobody knows how the kernel does now; empty: somebody does, or the share does not grow.
std::string WhyNotWider(const EvaluatorView& view, const RouteWishes& next) {
  const double now = next.canary == view.wishes.canary ? view.wishes.canary_share : 0;
  const auto age = view.evidence.find(next.canary);
  if (next.canary_share <= now || age == view.evidence.end() || !age->second.stale) return {};
  return "a canary is not widened without evidence: of " + next.canary + ", " +
         WhyStale(age->second, view.at_ms);
}

// What was satisfied was so on evidence that is too old to say it again.
void TakeBackSatisfied(const std::string& why, KernelStatus* kernel) {
  if (kernel->verdict == Verdict::kSatisfied) kernel->verdict = Verdict::kInconclusive;
  for (PairStatus& pair : kernel->pairs) {
    if (pair.verdict != Verdict::kSatisfied) continue;
    pair.verdict = Verdict::kInconclusive;
    pair.reason = why;
  }
}

}  // namespace

Result<std::unique_ptr<Evaluator>> Evaluator::Start(EvaluatorOptions options, RouteWords* words,
                                                    History* history, const Clock* clock) {
  std::unique_ptr<Evaluator> evaluator(new Evaluator(std::move(options), history, clock));
  KCC_TRY(evaluator->live_, LiveMonitor::Open(evaluator->options_.live, words, history, clock));
  evaluator->Beat();
  evaluator->Look(true);
  evaluator->thread_ = std::thread([self = evaluator.get()] { self->Run(); });
  return evaluator;
}

Evaluator::~Evaluator() { End(); }

void Evaluator::End() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  wake_.notify_all();
  answered_.notify_all();
  thread_.join();
  live_.reset();  // with the lock on its log
}

void Evaluator::Take(Evidence evidence, EvidenceOrigin origin) {
  {
    const std::lock_guard lock(mutex_);
    if (end_ || queue_.size() >= options_.queue_max) {
      ++lost_[origin.kernel];
      return;
    }
    queue_.push_back({std::move(evidence), std::move(origin), clock_->MonotonicSeconds()});
  }
  wake_.notify_one();
}

void Evaluator::TakeLost(const std::string& kernel, uint64_t count) {
  const std::lock_guard lock(mutex_);
  lost_[kernel] += count;
}

void Evaluator::TakeDropped(const std::string& kernel, uint64_t count) {
  const std::lock_guard lock(mutex_);
  dropped_[kernel] += count;
}

Result<> Evaluator::Wish(const MakeWish& wish, const std::string& kind, const std::string& reason) {
  return Do([this, wish, kind, reason](LiveMonitor& live) -> Result<> {
    KCC_TRY(const RouteWishes wishes, wish(*view()));
    std::string why = WhyNotWider(*view(), wishes);
    if (!why.empty()) return InvalidError(std::move(why));
    live.Wish(wishes, kind, reason);
    return {};
  });
}

Result<> Evaluator::Do(Task task) {
  const auto asked = std::make_shared<Asked>();
  asked->task = std::move(task);
  std::unique_lock lock(mutex_);
  asked_.push_back(asked);
  wake_.notify_one();
  const auto limit = std::chrono::duration<double>(options_.lease_s);
  const auto over = [&] { return asked->answer.has_value() || end_; };
  (void)answered_.wait_for(lock, limit, over);
  if (asked->answer.has_value()) return *asked->answer;
  // Nothing is done later that somebody was told had failed.
  asked->cancelled = true;
  std::erase(asked_, asked);
  return IoError(asked->begun
                     ? "the evaluator hangs while it does so; GET /v1/status says what came of it"
                     : "the evaluator does not answer; the route is held as it is");
}

std::shared_ptr<const EvaluatorView> Evaluator::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

std::vector<RiskSample> Evaluator::risk() const {
  const std::lock_guard lock(mutex_);
  return {risk_.begin(), risk_.end()};
}

double Evaluator::silent_s() const {
  return clock_->MonotonicSeconds() - beat_s_.load(std::memory_order_relaxed);
}

size_t Evaluator::queued() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

std::map<std::string, uint64_t> Evaluator::queued_by_kernel() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, uint64_t> queued;
  for (const Item& item : queue_) {
    if (item.origin.inbox == 0) ++queued[item.origin.kernel];
  }
  return queued;
}

double Evaluator::lag_s() const {
  const std::lock_guard lock(mutex_);
  return queue_.empty() ? 0 : clock_->MonotonicSeconds() - queue_.front().came_s;
}

void Evaluator::Run() {
  // At the priority of traffic: an alarm is not late because much is asked.
  pthread_setname_np(pthread_self(), "kcc-evaluator");
  for (bool more = true; more;) {
    try {
      more = Turn();
    } catch (const std::bad_alloc&) {
      // What was under way is missing, and said to be.
      const std::lock_guard lock(mutex_);
      lost_[""] += batch_.size();
      batch_.clear();
      for (const auto& [kernel, count] : taken_lost_) lost_[kernel] += count;
      for (const auto& [kernel, count] : taken_dropped_) dropped_[kernel] += count;
      taken_lost_.clear();
      taken_dropped_.clear();
    }
  }
  // What cannot be saved now is in the log, or is told to be missing there.
  (void)live_->Close();
}

bool Evaluator::Turn() {
  std::deque<std::shared_ptr<Asked>> asked;
  bool end = false;
  {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, kTurn, [&] { return end_ || !queue_.empty() || !asked_.empty(); });
    end = end_;
    // A part of the queue at a time, so that its bound holds while they are folded.
    constexpr size_t kBatch = 64;
    while (!queue_.empty() && batch_.size() < kBatch) {
      batch_.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    taken_lost_.swap(lost_);
    taken_dropped_.swap(dropped_);
    asked.swap(asked_);
    end = end && queue_.empty();
  }
  Beat();
  for (; !batch_.empty(); batch_.pop_front()) {
    const uint64_t changes = live_->changes();
    live_->Fold(std::move(batch_.front().evidence), batch_.front().origin);
    if (live_->changes() != changes) Look(true);
    Beat();
  }
  while (!taken_lost_.empty()) {
    const auto first = taken_lost_.begin();
    live_->FoldLost(first->first, first->second);
    taken_lost_.erase(first);
  }
  while (!taken_dropped_.empty()) {
    const auto first = taken_dropped_.begin();
    live_->FoldDropped(first->first, first->second);
    taken_dropped_.erase(first);
  }
  live_->Tick();
  Beat();
  for (const auto& one : asked) Answer(*one);
  Look();
  return !end;
}

void Evaluator::Answer(Asked& asked) {
  {
    const std::lock_guard lock(mutex_);
    if (asked.cancelled) return;
    asked.begun = true;
  }
  Look(true);
  Result<> answer = asked.task(*live_);
  if (answer.has_value()) Look(true);
  {
    const std::lock_guard lock(mutex_);
    asked.answer = std::move(answer);
  }
  answered_.notify_all();
}

void Evaluator::Look(bool at_once) {
  const int64_t now = clock_->NowMs();
  const double now_s = clock_->MonotonicSeconds();
  const bool due = now_s - risk_at_s_ >= risk_every_s_;
  const bool aged = Watch(now_s);
  const bool changed =
      aged || (live_->version() != seen_version_ && now_s - looked_at_s_ >= kLookEveryS);
  if (!changed && !due && !at_once) return;
  looked_at_s_ = now_s;
  seen_version_ = live_->version();
  auto view = std::make_shared<EvaluatorView>();
  view->status = live_->status();
  view->plan = live_->plan();
  view->wishes = live_->wishes();
  view->at_ms = now;
  AddEvidence(view.get());
  const auto note = [&](const std::string& what, const std::string& state) {
    const auto [place, added] = states_.try_emplace(what, state);
    if (!added && place->second == state) return;
    place->second = state;
    since_ms_[what] = now;
  };
  note("", view->plan.serves + "\n" + view->plan.canary);
  for (const KernelStatus& kernel : view->status.kernels) {
    note(kernel.name, std::string(Name(kernel.state)) + "\n" + std::string(Name(kernel.verdict)));
    view->tokens[kernel.name] = live_->tokens(kernel.name);
  }
  view->since_ms = since_ms_;
  view->guards = live_->guards();
  view->log_head = live_->head();
  view->log_failed = live_->log_failed();
  view->log_error = live_->log_error();
  view->log_file_fault = live_->log_file_fault();
  view->log_errors = live_->log_errors();
  view->lost = live_->lost();
  view->waiting = live_->waiting();
  view->resumed = live_->resumed();
  const std::lock_guard lock(mutex_);
  if (due) TakeRisk(*view);
  view_ = std::move(view);
}

bool Evaluator::Watch(double now_s) {
  if (!options_.offered || (watched_at_s_ >= 0 && now_s - watched_at_s_ < kWatchEveryS)) {
    return false;
  }
  watched_at_s_ = now_s;
  const std::map<std::string, uint64_t> offered = options_.offered();
  bool aged = false;
  for (const KernelStatus& kernel : live_->status().kernels) {
    const auto found = offered.find(kernel.name);
    if (found == offered.end()) continue;
    if (!watch_.Look(kernel.name, found->second, kernel.audited, now_s)) continue;
    aged = true;
    const EvidenceAge age = AgeOf(kernel.name);
    HistoryEntry entry;
    entry.at_ms = clock_->NowMs();
    entry.kind = "stale";
    entry.kernel = kernel.name;
    entry.serves = live_->plan().serves;
    entry.reason = age.stale ? "of " + kernel.name + ", " + WhyStale(age, entry.at_ms) +
                                   ": nothing is satisfied, the route holds, and no share grows"
                             : "there is evidence of " + kernel.name + " again";
    history_->Add(entry);
  }
  return aged;
}

EvidenceAge Evaluator::AgeOf(const std::string& kernel) const {
  EvidenceAge age = watch_.of(kernel);
  const auto newest = live_->newest_ms().find(kernel);
  if (newest != live_->newest_ms().end()) age.newest_ms = newest->second;
  return age;
}

void Evaluator::AddEvidence(EvaluatorView* view) {
  for (KernelStatus& kernel : view->status.kernels) {
    const EvidenceAge age = AgeOf(kernel.name);
    if (age.stale) TakeBackSatisfied(WhyStale(age, view->at_ms), &kernel);
    view->evidence.emplace(kernel.name, age);
  }
}

// Where there is no more room every second sample goes, and from then on half as many come.
void Evaluator::TakeRisk(const EvaluatorView& view) {
  risk_at_s_ = clock_->MonotonicSeconds();
  RiskSample sample;
  sample.at_ms = view.at_ms;
  sample.serves = view.plan.serves;
  for (const KernelStatus& kernel : view.status.kernels) {
    double level = 0;
    for (const PairStatus& pair : kernel.pairs) level = std::max(level, pair.level);
    sample.kernels.push_back({kernel.name, kernel.health, level});
  }
  risk_.push_back(std::move(sample));
  if (risk_.size() <= kRiskMax) return;
  std::deque<RiskSample> half;
  for (size_t i = 1; i < risk_.size(); i += 2) half.push_back(std::move(risk_[i]));
  risk_ = std::move(half);
  risk_every_s_ *= 2;
}

}  // namespace kcc
