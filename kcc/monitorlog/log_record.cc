#include "kcc/monitorlog/log_record.h"

#include <array>

#include "kcc/base/sha256.h"
#include "kcc/contract/canonical.h"
#include "kcc/format/base64.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

constexpr std::string_view kObservationKey = "observation";
constexpr std::string_view kUnreadKey = "unread";
constexpr std::string_view kRenewedKey = "renewed";
constexpr std::array kStages = {Stage::kOffline, Stage::kShadow, Stage::kCanary, Stage::kFull};

std::string Line(JsonWriter* writer) {
  std::string line = writer->Take();
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

void WriteDocument(std::string_view key, const std::string& name, const std::string& version,
                   const std::string& digest, JsonWriter* writer) {
  writer->Key(key).BeginObject();
  writer->Field("name", name).Field("version", version).Field("digest", digest).EndObject();
}

Error NotALog(const std::string& why) {
  return InvalidError("not the first line of a decision log: " + why);
}

}  // namespace

LogStart StartOf(const Contract& contract, const MonitorPolicy& policy, Stage stage,
                 std::string kcc_version) {
  LogStart start;
  start.contract = contract.name;
  start.contract_version = contract.version;
  start.contract_digest = ContractDigest(contract);
  start.policy = policy.name;
  start.policy_version = policy.version;
  start.policy_digest = PolicyDigest(policy);
  start.stage = stage;
  start.kcc = std::move(kcc_version);
  return start;
}

std::string StartLine(const LogStart& start) {
  JsonWriter writer(JsonWriter::Style::kCompact);
  writer.BeginObject().Field("kccMonitorLog", kMonitorLogVersion);
  WriteDocument("contract", start.contract, start.contract_version, start.contract_digest, &writer);
  WriteDocument("policy", start.policy, start.policy_version, start.policy_digest, &writer);
  writer.Field("stage", Name(start.stage)).Field("kcc", start.kcc);
  if (start.before) {
    writer.Key("before").BeginObject().Field("head", start.before->head);
    writer.Field("decisions", start.before->decisions);
    writer.Field("state", EncodeBase64(start.before->state)).EndObject();
  }
  writer.EndObject();
  return Line(&writer);
}

Result<LogStart> ReadStartLine(std::string_view line) {
  json::parser parser;
  const auto root = ParseJson(parser, line);
  json::object object;
  if (!root.has_value()) return NotALog(root.error().message());
  if (root->get(object) != simdjson::SUCCESS) return NotALog("it is not an object");
  const auto version = JsonMember(object, "kccMonitorLog");
  if (!version) return NotALog("it has no kccMonitorLog");
  if (JsonInteger(*version) != kMonitorLogVersion) {
    return NotALog("this kcc reads version " + std::to_string(kMonitorLogVersion));
  }
  LogStart start;
  const auto read = [&](std::string_view key, std::string* name, std::string* its_version,
                        std::string* digest) {
    json::object document;
    const auto member = JsonMember(object, key);
    if (!member || member->get(document) != simdjson::SUCCESS) return;
    *name = JsonText(JsonMember(document, "name"));
    *its_version = JsonText(JsonMember(document, "version"));
    *digest = JsonText(JsonMember(document, "digest"));
  };
  read("contract", &start.contract, &start.contract_version, &start.contract_digest);
  read("policy", &start.policy, &start.policy_version, &start.policy_digest);
  start.kcc = JsonText(JsonMember(object, "kcc"));
  for (const Stage stage : kStages) {
    if (Name(stage) == JsonText(JsonMember(object, "stage"))) start.stage = stage;
  }
  json::object before;
  const auto member = JsonMember(object, "before");
  if (member && member->get(before) == simdjson::SUCCESS) {
    const auto decisions = JsonMember(before, "decisions");
    auto state = DecodeBase64(JsonText(JsonMember(before, "state")));
    start.before.emplace();
    start.before->head = JsonText(JsonMember(before, "head"));
    start.before->decisions = decisions ? JsonInteger(*decisions).value_or(-1) : -1;
    if (state) start.before->state = std::move(*state);
    if (!IsSha256(start.before->head) || start.before->decisions < 0) {
      return NotALog("'before' does not say where it goes on from");
    }
  }
  // Covers whatever is missing, of another kind, or there and unknown.
  if (StartLine(start) != line) return NotALog("kcc would not write it like this");
  return start;
}

void WriteChange(const MonitorChange& change, JsonWriter* writer) {
  const auto text = [&](std::string_view key, std::string_view value) {
    if (!value.empty()) writer->Field(key, value);
  };
  const auto number = [&](std::string_view key, double value) {
    if (value != 0) writer->Field(key, value);
  };
  writer->BeginObject().Field("kind", Name(change.kind));
  text("kernel", change.kernel);
  text("clause", change.clause);
  text("slice", change.slice);
  if (change.action) writer->Field("action", Name(*change.action));
  text("target", change.target);
  number("eValue", change.e_value);
  number("eLevel", change.e_level);
  number("value", change.value);
  number("limit", change.limit);
  if (change.observations != 0) writer->Field("observations", change.observations);
  text("reason", change.reason);
  writer->EndObject();
}

Result<LoggedMember> MemberOf(const MonitorObservation& observation) {
  KCC_TRY_VOID(CheckWritable(observation));
  JsonWriter writer(JsonWriter::Style::kCompact);
  WriteObservation(observation, &writer);
  std::string text = Line(&writer);
  if (text.size() > kObservationLineBytesMax) {
    return InvalidError("written out, the observation has more than " +
                        std::to_string(kObservationLineBytesMax) + " bytes");
  }
  return LoggedMember{kObservationKey, std::move(text)};
}

LoggedMember MemberOf(const UnreadLine& line) {
  JsonWriter writer(JsonWriter::Style::kCompact);
  WriteUnread(line, &writer);
  return {kUnreadKey, Line(&writer)};
}

Result<LoggedMember> MemberOf(const Renewal& renewal) {
  if (renewal.kernel.empty() || renewal.reason.empty() ||
      renewal.reason.size() > kUnreadReasonBytesMax ||
      renewal.kernel.size() > kObservationNameBytesMax || renewal.time_ms > kObservationTimeMax ||
      renewal.time_ms < -kObservationTimeMax) {
    return InvalidError("a renewal names its kernel, its time and its reason, of at most " +
                        std::to_string(kUnreadReasonBytesMax) + " bytes");
  }
  JsonWriter writer(JsonWriter::Style::kCompact);
  writer.BeginObject().Field("kernel", renewal.kernel).Field("time_ms", renewal.time_ms);
  writer.Field("reason", renewal.reason).EndObject();
  return LoggedMember{kRenewedKey, Line(&writer)};
}

Result<std::string> DecideAgain(const LoggedObservation& logged, Monitor* monitor) {
  if (const auto* unread = std::get_if<UnreadLine>(&logged.what)) {
    const MonitorDecision decision = DecideUnread(*unread, monitor);
    return DecisionLine(logged.previous, MemberOf(*unread), decision);
  }
  if (const auto* renewal = std::get_if<Renewal>(&logged.what)) {
    KCC_TRY(const LoggedMember member, MemberOf(*renewal));
    KCC_TRY(const MonitorDecision decision,
            monitor->Renew(renewal->kernel, renewal->time_ms, renewal->reason));
    return DecisionLine(logged.previous, member, decision);
  }
  const auto& observation = std::get<MonitorObservation>(logged.what);
  KCC_TRY(const LoggedMember member, MemberOf(observation));
  KCC_TRY(const MonitorDecision decision, monitor->Observe(observation));
  return DecisionLine(logged.previous, member, decision);
}

std::string DecisionLine(const std::string& previous, const LoggedMember& member,
                         const MonitorDecision& decision) {
  JsonWriter writer(JsonWriter::Style::kCompact);
  writer.BeginObject().Field("previous", previous).Field("number", decision.number);
  writer.Field("handling", Name(decision.handling)).Field("serves", decision.serves);
  writer.Key("changes").BeginArray();
  for (const MonitorChange& change : decision.changes) WriteChange(change, &writer);
  writer.EndArray().Key(member.key).Raw(member.text).EndObject();
  return Line(&writer);
}

struct DecisionLineReader::Memory {
  explicit Memory(OwnRows own) : observations(own) {}
  ObservationReader observations;
  json::parser parser{kLogLineBytesMax};
};

DecisionLineReader::DecisionLineReader(OwnRows own) : memory_(std::make_unique<Memory>(own)) {}
DecisionLineReader::DecisionLineReader(DecisionLineReader&&) noexcept = default;
DecisionLineReader::~DecisionLineReader() = default;

Result<LoggedObservation> DecisionLineReader::Read(std::string_view line) {
  KCC_TRY(const json::element root, ParseJson(memory_->parser, line));
  json::object object;
  if (root.get(object) != simdjson::SUCCESS) return InvalidError("the line is not an object");
  LoggedObservation logged;
  logged.previous = JsonText(JsonMember(object, "previous"));
  if (!IsSha256(logged.previous)) {
    return InvalidError("'previous' must be the digest of the line before");
  }
  const auto observation = JsonMember(object, kObservationKey);
  const auto unread = JsonMember(object, kUnreadKey);
  const auto renewed = JsonMember(object, kRenewedKey);
  if ((observation ? 1 : 0) + (unread ? 1 : 0) + (renewed ? 1 : 0) > 1) {
    return InvalidError("the line has more than one of observation, unread and renewed");
  }
  if (renewed) {
    json::object member;
    if (renewed->get(member) != simdjson::SUCCESS) {
      return InvalidError("'renewed' is not an object");
    }
    Renewal renewal;
    const auto time = JsonMember(member, "time_ms");
    renewal.kernel = JsonText(JsonMember(member, "kernel"));
    renewal.time_ms = time ? JsonInteger(*time).value_or(0) : 0;
    renewal.reason = JsonText(JsonMember(member, "reason"));
    logged.what = std::move(renewal);
    return logged;
  }
  if (unread) {
    KCC_TRY(logged.what, ReadUnread(simdjson::minify(*unread)));
    return logged;
  }
  if (!observation) return InvalidError("the line has no observation");
  auto read = memory_->observations.Read(simdjson::minify(*observation));
  if (!read.has_value()) return InvalidError(read.error().message());
  logged.what = std::move(*read);
  return logged;
}

}  // namespace kcc
