// What E2's figures say, in sentences that are computed from them.
#include <algorithm>
#include <cmath>

#include "kcc/base/strings.h"
#include "kcc/experiment/e2.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

// Of every slice but `all` would count requests twice: the rates here are those of `all`.
struct Rate {
  int64_t passing = 0, requests = 0;
  void Add(const E2Cell& cell) {
    passing += cell.passing;
    requests += cell.requests;
  }
  double share() const {
    return requests == 0 ? 1 : static_cast<double>(passing) / static_cast<double>(requests);
  }
};

template <typename Keep>
Rate RateWhere(const E2Result& result, const Keep& keep) {
  Rate rate;
  for (const E2Row& row : result.rows) {
    if (keep(row)) rate.Add(row.by_slice[0]);
  }
  return rate;
}

Finding LengthFinding(const E2Result& result) {
  const size_t last = result.lengths.size() - 1;
  Finding made{"the pass rate degrades as sequences grow", "", true};
  size_t worse = 0;
  for (size_t e = 0; e < result.engines.size(); ++e) {
    const auto at = [&](size_t length) {
      return RateWhere(result,
                       [&](const E2Row& row) { return row.engine == e && row.length == length; })
          .share();
    };
    if (at(last) < at(0)) {
      ++worse;
      made.seen += (made.seen.empty() ? "" : ", ") + result.engines[e] + " " + Percent(at(0)) +
                   " → " + Percent(at(last));
    }
  }
  made.holds = worse > 0;
  made.seen = std::to_string(worse) + " of " + std::to_string(result.engines.size()) +
              " engines pass less often at " + LengthText(result.lengths[last]) + " than as asked" +
              (worse > 0 ? ": " + made.seen : "");
  return made;
}

// The largest change of a cell's pass rate and of the threshold's use between two loads.
Finding LoadFinding(const E2Result& result, bool pressed) {
  double rate = 0, use = 0;
  uint64_t preemptions = 0;
  for (const E2Row& row : result.rows) {
    const E2Load load = result.loads[row.load];
    if (load.pressed != pressed || (!pressed && load.batch == result.loads[0].batch)) continue;
    // Against the smallest batch, or against the same batch with room.
    size_t base = 0;
    for (size_t w = 0; pressed && w < result.loads.size(); ++w) {
      if (result.loads[w].batch == load.batch && !result.loads[w].pressed) base = w;
    }
    preemptions += row.preemptions;
    const E2Row& calm = result.row(row.engine, base, row.length);
    for (size_t s = 0; s < result.slices.size(); ++s) {
      const E2Cell& a = row.by_slice[s];
      const E2Cell& b = calm.by_slice[s];
      if (a.requests == 0) continue;
      rate = std::max(rate, std::fabs(static_cast<double>(a.passing - b.passing) /
                                      static_cast<double>(a.requests)));
      // Far beyond a threshold, how far is no news.
      if (std::min(a.use, b.use) <= 1 / kNarrowUse) use = std::max(use, std::fabs(a.use - b.use));
    }
  }
  Finding made;
  made.predicted = pressed ? "load (preemption and recomputation) changes the pass rate"
                           : "batch size changes the pass rate";
  made.seen = "the pass rate of a cell moves by at most " + Percent(rate) +
              ", what cells near or within a threshold use of it by at most " + Percent(use);
  if (pressed) {
    made.seen += ", over " + std::to_string(preemptions) + " preemptions; no request was lost";
  }
  made.holds = rate > 0;
  return made;
}

Finding EngineFinding(const E2Result& result) {
  Finding made{"the engine matters", "pass rate over every regime:", false};
  double least = 1, most = 0;
  for (size_t e = 0; e < result.engines.size(); ++e) {
    const double share =
        RateWhere(result, [&](const E2Row& row) { return row.engine == e; }).share();
    least = std::min(least, share);
    most = std::max(most, share);
    made.seen += (e == 0 ? " " : ", ") + result.engines[e] + " " + Percent(share);
  }
  made.holds = most > least;
  return made;
}

// The claim that can fail: a cell that passes narrowly fails at the next length more often than one
// that passes with room.
Finding NarrowFinding(const E2Result& result) {
  int64_t narrow = 0, narrow_failed = 0, wide = 0, wide_failed = 0;
  for (const E2Row& row : result.rows) {
    if (row.length + 1 == result.lengths.size()) continue;
    const E2Row& next = result.row(row.engine, row.load, row.length + 1);
    for (size_t s = 0; s < result.slices.size(); ++s) {
      const E2Cell& cell = row.by_slice[s];
      if (cell.requests == 0 || next.by_slice[s].requests == 0 || cell.fails()) continue;
      (cell.narrow() ? narrow : wide) += 1;
      (cell.narrow() ? narrow_failed : wide_failed) += next.by_slice[s].fails();
    }
  }
  const auto share = [](int64_t part, int64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  Finding made;
  made.predicted = "cells that pass narrowly predict where the contract fails next";
  made.seen = std::to_string(narrow_failed) + " of " + std::to_string(narrow) +
              " cells that pass narrowly fail at the next length, " + std::to_string(wide_failed) +
              " of " + std::to_string(wide) + " that pass with room";
  made.holds = narrow > 0 && share(narrow_failed, narrow) > share(wide_failed, wide);
  if (narrow == 0) made.seen = "no cell before the last length passes narrowly: not tested";
  return made;
}

}  // namespace

std::string LengthText(const E2Length& length) {
  return length.tokens == 0 ? "as asked" : std::to_string(length.tokens) + " tokens";
}

std::string LoadText(const E2Load& load) {
  return std::to_string(load.batch) + " at once" + (load.pressed ? ", under pressure" : "");
}

std::vector<Finding> E2Findings(const E2Result& result) {
  std::vector<Finding> findings = {EngineFinding(result)};
  if (result.lengths.size() > 1) findings.push_back(LengthFinding(result));
  const auto any = [&](auto wanted) {
    return std::any_of(result.loads.begin(), result.loads.end(), wanted);
  };
  const size_t least = result.loads[0].batch;
  if (any([&](const E2Load& load) { return !load.pressed && load.batch != least; })) {
    findings.push_back(LoadFinding(result, false));
  }
  if (any([](const E2Load& load) { return load.pressed; })) {
    findings.push_back(LoadFinding(result, true));
  }
  if (result.lengths.size() > 1) findings.push_back(NarrowFinding(result));
  return findings;
}

std::string RoutingRule(const E2Result& result, size_t engine, size_t slice) {
  size_t held = 0;
  bool seen = false, open = true;
  for (size_t n = 0; n < result.lengths.size() && open; ++n) {
    if (result.row(engine, 0, n).by_slice[slice].requests == 0) continue;
    seen = true;
    for (size_t w = 0; w < result.loads.size(); ++w) {
      open = open && !result.row(engine, w, n).by_slice[slice].fails();
    }
    if (open) held = n + 1;
  }
  if (!seen) return "not measured";
  if (held == 0) return "none";
  if (held == result.lengths.size()) return "any";
  return result.lengths[held - 1].tokens == 0 ? "as asked only"
                                              : "up to " + LengthText(result.lengths[held - 1]);
}

}  // namespace kcc
