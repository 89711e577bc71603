#include "kcc/control/gateway_process.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>
#include <utility>

#include "kcc/control/gateway_api.h"
#include "kcc/control/gateway_decisions.h"
#include "kcc/control/gateway_parts.h"
#include "kcc/control/gateway_reload.h"
#include "kcc/control/kept_canary.h"
#include "kcc/control/kernel_builds.h"
#include "kcc/control/line_log.h"
#include "kcc/control/request_rate.h"
#include "kcc/gateway/gateway_core.h"
#include "kcc/gateway/gateway_metrics.h"
#include "kcc/statement/timestamp.h"

namespace kcc {
namespace {

constexpr size_t kRing = 1024;
constexpr size_t kEventsBytesMax = size_t{16} << 20;
constexpr size_t kLogBytesMax = size_t{256} << 20;
constexpr size_t kHistoryShown = 500;
constexpr double kFinishS = 2;

// Before any thread starts, so that all inherit it and signals come to the one that waits for them.
sigset_t BlockSignals() {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t ours;
  sigemptyset(&ours);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ours, signal);
  pthread_sigmask(SIG_BLOCK, &ours, nullptr);
  return ours;
}

Result<> MakeDirectory(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (failed) return IoError("cannot make the directory: " + failed.message(), Place{path});
  return {};
}

class GatewayProcess {
 public:
  explicit GatewayProcess(GatewayRun run)
      : run_(std::move(run)),
        documents_(std::move(run_.documents)),
        paths_(StatePathsOf(documents_)),
        log_(documents_.config.telemetry.log_file.empty()
                 ? ""
                 : documents_.PathOf(documents_.config.telemetry.log_file),
             kLogBytesMax),
        events_(paths_.events, kEventsBytesMax) {}

  ~GatewayProcess() {
    if (api_) api_->ForgetListeners();
    StopPlane();
    StopScorer();
    otlp_.reset();
    builds_.reset();
    if (decisions_) decisions_->Stop();
  }

  Result<> Run() {
    const sigset_t signals = BlockSignals();
    const std::string model = documents_.config.model;  // a reload may change it from now on
    KCC_TRY_VOID(Start());
    WatchRegister();
    Say("started", "serving " + model + " at " + started_.url);
    if (run_.started) run_.started({started_.url, started_.admin_url, model});
    while (WaitForEnd(signals)) {
    }
    Say("draining", "no new connections; requests under way finish");
    api_->SetReady(false);
    // A second signal ends the process at once: the log is whole at every moment.
    std::signal(SIGTERM, SIG_DFL);
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGHUP, SIG_IGN);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    plane_->Drain();
    FinishScoring();
    Say("stopped", "drained");
    return {};
  }

 private:
  Result<> Start() {
    KCC_TRY_VOID(MakeDirectory(paths_.folder));
    decisions_.emplace(documents_, paths_, run_.kcc_version, &history_, run_.clock);
    KCC_TRY_VOID(decisions_->Open());
    TellHistory();
    core_.emplace(PoolOf(documents_), static_cast<size_t>(documents_.config.threads), kRing,
                  run_.clock);
    KCC_TRY_VOID(decisions_->Start(&*core_));
    facts_ = std::make_shared<GatewayFacts>(
        FactsOf(documents_, paths_, run_.kcc_version, run_.clock->NowMs()));
    rate_.Take(run_.clock->MonotonicSeconds(), 0);
    builds_.emplace(paths_.builds, BuildHooks());
    KCC_TRY_VOID(builds_->Take(documents_));
    MakeApi();
    KCC_TRY_VOID(StartTelemetry());
    KCC_TRY(scorer_, StartScorer(documents_));
    auto plane = Plane::Start(PlaneOptionsOf(documents_), *core_, *api_, &started_);
    if (!plane.has_value()) return std::move(plane.error());
    const std::lock_guard lock(mutex_);
    plane_ = std::move(*plane);
    auto facts = std::make_shared<GatewayFacts>(*facts_);
    facts->url = started_.url;
    facts->admin_url = started_.admin_url;
    facts_ = facts;
    return {};
  }

  // Of an earlier run first, then as it happens: the file of events, the log and listeners.
  void TellHistory() {
    std::vector<HistoryEntry> before;
    for (const std::string& line : events_.ReadLast(History::kEntriesMax)) {
      auto entry = ReadEntry(line);
      if (entry.has_value()) before.push_back(std::move(*entry));
    }
    history_.Remember(std::move(before));
    history_.Listen([this](const HistoryEntry& entry) {
      JsonWriter json(JsonWriter::Style::kCompact);
      WriteEntry(entry, &json);
      std::string line = json.Take();
      while (!line.empty() && line.back() == '\n') line.pop_back();
      events_.Write(line);
      Say(entry.kind, entry.reason, &entry);
      decisions_->OnHistory(entry);
      if (api_told_.load()) api_->OnHistory(entry);
    });
  }

  KernelBuilds::Hooks BuildHooks() {
    KernelBuilds::Hooks hooks;
    hooks.renew = [this](const std::string& kernel, const std::string& reason) {
      return decisions_->decider().Renew(kernel, reason);
    };
    hooks.tell = [this](const std::string& kernel, const std::string& reason) {
      HistoryEntry entry;
      entry.at_ms = run_.clock->NowMs();
      entry.kind = "build";
      entry.kernel = kernel;
      entry.serves = decisions_->decider().view()->plan.serves;
      entry.reason = reason;
      history_.Add(entry);
    };
    return hooks;
  }

  void MakeApi() {
    GatewayApiParts parts;
    parts.now = [this] { return Now(); };
    parts.core_metrics = [this] { return GatewayMetricsText(*core_); };
    parts.reload = [this] { return Reload(); };
    parts.history = &history_;
    parts.decider = &decisions_->decider();
    if (RegisterLink* const link = decisions_->link()) {
      parts.share_allowed = [link](const std::string& kernel) {
        return link->share_allowed(kernel);
      };
    }
    // A promotion says its share itself, again and again.
    if (!documents_.promotion) {
      parts.keep = [configured = WishesOf(documents_.config), path = paths_.canary](
                       const RouteWishes& wishes) { return KeepCanary(path, configured, wishes); };
    }
    if (documents_.config.canary) {
      parts.configured_canary = documents_.config.canary->kernel;
      parts.configured_share = documents_.config.canary->share;
    }
    api_.emplace(std::move(parts));
    api_told_.store(true);
  }

  Result<std::unique_ptr<Rescorer>> StartScorer(const GatewayDocuments& documents) {
    return Rescorer::Start(
        documents.contract, documents.policy, RescoreOptionsOf(documents), *core_,
        [this](Evidence evidence, const ServedRecord& record) {
          EvidenceOrigin origin;
          origin.request = record.id;
          if (record.pool) {
            origin.kernel = record.pool->kernels[record.kernel].name;
          }
          origin.at_ms = record.started_at_ms;
          origin.probe = record.kind == RecordKind::kProbe;
          if (otlp_) otlp_->Take(record);
          builds_->Saw(origin.kernel, record.fingerprint);
          decisions_->decider().Take(std::move(evidence), std::move(origin));
          decisions_->counts().Finish(record);
        },
        [this](const std::string& kernel, uint64_t count) {
          decisions_->decider().TakeDropped(kernel, count);
        });
  }

  Result<> StartTelemetry() {
    const std::string& url = documents_.config.telemetry.otlp_url;
    if (url.empty()) return {};
    OtlpOptions options;
    options.url = url;
    options.gateway = documents_.config.name;
    options.kcc_version = run_.kcc_version;
    options.metrics = [this] { return ControlMetrics(Gather()) + GatewayMetricsText(*core_); };
    KCC_TRY(otlp_, OtlpExporter::Start(std::move(options), run_.clock));
    return {};
  }

  Plane* Running() {
    const std::lock_guard lock(mutex_);
    return plane_.get();
  }
  // It waits for the threads that may be looking at it: not while they wait for us.
  void StopPlane() {
    std::unique_ptr<Plane> plane;
    {
      const std::lock_guard lock(mutex_);
      plane = std::move(plane_);
    }
    plane.reset();
  }

  // What it had not scored yet is missing, and it tells the monitor so.
  void StopScorer() {
    std::unique_ptr<Rescorer> scorer;
    RescoreCounts before;
    {
      const std::lock_guard lock(mutex_);
      if (!scorer_) return;
      scorer = std::move(scorer_);
      before = scored_before_;
      scored_before_ += scorer->counts();  // what is counted never goes back
    }
    before += scorer->Finish();
    decisions_->counts().FinishAll();
    const std::lock_guard lock(mutex_);
    scored_before_ = std::move(before);
  }
  // What nobody took any more, once the plane puts nothing.
  void EmptyRings() {
    for (const auto& worker : core_->workers()) {
      while (const auto record = worker->ring().Take()) {
        if (!record->pool) continue;
        decisions_->decider().TakeLost(record->pool->kernels[record->kernel].name, 1);
      }
      const std::vector<uint64_t> dropped = worker->ring().TakeDropped();
      const auto pool = core_->pool();
      for (size_t i = 0; i < dropped.size() && i < pool->kernels.size(); ++i) {
        if (dropped[i] > 0) decisions_->decider().TakeDropped(pool->kernels[i].name, dropped[i]);
      }
    }
  }

  // After the drain: what clients were answered is still worth its evidence.
  void FinishScoring() {
    int64_t timeout_ms = 0;
    {
      const std::lock_guard lock(reload_mutex_);
      timeout_ms = documents_.config.scoring.timeout_ms;
    }
    // Whoever ends a process waits for it: evidence that comes later is lost, and said to be.
    const double limit_s = std::min(kFinishS, static_cast<double>(timeout_ms) / 1000);
    const double end = run_.clock->MonotonicSeconds() + limit_s;
    // The last records are still on their way into the scorer's count.
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    } while (run_.clock->MonotonicSeconds() < end && Scorer().waiting > 0);
    StopScorer();
    StopPlane();
    EmptyRings();
    decisions_->counts().FinishAll();
  }

  RescoreCounts Scorer() {
    const std::lock_guard lock(mutex_);
    return ScorerHeld();
  }

  // Of all scorers that there were: a reload may begin another one. Holding the lock.
  RescoreCounts ScorerHeld() const {
    RescoreCounts counts = scored_before_;
    if (scorer_) counts += scorer_->counts();
    return counts;
  }

  // False: it is to end.
  bool WaitForEnd(const sigset_t& signals) {
    const timespec second{1, 0};
    const int signal = sigtimedwait(&signals, nullptr, &second);
    if (signal == SIGTERM || signal == SIGINT) return false;
    if (signal == SIGHUP) {
      log_.Reopen();
      (void)Reload();
    }
    rate_.Take(run_.clock->MonotonicSeconds(), CountsOf(*core_).came);
    WatchLease();
    WatchRegister();
    api_->Tick();
    return true;
  }

  void WatchLease() {
    const Decider& decider = decisions_->decider();
    const bool silent = decider.silent();
    if (silent == told_silent_) return;
    told_silent_ = silent;
    HistoryEntry entry;
    entry.at_ms = run_.clock->NowMs();
    entry.kind = "stale";
    entry.serves = decider.view()->plan.serves;
    const std::string who = decider.follows() ? "the gateway that decides" : "the evaluator";
    entry.reason = silent ? who +
                                " has been silent for longer than its lease; the last route is "
                                "held and no share grows"
                          : who + " is heard of again";
    history_.Add(entry);
  }

  void WatchRegister() {
    RegisterLink* const link = decisions_->link();
    const std::string warning = link == nullptr ? std::string() : link->warning();
    if (warning == told_warning_) return;
    HistoryEntry entry;
    entry.at_ms = run_.clock->NowMs();
    entry.kind = "register";
    entry.serves = decisions_->decider().view()->plan.serves;
    entry.reason = warning.empty() ? "the register knows pairs under the contract" : warning;
    told_warning_ = warning;
    history_.Add(entry);
  }

  GatewayNow Now() {
    GatewayNow now = Gather();
    if (otlp_) now.otlp = otlp_->counts();
    return now;
  }

  // All but the exporter's own counts: it is one of those that ask.
  GatewayNow Gather() {
    GatewayNow now;
    now.at_ms = run_.clock->NowMs();
    const Decider& decider = decisions_->decider();
    now.view = decider.view();
    now.silent_s = decider.silent_s();
    now.silent = now.silent_s > Decider::kLeaseS;
    now.lag_s = decider.lag_s();
    now.queued = decider.queued();
    now.peers = decisions_->peers();
    now.builds = builds_->Shown();
    now.counts = CountsOf(*core_);
    now.requests_per_second = rate_.PerSecond();
    now.history = history_.Latest(kHistoryShown);
    now.risk = decider.risk();
    now.event_errors = events_.errors();
    if (const RegisterLink* const link = decisions_->link()) {
      now.promotion = link->promotion();
      now.register_error = link->error();
      now.register_warning = link->warning();
    }
    if (now.peers && !now.peers->error.empty()) now.register_error = now.peers->error;
    const std::lock_guard lock(mutex_);
    now.facts = facts_;
    now.scorer = ScorerHeld();
    if (plane_) now.plane = plane_->counts();
    return now;
  }

  ReloadReport Reload() {
    const std::lock_guard one_at_a_time(reload_mutex_);
    ReloadReport report;
    LoadedGateway loaded = LoadGateway(documents_.path);
    for (const GatewayFinding& finding : loaded.findings) {
      report.problems.push_back(FormatDiagnostic(finding.diagnostic, finding.file, finding.source));
    }
    if (!loaded.documents) {
      TellReload("the configuration is not valid; the old one serves on: " +
                 (report.problems.empty() ? std::string() : report.problems.front()));
      return report;
    }
    report.needs_restart = KeepWhatNeedsRestart(documents_, &*loaded.documents);
    const Result<> taken = TakeOver(*loaded.documents);
    if (!taken.has_value()) {
      report.problems.push_back(taken.error().Format());
      TellReload("the configuration cannot be taken: " + taken.error().Format());
      return report;
    }
    report.reloaded = true;
    std::string told = "the configuration was read again";
    if (!report.needs_restart.empty()) {
      told += "; needs a restart:";
      for (const std::string& what : report.needs_restart) told += " " + what + ",";
      told.pop_back();
    }
    TellReload(told);
    return report;
  }

  // What can fail comes first.
  Result<> TakeOver(GatewayDocuments& next) {
    Plane* const plane = Running();
    if (plane == nullptr) return IoError("the gateway is starting or ending");
    // Before a request goes to another build under an old name.
    KCC_TRY_VOID(builds_->Take(next));
    KCC_TRY_VOID(plane->Reload(PlaneOptionsOf(next)));
    const bool new_scorer = !SameScoring(documents_, next);
    if (new_scorer) {
      StopScorer();
      auto scorer = StartScorer(next);
      if (!scorer.has_value()) {
        // The old one started before; without one nothing would be audited.
        auto old = StartScorer(documents_);
        const std::lock_guard lock(mutex_);
        if (old.has_value()) scorer_ = std::move(*old);
        return std::move(scorer.error());
      }
      const std::lock_guard lock(mutex_);
      scorer_ = std::move(*scorer);
    }
    core_->Replace(PoolOf(next));
    documents_ = std::move(next);
    const std::lock_guard lock(mutex_);
    auto facts = std::make_shared<GatewayFacts>(*facts_);
    facts->config = {documents_.config.name, documents_.config.version,
                     GatewayDigest(documents_.config)};
    facts->model = documents_.config.model;
    facts_ = facts;
    return {};
  }

  void TellReload(const std::string& reason) {
    HistoryEntry entry;
    entry.at_ms = run_.clock->NowMs();
    entry.kind = "reload";
    entry.serves = decisions_->decider().view()->plan.serves;
    entry.reason = reason;
    history_.Add(entry);
  }

  // A line of the structured log.
  void Say(const std::string& event, const std::string& message,
           const HistoryEntry* entry = nullptr) {
    JsonWriter json(JsonWriter::Style::kCompact);
    json.BeginObject().Field("time", ShownTimestamp(run_.clock->NowMs()));
    json.Field("event", event).Field("message", message);
    if (entry != nullptr) {
      json.Key("entry");
      WriteEntry(*entry, &json);
    }
    std::string line = json.EndObject().Take();
    while (!line.empty() && line.back() == '\n') line.pop_back();
    log_.Write(line);
  }

  GatewayRun run_;
  GatewayDocuments documents_;  // changed by Reload alone
  const StatePaths paths_;
  LineLog log_;
  LineLog events_;
  History history_;
  std::optional<GatewayCore> core_;
  std::optional<GatewayDecisions> decisions_;
  std::optional<KernelBuilds> builds_;
  std::optional<GatewayApi> api_;
  std::unique_ptr<OtlpExporter> otlp_;  // none: nothing is exported
  std::atomic<bool> api_told_{false};
  PlaneStarted started_;
  RequestRate rate_;
  bool told_silent_ = false;
  std::string told_warning_;
  std::mutex reload_mutex_;
  std::mutex mutex_;  // of what follows
  std::unique_ptr<Rescorer> scorer_;
  RescoreCounts scored_before_;
  std::unique_ptr<Plane> plane_;
  std::shared_ptr<const GatewayFacts> facts_;
};

}  // namespace

Result<> RunGateway(GatewayRun run) { return GatewayProcess(std::move(run)).Run(); }

}  // namespace kcc
