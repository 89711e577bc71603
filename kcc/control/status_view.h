// What the admin port of a gateway answered, read back: for `kcc status` and `kcc gateway why`.
// What is missing is empty: an older gateway says less, and a newer one more.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

struct KernelView {
  std::string name, role, state, verdict, action, target;
  double share = 0;
  int64_t since_ms = 0;
  int64_t evidence_at_ms = 0;  // 0: there is none, or it is not known
  std::string stale;           // why the verdict says nothing now; empty: it does
};

struct StatusView {
  int64_t at_ms = 0;
  std::string serves;  // empty: nobody
  std::string canary;  // empty: there is none
  std::string reason;
  double canary_share = 0;
  int64_t since_ms = 0;
  bool panic = false;
  std::string evaluator;  // "running", or why the route is held
  std::string log_error;
  std::string register_warning;
  // At a register that several gateways have; empty: it is alone.
  std::string decided_by;  // name of the gateway that decides
  bool decides = false;    // this one does
  int64_t decides_since_ms = 0, followers = 0;
  std::string held;
  std::string peers_error;
  double requests_per_second = 0;
  int64_t sampled = 0, scored = 0, lost = 0, dropped = 0;
  std::vector<KernelView> kernels;

  // A kernel is guarded, violated or broken, or the evaluator does not do its work.
  bool bad() const;
};

struct WhyView {
  bool found = false;
  std::string text;
};

// Fail on what is not the answer of a gateway.
Result<StatusView> ReadStatusView(std::string_view body);
Result<WhyView> ReadWhyView(std::string_view body);

}  // namespace kcc
