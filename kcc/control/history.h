// What a gateway decided, when and why: the changes of its monitor and of its route, and which
// sampled requests they rest on. Bounded; asked from any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kcc/base/json_writer.h"
#include "kcc/base/result.h"
#include "kcc/monitor/monitor.h"

namespace kcc {

// One entry. `kind` is a word of the monitor's changes, or "start", "canary", "promotion",
// "reload", "stale", "log", "build", "peers", "register".
struct HistoryEntry {
  int64_t at_ms = 0;  // when it took effect
  std::string kind;
  std::string kernel;  // "route": the one that serves from now on; empty: none does
  std::string clause;
  std::string slice;
  std::string action;
  std::string target;
  double e_value = 0;
  double e_level = 0;
  double value = 0;
  double limit = 0;
  int64_t observations = 0;  // audited ones that it rests on
  int64_t number = 0;        // of the decision in the log; 0: none
  std::string request;       // whose evidence decided; empty: none
  std::string reason;        // a sentence
  // The route from then on.
  std::string serves;
  std::string canary;
  double canary_share = 0;

  bool IsRoute() const {
    return kind == "route" || kind == "canary" || kind == "promotion" || kind == "start";
  }
  bool operator==(const HistoryEntry&) const = default;
};

HistoryEntry EntryOf(const MonitorChange& change, int64_t at_ms);
// As a value of the writer; empty members are left out. Back from its text.
void WriteEntry(const HistoryEntry& entry, JsonWriter* json);
Result<HistoryEntry> ReadEntry(std::string_view json);

// A sampled request, and what became of its evidence.
struct DecidedRequest {
  std::string id;
  std::string kernel;
  int64_t at_ms = 0;  // when it began
  int64_t number = 0;
  std::string handling;
  bool probe = false;
};

// The answer to "why": a paragraph, and what it was made of.
struct WhyAnswer {
  bool found = false;
  std::string text;
  std::optional<HistoryEntry> change;  // with which the route of then began
  std::vector<HistoryEntry> because;   // what the same observation changed beside it
  std::optional<DecidedRequest> request;
};

class History {
 public:
  static constexpr size_t kEntriesMax = 2000;
  // A request takes some 300 bytes and its id: 20 MiB for all of them, with ids of 30 characters.
  static constexpr size_t kRequestsMax = size_t{1} << 16;

  // Told of every entry that is added, by the thread that adds it; set before threads start.
  using Listener = std::function<void(const HistoryEntry&)>;
  void Listen(Listener listener) { listener_ = std::move(listener); }

  void Add(const HistoryEntry& entry);
  // Of an earlier run: nobody is told.
  void Remember(std::vector<HistoryEntry> entries);
  void Add(DecidedRequest request);

  // The latest, oldest first.
  std::vector<HistoryEntry> Latest(size_t count) const;
  WhyAnswer WhyAt(int64_t time_ms) const;
  // By the whole id of its evidence, or by what stands before the first '~' of it: that is what the
  // client read, or sent itself; of several with one such id the latest.
  WhyAnswer WhyRequest(const std::string& id) const;

 private:
  // Holding the lock.
  WhyAnswer RouteAt(int64_t time_ms) const;
  const DecidedRequest* Find(const std::string& id) const;
  void ForgetOldest();

  Listener listener_;
  mutable std::mutex mutex_;
  std::deque<HistoryEntry> entries_;
  std::deque<std::unique_ptr<DecidedRequest>> requests_;  // oldest first
  // Keys are views of the ids of what they lead to. Never walked through.
  using RequestIndex = std::unordered_map<std::string_view, DecidedRequest*>;
  RequestIndex by_id_;
  RequestIndex by_client_id_;  // to the latest of this client's id
};

}  // namespace kcc
