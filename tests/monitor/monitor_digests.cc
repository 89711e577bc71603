// From logits to decisions on every vector target that this CPU has: the digests of the decision
// log and of the monitor's state over a fixed stream. Every kind of signal is in it, and both kinds
// of detector. The digests must be the same on every target; tools/same_bytes.sh compares those of
// two compilers, tools/check_arm64.sh those of x86 and ARM64.
//
//   kcc_monitor_digests [--observations=1200]
//
// A line for each target and detector; exits with 1 where two targets differ, or where the stream
// raises no alarm or releases nothing, and so shows little.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/sha256.h"
#include "kcc/drift/row_quantities.h"
#include "kcc/drift/simd.h"
#include "kcc/monitor/monitor_test_data.h"
#include "kcc/monitorlog/log_record.h"
#include "kcc/numeric/target.h"

namespace kcc {
namespace {

using testing::MonitorClause;
using testing::MonitorContract;
using testing::MonitorSlice;
using testing::SoftKl;
using testing::TestPolicy;

constexpr size_t kVocab = 97;  // no multiple of a vector's lanes

// A proof, units, masses with and without an upper end, gaps, blocks of requests and of time, of a
// population too.
Contract EveryKind() {
  Clause windows = MonitorClause("windows", "mean_kl", 0.05, 0.2);
  windows.window = {Window::Kind::kRequests, 4};
  Clause by_time = MonitorClause("by-time", "max_kl", 0.2, 0.2);
  by_time.window = {Window::Kind::kTime, 50};
  Clause soft = SoftKl(0.05, {"all", "even", "late"});
  soft.threshold = 0.05;
  Clause latency = MonitorClause("latency", "p90_latency_ms", 100);
  latency.level = ViolationLevel::kL3;
  Contract contract = MonitorContract(
      {soft, MonitorClause("hard", "max_kl", 0.6, 0, {"even"}),
       MonitorClause("tokens", "p90_kl", 0.1), MonitorClause("spread", "mean_tv", 0.2),
       MonitorClause("sequence", "mean_seq_kl", 0.2), MonitorClause("js", "mean_js", 0.1),
       MonitorClause("refusals", "refusal_rate_gap", 0.1),
       MonitorClause("failures", "failure_rate_gap", 0.5), windows, by_time, latency},
      {MonitorSlice("all"), MonitorSlice("even", "even == true"),
       MonitorSlice("late", "token.position >= 2")});
  contract.assumptions.tokens_max = 8;
  return contract;
}

// Small numbers: what takes a million requests in service happens here within hundreds.
MonitorPolicy QuickPolicy(DetectorWord detector) {
  MonitorPolicy policy = TestPolicy();
  policy.detector = detector;
  policy.false_alarms.requests = 50;
  policy.block_requests = 5;
  policy.window_requests = 10;
  policy.release.clean = 8;
  policy.release.probation = 3;
  policy.release.alpha = 0.3;
  policy.audit.session_epoch_ms = 4000;
  return policy;
}

// One token's logits of both kernels, `noise` apart.
TokenDrift MeasureRow(double noise, Target target, RowScratch* scratch, RandomStream* random) {
  std::array<float, kVocab> train{};
  std::array<float, kVocab> infer{};
  for (size_t i = 0; i < kVocab; ++i) {
    const double logit = 12 * random->Uniform();
    train[i] = static_cast<float>(logit);
    infer[i] = static_cast<float>(logit + noise * (random->Uniform() - 0.5));
  }
  RowPair pair;
  pair.train = train.data();
  pair.infer = infer.data();
  pair.vocab = kVocab;
  pair.token = static_cast<int32_t>(random->Between(0, kVocab - 1));
  TokenDrift drift;
  if (!MeasureRowSimd(pair, AllTokenSlots(), target, scratch, &drift).has_value()) std::abort();
  return drift;
}

void AddTokens(double noise, Target target, RowScratch* scratch, RandomStream* random,
               ObservedTokens* to) {
  const auto count = random->Between(1, 4);
  std::vector<TokenDrift> rows;
  for (int64_t i = 0; i < count; ++i) {
    to->position.push_back(static_cast<int32_t>(i));
    rows.push_back(MeasureRow(noise, target, scratch, random));
    for (size_t side = 0; side < 2; ++side) {
      to->logprob[side].push_back(rows.back().logprob[side]);
      to->argmax[side].push_back(rows.back().argmax[side]);
      to->confidence[side].push_back(rows.back().confidence[side]);
    }
  }
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    if (!rows.front().known[slot]) continue;
    TokenColumn column;
    column.slot = slot;
    for (const TokenDrift& row : rows) column.lo.push_back(row.lo[slot]);
    to->columns.push_back(std::move(column));
  }
}

// Phases that are fine and phases that are not, so that alarms and releases both come.
class Stream {
 public:
  explicit Stream(Target target) : target_(target) {}

  MonitorObservation Next() {
    if (random_.Bernoulli(0.02)) bad_ = random_.Bernoulli(0.4) ? 0.5 : 0.01;
    const std::array<const char*, 4> kernels = {"fast", "fast", "careful", "reference"};
    MonitorObservation observation;
    time_ms_ += random_.Between(0, 12);
    observation.time_ms = time_ms_;
    observation.kernel = kernels[static_cast<size_t>(random_.Between(0, 3))];
    observation.session =
        random_.Bernoulli(0.2) ? "s" + std::to_string(random_.Between(0, 900)) : "";
    observation.probe = random_.Bernoulli(0.3);
    observation.audited = random_.Bernoulli(0.95);
    observation.infer.id = "r" + std::to_string(number_++);
    observation.train.emplace().id = observation.infer.id;
    const double noise = random_.Bernoulli(bad_) ? 6 : 0.2;
    AddTokens(noise, target_, &scratch_, &random_, &observation.tokens);
    auto& infer = observation.infer.fields;
    auto& train = observation.train->fields;
    infer["even"] = train["even"] = number_ % 2 == 0;
    infer["output_tokens"] = train["output_tokens"] =
        static_cast<double>(observation.tokens.rows());
    infer["latency_ms"] = random_.Bernoulli(bad_) ? 200.0 : 50.0;
    infer["started_at_ms"] = static_cast<double>(time_ms_);
    infer["failed"] = random_.Bernoulli(bad_);
    train["failed"] = false;
    infer["refused"] = random_.Bernoulli(bad_);
    train["refused"] = random_.Bernoulli(0.02);
    return observation;
  }

 private:
  Target target_;
  RowScratch scratch_;
  RandomStream random_{20261119};
  double bad_ = 0.01;
  int64_t time_ms_ = 0;
  int64_t number_ = 0;
};

struct Digests {
  std::string log;  // of its last line, which names the one before, and so on
  std::string state;
  int64_t alarms = 0;
  int64_t releases = 0;

  bool operator==(const Digests&) const = default;
};

Digests RunOn(Target target, DetectorWord detector, int64_t observations) {
  const Contract contract = EveryKind();
  const MonitorPolicy policy = QuickPolicy(detector);
  Monitor monitor = *Monitor::Make(contract, policy);
  Stream stream(target);
  Digests digests;
  digests.log = Sha256Of(StartLine(StartOf(contract, policy, Stage::kFull, "digests")));
  for (int64_t i = 0; i < observations; ++i) {
    const MonitorObservation observation = stream.Next();
    const LoggedMember member = *MemberOf(observation);
    const auto decision = monitor.Observe(observation);
    if (!decision.has_value()) {
      std::printf("%s\n", decision.error().Format().c_str());
      std::exit(1);
    }
    digests.log = Sha256Of(DecisionLine(digests.log, member, *decision));
    digests.alarms += testing::Has(*decision, MonitorChangeKind::kAlarm) ? 1 : 0;
    digests.releases += testing::Has(*decision, MonitorChangeKind::kRelease) ? 1 : 0;
  }
  digests.state = Sha256Of(monitor.Save());
  return digests;
}

bool RunDetector(DetectorWord detector, int64_t observations) {
  const Digests first = RunOn(AvailableTargets().front(), detector, observations);
  bool same = true;
  for (const Target target : AvailableTargets()) {
    const Digests digests = RunOn(target, detector, observations);
    std::printf("%s %s %lld observations, %lld alarms, %lld releases, log %s, state %s\n",
                std::string(TargetName(target)).c_str(), std::string(Name(detector)).c_str(),
                static_cast<long long>(observations), static_cast<long long>(digests.alarms),
                static_cast<long long>(digests.releases), digests.log.c_str(),
                digests.state.c_str());
    same = same && digests == first;
  }
  if (!same) std::printf("NOT THE SAME on every target\n");
  if (first.alarms == 0 || first.releases == 0) {
    std::printf("the stream has no alarm or no release, and so it shows little\n");
    return false;
  }
  return same;
}

}  // namespace
}  // namespace kcc

int main(int argc, char** argv) {
  int64_t observations = 1200;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--observations=")) observations = std::atoll(argv[i] + 15);
  }
  bool good = true;
  for (const auto detector : {kcc::DetectorWord::kShiryaevRoberts, kcc::DetectorWord::kCusum}) {
    good = kcc::RunDetector(detector, observations) && good;
  }
  return good ? 0 : 1;
}
