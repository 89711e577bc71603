#include "kcc/register/transfer.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "kcc/base/file.h"
#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/base/temporary.h"
#include "kcc/format/json.h"
#include "kcc/format/line_reader.h"

namespace kcc {
namespace {

namespace fs = std::filesystem;

constexpr int kExportFormat = 1;
constexpr size_t kIndexBytesMax = 1 << 16;
constexpr size_t kEventLineBytesMax = 2 * kEventBodyBytesMax;

// Without "sha256:", since not every file system takes a colon.
std::string BlobFile(const std::string& digest) {
  return digest.substr(std::string_view("sha256:").size());
}

std::string EventLine(const Event& event) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("sequence", event.sequence).Field("time", event.time_ms);
  json.Field("actor", event.actor).Field("kind", event.kind);
  json.Key("body").Raw(event.body).Field("digest", event.digest).EndObject();
  return json.Take();
}

Result<Event> ReadEventLine(json::parser& parser, std::string_view line) {
  KCC_TRY(const json::element root, ParseJson(parser, line));
  if (!root.is_object()) return InvalidError("not an event: it is not an object");
  const json::object object = root.get_object().value_unsafe();
  const auto sequence = JsonMember(object, "sequence");
  const auto time = JsonMember(object, "time");
  const auto body = JsonMember(object, "body");
  const auto number = [](std::optional<json::element> e) {
    return e ? JsonInteger(*e) : std::nullopt;
  };
  if (!number(sequence) || !number(time) || !body) {
    return InvalidError("not an event: sequence, time or body is missing");
  }
  // The canonical form, so that blanks in the file do not matter; the digest decides.
  KCC_TRY(std::string canonical, CanonicalBody(simdjson::minify(*body)));
  return Event{.sequence = *number(sequence),
               .time_ms = *number(time),
               .actor = std::string(JsonText(JsonMember(object, "actor"))),
               .kind = std::string(JsonText(JsonMember(object, "kind"))),
               .body = std::move(canonical),
               .digest = std::string(JsonText(JsonMember(object, "digest")))};
}

Result<Head> ReadIndex(const std::string& directory) {
  const std::string file = directory + "/register.json";
  KCC_TRY(const std::string text, ReadRegularFile(file, kIndexBytesMax));
  json::parser parser;
  auto root = ParseJson(parser, text);
  if (!root.has_value()) return std::move(root.error()).At(Place{file});
  const auto none = InvalidError("is not the index of an export", Place{file});
  if (!root->is_object()) return none;
  const json::object object = root->get_object().value_unsafe();
  const auto format = JsonMember(object, "format");
  if (!format || !JsonInteger(*format)) return none;
  if (*JsonInteger(*format) > kExportFormat) {
    return InvalidError("has format " + std::to_string(*JsonInteger(*format)) +
                            ", and this kcc knows up to " + std::to_string(kExportFormat),
                        Place{file});
  }
  auto head = ParseHead(JsonText(JsonMember(object, "head")));
  if (!head.has_value()) return std::move(head.error()).At(Place{file});
  return head;
}

// Reads the whole exported log, also the part that the register has: the chain must lead from its
// first event through the register's own head to the exported one. What comes after the register's
// head is written on the way, within the caller's transaction; an error anywhere undoes all of it.
class LogImporter {
 public:
  LogImporter(EventStore& store, std::string directory)
      : store_(store), directory_(std::move(directory)) {}

  Result<Transfer> Run() {
    KCC_TRY(const Head expected, ReadIndex(directory_));
    KCC_TRY(own_, store_.ReadHead());
    const std::string file = directory_ + "/events.jsonl";
    KCC_TRY(LineReader lines, LineReader::Open(file, kEventLineBytesMax, LineSource::kRegular));
    json::parser parser;
    std::string_view line;
    while (true) {
      KCC_TRY(const bool more, lines.Next(&line));
      if (!more) break;
      const Place place{file, lines.number()};
      auto event = ReadEventLine(parser, line);
      if (!event.has_value()) return BrokenEvidenceError(event.error().message(), place);
      Result<> taken = Take(*event);
      if (!taken.has_value()) return std::move(taken.error()).At(place);
    }
    if (head_ != expected) {
      return BrokenEvidenceError("the log ends with event " + std::to_string(head_.sequence) +
                                     ", and the index names " + HeadText(expected),
                                 Place{file});
    }
    if (own_.sequence > head_.sequence) {
      return InvalidError("the register holds " + std::to_string(own_.sequence) +
                          " events, more than the export: there is nothing to import");
    }
    KCC_TRY_VOID(CheckBlobs());
    done_.head = head_;
    return std::move(done_);
  }

 private:
  Result<> Take(const Event& event);
  Result<> TakeBlob(const std::string& digest);
  Result<> CheckBlobs();

  EventStore& store_;
  std::string directory_;
  EventReader reader_;
  RegisterState state_;
  Head own_;   // of the register before
  Head head_;  // of what was read
  Transfer done_;
};

Result<> LogImporter::Take(const Event& event) {
  if (event.sequence != head_.sequence + 1 || EventDigest(head_.digest, event) != event.digest) {
    return BrokenEvidenceError("event " + std::to_string(head_.sequence + 1) +
                               " is missing, or it does not have its digest");
  }
  KCC_TRY(const EventFacts facts, reader_.Read(event));
  KCC_TRY_VOID(state_.Apply(event, facts));
  head_ = {event.sequence, event.digest};
  // The one place where two logs are compared: equal digests mean equal logs up to here.
  if (event.sequence == own_.sequence && head_ != own_) {
    return InvalidError("the register went another way: its event " +
                        std::to_string(own_.sequence) +
                        " has another digest; import into an empty one");
  }
  if (event.sequence <= own_.sequence) return {};
  // The register may hold a blob that a later event of the export removes.
  if (!facts.removed_blob.empty()) KCC_TRY_VOID(store_.RemoveBlob(facts.removed_blob));
  KCC_TRY_VOID(store_.InsertEvent(event));
  KCC_TRY_VOID(store_.PutEntry(facts.key, state_.entries.at(facts.key)));
  ++done_.events;
  return {};
}

Result<> LogImporter::TakeBlob(const std::string& digest) {
  // The name comes from the log, whose digests were checked: no file name is taken from the export.
  const std::string file = directory_ + "/blobs/" + BlobFile(digest);
  KCC_TRY(const std::string bytes, ReadRegularFile(file, kBlobBytesMax));
  if (BlobDigest(bytes) != digest) {
    return BrokenEvidenceError("the bytes do not have the digest that is their name", Place{file});
  }
  ++done_.blobs;
  return store_.PutBlob(digest, bytes);
}

// Every blob that the log still names is in the export, unless the register holds it already.
Result<> LogImporter::CheckBlobs() {
  for (const auto& [digest, state] : state_.blobs) {
    if (!state.Expected()) continue;
    KCC_TRY(const bool stored, store_.HasBlob(digest));
    if (!stored) KCC_TRY_VOID(TakeBlob(digest));
  }
  return {};
}

Error DirectoryTaken(const std::string& directory) {
  return InvalidError("is there already; name a new directory", Place{directory});
}

}  // namespace

Result<Transfer> ExportRegister(Register& source, const std::string& directory) {
  std::error_code failed;
  if (fs::exists(directory, failed) &&
      !(fs::is_directory(directory, failed) && fs::is_empty(directory, failed))) {
    return DirectoryTaken(directory);
  }
  fs::path parent = fs::absolute(directory, failed).parent_path();
  if (directory.ends_with('/')) parent = parent.parent_path();
  // Written beside its place under another name, and renamed when whole.
  KCC_TRY(Temporary made, Temporary::Make(parent.string(), Temporary::Kind::kDirectory, 0777));
  const std::string blobs = made.path() + "/blobs";
  if (::mkdir(blobs.c_str(), 0777) != 0) {
    return IoError(std::string("cannot be made: ") + std::strerror(errno), Place{blobs});
  }
  EventStore& store = source.store();
  KCC_TRY(StoreTransaction transaction, StoreTransaction::Begin(store, EventStore::Access::kRead));
  Transfer done;
  std::string lines;
  KCC_TRY_VOID(store.ReadEvents({}, [&](const Event& event) -> Result<> {
    lines += EventLine(event);
    done.head = {event.sequence, event.digest};
    ++done.events;
    return {};
  }));
  KCC_TRY(const std::vector<BlobInfo> stored, store.ListBlobs());
  for (const BlobInfo& blob : stored) {
    KCC_TRY(const auto bytes, source.ReadBlob(blob.digest));  // compared with its digest
    KCC_TRY_VOID(WriteFileAtomically(blobs + "/" + BlobFile(blob.digest), *bytes));
    ++done.blobs;
  }
  KCC_TRY_VOID(WriteFileAtomically(made.path() + "/events.jsonl", lines));
  // Last, since it vouches for the rest.
  JsonWriter json;
  json.BeginObject().Field("format", kExportFormat).Field("head", HeadText(done.head));
  json.Field("events", done.events).Field("blobs", done.blobs).EndObject();
  KCC_TRY_VOID(WriteFileAtomically(made.path() + "/register.json", json.Take()));
  if (!made.RenameTo(directory)) {
    if (errno == ENOTEMPTY || errno == EEXIST) return DirectoryTaken(directory);
    return IoError(std::string("cannot be made: ") + std::strerror(errno), Place{directory});
  }
  SyncDirectory(parent.string());
  return done;
}

Result<Transfer> ImportRegister(Register& target, const std::string& directory) {
  EventStore& store = target.store();
  KCC_TRY(StoreTransaction transaction, StoreTransaction::Begin(store, EventStore::Access::kWrite));
  KCC_TRY(Transfer done, LogImporter(store, directory).Run());
  KCC_TRY_VOID(transaction.Commit());
  return done;
}

}  // namespace kcc
