#include "kcc/trace/slices.h"

#include <gtest/gtest.h>

#include <array>

#include "kcc/trace/pairing.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

Slice Where(const std::string& name, const std::string& predicate) {
  return {name,
          predicate.empty() ? std::optional<Predicate>() : Predicate::Parse(predicate).value(),
          {}};
}

TEST(SlicesTest, RequestSlicesOncePerRequestTokenSlicesOncePerToken) {
  const testing::ScratchDir scratch;
  testing::SyntheticSpec spec;
  spec.advantage = true;
  testing::WriteSyntheticPair(scratch / "train", scratch / "infer", spec);
  const PairedTraces pair =
      PairedTraces::Make(testing::MustOpen(scratch / "train"), testing::MustOpen(scratch / "infer"))
          .value();
  const SliceEvaluator slices =
      SliceEvaluator::Make({Where("all", ""), Where("even", "'even' in tags"),
                            Where("late", "token.position >= 4"),
                            Where("both", "'even' in tags and token.advantage > 0"),
                            Where("none", "absent == 1"), Where("gold", "token.gold >= 0")})
          .value();
  EXPECT_TRUE(slices.any_reads_token());
  EXPECT_FALSE(slices.reads_token(1));
  EXPECT_TRUE(slices.reads_token(3));
  PairCursor cursor(pair);
  for (int32_t i = 0; i < 5; ++i) {
    SliceBits request;
    const RequestSides sides{nullptr, &pair.train_request(i), &pair.infer_request(i), -1};
    ASSERT_TRUE(slices.ForRequest(sides, &request).has_value());
    EXPECT_TRUE(request.Test(0));
    EXPECT_EQ(request.Test(1), i % 2 == 0);  // req-0 … req-4 are in canonical order
    EXPECT_FALSE(request.Test(2) || request.Test(3) || request.Test(4) || request.Test(5));
    cursor.Seek(i);
    while (cursor.Next().value()) {
      SliceBits token = request;
      slices.ForToken(sides, cursor.train(), cursor.infer(), &token);
      EXPECT_EQ(token.Test(2), cursor.infer().position >= 4);
      EXPECT_EQ(token.Test(3), i % 2 == 0 && cursor.infer().position % 2 == 0);
      EXPECT_FALSE(token.Test(4));
      EXPECT_FALSE(token.Test(5)) << "the trace has no gold column";
    }
  }
}

// Which of the slices "x == train's value", "x == infer's value" hold a request, and which are
// unvouched, for one field.
struct Decided {
  bool by_train = false;
  bool by_infer = false;
  size_t unvouched = 0;
  std::string problem;
};

Decided Decide(const std::string& field, const RequestSides& sides, Side outcomes) {
  const SliceEvaluator slices =
      SliceEvaluator::Make({Where("t", field + " == 1"), Where("i", field + " == 2")},
                           {outcomes, outcomes})
          .value();
  SliceBits bits;
  std::vector<Unvouched> unvouched;
  const Result<> done = slices.ForRequest(sides, &bits, &unvouched);
  if (!done) return {false, false, 0, done.error().message()};
  return {bits.Test(0), bits.Test(1), unvouched.size(), ""};
}

TEST(SlicesTest, AnOutcomeIsEachSidesOwn) {
  const Request train{"r", {{"latency_ms", 1.0}}};
  const Request infer{"r", {{"latency_ms", 2.0}}};
  const RequestSides both{nullptr, &train, &infer, -1};
  EXPECT_TRUE(Decide("latency_ms", both, Side::kInfer).by_infer);
  EXPECT_TRUE(Decide("latency_ms", both, Side::kTrain).by_train);
  EXPECT_EQ(Decide("latency_ms", both, Side::kTrain).unvouched, 0u);
  const Request none{"r", {}};
  const Decided alone = Decide("latency_ms", {nullptr, &none, &infer, -1}, Side::kTrain);
  EXPECT_TRUE(alone.by_infer) << "there is no other";
  EXPECT_EQ(alone.unvouched, 2u) << "and both slices that read it rest on it";
}

TEST(SlicesTest, AFieldOfTheRequestIsOneForAll) {
  const Request one{"r", {{"hardness", 1.0}}};
  const Request two{"r", {{"hardness", 2.0}}};
  const Request none{"r", {}};
  EXPECT_EQ(Decide("hardness", {nullptr, &one, &two, -1}, Side::kInfer).problem,
            "request 'r': hardness is 1 in the train trace and 2 in the infer trace. The field is "
            "the request's own and decides a slice, so all must say the same");
  EXPECT_NE(Decide("hardness", {&one, &none, &two, -1}, Side::kInfer).problem, "");
  EXPECT_NE(Decide("hardness", {&one, &two, &none, -1}, Side::kInfer).problem, "");
  EXPECT_TRUE(Decide("hardness", {nullptr, &one, &none, -1}, Side::kInfer).by_train);
  EXPECT_EQ(Decide("hardness", {nullptr, &one, &none, -1}, Side::kInfer).unvouched, 0u);
  EXPECT_EQ(Decide("hardness", {nullptr, &none, &two, -1}, Side::kInfer).unvouched, 2u);
  EXPECT_EQ(Decide("hardness", {&two, &none, &two, -1}, Side::kInfer).unvouched, 0u);
  EXPECT_EQ(Decide("other", {nullptr, &one, &two, -1}, Side::kInfer).problem, "")
      << "no slice reads it";
}

TEST(SlicesTest, AFieldThatNoRecordHasIsNotedAsAbsent) {
  const SliceEvaluator slices =
      SliceEvaluator::Make({Where("solved", "reward > 0"), Where("tagged", "'x' in tags")}).value();
  Request request;
  request.id = "a";
  request.fields["tags"] = std::vector<std::string>();  // an empty list is a record
  SliceBits bits;
  std::vector<Unvouched> unvouched;
  ASSERT_TRUE(slices.ForRequest({nullptr, &request, &request, -1}, &bits, &unvouched).has_value());
  ASSERT_EQ(unvouched.size(), 1u);
  EXPECT_TRUE(unvouched[0].why == Unvouched::Why::kAbsent && unvouched[0].field == "reward" &&
              unvouched[0].slice == 0);
}

TEST(SlicesTest, TheOrderOfTagsMeansNothing) {
  using Tags = std::vector<std::string>;
  const Request ab{"r", {{"tags", Tags{"a", "b"}}}};
  const Request ba{"r", {{"tags", Tags{"b", "a"}}}};
  const Request a{"r", {{"tags", Tags{"a"}}}};
  const SliceEvaluator slices = SliceEvaluator::Make({Where("b", "'b' in tags")}).value();
  SliceBits bits;
  EXPECT_TRUE(slices.ForRequest({nullptr, &ab, &ba, -1}, &bits).has_value());
  EXPECT_TRUE(bits.Test(0));
  const Result<> gone = slices.ForRequest({nullptr, &ab, &a, -1}, &bits);
  ASSERT_FALSE(gone.has_value());
  EXPECT_NE(gone.error().message().find("tags is [a, b] in the train trace and [a]"),
            std::string::npos);
}

TEST(SlicesTest, ScoredOutputTokensAreCountedNeverRead) {
  const Request lies{"r", {{"output_tokens", 1.0}}};
  EXPECT_TRUE(Decide("output_tokens", {nullptr, &lies, &lies, 2}, Side::kInfer).by_infer);
  EXPECT_TRUE(Decide("output_tokens", {nullptr, &lies, &lies, -1}, Side::kInfer).by_train)
      << "generated: each side's own";
}

TEST(SlicesTest, AnAnswerWithoutAllItsRowsHasNoLength) {
  const Request claims{"r", {{"output_tokens", 1.0}, {"seed", 2.0}}};
  const SliceEvaluator slices =
      SliceEvaluator::Make({Where("short", "output_tokens < 9"), Where("all", "seed != 1")})
          .value();
  for (const int64_t rows : {int64_t{2}, int64_t{-1}}) {
    for (const auto& unknown : {std::array{true, false}, {false, true}, {true, true}}) {
      const RequestSides sides{nullptr, &claims, &claims, rows, unknown};
      SliceBits bits;
      std::vector<Unvouched> unvouched;
      ASSERT_TRUE(slices.ForRequest(sides, &bits, &unvouched).has_value());
      EXPECT_FALSE(bits.Test(0));
      ASSERT_EQ(unvouched.size(), 1u);
      EXPECT_EQ(unvouched[0].slice, 0u);
      EXPECT_EQ(unvouched[0].why, Unvouched::Why::kRowsMissing);
    }
  }
}

TEST(SlicesTest, LabelsAndAdvantagesAreTrainsFirst) {
  const Request request{"r", {}};
  const RequestSides sides{nullptr, &request, &request, -1};
  const SliceEvaluator slices =
      SliceEvaluator::Make(
          {Where("gold", "token.gold == 1"), Where("adv", "token.advantage == 1"),
           Where("lp", "token.logprob == -1"), Where("lp@", "token.logprob == -1")},
          {Side::kInfer, Side::kInfer, Side::kInfer, Side::kTrain})
          .value();
  TokenEvidence train, infer;
  train.gold = 1;
  infer.gold = 2;
  train.advantage = 1;
  infer.advantage = 2;
  train.logprob = -1;
  infer.logprob = -2;
  SliceBits bits(4);
  std::vector<Unvouched> unvouched;
  slices.ForToken(sides, train, infer, &bits, &unvouched);
  EXPECT_TRUE(bits.Test(0) && bits.Test(1));
  EXPECT_FALSE(bits.Test(2)) << "infer's own log-prob";
  EXPECT_TRUE(bits.Test(3)) << "train's own";
  EXPECT_TRUE(unvouched.empty());
  train = TokenEvidence();
  slices.ForToken(sides, train, infer, &bits, &unvouched);
  EXPECT_EQ(unvouched.size(), 2u) << "the two slices that read infer's log-prob alone";
}

TEST(SlicesTest, ManySlicesKeepTheirBits) {
  SliceBits bits(130);
  for (const size_t slice : std::initializer_list<size_t>{0, 63, 64, 129}) bits.Set(slice);
  for (size_t i = 0; i < 130; ++i) {
    EXPECT_EQ(bits.Test(i), i == 0 || i == 63 || i == 64 || i == 129);
  }
}

TEST(SlicesTest, ASliceThatStandsTwiceIsAnError) {
  EXPECT_FALSE(SliceEvaluator::Make({Where("a", ""), Where("a", "x == 1")}).has_value());
}

}  // namespace
}  // namespace kcc
