#include "kcc/control/gateway_decisions.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "kcc/base/file.h"
#include "kcc/contract/canonical.h"
#include "kcc/control/gateway_reload.h"
#include "kcc/control/kept_canary.h"
#include "kcc/monitorlog/monitor_session.h"
#include "kcc/register/register_uri.h"

namespace kcc {
namespace {

constexpr size_t kNameDigits = 32;
constexpr double kFoldS = 2;  // for what waits to be folded, at the end

std::string RandomName() {
  std::random_device random;
  std::string name;
  while (name.size() < kNameDigits) name += "0123456789abcdef"[random() & 15];
  return name;
}

// The name of a state's folder, which it keeps; the file is locked as long as it is open.
Result<FileDescriptor> LockFolder(const std::string& path, std::string* name) {
  constexpr mode_t kMode = 0640;
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode));
  const auto failed = [&](const char* what) {
    return IoError(std::string(what) + ": " + std::strerror(errno), Place{path});
  };
  if (file.get() < 0) return failed("cannot open the state's name");
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return failed("cannot lock the state's folder");
    return InvalidError("another gateway uses this state folder; give each one of its own",
                        Place{path});
  }
  char text[kNameDigits + 1] = {};
  const ssize_t have = ::pread(file.get(), text, kNameDigits, 0);
  *name = std::string(text, static_cast<size_t>(std::max<ssize_t>(have, 0)));
  const bool ours = name->size() == kNameDigits &&
                    name->find_first_not_of("0123456789abcdef") == std::string::npos;
  if (ours) return file;
  *name = RandomName();
  const auto written = ::pwrite(file.get(), (*name + "\n").data(), kNameDigits + 1, 0);
  if (written != static_cast<ssize_t>(kNameDigits + 1) || ::fsync(file.get()) != 0) {
    return failed("cannot write the state's name");
  }
  return file;
}

}  // namespace

void EvidenceCounts::Finish(const ServedRecord& record) {
  // Dropped ones are counted apart, and answers of strangers are not sampled.
  if (record.id.empty() || record.pool == nullptr || record.kind == RecordKind::kFingerprint)
    return;
  const std::string& kernel = record.pool->kernels[record.kernel].name;
  const std::lock_guard lock(mutex_);
  std::string key = kernel + "\n" + record.id;
  if (key == last_) return;
  last_ = std::move(key);
  ++finished_[kernel];
}

void EvidenceCounts::FinishAll() {
  const std::lock_guard lock(mutex_);
  for (const KernelCountsNow& kernel : CountsOf(*core_).kernels) {
    finished_[kernel.name] = kernel.sampled;
  }
}

std::map<std::string, EvidenceCount> EvidenceCounts::Now() const {
  std::map<std::string, EvidenceCount> counts;
  const std::lock_guard lock(mutex_);
  for (const KernelCountsNow& kernel : CountsOf(*core_).kernels) {
    const auto finished = finished_.find(kernel.name);
    counts[kernel.name] = {kernel.sampled, finished == finished_.end() ? 0 : finished->second};
  }
  return counts;
}

GatewayDecisions::GatewayDecisions(const GatewayDocuments& documents, StatePaths paths,
                                   std::string kcc_version, History* history, const Clock* clock)
    : documents_(documents),
      paths_(std::move(paths)),
      kcc_version_(std::move(kcc_version)),
      history_(history),
      clock_(clock) {}

bool GatewayDecisions::shared() const {
  const auto uri = ParseRegisterUri(documents_.config.register_url);
  return uri.has_value() && uri->postgres;
}

Result<> GatewayDecisions::Open() {
  if (documents_.config.register_url.empty()) return {};
  if (shared()) {
    KCC_TRY(folder_, LockFolder(paths_.folder + "/instance", &instance_));
  }
  RegisterLinkOptions options = LinkOptionsOf(documents_);
  options.claims = !shared();
  options.kcc_version = kcc_version_;
  if (options.follows_promotion) {
    evidence_ = std::make_unique<LiveEvidence>(documents_.contract, RandomName());
    options.evidence = evidence_.get();
    if (const MonitorKernel* audit = documents_.policy.FirstOf(KernelRole::kAudit)) {
      options.audit_fingerprint = audit->fingerprint;
    }
    options.decides = [this] { return decider_ && (ended_ || !decider_->follows()); };
    options.log_head = [this] { return decider_->view()->log_head; };
  }
  KCC_TRY(link_, RegisterLink::Open(std::move(options), clock_));
  told_link_.store(link_.get());
  return {};
}

Result<> GatewayDecisions::Start(GatewayCore* core) {
  core_ = core;
  counts_ = std::make_unique<EvidenceCounts>(core);
  if (shared()) {
    const bool hide = documents_.config.store != StoreRequests::kFull;
    outbox_ = std::make_unique<PeerOutbox>(documents_.contract, hide, clock_);
  }
  decider_ = std::make_unique<Decider>(clock_, outbox_.get());
  if (shared()) {
    KCC_TRY_VOID(StartPeers(core));
  } else {
    KCC_TRY(auto evaluator, StartEvaluator({}));
    decider_->Set(std::move(evaluator));
  }
  if (!link_) return {};
  link_->Begin([this](const RouteWishes& wishes, const std::string& reason) {
    // Without a promotion the register rules kernels out, and the share is the operator's.
    const bool follows = link_->promotion_followed();
    const auto make = [wishes, follows](const EvaluatorView& view) -> Result<RouteWishes> {
      RouteWishes next = follows ? wishes : view.wishes;
      next.barred = wishes.barred;
      next.held = view.wishes.held;
      return next;
    };
    if (decider_->Wish(make, "promotion", reason).has_value()) return true;
    // A share that may not grow now is asked for again; who is ruled out is so at once.
    const auto bar = [barred = wishes.barred](const EvaluatorView& view) -> Result<RouteWishes> {
      RouteWishes next = view.wishes;
      next.barred = barred;
      return next;
    };
    if (decider_->view()->wishes.barred != wishes.barred) {
      (void)decider_->Wish(bar, "promotion", reason);
    }
    return false;
  });
  return {};
}

Result<> GatewayDecisions::StartPeers(GatewayCore* core) {
  const GatewayConfig& config = documents_.config;
  PeerLinkParts parts;
  parts.uri = RegisterBeside(documents_.path, config.register_url);
  parts.gateway = config.name;
  parts.instance = instance_;
  parts.boot = RandomName();
  parts.documents = {ContractDigest(documents_.contract), PolicyDigest(documents_.policy),
                     std::string(Name(config.stage)), config.model};
  parts.contract = documents_.contract;
  parts.policy = documents_.policy;
  parts.stage = config.stage;
  for (const GatewayKernel& kernel : config.kernels) parts.kernels.push_back(kernel.name);
  parts.clock = clock_;
  parts.words = &core->route();
  parts.history = history_;
  parts.decider = decider_.get();
  parts.outbox = outbox_.get();
  parts.start = [this](const TakeOver& from) { return StartEvaluator(from); };
  parts.counts = [this] { return counts_->Now(); };
  KCC_TRY(peers_, PeerLink::Start(std::move(parts)));
  told_peers_.store(peers_.get());
  return {};
}

EvaluatorOptions GatewayDecisions::OptionsFrom(const TakeOver& from) const {
  RouteWishes wishes = WishesNow();
  const bool promoted = documents_.promotion.has_value();
  if (from.route && !from.own && !promoted) {
    // What was taken back, or never given, is not given by another gateway's configuration.
    const bool same = wishes.canary == from.route->wished_canary;
    wishes.canary_share = same ? std::min(wishes.canary_share, from.route->wished_share) : 0;
  }
  EvaluatorOptions options = EvaluatorOptionsOf(documents_, paths_, kcc_version_, wishes);
  options.offered = [core = core_] { return CountsOf(*core).Offered(); };
  if (evidence_) {
    options.live.folded = [this](const Evidence& evidence, const EvidenceOrigin& origin,
                                 const MonitorDecision& decision) {
      evidence_->Take(evidence, origin, decision);
    };
  }
  if (from.route) {
    options.live.unsafe = {from.route->guarded.begin(), from.route->guarded.end()};
  }
  return options;
}

// Its own log, where that is as new as what is recorded; else it goes on from there, or, where that
// cannot be gone on from, from nothing: the log of its own is then of another time.
Result<std::shared_ptr<Evaluator>> GatewayDecisions::StartEvaluator(const TakeOver& from) {
  const EvaluatorOptions options = OptionsFrom(from);
  const auto start = [&]() -> Result<std::shared_ptr<Evaluator>> {
    KCC_TRY(auto started, Evaluator::Start(options, &core_->route(), history_, clock_));
    return std::shared_ptr<Evaluator>(std::move(started));
  };
  if (from.own || (!from.state && !from.route)) {
    KCC_TRY(auto evaluator, start());
    if (!from.state || evaluator->view()->resumed >= from.state->observations) return evaluator;
    evaluator->End();  // the folder is an older copy of itself
  }
  std::optional<LogBefore> before;
  if (from.state) {
    before = LogBefore{from.state->head, from.state->observations, from.state->monitor};
  }
  const SessionOptions& session = options.live.session;
  Result<> begun =
      MonitorSession::BeginFrom(documents_.contract, documents_.policy, session, before);
  if (!begun.has_value() && before && begun.error().code() == ErrorCode::kInvalid) {
    begun = MonitorSession::BeginFrom(documents_.contract, documents_.policy, session, {});
  }
  if (!begun.has_value()) return std::move(begun.error());
  return start();
}

// Of the promotion, which says its share itself, or of the configuration and the operator.
RouteWishes GatewayDecisions::WishesNow() const {
  if (documents_.promotion && link_) return link_->wishes();
  RouteWishes wishes = WithKeptCanary(paths_.canary, WishesOf(documents_.config));
  if (link_) wishes.barred = link_->wishes().barred;
  return wishes;
}

// While nobody else decides yet: who does next then finds that nothing is missing.
void GatewayDecisions::RecordLast() {
  if (!link_ || !evidence_ || !decider_ || decider_->follows()) return;
  const double end = clock_->MonotonicSeconds() + kFoldS;
  while (decider_->queued() > 0 && clock_->MonotonicSeconds() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  link_->RecordLast();
}

void GatewayDecisions::Stop() {
  // The evaluator tells the links, and the links ask the evaluator: neither may find the other
  // gone.
  if (link_) link_->StopWishing();
  RecordLast();
  if (peers_) peers_->End();
  if (decider_) {
    if (const auto evaluator = decider_->Set(nullptr)) {
      evaluator->End();
      ended_ = true;
    }
  }
  told_peers_.store(nullptr);
  peers_.reset();
  told_link_.store(nullptr);
  link_.reset();
}

void GatewayDecisions::OnHistory(const HistoryEntry& entry) {
  if (RegisterLink* const link = told_link_.load()) link->Tell(entry);
  if (PeerLink* const peers = told_peers_.load()) peers->Wake();
}

std::optional<PeersNow> GatewayDecisions::peers() const {
  if (const PeerLink* const peers = told_peers_.load()) return peers->now();
  return std::nullopt;
}

}  // namespace kcc
