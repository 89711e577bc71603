// The same evidence gives the same verdict in every form: traces in any order, any number of
// threads, shards merged in any order, batches streamed from trace kernels, arrays in memory, the C
// interface, logits recorded scaled. Top-k lists and sampled tokens say less: there a verdict may
// be inconclusive instead, and is never the opposite. The figures of kcc rl are those of the
// summary.
//
// Arrays carry one Request for both sides and no labels, so the evidence here says the same of a
// request on both sides; and log-probs are not compared bit by bit where they were computed twice.
//
// KCC_CASES sets how many cases (default 60), KCC_SEED the seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <string>

#include "include/kcc.h"
#include "kcc/judge/judge.h"
#include "kcc/kernel/stream.h"
#include "kcc/kernel/trace_kernel.h"
#include "kcc/measure/measure.h"
#include "kcc/measure/measure_arrays.h"
#include "kcc/report/report_json.h"
#include "kcc/rl/diagnostics.h"
#include "kcc/rl/dump.h"
#include "kcc/summary/file.h"
#include "kcc/summary/series.h"
#include "kcc/trace/reader.h"
#include "tests/soundness/contracts.h"
#include "tests/soundness/forms.h"

namespace kcc::soundness {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

Result<PairedTraces> OpenPair(const std::string& train, const std::string& infer) {
  KCC_TRY(TraceReader train_reader, TraceReader::Open(train));
  KCC_TRY(TraceReader infer_reader, TraceReader::Open(infer));
  return PairedTraces::Make(std::move(train_reader), std::move(infer_reader));
}

Result<Summary> MeasureDirs(const std::string& train, const std::string& infer, const Plan& plan,
                            int threads = 1) {
  KCC_TRY(const PairedTraces pair, OpenPair(train, infer));
  MeasureOptions options;
  options.threads = threads;
  return Measure(pair, plan, options);
}

Result<Summary> MeasureShards(const std::string& train, const std::string& infer, const Plan& plan,
                              Dice* dice) {
  KCC_TRY(const PairedTraces pair, OpenPair(train, infer));
  const int count = dice->From(2, 4);
  std::vector<Summary> parts;
  for (int i = 1; i <= count; ++i) {
    MeasureOptions options;
    options.shard = {i, count};
    KCC_TRY(Summary part, Measure(pair, plan, options));
    // As a file, which is how shards travel.
    KCC_TRY(Summary read, DecodeSummary(EncodeSummary(part)));
    parts.push_back(std::move(read));
  }
  dice->Shuffle(&parts);
  for (size_t i = 1; i < parts.size(); ++i) KCC_TRY_VOID(MergeInto(parts[i], &parts[0]));
  return parts[0];
}

Result<Summary> MeasureStream(const std::string& train, const std::string& infer, const Plan& plan,
                              const std::string& scratch, int batch) {
  const KernelScheme schemes[] = {TraceScheme()};
  KCC_TRY(const std::unique_ptr<RequestSource> requests, OpenTraceRequests(train));
  KCC_TRY(const KernelPair pair,
          OpenKernelPair("trace:" + train, "trace:" + infer, {}, schemes, {}));
  StreamOptions options;
  options.scratch = scratch;
  options.batch_requests = batch;
  return MeasureKernels(pair, *requests, plan, options);
}

// Handles of the C interface, ended with the object.
struct CSummary {
  ~CSummary() { kcc_summary_free(summary); }
  std::string Bytes() const {
    kcc_text text = {};
    EXPECT_EQ(kcc_summary_encode(summary, &text), KCC_OK) << kcc_error();
    std::string bytes(text.data, text.size);
    kcc_text_free(&text);
    return bytes;
  }
  kcc_summary* summary = nullptr;
};
struct CContract {
  explicit CContract(const std::string& yaml) {
    EXPECT_EQ(kcc_contract_parse(yaml.data(), yaml.size(), "drawn", &contract), KCC_OK)
        << kcc_error();
  }
  ~CContract() { kcc_contract_free(contract); }
  kcc_contract* contract = nullptr;
};

Judgement JudgeInC(const CContract& contract, const CSummary& summary) {
  kcc_text text = {};
  EXPECT_EQ(kcc_judge(contract.contract, summary.summary, nullptr, nullptr, "json", &text), KCC_OK)
      << kcc_error();
  const auto report = ReadReport({text.data, text.size});
  kcc_text_free(&text);
  EXPECT_TRUE(report.has_value()) << report.error().Format();
  return report->judgement;
}

void MeasureArraysInC(const Arrays& arrays, const CContract& contract, int threads,
                      CSummary* into) {
  kcc_arrays given = {};
  given.struct_size = sizeof given;
  kcc_array* sides[] = {arrays.logits[0] ? &given.train_logits : &given.train_logprobs,
                        arrays.logits[1] ? &given.infer_logits : &given.infer_logprobs};
  for (size_t side = 0; side < 2; ++side) *sides[side] = {arrays.values[side].data(), KCC_F32, 0};
  const auto data = [](const auto& list) { return list.empty() ? nullptr : list.data(); };
  given.train_top_ids = data(arrays.top_ids[0]);
  given.train_top_logprobs = data(arrays.top_logprobs[0]);
  given.train_top_k = arrays.top_k[0];
  given.infer_top_ids = data(arrays.top_ids[1]);
  given.infer_top_logprobs = data(arrays.top_logprobs[1]);
  given.infer_top_k = arrays.top_k[1];
  given.rows = static_cast<int64_t>(arrays.tokens.size());
  given.vocab_size = arrays.info.vocab_size;
  given.temperature = arrays.info.temperature;
  given.sampling_temperature = arrays.info.sampling_temperature.value_or(0);
  const std::string lines = arrays.RequestLines();
  given.requests_jsonl = lines.data();
  given.requests_jsonl_size = lines.size();
  given.requests = static_cast<int64_t>(arrays.requests.size());
  given.first_rows = arrays.first_rows.data();
  given.row_counts = arrays.row_counts.data();
  given.positions = arrays.positions.data();
  given.tokens = arrays.tokens.data();
  given.mask = arrays.mask.empty() ? nullptr : arrays.mask.data();
  given.advantages = arrays.advantages.empty() ? nullptr : arrays.advantages.data();
  given.train_fingerprint = "train-kernel";
  given.infer_fingerprint = "infer-kernel";
  const std::string sampled_by(Name(arrays.info.sampled_by));
  given.sampled_by = sampled_by.c_str();
  EXPECT_EQ(kcc_measure_arrays(&given, contract.contract, threads, &into->summary), KCC_OK)
      << kcc_error();
}

bool Reads(const Slice& slice, std::string_view field) {
  if (!slice.where) return false;
  const std::vector<std::string> fields = slice.where->Fields();
  return std::find(fields.begin(), fields.end(), field) != fields.end();
}

bool Reads(const Quantity& quantity, std::string_view field) {
  if (quantity.own == nullptr) return false;
  const std::vector<std::string> fields = quantity.own->from.Fields();
  return std::find(fields.begin(), fields.end(), field) != fields.end();
}

// kOneRecord: the same, but for what compares two sides' records of a request.
enum class Form { kSame, kOneRecord, kRounded, kWeaker };

// How many tokens an answer has is counted from the rows.
bool IsOfTrainsRecord(const Metric& metric) {
  return metric.side == Side::kTrain && OfWholeRequests(*metric.quantity) &&
         metric.quantity->taken != TakenFrom::kOutputTokens;
}

bool ComparesRecords(const Quantity& quantity) {
  switch (quantity.counts) {
    case RequestCounts::kSignatures:
    case RequestCounts::kRefusals:
    case RequestCounts::kParses:
      return true;
    default:
      break;
  }
  switch (quantity.taken) {
    case TakenFrom::kSideDifference:
    case TakenFrom::kSideGap:
    case TakenFrom::kSideRatio:
      return true;
    default:
      if (quantity.level == QuantityLevel::kPopulation && OfWholeRequests(quantity) &&
          !quantity.of.empty()) {
        return true;  // infer's by train's, or less train's
      }
      return quantity.form == TestForm::kMeanGap && quantity.observation == Observation::kRequest;
  }
}

class Comparison {
 public:
  Comparison(const DrawnContract& drawn, Judgement base, std::string place)
      : drawn_(drawn), base_(std::move(base)), place_(std::move(place)) {}

  const Judgement& base() const { return base_; }
  int weaker() const { return weaker_; }
  // The base has one log-prob of a token from a kernel and computes the other: where they are as
  // close as their rounding it does not say whether they differ at all, and two written ones do.
  void LeaveOutWhetherLogprobsDiffer() { whether_logprobs_differ_ = false; }

  // `unread`: a field that the form does not carry; what reads it is another matter.
  void Expect(const std::string& name, const Judgement& other, Form form,
              std::string_view unread = {}) {
    ASSERT_EQ(other.clauses.size(), base_.clauses.size()) << name;
    for (size_t c = 0; c < base_.clauses.size(); ++c) {
      const Clause& clause = *drawn_.contract.FindClause(base_.clauses[c].id);
      const std::string_view quantity = clause.metric.quantity->id;
      const bool exact = form == Form::kSame || form == Form::kOneRecord;
      const bool records = form == Form::kOneRecord && (ComparesRecords(*clause.metric.quantity) ||
                                                        IsOfTrainsRecord(clause.metric));
      if (!unread.empty() && Reads(*clause.metric.quantity, unread)) continue;
      if (!exact && (quantity == "bit_mismatch" || quantity == "ulp_gap")) continue;
      for (size_t s = 0; s < base_.clauses[c].slices.size(); ++s) {
        const SliceVerdict& a = base_.clauses[c].slices[s];
        const SliceVerdict& b = other.clauses[c].slices[s];
        if (!unread.empty() && Reads(*drawn_.contract.FindSlice(a.slice), unread)) continue;
        if (!exact && Near(a)) continue;
        for (const bool about : {true, false}) {
          const PopulationVerdict* x = about ? &a.about : &a.other;
          const PopulationVerdict* y = about ? &b.about : &b.other;
          if (records) {
            EXPECT_NE(y->verdict, Verdict::kSatisfied)
                << place_ << ", " << name << ": " << clause.id;
            continue;
          }
          if (x->verdict == y->verdict) continue;
          if (!whether_logprobs_differ_ && x->verdict == Verdict::kInconclusive &&
              clause.metric.quantity->evidence == EvidenceNeeded::kSampledToken) {
            continue;
          }
          if (form == Form::kWeaker && y->verdict == Verdict::kInconclusive) {
            ++weaker_;
            continue;
          }
          // About traffic, a refutation is corrected for all that is tested beside it, and of
          // weaker evidence less can be tested.
          const bool traffic = about == (base_.about == Population::kTraffic);
          if ((form == Form::kWeaker || form == Form::kOneRecord) && traffic &&
              x->verdict == Verdict::kInconclusive && y->verdict == Verdict::kViolated) {
            continue;
          }
          ADD_FAILURE() << place_ << ", " << name << ": " << clause.id << " "
                        << base_.clauses[c].metric << " on " << a.slice << " is "
                        << Name(x->verdict) << " (" << x->reason << ") and " << Name(y->verdict)
                        << " (" << y->reason << ")\n"
                        << drawn_.yaml;
          return;
        }
      }
    }
  }

 private:
  // Closer to the threshold than a log-prob of 32 bits can tell, or a bucket of the histogram.
  static bool Near(const SliceVerdict& verdict) {
    const double room = 1e-5 + 0.01 * std::fabs(verdict.threshold);
    return std::fabs(verdict.value.lo - verdict.threshold) < room ||
           std::fabs(verdict.value.hi - verdict.threshold) < room;
  }

  const DrawnContract& drawn_;
  Judgement base_;
  std::string place_;
  bool whether_logprobs_differ_ = true;
  int weaker_ = 0;
};

// Engines are asked by token ids, which traces keep in this field.
void AddPrompts(Evidence* evidence) {
  for (SideEvidence* side : {&evidence->train, &evidence->infer}) {
    for (Request& request : side->requests) {
      const double count = request.Number("prompt_tokens").value_or(0);
      request.fields["prompt"] =
          std::vector<std::string>(static_cast<size_t>(count), std::string("1"));
    }
  }
}

// The means that kcc rl and a summary both have.
void ExpectRlFigures(const std::string& train, const std::string& infer, const Summary& summary,
                     double tolerance, const std::string& place) {
  const auto dump = ReadRlDump({train, infer});
  ASSERT_TRUE(dump.has_value()) << place << ": " << dump.error().Format();
  const auto batch = dump->Batch();
  ASSERT_TRUE(batch.has_value()) << place << ": " << batch.error().Format();
  const auto figures = DiagnoseRl(*batch);
  ASSERT_TRUE(figures.has_value()) << place << ": " << figures.error().Format();
  const RlLevelMetrics& token = figures->at(RlLevel::kToken);
  const auto all = static_cast<size_t>(summary.plan.FindSlice("all"));
  EXPECT_EQ(static_cast<uint64_t>(token.units), summary.slices[all].tokens) << place;
  if (token.units == 0) return;
  const auto mean = [&](size_t series) {
    return SeriesView(summary, all, series).Mean(SeriesView::End::kLow);
  };
  const auto expect = [&](const char* name, double of_rl, double of_summary) {
    const double scale = std::max({std::fabs(of_rl), std::fabs(of_summary), 1e-3});
    EXPECT_LE(std::fabs(of_rl - of_summary), tolerance * scale)
        << place << ", " << name << ": " << of_rl << " and " << of_summary;
  };
  const auto named = [&](const char* name) { return mean(*FindSeries(name)); };
  expect("log_ratio", -token.k1, named("log_ratio"));
  expect("k1", token.k1, named("k1"));
  expect("k2", token.k2, named("k2"));
  expect("k3", token.k3, named("k3"));
  expect("abs_log_ratio", token.mean_abs_log_ratio, named("abs_log_ratio"));
  expect("w", token.mean_w, named("w"));
  const size_t tv = *EstimateSeries(*FindQuantity("tv"));
  if (SeriesView(summary, all, tv).count() > 0) expect("tv", token.tv, mean(tv));
}

class SameEvidence {
 public:
  SameEvidence(const MemoryDir& dir, uint64_t seed)
      : dir_(dir), dice_(seed), place_("case " + std::to_string(seed)) {}

  int weaker() const { return weaker_; }

  void Run() {
    EvidenceOptions options;
    options.one_request = options.logits_only = true;
    options.drift_max = dice_.Pick(std::vector<double>{0.3, 2});
    Evidence evidence = MakeEvidence(&dice_, options);
    const double temperature = dice_.Pick(std::vector<double>{1, 0.5, 0.7});
    for (SideEvidence* side : {&evidence.train, &evidence.infer}) {
      for (Row& row : side->rows) row.logprob = std::numeric_limits<float>::quiet_NaN();
      side->info.temperature = temperature;
      if (side->info.sampling_temperature) side->info.sampling_temperature = side->info.temperature;
    }
    AddPrompts(&evidence);
    ContractOptions contract_options;
    contract_options.temperature = evidence.train.info.temperature;
    const DrawnContract drawn = MakeContract(&dice_, contract_options);
    const Plan plan = Plan::FromContract(drawn.contract);
    Write(evidence, "train", "infer");
    const auto base = MeasureDirs(dir_ / "train", dir_ / "infer", plan);
    ASSERT_TRUE(base.has_value()) << place_ << ": " << base.error().Format();
    Comparison comparison(drawn, Judge(drawn.contract, *base), place_);
    Traces(evidence, drawn, plan, *base, &comparison);
    InMemory(evidence, drawn, plan, &comparison);
    Weaker(evidence, drawn, plan, &comparison);
    ExpectRlFigures(dir_ / "train", dir_ / "infer", *base, 1e-5, place_ + ", rl of logits");
    weaker_ += comparison.weaker();
  }

 private:
  void Write(const Evidence& evidence, const std::string& train, const std::string& infer) {
    const auto train_written = WriteSide(evidence.train, dir_ / train);
    ASSERT_TRUE(train_written.has_value()) << place_ << train_written.error().Format();
    const auto infer_written = WriteSide(evidence.infer, dir_ / infer);
    ASSERT_TRUE(infer_written.has_value()) << place_ << infer_written.error().Format();
  }

  void Compare(const std::string& name, const DrawnContract& drawn, const Result<Summary>& summary,
               Form form, Comparison* comparison, std::string_view unread = {}) {
    ASSERT_TRUE(summary.has_value()) << place_ << ", " << name << ": " << summary.error().Format();
    comparison->Expect(name, Judge(drawn.contract, *summary), form, unread);
  }

  void Traces(const Evidence& evidence, const DrawnContract& drawn, const Plan& plan,
              const Summary& base, Comparison* comparison) {
    const std::string bytes = EncodeSummary(base);
    const std::string train = dir_ / "train";
    const std::string infer = dir_ / "infer";
    for (const int threads : {2, 5}) {
      const auto summary = MeasureDirs(train, infer, plan, threads);
      ASSERT_TRUE(summary.has_value()) << place_ << ": " << summary.error().Format();
      EXPECT_TRUE(EncodeSummary(*summary) == bytes) << place_ << ", " << threads << " threads";
    }
    const auto merged = MeasureShards(train, infer, plan, &dice_);
    ASSERT_TRUE(merged.has_value()) << place_ << ": " << merged.error().Format();
    EXPECT_TRUE(EncodeSummary(*merged) == bytes) << place_ << ", shards";
    const CContract contract(drawn.yaml);
    CSummary in_c;
    ASSERT_EQ(kcc_measure_traces(train.c_str(), infer.c_str(), contract.contract, 2, &in_c.summary),
              KCC_OK)
        << kcc_error();
    EXPECT_TRUE(in_c.Bytes() == bytes) << place_ << ", C";
    comparison->Expect("C", JudgeInC(contract, in_c), Form::kSame);
    const Evidence moved{Reordered(evidence.train, &dice_), Reordered(evidence.infer, &dice_)};
    Write(moved, "train-moved", "infer-moved");
    Compare("reordered", drawn, MeasureDirs(dir_ / "train-moved", dir_ / "infer-moved", plan, 2),
            Form::kSame, comparison);
    const std::string scratch = dir_ / "scratch";
    std::filesystem::create_directories(scratch);
    Compare("streamed", drawn, MeasureStream(train, infer, plan, scratch, dice_.From(1, 4)),
            Form::kSame, comparison);
    Write(ScaledForm(evidence), "train-scaled", "infer-scaled");
    const bool exact = evidence.train.info.temperature != 0.7;
    Compare("scaled", drawn, MeasureDirs(dir_ / "train-scaled", dir_ / "infer-scaled", plan),
            exact ? Form::kSame : Form::kRounded, comparison);
  }

  void InMemory(const Evidence& evidence, const DrawnContract& drawn, const Plan& plan,
                Comparison* comparison) {
    if (evidence.train.gold) return;  // arrays have no labels
    const Arrays arrays(evidence);
    const auto summary = MeasureArrays(arrays.Pair(), plan);
    Compare("arrays", drawn, summary, Form::kOneRecord, comparison);
    if (!summary) return;
    const CContract contract(drawn.yaml);
    CSummary in_c;
    MeasureArraysInC(arrays, contract, dice_.From(1, 5), &in_c);
    if (in_c.summary == nullptr) return;
    EXPECT_TRUE(in_c.Bytes() == EncodeSummary(*summary)) << place_ << ", arrays in C";
    comparison->Expect("arrays in C", JudgeInC(contract, in_c), Form::kOneRecord);
  }

  void Weaker(const Evidence& evidence, const DrawnContract& drawn, const Plan& plan,
              Comparison* comparison) {
    const auto vocab = static_cast<int>(evidence.train.info.vocab_size);
    for (const int k : {dice_.From(1, vocab - 1), vocab}) {
      const std::string name = "top-" + std::to_string(k);
      const Evidence lists = TopKForm(evidence, k);
      Write(lists, "train-top", "infer-top");
      const auto summary = MeasureDirs(dir_ / "train-top", dir_ / "infer-top", plan);
      Compare(name, drawn, summary, Form::kWeaker, comparison, "token.logprob");
      if (!summary) return;
      for (const bool train_full : {true, false}) {
        Mixed(LogitsAgainstLists(evidence, lists, train_full), name, drawn, plan,
              Judge(drawn.contract, *summary), comparison);
      }
    }
    Evidence sampled = SampledForm(evidence);
    Write(sampled, "train-sampled", "infer-sampled");
    const auto summary = MeasureDirs(dir_ / "train-sampled", dir_ / "infer-sampled", plan);
    Compare("sampled", drawn, summary, Form::kWeaker, comparison, "token.logprob");
    if (!summary) return;
    if (!sampled.train.gold) {
      Comparison of_sampled(drawn, Judge(drawn.contract, *summary), place_ + ", sampled");
      const auto arrays = MeasureArrays(Arrays(sampled).Pair(), plan);
      Compare("arrays", drawn, arrays, Form::kOneRecord, &of_sampled);
    }
    Write(SampledForm(evidence, SampledBy::kInfer), "train-sampled", "infer-sampled");
    const auto estimated = MeasureDirs(dir_ / "train-sampled", dir_ / "infer-sampled", plan);
    ASSERT_TRUE(estimated.has_value()) << place_ << ": " << estimated.error().Format();
    ExpectRlFigures(dir_ / "train-sampled", dir_ / "infer-sampled", *estimated, 1e-12,
                    place_ + ", rl of log-probs");
  }

  // Full logits on one side: as full evidence or weaker, and never weaker than lists on both.
  void Mixed(const Evidence& mixed, const std::string& name, const DrawnContract& drawn,
             const Plan& plan, const Judgement& of_lists, Comparison* comparison) {
    Write(mixed, "train-mixed", "infer-mixed");
    const std::string place = "logits against " + name;
    const auto summary = MeasureDirs(dir_ / "train-mixed", dir_ / "infer-mixed", plan);
    Compare(place, drawn, summary, Form::kWeaker, comparison, "token.logprob");
    if (!summary) return;
    Comparison of_mixed(drawn, Judge(drawn.contract, *summary), place_ + ", " + place);
    Comparison against_lists = of_mixed;
    against_lists.LeaveOutWhetherLogprobsDiffer();
    against_lists.Expect(name + " on both sides", of_lists, Form::kWeaker, "token.logprob");
    if (mixed.train.gold) return;
    const Arrays arrays(mixed);
    const auto in_memory = MeasureArrays(arrays.Pair(), plan);
    Compare("arrays", drawn, in_memory, Form::kOneRecord, &of_mixed);
    if (!in_memory) return;
    const CContract contract(drawn.yaml);
    CSummary in_c;
    MeasureArraysInC(arrays, contract, dice_.From(1, 5), &in_c);
    if (in_c.summary == nullptr) return;
    EXPECT_TRUE(in_c.Bytes() == EncodeSummary(*in_memory)) << place_ << ", " << place << " in C";
  }

  const MemoryDir& dir_;
  Dice dice_;
  std::string place_;
  int weaker_ = 0;
};

TEST(SameEvidence, GivesTheSameVerdictInEveryFormOrAStatedWeakerOne) {
  const uint64_t seed = FromEnvironment("KCC_SEED", 20261116);
  const auto cases = static_cast<int>(FromEnvironment("KCC_CASES", 60));
  std::cout << "seed " << seed << ", " << cases << " cases\n";
  const MemoryDir dir;
  Dice seeds(seed);
  int weaker = 0;
  for (int i = 0; i < cases && !HasFailure(); ++i) {
    SameEvidence one(dir, seeds.Seed());
    one.Run();
    weaker += one.weaker();
  }
  std::cout << weaker << " verdicts of lists and sampled tokens are inconclusive instead\n";
  EXPECT_GT(weaker, 0);
}

}  // namespace
}  // namespace kcc::soundness
