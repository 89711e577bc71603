#include "kcc/attribution/attribution.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "kcc/base/strings.h"
#include "kcc/kernel/private_dir.h"
#include "kcc/measure/pair_walk.h"
#include "kcc/measure/trace_source.h"
#include "kcc/metric/token_slots.h"
#include "kcc/trace/slices.h"

namespace kcc {
namespace {

// Sums over one request's tokens, for every slice, quantity and corner.
struct RequestSums {
  std::vector<double> sums;     // [slice][quantity][corner]
  std::vector<int64_t> tokens;  // [slice]
};

// Sixteen corners are asked for, and only those that differ are run. A corner is a mask of the
// sources taken from infer; sources in which the kernels agree change nothing, so a mask means the
// same as its part within `active`. Example: only precision (bit 1) and batch (bit 2) differ. Runs
// are 0, 2, 4 and 6, and the corner 7 takes its numbers from 6 (same_as_).
//
// Sums are kept by request, since the bootstrap draws requests: tokens of one request are not
// independent.
class Attributor {
 public:
  Attributor(const AttributionOptions& options, std::vector<size_t> slots, SliceEvaluator slices)
      : options_(options), slots_(std::move(slots)), slices_(std::move(slices)) {
    for (const size_t slot : slots_) wanted_.set(slot);
    // Always measured, for the comparison with the envelopes.
    linf_slot_ = TokenSlot("logit_linf");
    wanted_.set(linf_slot_);
    for (unsigned mask = 0; mask < kCorners; ++mask) {
      const unsigned own = mask & options.active;
      same_as_[mask] = own;
      if (own == mask) runs_.push_back(mask);
    }
  }

  const std::vector<unsigned>& runs() const { return runs_; }

  Result<> AddBatch(const std::string& train, const std::string& corner, unsigned mask) {
    KCC_TRY(TraceReader train_reader, TraceReader::Open(train));
    KCC_TRY(TraceReader corner_reader, TraceReader::Open(corner));
    KCC_TRY(const PairedTraces pair,
            PairedTraces::Make(std::move(train_reader), std::move(corner_reader)));
    CornerVisitor visitor(this, mask);
    PairVisitor* const visitors[] = {&visitor};
    WalkOptions walk;
    walk.wanted = wanted_;
    std::vector<int32_t> order(pair.requests().size());
    std::iota(order.begin(), order.end(), 0);
    // One thread, so that the double sums of a request have one order.
    return WalkPairs(TraceSource(pair), order, slices_, walk, visitors);
  }

  Attribution Finish(const std::string& train, const std::string& infer) const {
    Attribution made;
    made.train_fingerprint = train;
    made.infer_fingerprint = infer;
    made.active = options_.active;
    made.confidence = options_.confidence;
    for (unsigned mask = 0; mask < kCorners; ++mask) {
      made.corner_linf_max[mask] = linf_max_[same_as_[mask]];
    }
    made.linf_max = made.corner_linf_max[kCorners - 1];
    for (size_t s = 0; s < slices_.size(); ++s) {
      for (size_t q = 0; q < slots_.size(); ++q) {
        AttributedCell cell = CellOf(s, q);
        if (cell.tokens > 0) made.cells.push_back(std::move(cell));
      }
    }
    return made;
  }

 private:
  // One corner's tokens, added to the sums of their requests.
  class CornerVisitor final : public PairVisitor {
   public:
    CornerVisitor(Attributor* attributor, unsigned mask) : attributor_(*attributor), mask_(mask) {}
    Result<> BeginRequest(size_t, const RequestPair& request, const SliceBits&) override {
      sums_ = &attributor_.SumsOf(std::string(request.id));
      return {};
    }
    Result<> Add(const MeasuredToken& token) override {
      attributor_.Add(token.bits, token.reading.drift, mask_, sums_);
      return {};
    }

   private:
    Attributor& attributor_;
    const unsigned mask_;
    RequestSums* sums_ = nullptr;
  };

  RequestSums& SumsOf(const std::string& id) {
    RequestSums& sums = requests_[id];
    if (sums.tokens.empty()) {
      sums.tokens.resize(slices_.size());
      sums.sums.resize(slices_.size() * slots_.size() * kCorners);
    }
    return sums;
  }

  void Add(const SliceBits& bits, const TokenDrift& drift, unsigned mask, RequestSums* sums) {
    linf_max_[mask] = std::max(linf_max_[mask], drift.hi[linf_slot_]);
    for (size_t s = 0; s < slices_.size(); ++s) {
      if (!bits.Test(s)) continue;
      if (mask == runs_.back()) ++sums->tokens[s];  // every corner has the same tokens
      for (size_t q = 0; q < slots_.size(); ++q) {
        sums->sums[(s * slots_.size() + q) * kCorners + mask] += drift.lo[slots_[q]];
      }
    }
  }

  // The corners' means from the requests named by index, each as often as it is named.
  std::array<double, kCorners> Means(size_t s, size_t q, const std::vector<size_t>& chosen,
                                     const std::vector<const RequestSums*>& all) const {
    std::array<double, kCorners> sums{};
    int64_t tokens = 0;
    // A ratio of sums, not a mean of means: a long request weighs as much as its tokens.
    for (const size_t r : chosen) {
      tokens += all[r]->tokens[s];
      const double* own = &all[r]->sums[(s * slots_.size() + q) * kCorners];
      for (unsigned mask = 0; mask < kCorners; ++mask) sums[mask] += own[same_as_[mask]];
    }
    for (double& sum : sums) sum = tokens == 0 ? 0 : sum / static_cast<double>(tokens);
    return sums;
  }

  AttributedCell CellOf(size_t s, size_t q) const {
    AttributedCell cell;
    cell.slice = slices_.slices()[s].name;
    cell.quantity = SlotName(slots_[q]);
    std::vector<const RequestSums*> all;
    for (const auto& [id, sums] : requests_) {
      if (sums.tokens[s] == 0) continue;
      all.push_back(&sums);
      cell.tokens += sums.tokens[s];
    }
    cell.requests = static_cast<int64_t>(all.size());
    if (all.empty()) return cell;
    std::vector<size_t> chosen(all.size());
    for (size_t r = 0; r < all.size(); ++r) chosen[r] = r;
    cell.shapley = ShapleyOf(Means(s, q, chosen, all));
    Resample(s, q, all, &cell);
    return cell;
  }

  // Percentile bootstrap over requests, from one fixed sequence of random numbers.
  void Resample(size_t s, size_t q, const std::vector<const RequestSums*>& all,
                AttributedCell* cell) const {
    std::array<std::vector<double>, kShapleySources> drawn;
    std::vector<size_t> chosen(all.size());
    // The same draws every time: the same evidence must give the same figures.
    uint64_t state = 0x243f6a8885a308d3u;
    for (int i = 0; i < options_.resamples; ++i) {
      for (size_t& r : chosen) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        r = static_cast<size_t>((state >> 33) % all.size());
      }
      const ShapleyShares shares = ShapleyOf(Means(s, q, chosen, all));
      for (size_t k = 0; k < kShapleySources; ++k) drawn[k].push_back(shares.share[k]);
    }
    const double tail = (1 - options_.confidence) / 2;
    for (size_t k = 0; k < kShapleySources; ++k) {
      std::vector<double>& values = drawn[k];
      std::sort(values.begin(), values.end());
      const auto at = [&](double p) {
        const double place = p * static_cast<double>(values.size() - 1);
        return values.empty() ? cell->shapley.share[k]
                              : values[static_cast<size_t>(std::lround(place))];
      };
      cell->interval[k] = {at(tail), at(1 - tail)};
    }
  }

  const AttributionOptions& options_;
  std::vector<size_t> slots_;
  SliceEvaluator slices_;
  SlotSet wanted_;
  size_t linf_slot_ = 0;
  std::array<unsigned, kCorners> same_as_{};
  std::vector<unsigned> runs_;
  std::map<std::string, RequestSums> requests_;  // by id, so that sums have one order
  std::array<double, kCorners> linf_max_{};
};

Result<std::vector<size_t>> SlotsOf(const std::vector<std::string>& quantities) {
  std::vector<size_t> slots;
  std::vector<std::string> names;
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) names.push_back(SlotName(slot));
  const std::vector<std::string_view> views(names.begin(), names.end());
  for (const std::string& quantity : quantities) {
    const auto found = std::find(names.begin(), names.end(), quantity);
    if (found == names.end()) {
      const auto nearest = NearestWord(quantity, views);
      return InvalidError("'" + quantity + "' is not a quantity of tokens" +
                          (nearest ? "; did you mean '" + std::string(*nearest) + "'?"
                                   : "; `kcc metrics` lists them"));
    }
    slots.push_back(static_cast<size_t>(found - names.begin()));
  }
  return slots;
}

}  // namespace

std::vector<std::string> DefaultAttributed() {
  return {"kl", "tv", "logit_span", "logit_linf", "abs_log_ratio", "top1_overlap"};
}

Result<unsigned> DifferingSources(const KernelInfo& train, const KernelInfo& infer) {
  unsigned active = 0;
  for (const KernelOption& option : infer.options) {
    const auto same =
        std::find_if(train.options.begin(), train.options.end(),
                     [&](const KernelOption& other) { return other.name == option.name; });
    if (same == train.options.end()) {
      return InvalidError("infer declares the option '" + option.name +
                          "', which train does not: both must be the same program");
    }
    if (same->value == option.value) continue;
    const auto source = std::find_if(kErrorSources.begin(), kErrorSources.end(),
                                     [&](ErrorSource one) { return Name(one) == option.source; });
    if (source == kErrorSources.end()) {
      return InvalidError("the kernels differ in the option '" + option.name +
                          "', which belongs to no error source; give both the same value");
    }
    active |= 1u << (source - kErrorSources.begin());
  }
  if (infer.options.empty()) {
    return InvalidError("the kernel declares no options with error sources: nothing to attribute");
  }
  return active;
}

Result<Attribution> Attribute(Kernel& train, const CornerOpener& open,
                              std::span<const KernelRequest> requests,
                              const AttributionOptions& options) {
  std::vector<Slice> slices = options.slices;
  if (std::none_of(slices.begin(), slices.end(), [](const Slice& s) { return s.name == "all"; })) {
    slices.insert(slices.begin(), Slice{"all", {}, {}});
  }
  KCC_TRY(SliceEvaluator evaluator, SliceEvaluator::Make(std::move(slices)));
  KCC_TRY(std::vector<size_t> slots,
          SlotsOf(options.quantities.empty() ? DefaultAttributed() : options.quantities));
  if (options.active == 0) {
    return InvalidError("the two kernels do not differ in any option of the four sources");
  }
  Attributor attributor(options, std::move(slots), std::move(evaluator));
  std::map<unsigned, std::unique_ptr<Kernel>> corners;
  for (const unsigned mask : attributor.runs()) {
    if (mask == 0 && !options.measure_base) continue;  // train itself
    KCC_TRY(corners[mask], open(mask));
  }
  const auto batch_size = static_cast<size_t>(std::max<int64_t>(1, options.batch_requests));
  const size_t batches = (requests.size() + batch_size - 1) / batch_size;
  const auto steps = static_cast<int64_t>(batches * (attributor.runs().size() + 1));
  int64_t done = 0;
  const auto advance = [&] {
    if (options.progress) options.progress(++done, steps);
  };
  for (size_t at = 0; at < requests.size(); at += batch_size) {
    const auto batch = requests.subspan(at, std::min(batch_size, requests.size() - at));
    KCC_TRY(const PrivateDir scratch, PrivateDir::Make(options.scratch));
    // Scored once for all corners, which are then asked one after the other: two traces on disk.
    KCC_TRY_VOID(train.Score(batch, scratch / "train"));
    advance();
    for (const unsigned mask : attributor.runs()) {
      if (const auto corner = corners.find(mask); corner != corners.end()) {
        KCC_TRY_VOID(corner->second->Score(batch, scratch / "corner"));
        KCC_TRY_VOID(attributor.AddBatch(scratch / "train", scratch / "corner", mask));
        KCC_TRY_VOID(RemoveTree(scratch / "corner"));
      } else {
        KCC_TRY_VOID(attributor.AddBatch(scratch / "train", scratch / "train", mask));
      }
      advance();
    }
  }
  // The largest mask that was run has every differing source from infer: it is infer.
  const std::string infer = corners.rbegin()->second->info().fingerprint;
  return attributor.Finish(train.info().fingerprint, infer);
}

}  // namespace kcc
