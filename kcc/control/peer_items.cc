#include "kcc/control/peer_items.h"

#include <algorithm>
#include <utility>

#include "kcc/base/json_writer.h"
#include "kcc/format/json.h"
#include "kcc/monitorlog/log_record.h"

namespace kcc {
namespace {

constexpr uint64_t kLostMax = uint64_t{1} << 40;  // that one item may claim

std::string ItemText(JsonWriter* json) {
  std::string text = json->EndObject().Take();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(1);  // the age comes before it
}

// Fails where it could not be read back.
Result<std::string> EvidenceText(const Evidence& evidence, const EvidenceOrigin& origin,
                                 bool hidden) {
  LoggedMember member;
  if (const auto* unread = std::get_if<UnreadLine>(&evidence)) {
    member = MemberOf(*unread);
  } else {
    KCC_TRY(member, MemberOf(std::get<MonitorObservation>(evidence)));
  }
  if (member.text.size() > kPeerItemBytesMax) {
    return InvalidError("the evidence has more than " + std::to_string(kPeerItemBytesMax) +
                        " bytes");
  }
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("request", origin.request).Field("kernel", origin.kernel);
  json.Field("probe", origin.probe).Field("hidden", hidden).Key(member.key).Raw(member.text);
  return ItemText(&json);
}

}  // namespace

Result<ReadItem> PeerItemReader::Read(std::string_view text, int64_t waited_ms, int64_t now_ms) {
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, text));
  json::object object;
  if (root.get(object) != simdjson::SUCCESS) return InvalidError("the item is not an object");
  const auto integer = [&](std::string_view key) {
    const auto member = JsonMember(object, key);
    return member ? JsonInteger(*member).value_or(-1) : -1;
  };
  const auto truth = [&](std::string_view key) {
    const auto member = JsonMember(object, key);
    bool value = false;
    return member && member->get(value) == simdjson::SUCCESS && value;
  };
  ReadItem item;
  const std::string kernel(JsonText(JsonMember(object, "kernel")));
  if (JsonMember(object, "lost")) {
    const int64_t lost = integer("lost");
    if (lost < 1 || static_cast<uint64_t>(lost) > kLostMax) {
      return InvalidError("'lost' is not a count");
    }
    item.lost_kernel = kernel;
    item.lost = static_cast<uint64_t>(lost);
    return item;
  }
  item.renewal = JsonText(JsonMember(object, "renewal"));
  if (!item.renewal.empty()) {
    item.origin.kernel = kernel;
    return item;
  }
  item.origin.request = JsonText(JsonMember(object, "request"));
  item.origin.kernel = kernel;
  item.origin.probe = truth("probe");
  item.origin.hidden = truth("hidden");
  item.origin.at_ms =
      now_ms - std::max<int64_t>(0, waited_ms) - std::max<int64_t>(0, integer("ageMs"));
  if (const auto unread = JsonMember(object, "unread")) {
    KCC_TRY(item.evidence, ReadUnread(simdjson::minify(*unread)));
    return item;
  }
  const auto observation = JsonMember(object, "observation");
  if (!observation) return InvalidError("the item has no evidence");
  KCC_TRY(MonitorObservation read, observations_.Read(simdjson::minify(*observation)));
  read.time_ms = item.origin.at_ms;
  item.evidence = std::move(read);
  return item;
}

void PeerOutbox::Put(Evidence evidence, const EvidenceOrigin& origin) {
  int64_t told_ms = origin.at_ms;
  if (auto* observation = std::get_if<MonitorObservation>(&evidence)) {
    if (hide_content_) hider_.Hide(observation);
    told_ms = observation->time_ms;
  }
  auto text = EvidenceText(evidence, origin, hide_content_);
  if (!text.has_value()) return PutLost(origin.kernel, 1);
  PutItem(origin.kernel, told_ms, std::move(*text), 1);
}

void PeerOutbox::PutLost(const std::string& kernel, uint64_t count) {
  if (count == 0) return;
  const std::lock_guard lock(mutex_);
  lost_ += count;
  unsaid_[kernel] += count;
}

void PeerOutbox::PutRenewal(const std::string& kernel, const std::string& reason) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("kernel", kernel).Field("renewal", reason);
  PutItem(kernel, 0, ItemText(&json), 0);
}

void PeerOutbox::PutItem(std::string kernel, int64_t told_ms, std::string rest, uint64_t counts) {
  const std::lock_guard lock(mutex_);
  if (items_.size() >= kItemsMax || bytes_ + rest.size() > kBytesMax) {
    lost_ += counts;
    unsaid_[kernel] += counts;
    return;
  }
  bytes_ += rest.size();
  items_.push_back({next_++, std::move(kernel), told_ms, std::move(rest), counts});
}

// What was lost is said behind what waits, once that has room.
std::vector<NewPeerItem> PeerOutbox::First(size_t count) {
  const std::lock_guard lock(mutex_);
  for (auto row = unsaid_.begin(); row != unsaid_.end() && items_.size() < kItemsMax;) {
    JsonWriter json(JsonWriter::Style::kCompact);
    const uint64_t said = std::min(row->second, kLostMax);
    json.BeginObject().Field("kernel", row->first).Field("lost", said);
    std::string rest = ItemText(&json);
    bytes_ += rest.size();
    items_.push_back({next_++, row->first, 0, std::move(rest), said});
    row = unsaid_.erase(row);
  }
  const int64_t now = clock_->NowMs();
  std::vector<NewPeerItem> first;
  for (const Item& item : items_) {
    if (first.size() >= count) break;
    const int64_t age = item.told_ms == 0 ? 0 : std::max<int64_t>(0, now - item.told_ms);
    first.push_back({item.number, "{\"ageMs\":" + std::to_string(age) + "," + item.rest});
  }
  return first;
}

void PeerOutbox::Delivered(int64_t number) {
  const std::lock_guard lock(mutex_);
  while (!items_.empty() && items_.front().number <= number) {
    bytes_ -= items_.front().rest.size();
    items_.pop_front();
  }
}

size_t PeerOutbox::waiting() const {
  const std::lock_guard lock(mutex_);
  return items_.size();
}

uint64_t PeerOutbox::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

std::map<std::string, uint64_t> PeerOutbox::waiting_by_kernel(int64_t number) const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, uint64_t> waiting = unsaid_;
  for (const Item& item : items_) {
    if (item.number > number) waiting[item.kernel] += item.counts;
  }
  return waiting;
}

}  // namespace kcc
