#include "kcc/register/fold.h"

namespace kcc {

Result<EntryState> NextEntry(const Event& event, const EventFacts& facts,
                             const EntryState* before) {
  const EntryChange change = facts.kind->change;
  if (before != nullptr && change == EntryChange::kAdd) {
    return InvalidError(KeyText(facts.key) + " is in the register already, by event " +
                        std::to_string(before->added));
  }
  if (before == nullptr && change == EntryChange::kChange) {
    return InvalidError(event.kind + ": there is no " + KeyText(facts.key));
  }
  if (before == nullptr) return EntryState{facts.subject, event.sequence, event.sequence};
  EntryState next = *before;
  next.changed = event.sequence;
  return next;
}

Result<> RegisterState::Apply(const Event& event, const EventFacts& facts) {
  for (const EntryKey& reference : facts.references) {
    if (!entries.contains(reference)) {
      return InvalidError(event.kind + " names " + KeyText(reference) +
                          ", which is not in the register");
    }
  }
  const auto found = entries.find(facts.key);
  KCC_TRY(EntryState next,
          NextEntry(event, facts, found == entries.end() ? nullptr : &found->second));
  entries[facts.key] = std::move(next);
  for (const std::string& blob : facts.blobs) blobs[blob].named = event.sequence;
  if (!facts.removed_blob.empty()) blobs[facts.removed_blob].removed = event.sequence;
  return {};
}

}  // namespace kcc
