// RlSummary: rows into slices' states, in parallel, and to bytes and back.
#include <optional>

#include "kcc/rl/diagnostics.h"
#include "kcc/rl/slice_state.h"
#include "kcc/rl/summary_pass.h"

namespace kcc {
namespace {

// The version follows: "kccrl2\n".
constexpr std::string_view kMagic = "kccrl";
static_assert(kRlStateVersion < 10);

}  // namespace

RlSummary::RlSummary() = default;
RlSummary::~RlSummary() = default;
RlSummary::RlSummary(RlSummary&&) noexcept = default;
RlSummary& RlSummary::operator=(RlSummary&&) noexcept = default;
RlSummary::RlSummary(const RlSummary& other) { Merge(other); }
RlSummary& RlSummary::operator=(const RlSummary& other) { return *this = RlSummary(other); }

Result<> RlSummary::Add(const RlBatch& batch, int threads) {
  KCC_TRY_VOID(CheckRlBatch(batch));
  const Target target = BestTarget();
  const auto parts = static_cast<size_t>(RlParts(batch.rows, threads));
  std::vector<RlPass> passes;
  for (size_t p = 0; p < parts; ++p) passes.emplace_back(batch, target);
  std::vector<RlRowTerms> terms(parts);
  KCC_TRY_VOID(ForRlRows(batch.rows, threads, [&](size_t part, int64_t row) -> Result<> {
    KCC_TRY_VOID(terms[part].Load(batch, row, RlPass::kWanted, target));
    passes[part].AddRow(row, &terms[part]);
    return {};
  }));
  RlSummary added;
  for (RlPass& pass : passes) pass.MergeInto(&added);
  Merge(std::move(added));
  return {};
}

// Merging takes all memory before it changes anything: slices that are new here are made apart and
// join at the end, which like adding the others needs none.
void RlSummary::MergeShared(const RlSummary& other) {
  for (const auto& [name, state] : other.slices_) {
    const auto own = slices_.find(name);
    if (own != slices_.end() && !state->buckets.empty()) own->second->buckets.resize(kRlBuckets);
  }
  for (const auto& [name, state] : other.slices_) {
    const auto own = slices_.find(name);
    if (own != slices_.end()) own->second->Merge(*state);
  }
}

void RlSummary::Merge(const RlSummary& other) {
  RlSummary missing;
  for (const auto& [name, state] : other.slices_) {
    if (slices_.contains(name)) continue;
    missing.slices_.emplace(name, std::make_unique<RlSliceState>(*state));
  }
  MergeShared(other);
  slices_.merge(missing.slices_);
}

void RlSummary::Merge(RlSummary&& other) {
  MergeShared(other);
  slices_.merge(other.slices_);
}

std::string RlSummary::Serialize() const {
  Archive archive = Archive::Writer();
  size_t count = slices_.size();
  archive.Length(count);
  for (const auto& [name, state] : slices_) {
    std::string text = name;
    archive.Text(text);
    RlSliceState copy = *state;
    copy.Visit(archive, kRlStateVersion);
  }
  return std::string(kMagic) + std::to_string(kRlStateVersion) + "\n" + archive.Take();
}

Result<RlSummary> RlSummary::Parse(std::string_view bytes) {
  const size_t head = kMagic.size() + 2;
  if (!bytes.starts_with(kMagic) || bytes.size() < head || bytes[head - 1] != '\n') {
    return InvalidError("not an RL summary: it starts otherwise");
  }
  const int version = bytes[head - 2] - '0';
  if (version < 1 || version > kRlStateVersion) {
    return InvalidError("an RL summary of a later version than " + std::to_string(kRlStateVersion) +
                        ": read it with a newer kcc");
  }
  Archive archive = Archive::Reader(bytes.substr(head));
  RlSummary summary;
  size_t count = 0;
  archive.Length(count);
  std::optional<std::string> last;
  for (size_t i = 0; i < count && archive.ok(); ++i) {
    std::string name;
    archive.Text(name);
    if (last.has_value() && name <= *last) archive.Fail("slices that are not in order");
    auto state = std::make_unique<RlSliceState>();
    state->Visit(archive, version);
    if (!archive.ok()) break;
    last = name;
    summary.slices_.emplace(std::move(name), std::move(state));
  }
  if (archive.ok() && !archive.AtEnd()) archive.Fail("bytes after the last slice");
  if (!archive.ok()) return InvalidError("a damaged RL summary: " + archive.fault());
  return summary;
}

int64_t RlSummary::tokens() const {
  uint64_t tokens = 0;
  for (const auto& [name, state] : slices_) tokens += state->level[0].units;
  return static_cast<int64_t>(tokens);
}

std::vector<std::string> RlSummary::slices() const {
  std::vector<std::string> names;
  for (const auto& [name, state] : slices_) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

}  // namespace kcc
