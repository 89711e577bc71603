#include "kcc/summary/summary.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "kcc/base/check.h"

namespace kcc {
namespace {

Result<> MergeFill(const WindowFill& from, WindowFill* into) {
  const auto overfull = [&](int64_t index) {
    return BrokenEvidenceError("more than " + std::to_string(into->size) +
                               " requests have an ordinal in window " + std::to_string(index) +
                               " of " + std::to_string(into->size) +
                               " requests; ordinals must be distinct");
  };
  for (const auto& [first, last] : from.complete.runs()) {
    // Runs are disjoint and sorted, so any overlap shows at a run's ends or as a run within.
    for (const auto& [mine_first, mine_last] : into->complete.runs()) {
      if (first <= mine_last && mine_first <= last) return overfull(std::max(first, mine_first));
    }
    const auto open = into->open.lower_bound(first);
    if (open != into->open.end() && open->first <= last) return overfull(open->first);
  }
  for (const auto& [index, count] : from.open) {
    if (into->complete.Contains(index)) return overfull(index);
    into->open[index] += count;
  }
  for (const auto& [first, last] : from.complete.runs()) into->complete.AddRun(first, last);
  return {};
}

}  // namespace

Summary::Summary(Plan its_plan) : plan(std::move(its_plan)) {
  slices.assign(plan.slices().size(), SliceStats(plan));
  fills = WindowFills(plan);
}

std::string BackendsOf(const Summary& summary) {
  std::set<std::string> names;
  for (const Source& source : summary.sources) {
    names.insert(source.backend.empty() ? "cpu" : source.backend);
  }
  if (names.size() == 1 && names.contains("cpu")) return "";
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ",") + name;
  return list;
}

const SliceStats* Summary::FindSlice(std::string_view name) const {
  const int at = plan.FindSlice(name);
  return at < 0 ? nullptr : &slices[static_cast<size_t>(at)];
}

bool Summary::Complete() const {
  uint64_t wanted = 0;
  uint64_t wanted_manifest = 0;
  for (const Source& source : sources) {
    wanted += source.requests;
    wanted_manifest += source.manifest;
  }
  uint64_t manifest = 0;
  for (const uint64_t hash : requests) manifest += hash;
  return wanted == requests.size() && wanted_manifest == manifest;
}

uint64_t Summary::RequestsMissing() const {
  uint64_t wanted = 0;
  for (const Source& source : sources) wanted += source.requests;
  return wanted - std::min<uint64_t>(wanted, requests.size());
}

Result<> Summary::FoldWindows() {
  for (WindowFill& fill : fills) {
    for (auto it = fill.open.begin(); it != fill.open.end();) {
      const auto [index, count] = *it;
      if (count > static_cast<uint64_t>(fill.size)) {
        return BrokenEvidenceError(std::to_string(count) + " requests have an ordinal in window " +
                                   std::to_string(index) + " of " + std::to_string(fill.size) +
                                   " requests; ordinals must be distinct");
      }
      if (count < static_cast<uint64_t>(fill.size)) {
        ++it;
        continue;
      }
      for (size_t w = 0; w < plan.windows().size(); ++w) {
        const PlanWindow& row = plan.windows()[w];
        if (row.window != Window{Window::Kind::kRequests, fill.size} ||
            PlacementOf(row) != fill.placement) {
          continue;
        }
        for (SliceStats& slice : slices) {
          WindowTally& tally = slice.windows[w];
          const auto open = tally.open.find(index);
          if (open == tally.open.end()) continue;
          tally.Fold(TakeMetric(plan, row, open->second));
          tally.open.erase(open);
        }
      }
      fill.complete.AddRun(index, index);
      it = fill.open.erase(it);
    }
  }
  return {};
}

namespace {

// Evidence from memory has no trace: parts of it that agree in all but their requests are one
// source, so that ranks and steps add up to what one process with all rows would say.
std::vector<Source> MergeSources(const std::vector<Source>& a, const std::vector<Source>& b) {
  std::vector<Source> all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  const auto kind = [](Source source) {
    source.requests = source.tokens = source.manifest = 0;
    source.request_set.clear();
    return source;
  };
  std::vector<Source> merged;
  for (const Source& source : all) {
    const bool in_memory = source.train.identity.empty() && source.infer.identity.empty();
    if (in_memory && !merged.empty() && kind(merged.back()) == kind(source)) {
      merged.back().requests += source.requests;
      merged.back().tokens += source.tokens;
      merged.back().manifest += source.manifest;
      merged.back().request_set.clear();  // a digest of a set is not one of a part
    } else {
      merged.push_back(source);
    }
  }
  return merged;
}

}  // namespace

// One identity is one trace; where payloads were read, they are one payload. Parts of one pair are
// measured by one backend: each source stands for the whole pair, and would be missed in part.
Result<> CheckPayloads(const std::vector<Source>& a, const std::vector<Source>& b) {
  for (const Source& x : a) {
    for (const Source& y : b) {
      if (!x.train.identity.empty() && x.train.identity == y.train.identity &&
          x.infer.identity == y.infer.identity && x.backend != y.backend) {
        return InvalidError(
            "the summaries are of one pair of traces, one measured on the CPU and one on '" +
            (x.backend.empty() ? y.backend : x.backend) + "': measure all parts on one of them");
      }
      for (const auto& [of_x, of_y] : {std::pair(&x.train, &y.train), {&x.infer, &y.infer}}) {
        if (of_x->identity.empty() || of_x->identity != of_y->identity ||
            of_x->payload_digest == of_y->payload_digest) {
          continue;
        }
        const bool unread = of_x->payload_digest.empty() || of_y->payload_digest.empty();
        return InvalidError(
            "the summaries are of traces with one identity (" + of_x->identity + ") " +
            (unread ? "and one of them was measured without --verify: measure all parts with it, "
                      "or none"
                    : "but different payloads: numbers were changed after the trace was "
                      "written"));
      }
    }
  }
  return {};
}

Result<> MergeInto(const Summary& from, Summary* into) {
  if (!(from.plan == into->plan)) {
    return InvalidError(
        "the summaries were measured with different plans; measure the parts with one contract");
  }
  KCC_TRY_VOID(CheckPayloads(from.sources, into->sources));
  into->format = std::min(into->format, from.format);
  into->exact_quantiles.clear();
  into->advantage_abs_max = std::max(into->advantage_abs_max, from.advantage_abs_max);
  std::vector<uint64_t> requests;
  requests.reserve(from.requests.size() + into->requests.size());
  std::merge(from.requests.begin(), from.requests.end(), into->requests.begin(),
             into->requests.end(), std::back_inserter(requests));
  if (std::adjacent_find(requests.begin(), requests.end()) != requests.end()) {
    std::vector<uint64_t> both;
    std::set_intersection(from.requests.begin(), from.requests.end(), into->requests.begin(),
                          into->requests.end(), std::back_inserter(both));
    return InvalidError(std::to_string(both.size()) +
                        " requests were measured in both summaries; merge disjoint parts");
  }
  into->requests = std::move(requests);
  into->sources = MergeSources(from.sources, into->sources);
  for (size_t i = 0; i < into->fills.size(); ++i) {
    KCC_TRY_VOID(MergeFill(from.fills[i], &into->fills[i]));
  }
  for (size_t i = 0; i < into->slices.size(); ++i) {
    into->slices[i].Merge(into->plan, from.slices[i]);
  }
  return into->FoldWindows();
}

uint64_t QuantileRank(uint64_t n, int percentile_ppm) {
  const auto product = static_cast<unsigned __int128>(n) * static_cast<unsigned>(percentile_ppm);
  const auto rank = static_cast<uint64_t>((product + 999999) / 1000000);
  return std::clamp<uint64_t>(rank, 1, n);
}

Result<Summary> Merge(const Summary& a, const Summary& b) {
  Summary merged = a;
  KCC_TRY_VOID(MergeInto(b, &merged));
  return merged;
}

}  // namespace kcc
