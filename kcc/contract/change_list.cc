#include "kcc/contract/change_list.h"

#include "kcc/contract/diff_clause.h"
#include "kcc/contract/policy.h"
#include "kcc/contract/values.h"
#include "kcc/contract/yaml_writer.h"

namespace kcc {

void ChangeList::Add(bool looser, std::string where, std::string what) {
  changes_.push_back(MakeChange(looser, std::move(where), std::move(what)));
}

void ChangeList::Note(std::string where, std::string what) {
  changes_.push_back(MakeNote(std::move(where), std::move(what)));
}

void ChangeList::Amount(const std::string& where, std::string_view key, const std::string& a,
                        const std::string& b, double before, double after, Looser looser) {
  if (before == after) return;
  const bool lowered = after < before;
  Add(lowered == (looser == Looser::kLess), where,
      std::string(key) + (lowered ? " lowered " : " raised ") + FromTo(a, b));
}

void ChangeList::Count(const std::string& where, std::string_view key, int64_t before,
                       int64_t after, Looser looser) {
  Amount(where, key, std::to_string(before), std::to_string(after), static_cast<double>(before),
         static_cast<double>(after), looser);
}

void ChangeList::Time(const std::string& where, std::string_view key, int64_t before, int64_t after,
                      Looser looser) {
  Amount(where, key, DurationText(before), DurationText(after), static_cast<double>(before),
         static_cast<double>(after), looser);
}

void ChangeList::Share(const std::string& where, std::string_view key, double before, double after,
                       Looser looser) {
  Amount(where, key, PercentText(before), PercentText(after), before, after, looser);
}

void ChangeList::Metadata(const MetadataView& before, const MetadataView& after) {
  const auto text = [&](std::string_view key, const std::string& a, const std::string& b) {
    if (a != b) {
      Note("metadata", std::string(key) + " changed " + FromTo(YamlScalar(a), YamlScalar(b)));
    }
  };
  text("name", before.name, after.name);
  text("version", before.version, after.version);
  text("owner", before.owner, after.owner);
  if (before.description != after.description) Note("metadata", "description changed");
  if (before.labels != after.labels) Note("metadata", "labels changed");
}

std::vector<Change> ChangeList::Take() {
  SortChanges(&changes_);
  return std::move(changes_);
}

}  // namespace kcc
