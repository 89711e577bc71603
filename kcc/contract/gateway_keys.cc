// The key tables of a gateway (keys.h).
#include <algorithm>

#include "kcc/base/constants.h"
#include "kcc/contract/key_rows.h"

namespace kcc {
namespace {

using enum ValueType;

// Offline there is no traffic that a gateway could see.
constexpr std::span<const std::string_view> kLiveStageWords =
    std::span<const std::string_view>(kStageWords).subspan(1);

// clang-format off
constexpr KeyRow kGateway[] = {
    {"apiVersion", kWord, kRequired, "", "version of the contract language", kApiVersions},
    {"kind", kWord, kRequired, "", "what the document is", KindWordAt(3)},
    {"metadata", kMapping, kRequired, "", "name and version of the gateway",
     {}, -kInf, kInf, kClosed, kClosed, "gatewayMetadata"},
    {"spec", kMapping, kRequired, "", "the gateway itself: where it listens, what it asks, what becomes evidence",
     {}, -kInf, kInf, kClosed, kClosed, "gatewaySpec"},
};

constexpr KeyRow kGatewayMetadata[] = {
    {"name", kName, kRequired, "", "name of the gateway, e.g. lab"},
    {"version", kVersion, kRequired, "", "version of this configuration, MAJOR.MINOR.PATCH"},
    {"owner", kText, kOptional, "", "team or person that answers for the gateway"},
    {"description", kText, kOptional, "", "what the gateway is for"},
    {"labels", kTextMap, kOptional, "", "free texts for your own tools"},
};

constexpr KeyRow kGatewaySpec[] = {
    {"listen", kAddress, kOptional, "127.0.0.1:8080", "where clients ask. Port 0: any free one; 0.0.0.0 is every network of this machine"},
    {"admin", kAddress, kOptional, "127.0.0.1:8081", "where the dashboard, the API and the metrics are; of this machine alone: 127.0.0.1, localhost or [::1]"},
    {"adminToken", kPath, kOptional, "", "a file with the token that requests to `admin` must carry; without it, none must"},
    {"threads", kInteger, kOptional, "2", "threads that carry requests", {}, 1, 64},
    {"model", kText, kRequired, "", "the model's name as clients ask for it"},
    {"contract", kPath, kRequired, "", "the contract that the kernels are held to"},
    {"policy", kPath, kRequired, "", "the monitor policy; its kernels are the pool's"},
    {"register", kText, kOptional, "", "which pairs are registered, what a promotion allows, and where incidents are recorded: sqlite:FILE or postgresql://HOST/DATABASE, without a password"},
    {"promotion", kPath, kOptional, "", "a promotion policy: the promotion under way in the register then gives the canary its share; needs `register`"},
    {"state", kPath, kOptional, "state", "a folder for the decision log, the monitor's state and events"},
    {"decisionLog", kMapping, kOptional, "", "how much of the decision log is kept",
     {}, -kInf, kInf, kClosed, kClosed, "decisionLogRule"},
    {"stage", kWord, kOptional, "full", "the stage whose clauses are judged; a promotion moves shares, not this", kLiveStageWords},
    {"store", kWord, kOptional, "hashes", "what of requests is kept beside the fields, token ids and numbers of the decision log. none and hashes: no text; full: the texts of prompts and answers too", kStoreWords},
    {"session", kSourceList, kOptional, "", "what tells sessions apart, the first that a request has; a session stays with its kernel. Without one, every request is its own session"},
    {"fields", kMappingList, kOptional, "", "what else is read of a request, for slices",
     {}, -kInf, kInf, kClosed, kClosed, "gatewayField"},
    {"kernels", kMappingList, kRequired, "", "where the kernels of the policy are asked",
     {}, -kInf, kInf, kClosed, kClosed, "gatewayKernel"},
    {"canary", kMapping, kOptional, "", "a kernel that serves a share of sessions",
     {}, -kInf, kInf, kClosed, kClosed, "canaryShare"},
    {"shadow", kIdentifier, kOptional, "", "a kernel that is asked the audited requests too; nobody gets its answers"},
    {"scoring", kMapping, kOptional, "", "how what was served becomes evidence",
     {}, -kInf, kInf, kClosed, kClosed, "scoringRule"},
    {"hooks", kMappingList, kOptional, "", "what grades answers, so that parsed, refused, reward and fields of your own exist. Of several for one field the first whose `when` selects the request",
     {}, -kInf, kInf, kClosed, kClosed, "gradeHook"},
    {"tls", kMapping, kOptional, "", "TLS towards clients; without it, plain HTTP",
     {}, -kInf, kInf, kClosed, kClosed, "gatewayTls"},
    {"clientKeys", kPath, kOptional, "", "a file with the SHA-256 of every key that clients may come with, in hex, one a line; without it, no key is asked for"},
    {"limits", kMapping, kOptional, "", "how much a client may send, and how often",
     {}, -kInf, kInf, kClosed, kClosed, "gatewayLimits"},
    {"times", kMapping, kOptional, "", "how long anything is waited for",
     {}, -kInf, kInf, kClosed, kClosed, "gatewayTimes"},
    {"telemetry", kMapping, kOptional, "", "where logs and traces go",
     {}, -kInf, kInf, kClosed, kClosed, "gatewayTelemetry"},
};

constexpr KeyRow kDecisionLogRule[] = {
    {"fileSize", kSize, kOptional, "64MiB", "decisions of one file, from 1KiB to 1GiB; then it is set aside, and a new one begins with the monitor's state"},
    {"files", kInteger, kOptional, "16", "files set aside that are kept; older ones are removed", {}, 1, 1e6},
};

constexpr KeyRow kGatewayField[] = {
    {"name", kIdentifier, kRequired, "", "the field, as slices name it: `tags`, `seed`, or one of your own"},
    {"from", kSource, kRequired, "", "where it is read"},
};

constexpr KeyRow kGatewayKernel[] = {
    {"name", kIdentifier, kRequired, "", "name of the kernel, as the monitor policy has it"},
    {"url", kUrl, kRequired, "", "where its server stands: http or https, host and port, no path"},
    {"server", kWord, kRequired, "", "what the server is; the lab's own speaks as vllm does", kServerWords},
    {"model", kText, kOptional, "", "what it calls the model; without it, as clients do"},
    {"keyFile", kPath, kOptional, "", "a file with its API key; without it, none is sent, nor the client's"},
    {"caFile", kPath, kOptional, "", "certificates to trust, for https; without it, the system's"},
    {"set", kJsonMap, kOptional, "", "members put into every request for it in place of the client's, such as `temperature: 0`"},
};

constexpr KeyRow kCanaryShare[] = {
    {"kernel", kIdentifier, kRequired, "", "the kernel"},
    {"share", kRatio, kRequired, "", "its share of sessions; a promotion's own steps stand in its place", {}, 0, 1},
};

constexpr KeyRow kScoringRule[] = {
    {"top", kInteger, kOptional, "20", "alternatives that are asked for of every token; servers have limits of their own", {}, 0, 1000},
    {"timeout", kDuration, kOptional, "2s", "for all calls about one request, up to 1h; what takes longer is lost, and counted"},
    {"inFlight", kInteger, kOptional, "64", "calls to one kernel at once", {}, 1, 4096},
    {"waiting", kInteger, kOptional, "256", "requests that wait to be scored; those beyond are lost, and counted", {}, 1, 1e6},
    {"determinism", kRatio, kOptional, "1%", "share of audited requests that are asked of their kernel again, to see whether it repeats itself", {}, 0, 1},
};

constexpr KeyRow kGradeHook[] = {
    {"field", kIdentifier, kRequired, "", "what it gives: `parsed` or `refused` (true or false), `reward` (a number), or a field of your own"},
    {"json", kPath, kOptional, "", "a JSON Schema: true where the answer is JSON that fits it; `any`: where it is JSON"},
    {"phrases", kTextList, kOptional, "", "true where the answer begins with, or holds, one of these, whatever its case"},
    {"exec", kText, kOptional, "", "a program that is given answers as lines of JSON and gives grades"},
    {"http", kUrl, kOptional, "", "an address that answers are posted to, and that gives grades"},
    {"when", kPredicate, kOptional, "", "which requests are graded; without it, all"},
};

constexpr KeyRow kGatewayTls[] = {
    {"certificate", kPath, kRequired, "", "a PEM file with the certificate and its chain"},
    {"key", kPath, kRequired, "", "a PEM file with its private key"},
};

constexpr KeyRow kGatewayLimits[] = {
    {"body", kSize, kOptional, "8MiB", "of a request's body, from 1KiB to 1GiB"},
    {"headers", kSize, kOptional, "16KiB", "of a request's head, from 1KiB to 1MiB"},
    {"connections", kInteger, kOptional, "4096", "of clients, at once", {}, 1, 1e6},
    {"requestsPerSecond", kNumber, kOptional, "", "of one client's address; without it, any number", {}, 0, 1e6, kOpen},
    {"retries", kInteger, kOptional, "1", "on other kernels, while nothing was said to the client", {}, 0, 8},
    {"answer", kSize, kOptional, "16MiB", "of a sampled answer that is kept to be scored, from 1KiB to 1GiB; larger ones are lost, and counted"},
};

constexpr KeyRow kGatewayTimes[] = {
    {"idle", kDuration, kOptional, "75s", "a client's connection without a request"},
    {"request", kDuration, kOptional, "30s", "for a request to arrive whole"},
    {"connect", kDuration, kOptional, "2s", "for a connection to a kernel"},
    {"firstByte", kDuration, kOptional, "10m", "until a kernel begins to answer"},
    {"between", kDuration, kOptional, "2m", "between two pieces of a kernel's answer"},
    {"write", kDuration, kOptional, "1m", "for a client to take what is written"},
    {"drain", kDuration, kOptional, "30s", "for requests to finish when the gateway ends"},
};

constexpr KeyRow kGatewayTelemetry[] = {
    {"otlp", kUrl, kOptional, "", "a collector of traces and metrics, by OTLP over HTTP; its paths are added"},
    {"log", kPath, kOptional, "", "a file for the log, a line of JSON an event; without it, standard error"},
};

constexpr MappingTable kGatewayTables[] = {
    {"gateway", "a gateway", kGateway},
    {"gatewayMetadata", "what identifies the gateway", kGatewayMetadata},
    {"gatewaySpec", "the gateway: who may ask, which kernels answer, and how that becomes evidence", kGatewaySpec},
    {"decisionLogRule", "how much of the decision log is kept", kDecisionLogRule},
    {"gatewayField", "a field of the request's record", kGatewayField},
    {"gatewayKernel", "where a kernel is asked, and how", kGatewayKernel},
    {"canaryShare", "who serves a share of sessions", kCanaryShare},
    {"scoringRule", "how what was served becomes evidence", kScoringRule},
    {"gradeHook", "what grades answers: one of json, phrases, exec and http", kGradeHook},
    {"gatewayTls", "TLS towards clients", kGatewayTls},
    {"gatewayLimits", "what a client may send", kGatewayLimits},
    {"gatewayTimes", "how long anything is waited for, up to 24h; what has taken longer is seen within 50 ms", kGatewayTimes},
    {"gatewayTelemetry", "where logs and traces go", kGatewayTelemetry},
};
// clang-format on

static_assert(std::all_of(std::begin(kGatewayTables), std::end(kGatewayTables),
                          [](const MappingTable& table) {
                            return table.keys.size() <= kMappingKeysMax;
                          }));

}  // namespace

std::span<const MappingTable> GatewayTables() { return kGatewayTables; }

}  // namespace kcc
