#include "kcc/register/gc.h"

#include <map>
#include <set>
#include <utility>

#include "kcc/base/json_writer.h"
#include "kcc/register/event_body.h"

namespace kcc {
namespace {

// What the log says of blobs, read in one pass.
struct NamedBlobs {
  RegisterState state;
  std::set<std::string> kept;     // named by an event that keeps them
  std::set<std::string> expired;  // named by an event that may lose them
};

// A request whose time is over, by its own event or by what the user asks for.
bool RequestExpired(const Event& event, const GcOptions& options) {
  if (options.requests_before_ms && event.time_ms < *options.requests_before_ms) return true;
  const std::optional<int64_t> expires = BodyInteger(event.body, "expires");
  return expires && options.now_ms && *expires <= *options.now_ms;
}

Result<NamedBlobs> ReadNamedBlobs(EventStore& store, const GcOptions& options) {
  const std::optional<int64_t> before_ms = options.evidence_before_ms;
  NamedBlobs named;
  EventReader reader;
  // The last evaluation of each triple and stage, with its blobs; replaced ones may expire.
  struct Last {
    int64_t time_ms = 0;
    std::vector<std::string> blobs;
  };
  std::map<std::pair<std::string, std::string>, Last> last;
  struct LastRequest {
    bool expired = false;
    std::vector<std::string> blobs;
  };
  std::map<std::string, LastRequest> requests;
  const auto retire = [&](const Last& evaluation) {
    const bool expires = before_ms && evaluation.time_ms < *before_ms;
    for (const std::string& blob : evaluation.blobs) {
      (expires ? named.expired : named.kept).insert(blob);
    }
  };
  KCC_TRY_VOID(store.ReadEvents({}, [&](const Event& event) -> Result<> {
    KCC_TRY(const EventFacts facts, reader.Read(event));
    KCC_TRY_VOID(named.state.Apply(event, facts));
    // One that was removed may have been stored again: its last event says how long it stays.
    if (facts.key.table == EntryTable::kRequests) {
      requests[facts.key.id] = {RequestExpired(event, options), facts.blobs};
      return {};
    }
    if (facts.key.table != EntryTable::kEvaluations) {
      named.kept.insert(facts.blobs.begin(), facts.blobs.end());
      return {};
    }
    Last& slot = last[{facts.subject, BodyText(event.body, "stage")}];
    retire(slot);
    slot = {event.time_ms, facts.blobs};
    return {};
  }));
  for (const auto& [id, request] : requests) {
    (request.expired ? named.expired : named.kept)
        .insert(request.blobs.begin(), request.blobs.end());
  }
  for (const auto& [triple, evaluation] : last) {
    named.kept.insert(evaluation.blobs.begin(), evaluation.blobs.end());
  }
  return named;
}

}  // namespace

Result<std::vector<Removal>> FindRemovals(Register& source, const GcOptions& options) {
  EventStore& store = source.store();
  KCC_TRY(StoreTransaction transaction, StoreTransaction::Begin(store, EventStore::Access::kRead));
  KCC_TRY(const std::vector<BlobInfo> stored, store.ListBlobs());
  std::vector<Removal> removals;
  if (!options.redact.empty()) {
    for (const BlobInfo& blob : stored) {
      if (blob.digest == options.redact) removals.push_back({blob.digest, blob.bytes, "redaction"});
    }
    if (removals.empty()) {
      return InvalidError("blob " + options.redact + " is not in the register");
    }
    return removals;
  }
  KCC_TRY(const NamedBlobs named, ReadNamedBlobs(store, options));
  for (const BlobInfo& blob : stored) {
    const auto known = named.state.blobs.find(blob.digest);
    if (known == named.state.blobs.end() || !known->second.Expected()) {
      removals.push_back({blob.digest, blob.bytes, "gc"});
    } else if (named.expired.contains(blob.digest) && !named.kept.contains(blob.digest)) {
      removals.push_back({blob.digest, blob.bytes, "retention"});
    }
  }
  return removals;
}

Batch RemovalBatch(const std::vector<Removal>& removals, const std::string& reason,
                   const std::string& actor, int64_t time_ms) {
  Batch batch;
  for (const Removal& removal : removals) {
    JsonWriter json(JsonWriter::Style::kCompact);
    json.BeginObject().Field("blob", removal.blob).Field("bytes", removal.bytes);
    if (!reason.empty()) json.Field("reason", reason);
    json.Field("why", removal.why).EndObject();
    batch.events.push_back({time_ms, actor, "blob.removed", json.Take()});
  }
  return batch;
}

}  // namespace kcc
