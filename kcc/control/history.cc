#include "kcc/control/history.h"

#include <algorithm>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/format/json.h"
#include "kcc/statement/timestamp.h"

namespace kcc {
namespace {

void WriteText(std::string_view key, const std::string& text, JsonWriter* json) {
  if (!text.empty()) json->Field(key, text);
}
void WriteNumber(std::string_view key, double number, JsonWriter* json) {
  if (number != 0) json->Field(key, number);
}

std::string TextOf(json::object object, std::string_view key) {
  return std::string(JsonText(JsonMember(object, key)));
}
double NumberOf(json::object object, std::string_view key) {
  const auto member = JsonMember(object, key);
  return member ? JsonNumber(*member).value_or(0) : 0;
}
int64_t IntegerOf(json::object object, std::string_view key) {
  const auto member = JsonMember(object, key);
  return member ? JsonInteger(*member).value_or(0) : 0;
}

std::string WhoServed(const HistoryEntry& route) {
  std::string words = route.serves.empty() ? "no kernel served" : route.serves + " served";
  if (!route.canary.empty()) {
    words += ", with " + ReadableNumber(100 * route.canary_share) +
             " % of sessions to the canary " + route.canary;
  }
  return words;
}

std::string_view ClientId(std::string_view id) { return id.substr(0, id.find('~')); }

}  // namespace

HistoryEntry EntryOf(const MonitorChange& change, int64_t at_ms) {
  HistoryEntry entry;
  entry.at_ms = at_ms;
  entry.kind = Name(change.kind);
  entry.kernel = change.kernel;
  entry.clause = change.clause;
  entry.slice = change.slice;
  if (change.action) entry.action = Name(*change.action);
  entry.target = change.target;
  entry.e_value = change.e_value;
  entry.e_level = change.e_level;
  entry.value = change.value;
  entry.limit = change.limit;
  entry.observations = change.observations;
  entry.reason = change.reason;
  return entry;
}

void WriteEntry(const HistoryEntry& entry, JsonWriter* json) {
  json->BeginObject().Field("atMs", entry.at_ms).Field("kind", entry.kind);
  WriteText("kernel", entry.kernel, json);
  WriteText("clause", entry.clause, json);
  WriteText("slice", entry.slice, json);
  WriteText("action", entry.action, json);
  WriteText("target", entry.target, json);
  WriteNumber("eValue", entry.e_value, json);
  WriteNumber("eLevel", entry.e_level, json);
  WriteNumber("value", entry.value, json);
  WriteNumber("limit", entry.limit, json);
  if (entry.observations != 0) json->Field("observations", entry.observations);
  if (entry.number != 0) json->Field("observation", entry.number);
  WriteText("request", entry.request, json);
  json->Field("reason", entry.reason).Field("serves", entry.serves);
  WriteText("canary", entry.canary, json);
  WriteNumber("canaryShare", entry.canary_share, json);
  json->EndObject();
}

Result<HistoryEntry> ReadEntry(std::string_view text) {
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, text));
  json::object object;
  if (root.get(object) != simdjson::SUCCESS) return InvalidError("an event is a JSON object");
  HistoryEntry entry;
  entry.at_ms = IntegerOf(object, "atMs");
  entry.kind = TextOf(object, "kind");
  if (entry.kind.empty()) return InvalidError("an event has a kind");
  entry.kernel = TextOf(object, "kernel");
  entry.clause = TextOf(object, "clause");
  entry.slice = TextOf(object, "slice");
  entry.action = TextOf(object, "action");
  entry.target = TextOf(object, "target");
  entry.e_value = NumberOf(object, "eValue");
  entry.e_level = NumberOf(object, "eLevel");
  entry.value = NumberOf(object, "value");
  entry.limit = NumberOf(object, "limit");
  entry.observations = IntegerOf(object, "observations");
  entry.number = IntegerOf(object, "observation");
  entry.request = TextOf(object, "request");
  entry.reason = TextOf(object, "reason");
  entry.serves = TextOf(object, "serves");
  entry.canary = TextOf(object, "canary");
  entry.canary_share = NumberOf(object, "canaryShare");
  return entry;
}

void History::Add(const HistoryEntry& entry) {
  {
    const std::lock_guard lock(mutex_);
    entries_.push_back(entry);
    if (entries_.size() > kEntriesMax) entries_.pop_front();
  }
  if (listener_) listener_(entry);
}

void History::Remember(std::vector<HistoryEntry> entries) {
  const std::lock_guard lock(mutex_);
  for (HistoryEntry& entry : entries) {
    entries_.push_back(std::move(entry));
    if (entries_.size() > kEntriesMax) entries_.pop_front();
  }
}

void History::Add(DecidedRequest request) {
  if (request.id.empty()) return;
  const std::lock_guard lock(mutex_);
  if (const auto known = by_id_.find(request.id); known != by_id_.end()) {
    // A probe shows the request to another kernel; who answered it says more.
    if (request.probe) return;
    // The id is the same, and stays where the keys see it.
    DecidedRequest& kept = *known->second;
    kept.kernel = std::move(request.kernel);
    kept.handling = std::move(request.handling);
    kept.at_ms = request.at_ms;
    kept.number = request.number;
    kept.probe = false;
    return;
  }
  requests_.push_back(std::make_unique<DecidedRequest>(std::move(request)));
  DecidedRequest* const added = requests_.back().get();
  by_id_.emplace(added->id, added);
  // Made anew, since a key that is kept may be a view of an older request.
  by_client_id_.erase(ClientId(added->id));
  by_client_id_.emplace(ClientId(added->id), added);
  if (requests_.size() > kRequestsMax) ForgetOldest();
}

const DecidedRequest* History::Find(const std::string& id) const {
  const auto known = by_id_.find(id);
  if (known != by_id_.end()) return known->second;
  const auto by_client = by_client_id_.find(id);
  return by_client == by_client_id_.end() ? nullptr : by_client->second;
}

void History::ForgetOldest() {
  const DecidedRequest& oldest = *requests_.front();
  const auto forget = [&](RequestIndex* index, std::string_view id) {
    const auto place = index->find(id);
    if (place != index->end() && place->second == &oldest) index->erase(place);
  };
  forget(&by_id_, oldest.id);
  forget(&by_client_id_, ClientId(oldest.id));
  requests_.pop_front();
}

std::vector<HistoryEntry> History::Latest(size_t count) const {
  const std::lock_guard lock(mutex_);
  const size_t from = entries_.size() > count ? entries_.size() - count : 0;
  return {entries_.begin() + static_cast<std::ptrdiff_t>(from), entries_.end()};
}

WhyAnswer History::RouteAt(int64_t time_ms) const {
  WhyAnswer answer;
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->IsRoute() && entry->at_ms <= time_ms) {
      answer.change = *entry;
      break;
    }
  }
  if (!answer.change) return answer;
  answer.found = true;
  const HistoryEntry& route = *answer.change;
  answer.text = "At " + ShownTimestamp(time_ms) + " " + WhoServed(route) + ", since " +
                ShownTimestamp(route.at_ms) + ": " + route.reason + ".";
  if (route.number == 0) return answer;
  for (const HistoryEntry& entry : entries_) {
    const bool beside = entry.number == route.number && !entry.IsRoute();
    // A restart begins the log's numbers where they ended, so that one number is one decision.
    if (beside && entry.at_ms == route.at_ms) answer.because.push_back(entry);
  }
  for (const HistoryEntry& entry : answer.because) {
    answer.text += " " + entry.kernel + ", " + entry.kind + ": " + entry.reason + ".";
  }
  answer.text += " It was decided by observation " + std::to_string(route.number) +
                 " of the decision log" +
                 (route.request.empty() ? "" : ", request " + route.request) + ".";
  return answer;
}

WhyAnswer History::WhyAt(int64_t time_ms) const {
  const std::lock_guard lock(mutex_);
  WhyAnswer answer = RouteAt(time_ms);
  if (!answer.found) {
    answer.text = "Nothing is known of the route at " + ShownTimestamp(time_ms) +
                  (entries_.empty() ? "."
                                    : ": what is kept begins at " +
                                          ShownTimestamp(entries_.front().at_ms) + ".");
  }
  return answer;
}

WhyAnswer History::WhyRequest(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const DecidedRequest* const found = Find(id);
  if (found == nullptr) {
    WhyAnswer none;
    none.text = "No sampled request '" + id + "' is among the last " +
                std::to_string(kRequestsMax) +
                ". Of a request that was not sampled nothing is kept: its x-kcc-kernel header says "
                "who answered it, and the time when it was sent leads to the reason.";
    return none;
  }
  const DecidedRequest& request = *found;
  WhyAnswer answer = RouteAt(request.at_ms);
  answer.found = true;
  answer.request = request;
  std::string text = "Request " + request.id +
                     (request.probe ? " was shown to " + request.kernel + " as a probe"
                                    : " was answered by " + request.kernel) +
                     " at " + ShownTimestamp(request.at_ms) + "; its evidence is observation " +
                     std::to_string(request.number) + " of the decision log (" + request.handling +
                     ").";
  if (answer.change && !request.probe && request.kernel != answer.change->serves &&
      request.kernel != answer.change->canary) {
    text +=
        " That is not whom the route names: its session began before, or another kernel failed "
        "before its first content.";
  }
  answer.text = text + (answer.text.empty() ? "" : " " + answer.text);
  return answer;
}

}  // namespace kcc
