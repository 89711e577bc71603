#include "kcc/trace/slices.h"

#include <gtest/gtest.h>

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
    slices.ForRequest(pair.train_request(i), pair.infer_request(i), &request);
    EXPECT_TRUE(request.Test(0));
    EXPECT_EQ(request.Test(1), i % 2 == 0);  // req-0 … req-4 are in canonical order
    EXPECT_FALSE(request.Test(2) || request.Test(3) || request.Test(4) || request.Test(5));
    cursor.Seek(i);
    while (cursor.Next().value()) {
      SliceBits token = request;
      slices.ForToken(pair.train_request(i), pair.infer_request(i), cursor.train(), cursor.infer(),
                      &token);
      EXPECT_EQ(token.Test(2), cursor.infer().position >= 4);
      EXPECT_EQ(token.Test(3), i % 2 == 0 && cursor.infer().position % 2 == 0);
      EXPECT_FALSE(token.Test(4));
      EXPECT_FALSE(token.Test(5)) << "the trace has no gold column";
    }
  }
}

TEST(SlicesTest, RequestFieldsAreTheInferSidesElseTheTrainSides) {
  Request train{"r", {{"latency_ms", 3.0}, {"only_train", 1.0}}};
  Request infer{"r", {{"latency_ms", 7.0}}};
  const SliceEvaluator slices =
      SliceEvaluator::Make({Where("infers", "latency_ms == 7"), Where("trains", "latency_ms == 3"),
                            Where("only", "only_train == 1")})
          .value();
  SliceBits bits;
  slices.ForRequest(train, infer, &bits);
  EXPECT_TRUE(bits.Test(0));
  EXPECT_FALSE(bits.Test(1));
  EXPECT_TRUE(bits.Test(2));
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
