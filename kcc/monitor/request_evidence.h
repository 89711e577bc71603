// What one observation says of each slice: which slices it belongs to, and the tokens of each as a
// group (summary/request_group.h). Read into the same buffers for every observation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/monitor/observation.h"
#include "kcc/summary/plan.h"
#include "kcc/summary/request_group.h"
#include "kcc/trace/slices.h"

namespace kcc {

// Whether the line keeps to the published schema in what is infer's and in what was asked, and in
// what is train's. That it was read makes it an event, whatever infer's record holds.
EventFlags EventsOfLine(const MonitorObservation& observation);
// Which field does not, of the same two; empty: all do.
std::string FaultOfLine(const MonitorObservation& observation);

class RequestEvidence {
 public:
  // The plan must outlive it. `trusted`: fields that are believed though infer alone has them.
  static Result<RequestEvidence> Make(const Plan& plan, std::vector<std::string> trusted);

  // The observation must live until the next Read. Fails where it says that it is broken, and where
  // the records contradict each other about a field that decides a slice.
  Result<> Read(const MonitorObservation& observation, std::string_view fingerprint);

  // A line of which nothing is known but whether it keeps to the published schema: it is a line of
  // everything, and may be of any slice.
  void ReadUnplaced(const EventFlags& events);

  const RequestPair& pair() const { return pair_; }
  const MonitorObservation& observation() const { return *observation_; }
  const GroupRecorder& recorder() const { return *recorder_; }
  // Whether the slice holds the request or one of its tokens, or may hold one that is missing.
  bool Touches(size_t slice) const { return touched_[slice] != 0; }
  // Whether the slice holds it, or does not, by infer's word alone: it may be in it or not.
  bool Unvouched(size_t slice) const { return unvouched_[slice] != 0; }
  bool OfTokens(size_t slice) const { return group_of_[slice] != 0; }
  // The tokens of the slice; of a slice of requests, all of them.
  const GroupTokens& Group(size_t slice) const { return groups_[group_of_[slice]]; }
  // Counts of the request alone, made when first asked for.
  const PopulationStats& Population();

 private:
  RequestEvidence() = default;
  void ReadPair(std::string_view fingerprint);
  void ReadTokens(const RequestSides& sides);
  void FillGroup(const std::vector<uint32_t>* rows, GroupTokens* group);
  void FillSeries(size_t series, const std::vector<double>* lo, const std::vector<double>* hi,
                  const std::vector<uint32_t>* rows, GroupTokens* group);
  void FillLabels(const std::vector<uint32_t>* rows, GroupTokens* group);
  void AddMissingRows(int64_t count);
  void NoteUnvouched();

  const Plan* plan_ = nullptr;
  std::vector<std::string> trusted_;
  // On the heap: the recorder keeps a reference, and the evidence is moved.
  std::unique_ptr<GroupRecorder> recorder_;
  std::optional<SliceEvaluator> slices_;
  std::vector<size_t> series_;               // of tokens, that the plan keeps
  std::vector<size_t> group_of_;             // by slice: 0, or the place of its own group
  std::vector<GroupTokens> groups_;          // [0]: the whole request
  std::vector<std::vector<uint32_t>> rows_;  // of each group but the first

  const MonitorObservation* observation_ = nullptr;
  MonitorObservation nothing_;  // stands for one that was not read
  Request nobody_;              // stands for a side without a record
  RequestPair pair_;
  EventFlags events_;  // where the plan keeps events
  ReplayRows replay_rows_;
  SliceBits bits_;
  SliceBits token_bits_;
  std::vector<uint8_t> touched_;
  std::vector<uint8_t> unvouched_;
  std::vector<kcc::Unvouched> notes_;
  std::vector<kcc::Unvouched> token_notes_;
  std::vector<double> scratch_;
  std::optional<PopulationStats> population_;
};

}  // namespace kcc
