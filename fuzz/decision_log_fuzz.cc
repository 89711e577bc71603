// Files of the monitor, by anybody, and logs of observations by anybody.
//
//   byte 0   'w': lines of observations, folded into a log: it decides again to the byte, and a
//            session goes on from it and from its state;
//            's': a saved state beside no log;
//            else a decision log as it is. It is refused with words and left as it was, or a
//            session goes on from it, and then every line of it decides as it did.
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/scratch_dir.h"
#include "kcc/base/check.h"
#include "kcc/base/file.h"
#include "kcc/monitor/monitor_test_data.h"
#include "kcc/monitorlog/log_replay.h"
#include "kcc/monitorlog/monitor_session.h"
#include "kcc/monitorlog/observation_json.h"

namespace {

struct Documents {
  kcc::Contract contract =
      kcc::testing::MonitorContract({kcc::testing::SoftKl(0.05, {"all", "late"}),
                                     kcc::testing::MonitorClause("hard", "max_kl", 4)},
                                    {kcc::testing::MonitorSlice("all"),
                                     kcc::testing::MonitorSlice("late", "token.position >= 2")});
  kcc::MonitorPolicy policy = kcc::testing::TestPolicy();
  kcc::FuzzDir directory;
};

const Documents& TheDocuments() {
  static const Documents documents;
  return documents;
}

std::string LogPath() { return TheDocuments().directory / "log"; }
std::string StatePath() { return TheDocuments().directory / "state"; }

kcc::Result<kcc::MonitorSession> Open(bool with_state) {
  kcc::SessionOptions options;
  options.log = LogPath();
  if (with_state) options.state = StatePath();
  options.kcc_version = "fuzz";
  return kcc::MonitorSession::Open(TheDocuments().contract, TheDocuments().policy, options);
}

// Of a log that a session took.
void CheckReplays(int64_t decisions) {
  const auto replay = kcc::ReplayLog({LogPath()}, TheDocuments().contract, TheDocuments().policy);
  KCC_CHECK(replay.has_value() && !replay->difference && replay->decisions == decisions);
}

void CheckWritten(std::string_view lines) {
  static kcc::ObservationReader reader;
  int64_t folded = 0;
  auto session = Open(true);
  KCC_CHECK(session.has_value());
  while (!lines.empty() && folded < 64) {
    const size_t end = lines.find('\n');
    const auto observation = reader.Read(lines.substr(0, end));
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    if (!observation.has_value()) continue;
    const auto decision = session->Observe(*observation);
    if (!decision.has_value()) {
      KCC_CHECK(decision.error().code() == kcc::ErrorCode::kInvalid);
      continue;
    }
    ++folded;
  }
  const std::string saved = session->monitor().Save();
  KCC_CHECK(session->Close().has_value());
  { const kcc::MonitorSession closed = std::move(*session); }
  CheckReplays(folded);
  for (const bool with_state : {true, false}) {
    const auto again = Open(with_state);
    KCC_CHECK(again.has_value() && again->resumed() == folded);
    KCC_CHECK(again->monitor().Save() == saved);
  }
}

void CheckTaken(std::string_view bytes) {
  TheDocuments().directory.Put("log", bytes);
  (void)kcc::ReplayLog({LogPath()}, TheDocuments().contract, TheDocuments().policy).has_value();
  int64_t resumed = 0;
  {
    const auto session = Open(false);
    if (!session.has_value()) {
      KCC_CHECK(!session.error().message().empty());
      KCC_CHECK(*kcc::ReadFile(LogPath(), bytes.size() + 1) == bytes);
      return;
    }
    resumed = session->resumed();
  }
  CheckReplays(resumed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  TheDocuments().directory.Empty();
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'w') {
    CheckWritten(bytes);
  } else if (data[0] == 's') {
    TheDocuments().directory.Put("state", bytes);
    const auto session = Open(true);
    KCC_CHECK(!session.has_value() && !session.error().message().empty());
  } else {
    CheckTaken(bytes);
  }
  return 0;
}
