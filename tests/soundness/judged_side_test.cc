// What the judged side says cannot make it look better. Random evidence is measured and judged;
// then infer's trace alone is changed, one to three times, in ways that leave its measured values
// as they are: requests and rows are dropped, doubled and reordered, requests are labelled, timed
// and named otherwise, columns are added and removed, trace.json says something else. A clause that
// was violated on a slice is then never satisfied, unless measuring fails or the judgement warns.
//
// Left out, since what infer records of its own run is the measured value there: clauses about
// trace_field_coverage, event_conformance, fingerprint_match_rate and throughput, and about the
// tokens that infer generated; windows of infer's own runtime, which its own times place. Ids are
// not exchanged between requests of the same tokens: that moves values from one request to another.
//
// The evidence before the change does not rest on infer's word: where infer alone says what counts,
// or what belongs to a slice, taking its word away may help it.
//
// KCC_MUTATIONS sets how many (default 1,500), KCC_SEED the seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>
#include <string>

#include "kcc/judge/judge.h"
#include "kcc/measure/measure.h"
#include "kcc/trace/reader.h"
#include "tests/soundness/contracts.h"
#include "tests/soundness/evidence.h"

namespace kcc::soundness {
namespace {

constexpr int kMutationsOfOneCase = 25;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// What was done to infer's trace.
struct Change {
  std::string what;
};

class Mutator {
 public:
  // `read`: fields that slices and windows of the contract read.
  Mutator(Dice* dice, std::vector<std::string> read, SideEvidence* side, Change* change)
      : dice_(*dice), read_(std::move(read)), side_(*side), change_(*change) {}

  void Mutate() {
    using Kind = void (Mutator::*)();
    // These hardly ever pair, and are drawn less often than what may pass unnoticed.
    static const std::vector<Kind> kBroken = {
        &Mutator::DropRequest, &Mutator::DoubleRequest, &Mutator::DropRow, &Mutator::DoubleRow,
        &Mutator::MoveRow,     &Mutator::Rename,        &Mutator::Describe};
    static const std::vector<Kind> kQuiet = {
        &Mutator::Relabel,  &Mutator::Relabel,     &Mutator::AddField,
        &Mutator::AddField, &Mutator::RemoveField, &Mutator::RemoveOutcome,
        &Mutator::Claim,    &Mutator::Retime,      &Mutator::Retime,
        &Mutator::Mask,     &Mutator::Label,       &Mutator::SetAdvantages,
        &Mutator::Reorder,  &Mutator::SplitFiles,  &Mutator::Downgrade,
        &Mutator::Spoil,    &Mutator::Wait};
    const Kind kind = dice_.Chance(0.15) ? dice_.Pick(kBroken) : dice_.Pick(kQuiet);
    (this->*kind)();
  }

 private:
  size_t AnyRequest() {
    return static_cast<size_t>(dice_.Below(static_cast<int>(side_.requests.size())));
  }
  void Say(const std::string& what) { change_.what += (change_.what.empty() ? "" : ", ") + what; }
  // Of the worst requests alone, of one, or of any.
  template <class Edit>
  void SomeRequests(Edit edit) {
    const double share = dice_.Pick(std::vector<double>{0.1, 0.5, 1});
    bool any = false;
    for (Request& request : side_.requests) {
      if (dice_.Chance(share)) edit(&request), any = true;
    }
    if (!any && !side_.requests.empty()) edit(&side_.requests[AnyRequest()]);
  }
  template <class Edit>
  void SomeRows(Edit edit) {
    const double share = dice_.Pick(std::vector<double>{0.1, 0.5, 1});
    for (Row& row : side_.rows) {
      if (dice_.Chance(share)) edit(&row);
    }
  }

  void EraseRequest(size_t r) {
    const auto gone = static_cast<int32_t>(r);
    side_.requests.erase(side_.requests.begin() + gone);
    std::erase_if(side_.rows, [&](const Row& row) { return row.request == gone; });
    for (Row& row : side_.rows) row.request -= row.request > gone;
  }
  void DropRequest() {
    if (side_.requests.size() < 2) return;
    Say("drop a request");
    EraseRequest(AnyRequest());
  }
  void DoubleRequest() {
    Say("double a request");
    const size_t r = AnyRequest();
    Request twin = side_.requests[r];
    if (dice_.Chance(0.5)) twin.id += "-again";
    const auto row_of_twin = static_cast<int32_t>(side_.requests.size());
    side_.requests.push_back(std::move(twin));
    for (size_t i = 0, count = side_.rows.size(); i < count; ++i) {
      if (side_.rows[i].request != static_cast<int32_t>(r)) continue;
      side_.rows.push_back(side_.rows[i]);
      side_.rows.back().request = row_of_twin;
    }
  }
  void DropRow() {
    if (side_.rows.size() < 2) return;
    Say("drop a row");
    side_.rows.erase(side_.rows.begin() + dice_.Below(static_cast<int>(side_.rows.size())));
  }
  void DoubleRow() {
    if (side_.rows.empty()) return;
    Say("double a row");
    side_.rows.push_back(dice_.Pick(side_.rows));
  }
  void MoveRow() {
    if (side_.rows.empty()) return;
    Say("move a row");
    Row& row = side_.rows[static_cast<size_t>(dice_.Below(static_cast<int>(side_.rows.size())))];
    switch (dice_.Below(3)) {
      case 0:
        row.position += dice_.From(1, 3);
        break;
      case 1:
        row.token = dice_.Below(static_cast<int>(side_.info.vocab_size));
        break;
      default:
        row.request = static_cast<int32_t>(AnyRequest());
    }
  }
  void Reorder() {
    Say("reorder");
    dice_.Shuffle(&side_.rows);
    std::vector<int32_t> order;
    for (size_t r = 0; r < side_.requests.size(); ++r) order.push_back(static_cast<int32_t>(r));
    dice_.Shuffle(&order);
    std::vector<Request> moved(side_.requests.size());
    for (size_t r = 0; r < order.size(); ++r) {
      moved[static_cast<size_t>(order[r])] = std::move(side_.requests[r]);
    }
    side_.requests = std::move(moved);
    for (Row& row : side_.rows) row.request = order[static_cast<size_t>(row.request)];
  }
  void SplitFiles() {
    Say("split files");
    side_.rows_a_file = dice_.From(1, 4);
  }

  std::vector<std::pair<int32_t, int32_t>> TokensOf(size_t r) const {
    std::vector<std::pair<int32_t, int32_t>> tokens;
    for (const Row& row : side_.rows) {
      if (row.request == static_cast<int32_t>(r)) tokens.emplace_back(row.position, row.token);
    }
    std::sort(tokens.begin(), tokens.end());
    return tokens;
  }
  void Rename() {
    const size_t a = AnyRequest();
    const size_t b = AnyRequest();
    if (dice_.Chance(0.3)) {
      Say("rename a request");
      side_.requests[a].id += "x";
    } else if (TokensOf(a) != TokensOf(b)) {
      Say("exchange ids");
      std::swap(side_.requests[a].id, side_.requests[b].id);
    }
  }

  RequestValue AnyValue(const std::string& field) {
    if (field == "tags") {
      return dice_.Pick(std::vector<std::vector<std::string>>{{"a"}, {"b"}, {"a", "b"}, {}});
    }
    if (field == "team") return dice_.Pick(std::vector<std::string>{"red", "blue", "green"});
    if (field == "replay_group") return dice_.Pick(std::vector<std::string>{"g", "h", "i", "j"});
    if (field == "ordinal") return static_cast<double>(dice_.Below(40));
    if (field == "started_at_ms") return static_cast<double>(dice_.Below(40)) * 350;
    return static_cast<double>(dice_.Below(5));
  }
  const std::string& AnyLabel() {
    static const std::vector<std::string> kLabels = {"tags",         "team", "tier",
                                                     "replay_group", "seed", "prompt_tokens"};
    if (!read_.empty() && dice_.Chance(0.6)) {
      const std::string& field = dice_.Pick(read_);
      if (std::find(kLabels.begin(), kLabels.end(), field) != kLabels.end()) return field;
    }
    return dice_.Pick(kLabels);
  }
  void Relabel() {
    const std::string& field = AnyLabel();
    Say("relabel " + field);
    SomeRequests([&](Request* request) {
      if (request->fields.contains(field)) request->fields[field] = AnyValue(field);
    });
  }
  void AddField() {
    const std::string& field = AnyLabel();
    Say("add " + field);
    SomeRequests([&](Request* request) { request->fields[field] = AnyValue(field); });
  }
  void RemoveField() {
    static const std::vector<std::string> kMore = {"ordinal", "started_at_ms", "output_tokens"};
    const std::string& field = dice_.Chance(0.7) ? AnyLabel() : dice_.Pick(kMore);
    Say("remove " + field);
    SomeRequests([&](Request* request) { request->fields.erase(field); });
  }
  void RemoveOutcome() {
    static const std::vector<std::string> kOutcomes = {
        "latency_ms", "ttft_ms", "reward", "refused", "parsed", "failed", "replay_signature"};
    const std::string& field = dice_.Pick(kOutcomes);
    Say("remove " + field);
    SomeRequests([&](Request* request) { request->fields.erase(field); });
  }
  // A value that cannot be, as some programs write what they did not measure. Not of what selects:
  // that is infer's to say, and the clause must hold of train's selection too.
  void Spoil() {
    static const std::vector<std::string> kSizes = {"latency_ms", "ttft_ms", "peak_memory_mb"};
    const std::string& field = dice_.Pick(kSizes);
    if (std::find(read_.begin(), read_.end(), field) != read_.end()) return;
    Say("spoil " + field);
    SomeRequests([&](Request* request) {
      if (request->fields.contains(field)) request->fields[field] = -1.0;
    });
  }
  // A short time beside a request that was given up.
  void Wait() {
    if (std::find(read_.begin(), read_.end(), "latency_ms") != read_.end()) return;
    Say("wait");
    SomeRequests([&](Request* request) {
      if (request->Flag("timed_out").value_or(false)) request->fields["latency_ms"] = 1.0;
    });
  }
  void Claim() {
    if (side_.info.mode == TraceMode::kGenerated) return;  // there it is an outcome
    Say("claim output_tokens");
    SomeRequests([&](Request* request) {
      request->fields["output_tokens"] = static_cast<double>(dice_.Below(7));
    });
  }
  void Retime() {
    static const std::vector<std::string> kTimes = {"ordinal", "started_at_ms"};
    const std::string& field = dice_.Pick(kTimes);
    Say("re-time " + field);
    if (dice_.Chance(0.5)) {
      std::vector<RequestValue> values;
      for (size_t r = 0; r < side_.requests.size(); ++r) values.push_back(static_cast<double>(r));
      dice_.Shuffle(&values);
      for (size_t r = 0; r < values.size(); ++r) side_.requests[r].fields[field] = values[r];
    } else {
      SomeRequests([&](Request* request) { request->fields[field] = AnyValue(field); });
    }
  }

  void Mask() {
    Say("mask");
    side_.mask = dice_.Chance(0.8);
    SomeRows([&](Row* row) { row->masked = dice_.Chance(0.7); });
  }
  void Label() {
    Say("label");
    side_.gold = dice_.Chance(0.8);
    SomeRows(
        [&](Row* row) { row->gold = dice_.From(-1, static_cast<int>(side_.info.vocab_size) - 1); });
  }
  void SetAdvantages() {
    Say("set advantages");
    side_.advantage = dice_.Chance(0.8);
    SomeRows([&](Row* row) { row->advantage = static_cast<float>(dice_.From(-1, 1)); });
  }

  void Describe() {
    TraceInfo& info = side_.info;
    const double temperature = dice_.Pick(std::vector<double>{0.5, 0.7, 1, 2});
    const int which = dice_.Below(10);
    Say("trace.json " + std::to_string(which));
    if (which == 0) info.temperature = temperature;
    if (which == 1) info.sampling_temperature = temperature;
    if (which == 2) info.sampling_temperature.reset();
    if (which == 3) info.semantics = static_cast<LogprobSemantics>(dice_.Below(3));
    if (which == 4) info.sampled_by = static_cast<SampledBy>(dice_.Below(3));
    if (which == 5) info.declares = {{"engine", dice_.Chance(0.5) ? "one" : "two"}};
    if (which == 6) info.model_digest = dice_.Chance(0.5) ? "" : "sha256:other";
    if (which == 7) info.vocab_size = std::max<int64_t>(1, info.vocab_size + dice_.From(-1, 1));
    if (which == 8) info.mode = static_cast<TraceMode>(dice_.Below(2));
    if (which == 9) {
      info.format = 1;
      info.declares.clear();
      info.temperature = info.sampling_temperature.value_or(info.temperature);
    }
  }
  void Downgrade() {
    Say("weaker evidence");
    side_.info.evidence = dice_.Pick(std::vector<EvidenceLevel>{
        EvidenceLevel::kTopK, EvidenceLevel::kSampledToken, EvidenceLevel::kNone});
    const double temperature =
        side_.info.semantics == LogprobSemantics::kRaw ? 1 : side_.info.temperature;
    if (side_.info.semantics == LogprobSemantics::kRaw) side_.info.temperature = 1;
    for (Row& row : side_.rows) {
      if (!row.logits.empty()) {
        const std::vector<double> logprobs = LogSoftmax(row.logits, temperature);
        if (row.token >= 0 && static_cast<size_t>(row.token) < logprobs.size()) {
          row.logprob = static_cast<float>(logprobs[static_cast<size_t>(row.token)]);
        }
        if (side_.info.evidence == EvidenceLevel::kTopK) {
          const auto top = std::max_element(logprobs.begin(), logprobs.end());
          row.top_ids = {static_cast<int32_t>(top - logprobs.begin())};
          row.top_logprobs = {static_cast<float>(*top)};
        }
        row.logits.clear();
      }
      if (side_.info.evidence != EvidenceLevel::kTopK)
        row.top_ids.clear(), row.top_logprobs.clear();
      if (side_.info.evidence == EvidenceLevel::kNone) {
        row.logprob = std::numeric_limits<float>::quiet_NaN();
      }
    }
  }

  Dice& dice_;
  const std::vector<std::string> read_;
  SideEvidence& side_;
  Change& change_;
};

struct Judged {
  Judgement judgement;
  // Slices that hold a request, or do not, by infer's word alone.
  std::set<std::string> unvouched;
};

Result<Judged> JudgeTraces(const std::string& train, const std::string& infer,
                           const Contract& contract, const Plan& plan) {
  KCC_TRY(TraceReader train_reader, TraceReader::Open(train));
  KCC_TRY(TraceReader infer_reader, TraceReader::Open(infer));
  KCC_TRY(const PairedTraces pair,
          PairedTraces::Make(std::move(train_reader), std::move(infer_reader)));
  KCC_TRY(const Summary summary, Measure(pair, plan));
  Judged judged{Judge(contract, summary), {}};
  for (size_t i = 0; i < summary.slices.size(); ++i) {
    if (!summary.slices[i].unvouched.empty()) judged.unvouched.insert(plan.slices()[i].name);
  }
  return judged;
}

std::vector<std::string> FieldsRead(const Contract& contract) {
  std::vector<std::string> fields;
  for (const Slice& slice : contract.slices) {
    if (!slice.where) continue;
    for (const std::string& field : slice.where->Fields()) fields.push_back(field);
  }
  return fields;
}

// The clause and slice that the change made look better; empty: none.
std::string LooksBetter(const Judged& judged, const Judgement& after) {
  const Judgement& before = judged.judgement;
  for (size_t c = 0; c < before.clauses.size(); ++c) {
    for (size_t s = 0; s < before.clauses[c].slices.size(); ++s) {
      const SliceVerdict& was = before.clauses[c].slices[s];
      const SliceVerdict& is = after.clauses[c].slices[s];
      if (judged.unvouched.contains(was.slice)) continue;
      for (const auto& [a, b] : {std::pair(&was.about, &is.about), {&was.other, &is.other}}) {
        if (a->verdict != Verdict::kViolated || b->verdict != Verdict::kSatisfied) continue;
        return before.clauses[c].id + " " + before.clauses[c].metric + " on " + was.slice +
               "\n  before: " + a->reason + "\n  after: " + b->reason;
      }
    }
  }
  return {};
}

bool AnyViolated(const Judgement& judgement) {
  return std::any_of(judgement.clauses.begin(), judgement.clauses.end(), [](const auto& clause) {
    return std::any_of(clause.slices.begin(), clause.slices.end(), [](const SliceVerdict& slice) {
      return slice.about.verdict == Verdict::kViolated || slice.other.verdict == Verdict::kViolated;
    });
  });
}

TEST(JudgedSide, NoChangeOfItsOwnMakesAViolatedClauseSatisfied) {
  const uint64_t seed = FromEnvironment("KCC_SEED", 20261116);
  const auto wanted = static_cast<int>(FromEnvironment("KCC_MUTATIONS", 1500));
  std::cout << "seed " << seed << ", " << wanted << " mutations\n";
  const MemoryDir dir;
  Dice cases(seed);
  int done = 0, refused = 0, warned = 0, holes = 0;
  while (done < wanted && holes < 5) {
    const uint64_t case_seed = cases.Seed();
    Dice dice(case_seed);
    EvidenceOptions evidence_options;
    evidence_options.drift_max = dice.Pick(std::vector<double>{0.3, 2});
    const Evidence evidence = MakeEvidence(&dice, evidence_options);
    ContractOptions contract_options;
    const TraceInfo& info = evidence.train.info;
    contract_options.temperature = info.mode == TraceMode::kGenerated
                                       ? info.sampling_temperature.value_or(1)
                                       : info.temperature;
    contract_options.about_pairs = contract_options.trust = contract_options.binds = true;
    DrawnContract drawn = MakeContract(&dice, contract_options);
    ASSERT_TRUE(WriteSide(evidence.train, dir / "train").has_value());
    ASSERT_TRUE(WriteSide(evidence.infer, dir / "infer").has_value());
    const auto first = JudgeTraces(dir / "train", dir / "infer", drawn.contract,
                                   Plan::FromContract(drawn.contract));
    ASSERT_TRUE(first.has_value()) << first.error().Format() << "\ncase " << case_seed;
    drawn = Tightened(drawn, first->judgement, &dice);
    const Plan plan = Plan::FromContract(drawn.contract);
    const auto before = JudgeTraces(dir / "train", dir / "infer", drawn.contract, plan);
    ASSERT_TRUE(before.has_value()) << before.error().Format() << "\ncase " << case_seed;
    // A verdict that rests on infer's word already says so, and shows nothing about the pair.
    if (!before->judgement.warnings.empty() || !AnyViolated(before->judgement)) continue;
    const std::vector<std::string> read = FieldsRead(drawn.contract);
    for (int i = 0; i < kMutationsOfOneCase && done < wanted; ++i, ++done) {
      SideEvidence forged = evidence.infer;
      Change change;
      Mutator mutator(&dice, read, &forged, &change);
      for (int n = dice.From(1, 3); n > 0; --n) mutator.Mutate();
      const Result<> written = WriteSide(forged, dir / "forged");
      if (!written) {
        ++refused;
        continue;
      }
      const auto after = JudgeTraces(dir / "train", dir / "forged", drawn.contract, plan);
      if (!after) {
        ++refused;
        continue;
      }
      const std::string better = LooksBetter(*before, after->judgement);
      if (better.empty()) continue;
      if (!after->judgement.warnings.empty()) {
        ++warned;
        continue;
      }
      ++holes;
      ADD_FAILURE() << "case " << case_seed << ", mutation " << i << " (" << change.what
                    << "): " << better << "\n"
                    << drawn.yaml;
    }
  }
  std::cout << done << " mutations: " << refused << " refused, " << warned
            << " better with a warning\n";
  // The test must be able to see something: most changes are measured, not refused.
  EXPECT_LT(refused, done * 4 / 5);
}

}  // namespace
}  // namespace kcc::soundness
