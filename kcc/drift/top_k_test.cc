#include "kcc/drift/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kcc/drift/reference.h"
#include "kcc/drift/row_quantities.h"
#include "kcc/drift/row_truth.h"

namespace kcc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Lists {
  std::vector<int32_t> ids[2];
  std::vector<float> logprobs[2];

  TopListPair Pair(size_t vocab) const {
    TopListPair pair;
    pair.train = {ids[0], logprobs[0]};
    pair.infer = {ids[1], logprobs[1]};
    pair.vocab = vocab;
    return pair;
  }
};

std::vector<double> LogProbs(const std::vector<float>& logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float z : logits) sum += std::exp(z - top);
  std::vector<double> logprobs;
  for (const float z : logits) logprobs.push_back(z - top - std::log(sum));
  return logprobs;
}

Lists ListsOf(const TestRow& row, size_t k) {
  Lists lists;
  for (const int side : {0, 1}) {
    const std::vector<double> logprobs = LogProbs(side == 0 ? row.train : row.infer);
    std::vector<int32_t> order(logprobs.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return logprobs[static_cast<size_t>(a)] > logprobs[static_cast<size_t>(b)];
    });
    order.resize(std::min(k, order.size()));
    lists.ids[side] = order;
    for (const int32_t id : order) {
      lists.logprobs[side].push_back(static_cast<float>(logprobs[static_cast<size_t>(id)]));
    }
  }
  return lists;
}

TEST(TopK, IntervalsHoldTheValueOfFullLogits) {
  uint64_t seed = 1;
  for (const size_t vocab : std::initializer_list<size_t>{1, 2, 5, 40, 64, 300, 3000}) {
    for (const double sigma : {0.0, 1e-3, 0.1, 1.0, 4.0}) {
      for (const double sharpen : {0.2, 1.0, 2.0}) {
        const TestRow row = ModelRow(vocab, sigma, 0, sharpen, seed++);
        RowPair full;
        full.train = row.train.data();
        full.infer = row.infer.data();
        full.vocab = vocab;
        full.token = static_cast<int32_t>(seed % vocab);
        TokenDrift truth;
        ASSERT_TRUE(MeasureRowReference(full, AllTokenSlots(), &truth));
        for (const size_t k : std::initializer_list<size_t>{1, 2, 3, 5, 9, 10, 20, 33, 64}) {
          for (const bool with_token : {false, true}) {
            const Lists lists = ListsOf(row, k);
            TopListPair pair = lists.Pair(vocab);
            pair.token = full.token;
            if (with_token) {
              const auto at = static_cast<size_t>(full.token);
              pair.train_logprob = static_cast<float>(LogProbs(row.train)[at]);
              pair.infer_logprob = static_cast<float>(LogProbs(row.infer)[at]);
            }
            TokenDrift drift;
            ASSERT_TRUE(MeasureTopK(pair, AllTokenSlots() & ~SampledTokenSlots(), &drift));
            for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
              if (!drift.known[slot]) continue;
              EXPECT_LE(drift.lo[slot], truth.lo[slot])
                  << SlotName(slot) << " V=" << vocab << " k=" << k << " sigma=" << sigma;
              EXPECT_GE(drift.hi[slot], truth.lo[slot])
                  << SlotName(slot) << " V=" << vocab << " k=" << k << " sigma=" << sigma;
            }
          }
        }
      }
    }
  }
}

TEST(TopK, IntervalsCloseAsTheListsGrow) {
  const TestRow row = ModelRow(2000, 0.05, 0, 2, 4);
  RowPair full;
  full.train = row.train.data();
  full.infer = row.infer.data();
  full.vocab = 2000;
  TokenDrift truth;
  ASSERT_TRUE(MeasureRowReference(full, AllTokenSlots(), &truth));
  const size_t tv = TokenSlot("tv");
  const size_t kl = TokenSlot("kl");
  double width = 1;
  for (const size_t k : std::initializer_list<size_t>{1, 4, 16, 64, 2000}) {
    TokenDrift drift;
    ASSERT_TRUE(MeasureTopK(ListsOf(row, k).Pair(2000), AllTokenSlots(), &drift));
    EXPECT_LE(drift.hi[tv] - drift.lo[tv], width);
    width = drift.hi[tv] - drift.lo[tv];
  }
  EXPECT_LE(width, 1e-4);
  TokenDrift complete;
  ASSERT_TRUE(MeasureTopK(ListsOf(row, 2000).Pair(2000), AllTokenSlots(), &complete));
  EXPECT_NEAR(complete.lo[kl], truth.lo[kl], 0.02 * truth.lo[kl]);
  EXPECT_NEAR(complete.hi[kl], truth.lo[kl], 0.02 * truth.lo[kl]);
}

TEST(TopK, HaveNoUpperEndWhereAnUnseenTokenCouldBeImpossible) {
  const TestRow row = ModelRow(500, 0.1, 0, 1, 4);
  TokenDrift drift;
  ASSERT_TRUE(MeasureTopK(ListsOf(row, 20).Pair(500), AllTokenSlots(), &drift));
  for (const char* name : {"kl", "reverse_kl", "chi2", "reverse_chi2", "logit_span"}) {
    EXPECT_EQ(drift.hi[TokenSlot(name)], kInf) << name;
    EXPECT_GE(drift.lo[TokenSlot(name)], 0) << name;
  }
  EXPECT_FALSE(drift.known[TokenSlot("raw_logit_linf")]);
  EXPECT_FALSE(drift.known[TokenSlot("log_ratio")]);
  EXPECT_LE(drift.hi[TokenSlot("tv")], 1);
}

TEST(TopK, OverlapIsExactWithinTheListAndOpenBeyondItOrAtATie) {
  Lists lists;
  lists.ids[0] = {1, 2, 3, 4, 5};
  lists.ids[1] = {2, 1, 3, 6, 7};
  lists.logprobs[0] = {-1, -2, -3, -4, -5};
  lists.logprobs[1] = {-1, -2, -3, -4, -5};
  TokenDrift drift;
  ASSERT_TRUE(MeasureTopK(lists.Pair(100), AllTokenSlots(), &drift));
  const auto expect = [&](const char* name, double lo, double hi) {
    EXPECT_DOUBLE_EQ(drift.lo[TokenSlot(name)], lo) << name;
    EXPECT_DOUBLE_EQ(drift.hi[TokenSlot(name)], hi) << name;
  };
  expect("top1_overlap", 0, 0);
  expect("top5_overlap", 0.6, 0.6);
  expect("top10_overlap", 0.3, 1);
  lists.logprobs[0] = {-1, -2, -3, -4, -4};
  ASSERT_TRUE(MeasureTopK(lists.Pair(100), AllTokenSlots(), &drift));
  expect("top5_overlap", 0.6, 1);
}

TEST(TopK, RefusesListsThatAreNone) {
  const TestRow row = ModelRow(50, 0.1, 0, 1, 4);
  const auto message = [](const Lists& lists) {
    TokenDrift drift;
    const Result<> status = MeasureTopK(lists.Pair(50), AllTokenSlots(), &drift);
    return status ? std::string() : status.error().message();
  };
  Lists lists = ListsOf(row, 5);
  EXPECT_EQ(message(lists), "");
  lists.ids[1][2] = 50;
  EXPECT_NE(message(lists).find("infer top-k list names token 50"), std::string::npos);
  lists = ListsOf(row, 5);
  lists.ids[0][2] = lists.ids[0][3];
  EXPECT_NE(message(lists).find("twice"), std::string::npos);
  lists = ListsOf(row, 5);
  lists.logprobs[0][2] = std::nanf("");
  EXPECT_NE(message(lists).find("log-prob nan"), std::string::npos);
  lists = ListsOf(row, 5);
  lists.logprobs[0][0] = 0.5f;
  EXPECT_NE(message(lists).find("log-prob 0.5"), std::string::npos);
  lists.ids[0].clear();
  EXPECT_NE(message(lists).find("0 ids"), std::string::npos);
}

}  // namespace
}  // namespace kcc
