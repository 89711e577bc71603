// What kinds of events there are: one table, which the fold, the writers and the docs read.
//
// An event touches exactly one entry of one table (fold.h). A row says which: the field of the body
// that holds the entry's id (or the event's number), the one that says whom the entry is about,
// which other entries must exist, and which blobs the body names.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/register/event.h"

namespace kcc {

enum class EntryTable : uint8_t {
  kModels,
  kKernels,
  kContracts,
  kTriples,
  kEvaluations,
  kPromotions,
  kApprovals,
  kIncidents,
  kCertificates,
  kStatements,
  kRequests,
  kRemovals,
  kRoutes,
};
inline constexpr std::array kEntryTables = {
    EntryTable::kModels,     EntryTable::kKernels,     EntryTable::kContracts,
    EntryTable::kTriples,    EntryTable::kEvaluations, EntryTable::kPromotions,
    EntryTable::kApprovals,  EntryTable::kIncidents,   EntryTable::kCertificates,
    EntryTable::kStatements, EntryTable::kRequests,    EntryTable::kRemovals,
    EntryTable::kRoutes};

std::string_view Name(EntryTable table);             // "models"
std::string_view Singular(EntryTable table);         // "model"
const EntryTable* FindTable(std::string_view name);  // by either; null: there is none

// What an event does to its entry.
enum class EntryChange : uint8_t {
  kAdd,     // there must be none
  kPut,     // new, or in place of the last one
  kChange,  // there must be one
};

enum class EventFieldType : uint8_t { kText, kDigest, kBlob, kObject, kList, kAny };

struct EventField {
  std::string_view name;
  EventFieldType type = EventFieldType::kText;
  bool required = true;
};

struct EventReference {
  std::string_view field;
  EntryTable table;
};

struct EventKind {
  std::string_view name;
  EntryTable table;
  EntryChange change = EntryChange::kAdd;
  std::string_view id;       // the field with the entry's id; empty: the event's number is the id
  std::string_view subject;  // the field with the id of what the entry is about; empty: nothing
  std::span<const EventField> fields;
  std::span<const EventReference> references;
  std::string_view meaning;  // for docs and help
};

std::span<const EventKind> EventKinds();
const EventKind* FindEventKind(std::string_view name);  // null: there is none

struct EntryKey {
  EntryTable table = EntryTable::kModels;
  std::string id;

  auto operator<=>(const EntryKey&) const = default;  // NOLINT(modernize-use-nullptr)
};
std::string KeyText(const EntryKey& key);  // "model sha256:…"

// What the fold needs to know of an event.
struct EventFacts {
  const EventKind* kind = nullptr;
  EntryKey key;
  std::string subject;               // empty: none
  std::vector<EntryKey> references;  // entries that must exist before
  std::vector<std::string> blobs;    // digests of what must be stored
  std::string removed_blob;          // of blob.removed; else empty
};

// Reads bodies by the table; keeps a parser, so that a log is read without allocating for each.
class EventReader {
 public:
  EventReader();
  ~EventReader();
  EventReader(const EventReader&) = delete;
  EventReader& operator=(const EventReader&) = delete;

  // Fails on a kind that is not known and on a body that lacks a field or has one of another type;
  // fields that no row names are allowed.
  Result<EventFacts> Read(const Event& event);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace kcc
