// The changes of a policy as they are found: in words, and whether less or more of a thing is
// looser. Internal to the diffs of policies.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kcc/contract/diff.h"
#include "kcc/contract/policy_metadata.h"

namespace kcc {

class ChangeList {
 public:
  enum class Looser : uint8_t { kLess, kMore };

  void Add(bool looser, std::string where, std::string what);
  void Add(Change change) { changes_.push_back(std::move(change)); }
  // Decides nothing.
  void Note(std::string where, std::string what);

  // "minRequests lowered from 1000 to 500"; nothing where the two are equal.
  void Amount(const std::string& where, std::string_view key, const std::string& a,
              const std::string& b, double before, double after, Looser looser = Looser::kLess);
  void Count(const std::string& where, std::string_view key, int64_t before, int64_t after,
             Looser looser = Looser::kLess);
  void Time(const std::string& where, std::string_view key, int64_t before, int64_t after,
            Looser looser = Looser::kLess);
  void Share(const std::string& where, std::string_view key, double before, double after,
             Looser looser = Looser::kLess);
  void Metadata(const MetadataView& before, const MetadataView& after);

  // Looser changes first, then by where.
  std::vector<Change> Take();

 private:
  std::vector<Change> changes_;
};

}  // namespace kcc
