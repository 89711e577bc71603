#include "kcc/register/verify.h"

#include <set>

#include "kcc/base/check.h"
#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/register/event_body.h"
#include "kcc/register/signed_head.h"
#include "kcc/register/statement_check.h"
#include "kcc/statement/timestamp.h"

namespace kcc {
namespace {

// Ends a reading of the log at the first break; what it was is in the check.
Error Stopped() { return BrokenEvidenceError("stopped at the first break"); }

// Reads the log once, in order, and keeps the fold of what it has read. Blobs and entries are
// looked at after the log, since only then is it known which of them must be there. Whatever is
// found first is kept: after a break in the chain nothing later can be judged.
class Verifier {
 public:
  Verifier(Register& source, const RegisterVerifyOptions& options)
      : source_(source), options_(options) {}

  Result<RegisterCheck> Run() {
    EventStore& store = source_.store();
    KCC_TRY(StoreTransaction transaction,
            StoreTransaction::Begin(store, EventStore::Access::kRead));
    if (!TakeKeptHead()) return std::move(check_);
    // From the smallest number there is: an event that was slipped in before the first one counts.
    const Result<> read =
        store.ReadEvents({.first = std::numeric_limits<int64_t>::min()},
                         [this](const Event& event) { return CheckEvent(event); });
    if (!read.has_value() && check_.ok()) return read.error();
    if (check_.ok()) CheckKeptHead();
    if (check_.ok()) KCC_TRY_VOID(CheckBlobs());
    if (check_.ok()) KCC_TRY_VOID(CheckEntries());
    SayUnseen();
    if (check_.ok() && options_.keyring != nullptr) KCC_TRY_VOID(CheckStatements());
    return std::move(check_);
  }

 private:
  Result<> CheckEvent(const Event& event);
  Result<> CheckStatements();
  bool TakeKeptHead();
  void CheckKeptHead();
  Result<> CheckBlobs();
  Result<> CheckBlob(const std::string& digest, const BlobState& state);
  Result<> CheckEntries();
  void SayUnseen();

  void Break(BreakPlace place, int64_t sequence, std::string id, std::string what) {
    if (check_.ok()) check_.first_break = {place, sequence, std::move(id), std::move(what)};
  }
  Result<> BreakEvent(int64_t sequence, std::string what) {
    Break(BreakPlace::kEvent, sequence, "", std::move(what));
    return Stopped();
  }

  Register& source_;
  const RegisterVerifyOptions& options_;
  RegisterCheck check_;
  RegisterState state_;
  EventReader reader_;
  int64_t last_time_ms_ = std::numeric_limits<int64_t>::min();
  std::optional<Head> kept_;
  SignedHead signed_;          // where a signed head is what was kept
  int64_t kept_event_ms_ = 0;  // the time of the event that the kept head is of
  std::string first_digest_;   // of event 1
  bool kept_seen_ = false;
};

Result<> Verifier::CheckEvent(const Event& event) {
  // The number first: with a gap the digest would not fit either, and the gap is the better answer.
  const int64_t expected = check_.head.sequence + 1;
  const std::string number = "event " + std::to_string(event.sequence);
  if (event.sequence > expected) {
    return BreakEvent(expected, "event " + std::to_string(expected) + " is missing: " + number +
                                    " follows event " + std::to_string(expected - 1));
  }
  if (event.sequence < expected) {
    return BreakEvent(event.sequence, number + " has a number that no event has");
  }
  size_t bad = 0;
  if (!IsUtf8(event.actor, &bad) || !IsUtf8(event.kind, &bad)) {
    return BreakEvent(event.sequence, number + " is not UTF-8");
  }
  if (EventDigest(check_.head.digest, event) != event.digest) {
    return BreakEvent(event.sequence,
                      number +
                          " does not have its digest: it was changed, or an event before it was "
                          "taken away or put in another place");
  }
  // The digest fits, so a writer made it so: was it one that keeps to the form?
  const Result<std::string> canonical = CanonicalBody(event.body);
  if (!canonical.has_value() || *canonical != event.body) {
    return BreakEvent(event.sequence, number + " has a body that is not in canonical form");
  }
  Result<EventFacts> facts = reader_.Read(event);
  if (!facts.has_value())
    return BreakEvent(event.sequence, number + ": " + facts.error().message());
  const Result<> applied = state_.Apply(event, *facts);
  if (!applied.has_value()) {
    return BreakEvent(event.sequence, number + ": " + applied.error().message());
  }
  // No break: clocks of several machines differ. But a reader should know.
  if (event.time_ms < last_time_ms_ && check_.time_goes_back == 0) {
    check_.time_goes_back = event.sequence;
  }
  last_time_ms_ = event.time_ms;
  check_.head = {event.sequence, event.digest};
  if (event.sequence == 1) first_digest_ = event.digest;
  if (kept_ && check_.head == *kept_) {
    kept_seen_ = true;
    kept_event_ms_ = event.time_ms;
  }
  ++check_.events;
  return {};
}

// After the chain and the blobs: only then is it known that these are the events and the bytes.
Result<> Verifier::CheckStatements() {
  EventStore& store = source_.store();
  StatementChecker checker(source_, *options_.keyring);
  const auto visit = [&](std::string_view kind, const auto& check) -> Result<> {
    const Result<> read = store.ReadEvents({.kind = std::string(kind)}, check);
    if (!read.has_value() && check_.ok()) return read.error();
    return {};
  };
  const auto broken = [&](const Event& event, std::string id, std::string wrong) -> Result<> {
    Break(BreakPlace::kStatement, event.sequence, std::move(id), std::move(wrong));
    return Stopped();
  };
  KCC_TRY_VOID(visit("statement.added", [&](const Event& event) -> Result<> {
    const std::string id = BodyText(event.body, "statement");
    KCC_TRY(const auto bytes, store.ReadBlob(id));
    if (!bytes) return {};  // an event removed it
    KCC_TRY(std::string wrong, checker.CheckStatement(event, *bytes));
    return wrong.empty() ? Result<>() : broken(event, id, std::move(wrong));
  }));
  int64_t unsigned_steps = 0;
  if (check_.ok()) {
    KCC_TRY_VOID(visit("promotion.changed", [&](const Event& event) -> Result<> {
      if (!checker.IsSigned(event.sequence)) ++unsigned_steps;
      KCC_TRY(std::string wrong, checker.CheckPromotion(event));
      return wrong.empty() ? Result<>() : broken(event, "", std::move(wrong));
    }));
  }
  int64_t unsigned_evaluations = 0;
  if (check_.ok()) {
    KCC_TRY_VOID(visit("evaluation.recorded", [&](const Event& event) -> Result<> {
      if (!checker.IsSigned(event.sequence)) ++unsigned_evaluations;
      return {};
    }));
  }
  check_.statements = checker.statements();
  if (check_.statements > 0) {
    check_.seen.push_back("statements that were forged, or say what the log does not: " +
                          std::to_string(check_.statements) + " hold");
  }
  if (unsigned_evaluations + unsigned_steps > 0) {
    const auto counted = [](int64_t count, const char* one, const char* more) {
      return std::to_string(count) + (count == 1 ? one : more);
    };
    check_.unseen.push_back(
        "who recorded what nobody signed: " +
        counted(unsigned_evaluations, " evaluation and ", " evaluations and ") +
        counted(unsigned_steps, " change of a promotion", " changes of promotions"));
  }
  return {};
}

// False where the head that was kept is not to be believed: then nothing can be compared with it.
bool Verifier::TakeKeptHead() {
  kept_ = options_.kept;
  if (options_.signed_head.empty()) return true;
  KCC_CHECK(options_.keyring != nullptr);
  signed_ = ReadSignedHead(options_.signed_head, *options_.keyring, options_.threshold);
  if (!signed_.wrong.empty()) {
    Break(BreakPlace::kHead, 0, "", "the signed head does not hold: " + signed_.wrong);
    return false;
  }
  kept_ = signed_.head;
  return true;
}

// Every event's head was compared on the way; where none was the kept one, the log is not the log
// that it was taken from. A kept head of an empty log fits every log.
void Verifier::CheckKeptHead() {
  if (!kept_ || *kept_ == Head{}) return;
  const int64_t kept = kept_->sequence;
  if (!signed_.register_id.empty() && signed_.register_id != first_digest_) {
    Break(BreakPlace::kHead, kept, kept_->digest,
          "the signed head is of another register, or the log was written anew from its first "
          "event on");
  } else if (kept > check_.head.sequence) {
    Break(BreakPlace::kHead, kept, kept_->digest,
          "the log ends with event " + std::to_string(check_.head.sequence) +
              ", but the head that was kept is of event " + std::to_string(kept) +
              ": events were cut off");
  } else if (!kept_seen_) {
    Break(BreakPlace::kHead, kept, kept_->digest,
          "event " + std::to_string(kept) +
              " has another digest than the head that was kept: the log was written anew, in "
              "this event or before it");
  } else if (!signed_.register_id.empty() && signed_.time_ms < kept_event_ms_) {
    Break(BreakPlace::kHead, kept, kept_->digest,
          "the head says that it was signed at " + FormatTimestamp(signed_.time_ms) +
              ", before its event of " + ShownTimestamp(kept_event_ms_) +
              ": one of the two times is false");
  }
}

// One blob against what the log says of it; a blob that no event names must still be what it is
// called.
Result<> Verifier::CheckBlob(const std::string& digest, const BlobState& state) {
  KCC_TRY(const auto bytes, source_.store().ReadBlob(digest));
  if (bytes && !state.Expected() && state.removed > 0) {
    Break(BreakPlace::kBlob, state.removed, digest,
          "blob " + digest + " is stored, although event " + std::to_string(state.removed) +
              " removed it");
  } else if (bytes && BlobDigest(*bytes) != digest) {
    Break(BreakPlace::kBlob, state.named, digest,
          "the bytes of blob " + digest + " do not have this digest" +
              (state.named > 0 ? "; event " + std::to_string(state.named) + " names it" : ""));
  } else if (!bytes && state.Expected()) {
    Break(BreakPlace::kBlob, state.named, digest,
          "blob " + digest + " is missing, which event " + std::to_string(state.named) + " names");
  }
  return {};
}

Result<> Verifier::CheckBlobs() {
  KCC_TRY(const std::vector<BlobInfo> stored, source_.store().ListBlobs());
  for (const BlobInfo& blob : stored) {
    ++check_.blobs;
    check_.blob_bytes += blob.bytes;
    const auto known = state_.blobs.find(blob.digest);
    if (known == state_.blobs.end()) ++check_.blobs_unnamed;
    KCC_TRY_VOID(CheckBlob(blob.digest, known == state_.blobs.end() ? BlobState{} : known->second));
    if (!check_.ok()) return {};
    if (known != state_.blobs.end()) state_.blobs.erase(known);  // what is left is not stored
  }
  for (const auto& [digest, state] : state_.blobs) {  // those that are not stored
    if (!state.Expected()) ++check_.blobs_removed;
    KCC_TRY_VOID(CheckBlob(digest, state));
    if (!check_.ok()) return {};
  }
  return {};
}

// Entries that were found are taken out of the fold; what is left at the end the table lacks.
Result<> Verifier::CheckEntries() {
  const auto compare = [this](const StoredEntry& stored) -> Result<> {
    ++check_.entries;
    const auto expected = state_.entries.find(stored.key);
    if (expected == state_.entries.end() || expected->second != stored.state) {
      Break(BreakPlace::kEntry, stored.state.changed, KeyText(stored.key),
            "the table of entries differs from the log in " + KeyText(stored.key) +
                "; `kcc register rebuild` makes it anew");
      return Stopped();
    }
    state_.entries.erase(expected);
    return {};
  };
  const Result<> read = source_.store().ReadEntries({}, compare);
  if (!read.has_value() && check_.ok()) {
    // A row that is not even an entry.
    if (read.error().code() != ErrorCode::kBrokenEvidence) return read.error();
    Break(BreakPlace::kEntry, 0, "", read.error().message());
  }
  if (check_.ok() && !state_.entries.empty()) {
    const auto& [key, state] = *state_.entries.begin();
    Break(BreakPlace::kEntry, state.changed, KeyText(key),
          "the table of entries lacks " + KeyText(key) + "; `kcc register rebuild` makes it anew");
  }
  return {};
}

void Verifier::SayUnseen() {
  if (!kept_) {
    check_.unseen.emplace_back(
        "events cut off at the end of the log: give a head that was kept outside with --head");
    check_.unseen.emplace_back(
        "a log written anew from some event on, with all digests recomputed: the same head would "
        "show it");
  } else {
    check_.seen.push_back("events up to " + std::to_string(kept_->sequence) +
                          " that were cut off or written anew: they are those of the head that was "
                          "kept");
    check_.unseen.emplace_back(
        "changes of events after the kept head, with all digests recomputed");
    if (signed_.signers.empty()) {
      check_.unseen.emplace_back("who took the head that was kept: it is not signed");
    } else {
      const std::vector<std::string_view> owners(signed_.signers.begin(), signed_.signers.end());
      check_.seen.push_back("a head that somebody made up: it was signed by " + JoinWords(owners) +
                            ", " + FormatTimestamp(signed_.time_ms) + " as it says");
      check_.unseen.emplace_back(
          "another log whose head the same keys signed, and an older head in place of a newer one");
    }
  }
  if (options_.keyring == nullptr) {
    check_.unseen.emplace_back("signatures of statements that do not hold: none was looked at");
  }
}

}  // namespace

std::string_view Name(BreakPlace place) {
  switch (place) {
    case BreakPlace::kEvent:
      return "event";
    case BreakPlace::kBlob:
      return "blob";
    case BreakPlace::kEntry:
      return "entry";
    case BreakPlace::kHead:
      return "head";
    case BreakPlace::kStatement:
      return "statement";
  }
  return "";
}

Result<RegisterCheck> Verify(Register& source, const RegisterVerifyOptions& options) {
  return Verifier(source, options).Run();
}

}  // namespace kcc
