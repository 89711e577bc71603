#include "kcc/summary/population.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/check.h"
#include "kcc/base/sha256.h"
#include "kcc/summary/recorded.h"
#include "kcc/trace/request_schema.h"

namespace kcc {
namespace {

constexpr std::string_view kFingerprintField = "kernel_fingerprint";

void AddPaired(std::optional<bool> infer, std::optional<bool> train, PairedFlagCounts* counts) {
  if (!infer || !train) {
    ++counts->missing;
  } else if (*infer) {
    ++(*train ? counts->both : counts->infer_only);
  } else {
    ++(*train ? counts->train_only : counts->neither);
  }
}

void AddMax(std::optional<double> value, double* max, uint64_t* missing) {
  if (value) {
    *max = std::max(*max, *value);
  } else {
    ++*missing;
  }
}

void AddTiming(const RequestPair& pair, Side which, SidePopulation* side) {
  const Request& request = pair.side(which);
  const auto tokens = pair.OutputTokens(which);
  const auto start = RecordedNumber(request, "started_at_ms");
  const auto latency = PossibleNumber(request, "latency_ms");
  if (!tokens || !start || !latency) {
    ++side->untimed;
    return;
  }
  ++side->timed;
  side->output_tokens.Add(*tokens);
  side->first_start_ms = std::min(side->first_start_ms, *start);
  side->last_end_ms = std::max(side->last_end_ms, *start + *latency);
}

void MergeGroup(const ReplayGroup& from, ReplayGroup* into) {
  if (into->signatures.empty() || from.first_request < into->first_request) {
    into->first_request = from.first_request;
    into->first_signature = from.first_signature;
  }
  for (const auto& [signature, count] : from.signatures) into->signatures[signature] += count;
}

// Which requests repeat one another is not for the judged side to say.
const std::string* ReplayGroupOf(const RequestPair& pair, Side which) {
  const std::string* group = pair.asked == nullptr ? nullptr : pair.asked->Text("replay_group");
  if (group == nullptr) group = pair.train->Text("replay_group");
  return group == nullptr ? pair.side(which).Text("replay_group") : group;
}

void AddSpread(const RequestPair& pair, Side which, SidePopulation* side) {
  const std::string* group = ReplayGroupOf(pair, which);
  if (group == nullptr || pair.rows_missing > 0) return side->spreads.AddMissing();
  // Who answered only the side itself knows; the plan says whether the contract believes it.
  const std::string* replica = pair.rows->by_replica ? pair.side(which).Text("replica") : nullptr;
  side->spreads.Add(*group, replica == nullptr ? std::string_view() : *replica, *pair.rows, which);
}

void AddReplay(const RequestPair& pair, Side which, SidePopulation* side) {
  const Request& request = pair.side(which);
  const std::string* group = ReplayGroupOf(pair, which);
  const std::string* signature = request.Text("replay_signature");
  if (group == nullptr || signature == nullptr) {
    ++side->replay_missing;
    return;
  }
  ReplayGroup single;
  single.first_request = pair.id;
  single.first_signature = HashText(*signature);
  single.signatures[single.first_signature] = 1;
  MergeGroup(single, &side->replay[HashText(*group)]);
}

// A filled fingerprint covers: the request is put down to a build, and by whom is recorded. That
// this build answered it is what fingerprint_match_rate asks, which reads no filled value.
bool Carries(const RequestPair& pair, Side which, const std::string& field) {
  if (field == "id" || pair.side(which).fields.contains(field)) return true;
  return field == kFingerprintField && !pair.FilledFingerprint(which).empty();
}

void AddCoverage(const RequestPair& pair, Side which, const std::vector<std::string>& fields,
                 CoverageCounts* counts) {
  if (which == Side::kTrain && pair.one_record()) return counts->Add(std::nullopt);
  counts->lacking.resize(fields.size());
  bool whole = true;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (Carries(pair, which, fields[i])) continue;
    ++counts->lacking[i];
    whole = false;
  }
  counts->Add(whole);
  if (!whole) ++counts->noted;
}

void AddSide(const RequestPair& pair, Side which,
             std::span<const std::vector<std::string>> field_sets, SidePopulation* side) {
  const Request& request = pair.side(which);
  AddTiming(pair, which, side);
  AddMax(PossibleNumber(request, "peak_memory_mb"), &side->peak_memory_mb,
         &side->peak_memory_missing);
  AddMax(PossibleNumber(request, "kv_cache_mb"), &side->kv_cache_mb, &side->kv_cache_missing);
  side->failed.Add(request.Flag("failed"));
  std::optional<bool> matches;
  if (const std::string* fingerprint = request.Text(kFingerprintField)) {
    matches = *fingerprint == pair.Declared(which);
  }
  side->fingerprint.Add(matches);
  if (pair.events != nullptr) {
    side->conforming.Add(pair.events->conforms[static_cast<size_t>(which)]);
  }
  side->coverage.resize(field_sets.size());
  for (size_t i = 0; i < field_sets.size(); ++i) {
    AddCoverage(pair, which, field_sets[i], &side->coverage[i]);
  }
  AddReplay(pair, which, side);
  if (pair.rows != nullptr) AddSpread(pair, which, side);
}

void MergeFlags(const FlagCounts& from, FlagCounts* into) {
  into->yes += from.yes;
  into->no += from.no;
  into->missing += from.missing;
}

void MergeCoverage(const CoverageCounts& from, CoverageCounts* into) {
  MergeFlags(from, into);
  into->noted += from.noted;
  into->lacking.resize(std::max(into->lacking.size(), from.lacking.size()));
  for (size_t i = 0; i < from.lacking.size(); ++i) into->lacking[i] += from.lacking[i];
}

void MergePaired(const PairedFlagCounts& from, PairedFlagCounts* into) {
  into->both += from.both;
  into->infer_only += from.infer_only;
  into->train_only += from.train_only;
  into->neither += from.neither;
  into->missing += from.missing;
}

void MergeSide(const SidePopulation& from, SidePopulation* into) {
  into->timed += from.timed;
  into->untimed += from.untimed;
  into->output_tokens.Merge(from.output_tokens);
  into->first_start_ms = std::min(into->first_start_ms, from.first_start_ms);
  into->last_end_ms = std::max(into->last_end_ms, from.last_end_ms);
  into->peak_memory_mb = std::max(into->peak_memory_mb, from.peak_memory_mb);
  into->kv_cache_mb = std::max(into->kv_cache_mb, from.kv_cache_mb);
  into->peak_memory_missing += from.peak_memory_missing;
  into->kv_cache_missing += from.kv_cache_missing;
  MergeFlags(from.failed, &into->failed);
  MergeFlags(from.fingerprint, &into->fingerprint);
  MergeFlags(from.conforming, &into->conforming);
  into->coverage.resize(std::max(into->coverage.size(), from.coverage.size()));
  for (size_t i = 0; i < from.coverage.size(); ++i) {
    MergeCoverage(from.coverage[i], &into->coverage[i]);
  }
  into->replay_missing += from.replay_missing;
  for (const auto& [group, counts] : from.replay) MergeGroup(counts, &into->replay[group]);
  into->spreads.Merge(from.spreads);
}

void VisitFlags(Archive& archive, FlagCounts& flags) {
  archive.U64(flags.yes);
  archive.U64(flags.no);
  archive.U64(flags.missing);
}

void VisitPaired(Archive& archive, PairedFlagCounts& flags) {
  for (uint64_t* count :
       {&flags.both, &flags.infer_only, &flags.train_only, &flags.neither, &flags.missing}) {
    archive.U64(*count);
  }
}

// Entries of a list and of the map made from it: equal throughout if the list was in order.
struct SameEntry {
  bool operator()(const auto& a, const auto& b) const {
    return a.first == b.first && a.second == b.second;
  }
};

void VisitReplay(Archive& archive, std::map<uint64_t, ReplayGroup>& replay) {
  std::vector<std::pair<uint64_t, ReplayGroup>> groups(replay.begin(), replay.end());
  archive.Each(groups, [](Archive& a, std::pair<uint64_t, ReplayGroup>& group) {
    a.U64(group.first);
    a.Text(group.second.first_request);
    a.U64(group.second.first_signature);
    std::vector<std::pair<uint64_t, uint64_t>> counts(group.second.signatures.begin(),
                                                      group.second.signatures.end());
    a.Each(counts, [](Archive& b, std::pair<uint64_t, uint64_t>& count) {
      b.U64(count.first);
      b.U64(count.second);
    });
    if (!a.reading()) return;
    group.second.signatures = {counts.begin(), counts.end()};
    if (!std::equal(counts.begin(), counts.end(), group.second.signatures.begin(),
                    group.second.signatures.end(), SameEntry())) {
      a.Fail("signatures that are not in order");
    }
    const auto first = group.second.signatures.find(group.second.first_signature);
    if (first == group.second.signatures.end() || first->second == 0) {
      a.Fail("a replay group without its first signature");
    }
  });
  if (!archive.reading()) return;
  replay = {groups.begin(), groups.end()};
  if (!std::equal(groups.begin(), groups.end(), replay.begin(), replay.end(), SameEntry())) {
    archive.Fail("replay groups that are not in order");
  }
}

void VisitSide(Archive& archive, SidePopulation& side, size_t field_sets, bool repeats,
               bool events) {
  archive.U64(side.timed);
  archive.U64(side.untimed);
  archive.Sum(side.output_tokens);
  for (double* value :
       {&side.first_start_ms, &side.last_end_ms, &side.peak_memory_mb, &side.kv_cache_mb}) {
    archive.Double(*value);
    if (archive.reading() && std::isnan(*value)) archive.Fail("a value that is not a number");
  }
  archive.U64(side.peak_memory_missing);
  archive.U64(side.kv_cache_missing);
  VisitFlags(archive, side.failed);
  VisitFlags(archive, side.fingerprint);
  side.coverage.resize(field_sets);
  for (CoverageCounts& coverage : side.coverage) VisitFlags(archive, coverage);
  archive.U64(side.replay_missing);
  VisitReplay(archive, side.replay);
  if (repeats) side.spreads.Visit(archive);
  if (events) VisitFlags(archive, side.conforming);
}

}  // namespace

const Request& RequestPair::side(Side which) const {
  static const Request kNothing;
  if (which == Side::kInfer) return *infer;
  return one_record() ? kNothing : *train;
}

std::string_view RequestPair::FilledFingerprint(Side which) const {
  // Arrays come with one declaration for all of their requests, and it is of infer's run.
  if (one_record()) return which == Side::kInfer ? infer_fingerprint : std::string_view();
  const std::string* filled = side(which).Text(kFilledFingerprintField);
  // Another than the trace's own was filled in for another trace.
  return filled != nullptr && *filled == Declared(which) ? *filled : std::string_view();
}

std::optional<double> RequestPair::OutputTokens(Side which) const {
  // Not of a run but of the rows, which both sides of one record share.
  const auto said = RecordedNumber(one_record() ? *infer : side(which), "output_tokens");
  if (LengthUnknown(which)) return std::nullopt;
  return said && output_rows > 0 ? static_cast<double>(output_rows) : said;
}

bool RequestPair::LengthUnknown(Side which) const {
  if (rows_missing > 0) return true;
  const int64_t rows = own_rows[static_cast<size_t>(which)];
  const auto said = side(which).Number("output_tokens");
  return rows >= 0 && said && *said != static_cast<double>(rows);
}

EventFlags EventsOf(const RequestPair& request) {
  EventFlags flags;
  for (const Side which : {Side::kInfer, Side::kTrain}) {
    const Request& record = request.side(which);
    if (record.fields.empty()) continue;
    flags.conforms[static_cast<size_t>(which)] = !SchemaFault(record);
  }
  return flags;
}

void FlagCounts::Add(std::optional<bool> flag) { ++(!flag ? missing : *flag ? yes : no); }

void PopulationStats::Add(const RequestPair& request,
                          std::span<const std::vector<std::string>> field_sets) {
  ++requests;
  const Request& train = request.side(Side::kTrain);
  AddPaired(request.infer->Flag("refused"), train.Flag("refused"), &refused);
  AddPaired(request.infer->Flag("parsed"), train.Flag("parsed"), &parsed);
  const std::string* infer_signature = request.infer->Text("replay_signature");
  const std::string* train_signature = train.Text("replay_signature");
  std::optional<bool> alike;
  if (infer_signature != nullptr && train_signature != nullptr) {
    alike = *infer_signature == *train_signature;
  }
  signatures.Add(alike);
  const auto infer_reward = RecordedNumber(*request.infer, "reward");
  const auto train_reward = RecordedNumber(train, "reward");
  if (infer_reward && train_reward) {
    ++rewarded;
    reward_gap.Add(*infer_reward);
    reward_gap.Add(-*train_reward);
    const double gap = *infer_reward - *train_reward;
    if (std::isfinite(gap)) reward_gap_squares.AddProduct(gap, gap);
  } else {
    ++reward_missing;
  }
  AddSide(request, Side::kInfer, field_sets, &sides[static_cast<size_t>(Side::kInfer)]);
  AddSide(request, Side::kTrain, field_sets, &sides[static_cast<size_t>(Side::kTrain)]);
}

void PopulationStats::Merge(const PopulationStats& other) {
  if (other.requests == 0) return;
  requests += other.requests;
  MergePaired(other.refused, &refused);
  MergePaired(other.parsed, &parsed);
  MergeFlags(other.signatures, &signatures);
  rewarded += other.rewarded;
  reward_missing += other.reward_missing;
  reward_gap.Merge(other.reward_gap);
  reward_gap_squares.Merge(other.reward_gap_squares);
  for (size_t side = 0; side < sides.size(); ++side) MergeSide(other.sides[side], &sides[side]);
}

void PopulationStats::Visit(Archive& archive, size_t field_sets, bool repeats, bool events) {
  archive.U64(requests);
  if (requests == 0) return;
  VisitPaired(archive, refused);
  VisitPaired(archive, parsed);
  VisitFlags(archive, signatures);
  archive.U64(rewarded);
  archive.U64(reward_missing);
  archive.Sum(reward_gap);
  archive.Sum(reward_gap_squares);
  for (SidePopulation& side : sides) VisitSide(archive, side, field_sets, repeats, events);
}

uint64_t HashText(std::string_view text) {
  const std::string digest = Sha256Of(text);
  KCC_CHECK(digest.size() == 7 + 64);
  uint64_t hash = 0;
  for (const char digit : std::string_view(digest).substr(7, 16)) {
    const int nibble = digit <= '9' ? digit - '0' : digit - 'a' + 10;
    hash = (hash << 4) | static_cast<uint64_t>(nibble);
  }
  return hash;
}

}  // namespace kcc
