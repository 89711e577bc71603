// The saved state of a monitor, behind its digest: whatever is accepted must be a monitor that
// works, and its bytes must be those that were read, so that equal states have equal bytes.
#include <cstdint>
#include <string>
#include <string_view>

#include "kcc/base/check.h"
#include "kcc/base/sha256.h"
#include "kcc/monitor/monitor_test_data.h"

namespace {

kcc::Contract WatchedContract() {
  using kcc::testing::MonitorClause;
  using kcc::testing::MonitorSlice;
  kcc::Clause windows = MonitorClause("windows", "mean_kl", 1, 0.2);
  windows.window = {kcc::Window::Kind::kRequests, 4};
  return kcc::testing::MonitorContract(
      {kcc::testing::SoftKl(0.05, {"all", "late"}), windows,
       MonitorClause("throughput", "throughput_tokens_per_s", 1)},
      {MonitorSlice("all"), MonitorSlice("late", "token.position >= 2")});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const kcc::Contract contract = WatchedContract();
  static const kcc::MonitorPolicy policy = kcc::testing::TestPolicy();
  // The head names the contract and the policy; what follows is the input's.
  static const std::string head = [] {
    const std::string saved = kcc::Monitor::Make(contract, policy)->Save();
    return saved.substr(0, saved.find("sha256:") + 71);
  }();
  const std::string body =
      head + std::string(std::string_view(reinterpret_cast<const char*>(data), size));
  auto monitor = kcc::Monitor::Restore(contract, policy, body + kcc::Sha256Of(body));
  if (!monitor) return 0;
  KCC_CHECK(monitor->Save() == body + kcc::Sha256Of(body));
  for (int64_t i = 0; i < 8; ++i) {
    KCC_CHECK(monitor->Observe(kcc::testing::GoodOrBad(i, i % 2 == 0)).has_value());
  }
  monitor->Status();
  return 0;
}
