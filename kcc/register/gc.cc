#include "kcc/register/gc.h"

#include <algorithm>
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

// A stored request, as its events since it was last removed say.
struct KeptRequest {
  int64_t stored_ms = 0;           // by the first of them
  std::optional<int64_t> expires;  // by the last of them
  std::vector<std::string> blobs;
};

// Whether its time is over, by its own word or by what the user asks for.
bool Expired(const KeptRequest& request, const GcOptions& options) {
  if (options.requests_before_ms && request.stored_ms < *options.requests_before_ms) return true;
  return request.expires && options.now_ms && *request.expires <= *options.now_ms;
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
  std::map<std::string, KeptRequest> requests;
  const auto is_stored = [&](const std::string& blob) {
    const auto found = named.state.blobs.find(blob);
    return found != named.state.blobs.end() && found->second.Expected();
  };
  const auto retire = [&](const Last& evaluation) {
    const bool expires = before_ms && evaluation.time_ms < *before_ms;
    for (const std::string& blob : evaluation.blobs) {
      (expires ? named.expired : named.kept).insert(blob);
    }
  };
  KCC_TRY_VOID(store.ReadEvents({}, [&](const Event& event) -> Result<> {
    KCC_TRY(const EventFacts facts, reader.Read(event));
    const bool again = std::all_of(facts.blobs.begin(), facts.blobs.end(), is_stored);
    KCC_TRY_VOID(named.state.Apply(event, facts));
    if (facts.key.table == EntryTable::kRequests) {
      const auto [slot, fresh] = requests.try_emplace(facts.key.id);
      if (fresh || !again) slot->second.stored_ms = event.time_ms;
      slot->second.expires = BodyInteger(event.body, "expires");
      slot->second.blobs = facts.blobs;
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
    (Expired(request, options) ? named.expired : named.kept)
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
