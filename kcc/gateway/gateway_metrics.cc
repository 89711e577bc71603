#include "kcc/gateway/gateway_metrics.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <string_view>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

constexpr std::string_view kPrefix = "kcc_";

// A label's value: backslash, quote and newline are written with a backslash.
std::string Label(std::string_view name, std::string_view value) {
  std::string text = std::string(name) + "=\"";
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
  return text + '"';
}

class MetricsText {
 public:
  void Family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = std::string(kPrefix).append(name);
    text_.append("# HELP ").append(name_).append(" ").append(help).append("\n");
    text_.append("# TYPE ").append(name_).append(" ").append(type).append("\n");
  }
  void Row(std::string_view labels, double value, std::string_view suffix = {}) {
    text_.append(name_).append(suffix);
    if (!labels.empty()) text_.append("{").append(labels).append("}");
    text_.append(" ").append(ShortestNumber(value)).append("\n");
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

uint64_t Sum(const GatewayCore& core, const std::function<uint64_t(const WorkerCounts&)>& of) {
  uint64_t sum = 0;
  for (const auto& worker : core.workers()) sum += of(worker->counts());
  return sum;
}

uint64_t Read(const std::atomic<uint64_t>& count) { return count.load(std::memory_order_relaxed); }

double Double(uint64_t count) { return static_cast<double>(count); }

void WriteHistogram(const GatewayCore& core, std::string_view name, std::string_view help,
                    std::array<std::atomic<uint64_t>, 24> WorkerCounts::*histogram,
                    std::atomic<uint64_t> WorkerCounts::*sum_us, MetricsText* text) {
  text->Family(name, "histogram", help);
  uint64_t below = 0;
  for (size_t i = 0; i <= kTimeBounds; ++i) {
    below += Sum(core, [&](const WorkerCounts& counts) { return Read((counts.*histogram)[i]); });
    const std::string bound = i < kTimeBounds ? ShortestNumber(TimeBound(i)) : "+Inf";
    text->Row(Label("le", bound), Double(below), "_bucket");
  }
  const uint64_t us = Sum(core, [&](const WorkerCounts& counts) { return Read(counts.*sum_us); });
  text->Row("", Double(us) / 1e6, "_sum");
  text->Row("", Double(below), "_count");
}

// One family with a row for each kernel of the pool.
void WriteKernels(const GatewayCore& core, const GatewayPool& pool, std::string_view name,
                  std::string_view help, std::atomic<uint64_t> KernelCounts::*count,
                  MetricsText* text) {
  text->Family(name, "counter", help);
  for (size_t i = 0; i < pool.kernels.size(); ++i) {
    text->Row(Label("kernel", pool.kernels[i].name),
              Double(Sum(core, [&](const WorkerCounts& counts) {
                return Read(counts.kernels[i].*count);
              })));
  }
}

void WriteStatuses(const GatewayCore& core, const GatewayPool& pool, MetricsText* text) {
  text->Family("requests_total", "counter",
               "Heads of answers from kernels, retries counted, by hundreds of the status.");
  for (size_t i = 0; i < pool.kernels.size(); ++i) {
    for (size_t hundred = 2; hundred < 6; ++hundred) {
      const uint64_t count = Sum(core, [&](const WorkerCounts& counts) {
        return Read(counts.kernels[i].by_status[hundred]);
      });
      text->Row(Label("kernel", pool.kernels[i].name) + "," +
                    Label("route", Name(pool.kernels[i].role)) + "," +
                    Label("code", std::to_string(hundred) + "xx"),
                Double(count));
    }
  }
}

}  // namespace

double TimeBound(size_t index) { return 0.001 * static_cast<double>(uint64_t{1} << index); }

void CountTime(int64_t us, std::array<std::atomic<uint64_t>, 24>& histogram,
               std::atomic<uint64_t>& sum_us) {
  const auto time = static_cast<uint64_t>(std::max<int64_t>(us, 0));
  // The first bound of 1000 * 2^i that is not below the time.
  const uint64_t steps = (time + 999) / 1000;
  const size_t slot = steps <= 1 ? 0 : static_cast<size_t>(std::bit_width(steps - 1));
  Count(histogram[std::min(slot, kTimeBounds)]);
  Count(sum_us, time);
}

GatewayTotals TotalsOf(const GatewayCore& core) {
  GatewayTotals totals;
  for (const auto& worker : core.workers()) {
    const WorkerCounts& counts = worker->counts();
    for (const KernelCounts& kernel : counts.kernels) {
      totals.answered += Read(kernel.answered);
      totals.cut += Read(kernel.cut);
    }
    totals.own += Read(counts.own);
    totals.refused += Read(counts.refused);
    totals.left += Read(counts.left);
    totals.under_way += Read(counts.under_way);
    totals.came += Read(counts.came);
  }
  return totals;
}

std::string GatewayMetricsText(const GatewayCore& core) {
  const auto pool = core.pool();
  const GatewayTotals totals = TotalsOf(core);
  MetricsText text;
  text.Family("gateway_requests_came_total", "counter", "Requests that came.");
  text.Row("", Double(totals.came));
  text.Family("gateway_requests_total", "counter", "Requests by the way in which they ended.");
  text.Row(Label("end", "answered"), Double(totals.answered));
  text.Row(Label("end", "cut"), Double(totals.cut));
  text.Row(Label("end", "own"), Double(totals.own));
  text.Row(Label("end", "refused"), Double(totals.refused));
  text.Row(Label("end", "left"), Double(totals.left));
  text.Family("gateway_requests_under_way", "gauge", "Requests that have not ended.");
  text.Row("", Double(totals.under_way));
  WriteStatuses(core, *pool, &text);
  WriteKernels(core, *pool, "kernel_sent_total", "Requests sent to the kernel, retries counted.",
               &KernelCounts::sent, &text);
  WriteKernels(core, *pool, "kernel_answered_total", "Answers passed on to their end.",
               &KernelCounts::answered, &text);
  WriteKernels(core, *pool, "kernel_failures_total", "Tries without an answer to pass on.",
               &KernelCounts::failed, &text);
  WriteKernels(core, *pool, "kernel_cut_total", "Answers that broke off after their first content.",
               &KernelCounts::cut, &text);
  WriteKernels(core, *pool, "kernel_fingerprint_mismatches_total",
               "Answers with another fingerprint than the registered one.",
               &KernelCounts::strangers, &text);
  WriteKernels(core, *pool, "mirror_records_total", "Records put for the scorer.",
               &KernelCounts::sampled, &text);
  WriteKernels(core, *pool, "mirror_records_dropped_total",
               "Records that found the scorer's queue full.", &KernelCounts::dropped, &text);
  const auto total = [&](std::string_view name, std::string_view help,
                         std::atomic<uint64_t> WorkerCounts::*count) {
    text.Family(name, "counter", help);
    text.Row("",
             Double(Sum(core, [&](const WorkerCounts& counts) { return Read(counts.*count); })));
  };
  total("gateway_retries_total", "Requests sent to a further kernel.", &WorkerCounts::retried);
  total("gateway_unauditable_total", "Requests picked for sampling, of a kind that has no audit.",
        &WorkerCounts::unauditable);
  total("gateway_received_bytes_total", "Bytes of bodies from clients.", &WorkerCounts::bytes_in);
  total("gateway_sent_bytes_total", "Bytes of bodies to clients.", &WorkerCounts::bytes_out);
  WriteHistogram(core, "request_duration_seconds", "Whole answers, to their last byte.",
                 &WorkerCounts::whole, &WorkerCounts::whole_us, &text);
  WriteHistogram(core, "time_to_first_content_seconds", "Answers, to their first content.",
                 &WorkerCounts::first_content, &WorkerCounts::first_content_us, &text);
  return text.Take();
}

}  // namespace kcc
