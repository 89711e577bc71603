#include "kcc/control/gateway_schema.h"

#include "kcc/contract/contract.h"
#include "kcc/contract/monitor_policy.h"
#include "kcc/monitor/monitor.h"
#include "kcc/report/json_schema.h"

namespace kcc {
namespace {

using json_schema::Bool;
using json_schema::Count;
using json_schema::Definitions;
using json_schema::ListOf;
using json_schema::MapOf;
using json_schema::Object;
using json_schema::OneOf;
using json_schema::OrNull;
using json_schema::Property;
using json_schema::Ref;
using json_schema::RefDescribed;
using json_schema::Schema;
using json_schema::Text;

constexpr std::array kVerdicts = {Verdict::kSatisfied, Verdict::kInconclusive, Verdict::kError,
                                  Verdict::kViolated};
constexpr std::array kStates = {KernelState::kServing, KernelState::kGuarded,
                                KernelState::kProbation};
constexpr std::array kRoles = {KernelRole::kInfer, KernelRole::kGuard, KernelRole::kFallback,
                               KernelRole::kCandidate, KernelRole::kAudit};
constexpr std::array kLiveStages = {Stage::kShadow, Stage::kCanary, Stage::kFull};

Schema Number(std::string_view description) { return RefDescribed("number", description); }
Schema TimeMs(std::string_view description) { return Count(description); }

Schema DocumentSchema() {
  return Object({{"name", Text("")}, {"version", Text("")}, {"digest", Text("SHA-256")}});
}

Schema RouteSchema() {
  return Object({{"serves", OrNull(Text("the kernel; null: requests are refused"))},
                 {"canary", OrNull(Text("the kernel of the canary"))},
                 {"share", Number("of new sessions, the canary's")},
                 {"since", TimeMs("when that became so")},
                 {"panic", Bool("every kernel that could serve is guarded")},
                 {"reason", Text("a sentence")}});
}

Schema PairSchema() {
  return Object({{"clause", Text("its id")},
                 {"slice", Text("")},
                 {"ofTrain", Bool("the slice as train's outcomes select it"), false},
                 {"clauseLevel", Text("L1, L2 or L3"), false},
                 {"metric", Text(""), false},
                 {"family", Text(""), false},
                 {"hard", Bool("no exceedance is allowed"), false},
                 {"verdict", OneOf(kVerdicts, "")},
                 {"reason", Text("a sentence")},
                 {"level", Number("how far the detectors are towards an alarm, 0 to 1")},
                 {"recent", Number("rate or mean over the recent window, on the scale of limit")},
                 {"limit", Number("")},
                 {"observations", Count("since the last alarm or the start")},
                 {"alarms", Count("")},
                 {"deviation", Number("phi")}});
}

Schema KernelSchema() {
  return Object(
      {{"name", Text("")},
       {"role", OneOf(kRoles, "")},
       {"state", OneOf(kStates, "")},
       {"verdict", OneOf(kVerdicts, "the worst of its pairs")},
       {"health", Number("H; from eta1 on an L2 or L3 clause is violated")},
       {"eta1", Number("")},
       {"eta2", Number("")},
       {"action", OrNull(Text("what its alarms order"))},
       {"target", Text("where its requests go while it is guarded")},
       {"share", Number("of new sessions")},
       {"since", TimeMs("when its state and verdict became so")},
       {"auditRate", Number("share of its requests that are audited now")},
       {"served", Count("observations of any kind, probes left out")},
       {"audited", Count("that counted")},
       {"strikes", Count("times it was guarded again after a release")},
       {"probationLeft", Count("audited requests")},
       {"build", Text("that its evidence is of, as far as it tells; empty: nothing")},
       {"fingerprint", Text("that its answers must carry; empty: any"), false},
       {"sent", Count("requests sent to it, retries counted"), false},
       {"answered", Count("answers passed on to their end"), false},
       {"failed", Count("tries without an answer to pass on"), false},
       {"cut", Count("answers that broke off after their first content"), false},
       {"sampled", Count("records for the scorer"), false},
       {"dropped", Count("records for which there was no room"), false},
       {"strangers", Count("answers with another fingerprint"), false},
       {"unasked", Count("probes that it was not shown, since others wait for it"), false},
       {"evidenceAtMs", OrNull(TimeMs("when its newest audited request began"))},
       {"stale", Text("why its evidence is too old for a verdict; empty: it is not")},
       {"pairs", ListOf(Ref("pair"), "clauses on slices")}});
}

Schema EntrySchema() {
  return Object({{"atMs", TimeMs("when it took effect")},
                 {"kind", Text("a word of the monitor's changes, or start, canary, promotion, "
                               "reload, stale, log, build, peers, register")},
                 {"kernel", Text(""), false},
                 {"clause", Text(""), false},
                 {"slice", Text(""), false},
                 {"action", Text("that is ordered"), false},
                 {"target", Text("where requests go"), false},
                 {"eValue", Number("the statistic"), false},
                 {"eLevel", Number("and what it had to reach"), false},
                 {"value", Number("the recent rate or mean, or the proof"), false},
                 {"limit", Number(""), false},
                 {"observations", Count("audited ones that it rests on"), false},
                 {"observation", Count("its number in the decision log"), false},
                 {"request", Text("whose evidence decided"), false},
                 {"reason", Text("a sentence")},
                 {"serves", Text("from then on; empty: nobody")},
                 {"canary", Text(""), false},
                 {"canaryShare", Number(""), false}});
}

Schema RiskSchema() {
  const Schema kernel =
      Object({{"name", Text("")}, {"health", Number("")}, {"level", Number("the highest")}});
  return Object(
      {{"atMs", TimeMs("")}, {"serves", Text("empty: nobody")}, {"kernels", ListOf(kernel, "")}});
}

Schema RatesSchema() {
  std::vector<Property> properties = {
      {"requestsPerSecond", Number("of the last ten seconds")},
      {"reasons", MapOf(Count(""), "of sampled requests without evidence")}};
  for (const char* count : {"came", "refused", "own", "retried", "left", "underWay", "unauditable",
                            "bytesIn", "bytesOut", "sampled", "scored", "lost", "dropped",
                            "unasked", "timedOut", "refusedByScorer", "waiting"}) {
    properties.push_back({count, Count("")});
  }
  return Object(properties, "counts since the start");
}

Schema EvaluatorSchema() {
  return Object({{"state", Text("running, silent or log-failed")},
                 {"silentSeconds", Number("")},
                 {"lagSeconds", Number("age of the oldest evidence that waits")},
                 {"queued", Count("")},
                 {"waitingForLog", Count("")},
                 {"lost", Count("evidence for which there was no room")},
                 {"logErrors", Count("")},
                 {"logFileError", Text("why a file grows beyond its size; empty: it does not")},
                 {"logError", Text("empty: the log is written")},
                 {"logHead", Text("digest of its last line")},
                 {"observations", Count("")},
                 {"unread", Count("")},
                 {"duplicates", Count("")},
                 {"sessions", Count("")},
                 {"late", Count("")},
                 {"resumed", Count("observations that it went on from")},
                 {"detectors", Count("")},
                 {"alarmLevel", Number("")},
                 {"eventErrors", Count("")},
                 {"registerWarning", Text("empty: it rules out what is not registered, or cannot")},
                 {"registerError", Text("empty: it was read")}});
}

Schema PeersSchema() {
  const Schema follower = Object({{"gateway", Text("its name")},
                                  {"instance", Text("of its state folder")},
                                  {"ageMs", Count("since it was heard of")}});
  return OrNull(Object({{"decides", Bool("this gateway does")},
                        {"gateway", Text("that decides; empty: none was heard of")},
                        {"instance", Text("of its state folder")},
                        {"self", Text("instance of this gateway")},
                        {"term", Count("how often one began to decide")},
                        {"since", TimeMs("this gateway decides, or follows")},
                        {"event", Count("of the register, with the route in force")},
                        {"error", Text("empty: the register was read and written")},
                        {"held", Text("why nothing is released; empty: it may be")},
                        {"waiting", Count("own evidence that waits for the register")},
                        {"lost", Count("own evidence for which there was no room")},
                        {"followers", ListOf(follower, "of the one that decides")}}));
}

Schema PromotionSchema() {
  return OrNull(Object({{"name", Text("")},
                        {"stage", Text("")},
                        {"share", Number("of the candidate")},
                        {"reason", Text("")},
                        {"error", Text(""), false},
                        {"missing", ListOf(Text(""), "what it waits for")}}));
}

Schema IncidentSchema() {
  return Object({{"id", Text("number of the decision")},
                 {"atMs", TimeMs("")},
                 {"kind", Text("")},
                 {"kernel", Text("")},
                 {"clause", Text("")},
                 {"slice", Text("")},
                 {"reason", Text("")},
                 {"request", Text("")},
                 {"replayCommand", Text("decides the log again")}});
}

Schema SamplingSchema() {
  return Object({{"auditShare", Number("")},
                 {"probed", Text("a guarded kernel that is shown copies; empty: none")},
                 {"probeShare", Number("")},
                 {"shadow", Text("a candidate that is shown copies; empty: none")}});
}

Schema PlaneSchema() {
  return Object({{"connections", Count("open now")},
                 {"accepted", Count("")},
                 {"overLimit", Count("")},
                 {"badRequests", Count("")},
                 {"withoutKey", Count("")},
                 {"rateLimited", Count("")}});
}

}  // namespace

std::string GatewayStatusSchema() {
  Definitions definitions = json_schema::NumberDefinitions();
  definitions.emplace_back("pair", PairSchema());
  const Schema root = Object({{"kccGateway", Count("version of this document: 1")},
                              {"atMs", TimeMs("Unix milliseconds, as all times")},
                              {"startedAtMs", TimeMs("")},
                              {"kcc", Text("version of the program")},
                              {"contract", DocumentSchema()},
                              {"policy", DocumentSchema()},
                              {"config", DocumentSchema()},
                              {"model", Text("what clients ask for")},
                              {"stage", OneOf(kLiveStages, "whose clauses are judged")},
                              {"url", Text("for clients")},
                              {"store", Text("what of requests is kept: none, hashes or full")},
                              {"route", RouteSchema()},
                              {"kernels", ListOf(KernelSchema(), "of the policy, in its order")},
                              {"history", ListOf(EntrySchema(), "oldest first, at most 500")},
                              {"risk", ListOf(RiskSchema(), "oldest first, at most 720")},
                              {"rates", RatesSchema()},
                              {"evaluator", EvaluatorSchema()},
                              {"sampling", SamplingSchema()},
                              {"plane", PlaneSchema()},
                              {"peers", PeersSchema()},
                              {"promotion", PromotionSchema()},
                              {"incidents", ListOf(IncidentSchema(), "oldest first")}});
  return json_schema::Document("Status of a kcc gateway", definitions, root);
}

std::string GatewayVerdictSchema() {
  const Schema clause = Object({{"id", Text("")},
                                {"slice", Text("")},
                                {"verdict", OneOf(kVerdicts, "")},
                                {"value", Number("the recent rate or mean")},
                                {"interval", OrNull(ListOf(Ref("number"), ""))},
                                {"threshold", Number("what value is held to")},
                                {"observations", Count("")},
                                {"reason", Text("")}});
  const Schema evidence =
      Object({{"requests", Count("audited")},
              {"tokens", Count("of audited requests, since the start")},
              {"newestAt", OrNull(Text("when the newest audited request began"))},
              {"ageSeconds", OrNull(Ref("number"))},
              {"stale", Bool("requests are sampled, and none becomes evidence")},
              {"needed", ListOf(Text(""), "pairs that are not decided yet")}});
  const Schema root =
      Object({{"kccVerdict", Count("version of this document: 1")},
              {"contract", DocumentSchema()},
              {"stage", OneOf(kLiveStages, "")},
              {"verdict", OneOf(kVerdicts, "satisfied on audited evidence of the kernel alone")},
              {"reason", Text("a sentence")},
              {"kernel", OrNull(Text("whom it is about"))},
              {"action", Text("what its alarms order, or none")},
              {"health", OrNull(Ref("number"))},
              {"evidence", evidence},
              {"clauses", ListOf(clause, "on their slices")},
              {"seq", Count("observations that were folded")},
              {"asOf", Text("RFC 3339, UTC")}});
  return json_schema::Document("Verdict of a kcc gateway", json_schema::NumberDefinitions(), root);
}

}  // namespace kcc
