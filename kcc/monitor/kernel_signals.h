// The evidence about one kernel: for each clause on each slice its detectors, its PASS tests, its
// open block and its recent mean. Of a fixed size; folded in order of arrival.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kcc/judge/verdict.h"
#include "kcc/monitor/request_evidence.h"
#include "kcc/monitor/sample.h"
#include "kcc/monitor/signal.h"
#include "kcc/stats/change.h"
#include "kcc/stats/running_bets.h"
#include "kcc/summary/archive.h"

namespace kcc {

// A mean over the latest observations: those of the current half window and of the one before, so
// between half a window and a whole one, without keeping them.
struct RecentMean {
  std::array<double, 2> bad{};
  std::array<double, 2> weight{};
  int64_t count = 0;  // in the current half

  void Add(double its_bad, double its_weight, int64_t half);
  bool empty() const { return weight[0] + weight[1] == 0; }
  double Mean() const;  // 0 where it is empty
  void Visit(Archive& archive);
};

struct PairRecord {
  int64_t observations = 0;  // since the last alarm or the start
  int64_t requests = 0;      // since the start, for minSamples
  int64_t tokens = 0;
  int64_t alarms = 0;
  // Observations since the last alarm that show nothing beyond the threshold (kProof, hard blocks)
  // or nothing at the cap of a truncated mean; of a pair that is broken, those that are not.
  int64_t clean = 0;
  bool alarmed = false;    // violated, and not yet released
  bool broken = false;     // the alarm was of evidence that breaks an assumption
  bool recovered = false;  // the evidence since the alarm certifies it
  bool shown = false;      // kExistence: a unit within the threshold was seen
  double proof = 0;        // value of the last proof
  RecentMean recent;

  void Visit(Archive& archive);
};

// The block that a pair is filling.
struct BlockState {
  int64_t seen = 0;    // requests of the kernel since it began, of any slice
  int64_t merged = 0;  // of them, those that the slice holds
  int64_t index = 0;   // of a window of time
  bool open = false;
  bool partial = true;    // it began before the evidence did: it is left out
  bool doubtful = false;  // it holds a request by infer's word alone
  WindowState state;
};

// Requests of one block that are merged; what comes after is left out of the block, so that a
// window of time is of a fixed size too.
inline constexpr int64_t kBlockRequestsMax = 65536;

// A pair that this observation refutes.
struct Alert {
  enum class Kind : uint8_t { kAlarm, kProof, kBroken };
  Kind kind = Kind::kAlarm;
  size_t pair = 0;
  double e_value = 0;
  std::string fault = {};  // of an event: why it does not conform, where that is known
};

class KernelSignals {
 public:
  explicit KernelSignals(const SignalPlan& plan);

  // Folds a request that was read into `evidence`. Alerts are in the order of the pairs.
  void Fold(const SignalPlan& plan, RequestEvidence* evidence, int64_t time_ms, int64_t half_window,
            std::vector<Alert>* alerts);
  // A request that repeats another: clauses about repeats and about events alone read it.
  void FoldRepeat(const SignalPlan& plan, RequestEvidence* evidence, int64_t time_ms,
                  int64_t half_window, std::vector<Alert>* alerts);
  // A request that began before the kernel's last alarm, and is told after it. Whatever it shows
  // against the kernel counts; nothing good of it does, since what an alarm returns by is evidence
  // of what came after.
  void FoldEarlier(const SignalPlan& plan, RequestEvidence* evidence, int64_t time_ms,
                   int64_t half_window, std::vector<Alert>* alerts);
  // A line that is no evidence but of its being written: clauses about events alone read it.
  void FoldEvent(const SignalPlan& plan, RequestEvidence* evidence, int64_t time_ms,
                 int64_t half_window, std::vector<Alert>* alerts);
  // A line that could not be read, as RequestEvidence::ReadUnplaced. What it would have said is
  // missing, and may be anything: for every PASS test it is the worst, and what counts clean
  // requests begins again. Where it is the kernel's (`its_own`), it is an event that does not
  // conform.
  void FoldUnread(const SignalPlan& plan, RequestEvidence* evidence, bool its_own,
                  int64_t half_window, std::vector<Alert>* alerts);

  // Starts the evidence of a pair afresh, after an alarm of its kernel.
  void Restart(const SignalPlan& plan, size_t pair);
  // Its detectors alone, after a release.
  void ResetDetectors(const SignalPlan& plan, size_t pair);

  // Whether the evidence since the last alarm certifies the pair at level alpha; `clean` is asked
  // of what no test certifies.
  bool Certifies(const SignalPlan& plan, size_t pair, double alpha, int64_t clean) const;
  // ln E of its PASS test, the lesser of two; -infinity where it has none.
  double LogPass(const SignalPlan& plan, size_t pair) const;
  // How far its detectors are towards an alarm, the larger of two; 0 where it has none.
  double Level(const SignalPlan& plan, size_t pair) const;
  Verdict VerdictOf(const SignalPlan& plan, size_t pair) const;
  // phi: 0 unless the pair is violated; then 1 + its relative excess in the recent window.
  double DeviationOf(const SignalPlan& plan, size_t pair) const;
  double Health(const SignalPlan& plan) const;

  PairRecord& pair(size_t i) { return pairs_[i]; }
  const PairRecord& pair(size_t i) const { return pairs_[i]; }
  size_t size() const { return pairs_.size(); }

  void Visit(Archive& archive, const SignalPlan& plan);

 private:
  enum class Read : uint8_t { kAll, kEvents, kRepeats, kEarlier };
  enum class Credit : uint8_t { kNone, kFull };  // whether what is good counts
  void FoldPairs(const SignalPlan& plan, Read read, RequestEvidence* evidence, int64_t time_ms,
                 int64_t half_window, std::vector<Alert>* alerts);
  void FoldPair(const SignalPlan& plan, size_t at, const Sample& sample, bool unvouched,
                bool touched, Credit credit, int64_t half_window, std::vector<Alert>* alerts);
  void FoldBlock(const SignalPlan& plan, size_t at, RequestEvidence* evidence, int64_t time_ms,
                 int64_t half_window, std::vector<Alert>* alerts);
  void FoldUnreadBlock(const SignalPlan& plan, size_t at, RequestEvidence* evidence, bool counts,
                       int64_t half_window, std::vector<Alert>* alerts);
  // Puts the request into the open block, where the slice holds it.
  void MergeIntoBlock(const SignalPlan& plan, size_t at, RequestEvidence* evidence);
  void CloseBlock(const SignalPlan& plan, size_t at, int64_t half_window,
                  std::vector<Alert>* alerts);
  void VisitBlock(Archive& archive, const SignalPlan& plan, const SignalPair& pair);

  std::vector<PairRecord> pairs_;
  std::vector<DetectorState> detectors_;
  std::vector<RunningBets> passes_;
  std::vector<BlockState> blocks_;
};

}  // namespace kcc
