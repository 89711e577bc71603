// The catalog: one row for every quantity kcc knows, and in its columns all that tells quantities
// apart. The contract checker, kcc/drift, kcc/summary, the judge, `kcc metrics`, the JSON Schema,
// the docs and the report's labels read the columns; nobody compares an id with a text
// (tools/check_layers.py). A new quantity is one row here and its implementation.
//
// Convention: p = train, q = infer, w = p(y)/q(y), Delta = (z_infer - z_train)/temperature.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string_view>

namespace kcc {

// What one value of the quantity describes.
enum class QuantityLevel : uint8_t { kToken, kRequest, kPopulation };

// Of the values; Name() gives the text that is printed.
enum class Unit : uint8_t {
  kPure,
  kLogit,
  kNat,
  kUlp,
  kMs,
  kTokens,
  kTokensPerSecond,
  kMegabytes,
};

// The least a trace must hold for the quantity to be computed exactly.
enum class EvidenceNeeded : uint8_t {
  kLogits,         // full logits (top-k lists give an interval)
  kSampledToken,   // the log-prob of the sampled token
  kRequestFields,  // fields of requests.jsonl, named in `fields`
  kGold,           // full logits and a gold label
  kOutputs,        // the tokens that both sides generated
  kTokenFields,    // columns of the tokens, named in `fields`; metrics of the user's own only
};

// Which bounds make sense. A signed quantity can be bad on either side.
enum class Direction : uint8_t { kLowerIsBetter, kHigherIsBetter, kSigned };

// What the evidence is counted in: what may be missing, and what traffic brings more of.
enum class Observation : uint8_t {
  kToken,    // tokens of one request depend on one another, so tests take the request as unit
  kRequest,  // requests are independent
  kReplay,   // a request that repeats another; `replay_group` says which ones do
};

// How a hard clause about traffic is tested. Which of the tests of docs/statistics.md that is.
enum class TestForm : uint8_t {
  kByAggregate,   // token and request quantities: counts for shares and percentiles, bets for means
  kRequestShare,  // a share of requests: the exact binomial test
  kTokenShare,    // a share of tokens, those where `of` is 0: bets over requests
  kFlagGap,       // between the shares of one flag on both sides: bets on requests that differ
  kMeanGap,       // between the means of both sides: bets over requests, one for each sign
  kLargest,       // the largest of all: one value beyond refutes it and no sample shows it
  kReplayShare,   // a share of replays: no test, though one that differs refutes a share of 1
  kNone,          // no test is known
};

// What bounds a value, so that a mean of them can be certified from a sample.
enum class BoundedBy : uint8_t {
  kOwnRange,   // `min` and `max`
  kRewardMax,  // assumptions.rewardMax
  kTokensMax,  // assumptions.tokensMax
};

// Whether the sampled tokens alone estimate the mean (docs/math.md B.4).
enum class SampleEstimate : uint8_t {
  kNone,
  kWithinRange,  // and each estimate lies between `min` and `max`
  kUnbounded,    // a single estimate has no upper end, so a sample cannot certify their mean
};

// Where a request's value is taken from.
enum class TakenFrom : uint8_t {
  kNone,            // not a request quantity
  kField,           // the request field of the same name
  kOutputTokens,    // the field, or the rows where both sides score the same tokens
  kFirstTokenTime,  // the field; of a request that timed out, where a first token came
  kTimePerToken,    // latency without the time to the first token, by the tokens after it
  kTokenSum,        // the sum of `of` over the request's tokens
  kTokenMean,       // their mean
  // Of both sides' `of`, known only where both are:
  kSideDifference,  // infer's less train's
  kSideGap,         // the size of that
  kSideRatio,       // infer's by train's
  // Of the tokens that both sides generated:
  kSameOutput,       // whether they are the same
  kFirstDivergence,  // how many there are before the first that differs
  kExpression,       // `own`: arithmetic over the request's fields
};

// Which counts of requests a share or a gap between shares reads, and so which requests are bad.
enum class RequestCounts : uint8_t {
  kNone,
  kFailures,      // failed or not; failed ones are bad
  kSignatures,    // replay signatures of both sides agree or not
  kFingerprints,  // served by the declared kernel or not
  kCoverage,      // has all fields that the clause lists or not
  kConformance,   // its record keeps to the published schema or not
  kRefusals,      // refused, on both sides
  kParses,        // parsed, on both sides
};

enum class MergeRule : uint8_t {
  kExactSum,  // count, exact sums, counters and histogram of single values
  kBins,      // integer counts and exact sums per bin or per side
};

// The families of clauses: N, S, R and O of a contract.
enum class Family : uint8_t { kNumerical, kStatistical, kRuntime, kObservability };

class FamilySet {
 public:
  constexpr FamilySet(std::initializer_list<Family> families) {
    for (const Family family : families) bits_ |= Bit(family);
  }
  constexpr bool contains(Family family) const { return (bits_ & Bit(family)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool operator==(const FamilySet&) const = default;

 private:
  static constexpr unsigned Bit(Family family) { return 1u << static_cast<unsigned>(family); }
  unsigned bits_ = 0;
};

struct OwnMetric;  // metric/own_metric.h

// A row that omits a column without a default does not compile.
struct Quantity {
  std::string_view id;
  Unit unit;
  Direction direction;
  EvidenceNeeded evidence;
  QuantityLevel level = QuantityLevel::kToken;
  bool sided = false;               // also exists as train_<id>; unprefixed means infer
  bool on_demand = false;           // computed only where a contract or the user asks
  std::string_view rate_name = "";  // another name of its rate, if it has one
  bool bare_mean = false;  // its name without an aggregate means the mean, as the paper writes it
  // On demand, and yet named in every summary: those of before summaries left out what nobody
  // asked.
  bool always_named = false;
  bool unscaled = false;  // in logits as the model gives them, whatever the temperature
  // The smallest and largest value it can take: a threshold outside is vacuous.
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
  Observation observation = Observation::kToken;
  TestForm form = TestForm::kByAggregate;
  BoundedBy bounded_by = BoundedBy::kOwnRange;
  FamilySet families = {};  // where nearly every reader would look for it; empty: no opinion
  SampleEstimate estimate = SampleEstimate::kNone;
  TakenFrom taken = TakenFrom::kNone;
  RequestCounts counts = RequestCounts::kNone;
  std::string_view of = "";      // the quantity that it is derived from, if from one
  std::string_view fields = "";  // request fields it reads, separated by blanks
  std::string_view definition;
  std::string_view source;
  MergeRule merge = MergeRule::kExactSum;
  // The definition of a metric of the user's own; null for the rows of the catalog.
  const OwnMetric* own = nullptr;
};

// All rows, grouped by level, in the order of docs/design.md section 6.
std::span<const Quantity> Catalog();

const Quantity* FindQuantity(std::string_view id);

// The row that `of` names; the row itself where it names none.
const Quantity& SourceOf(const Quantity& quantity);

// Whether it belongs to whole requests and has no meaning on some of a request's tokens.
constexpr bool OfWholeRequests(const Quantity& quantity) {
  return quantity.evidence == EvidenceNeeded::kRequestFields ||
         quantity.evidence == EvidenceNeeded::kOutputs;
}

// Position of a row in Catalog(); dense, so that arrays can be indexed by it. Precondition: not a
// metric of the user's own.
size_t CatalogIndex(const Quantity& quantity);

std::string_view Name(QuantityLevel level);    // "token"
std::string_view Name(Unit unit);              // "token/s"; "" for a pure number
std::span<const Unit> Units();                 // all of them
std::string_view Name(EvidenceNeeded needed);  // "logits"
std::string_view Name(Direction direction);    // "lower"
std::string_view Name(MergeRule rule);         // "exact-sum"

}  // namespace kcc
