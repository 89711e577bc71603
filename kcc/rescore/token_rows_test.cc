// Rows of an observation from two sides' words about the same tokens.
#include "kcc/rescore/token_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kcc/kernel/reference_test_server.h"
#include "kcc/metric/token_slots.h"
#include "kcc/rescore/rescore_test_data.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using testing::kReferenceVocab;
using testing::ReferenceLogprobs;
using testing::RescoreContract;

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// The formula's words about a token, another kernel's where `drift` is not 0.
std::vector<double> Logprobs(std::span<const int32_t> prefix, double drift) {
  std::vector<double> row = ReferenceLogprobs(prefix);
  double sum = 0;
  for (size_t v = 0; v < row.size(); ++v) {
    row[v] = 3 * row[v] +
             drift * std::sin(2.9 * static_cast<double>(v) + static_cast<double>(prefix.size()));
    sum += std::exp(row[v]);
  }
  for (double& value : row) value -= std::log(sum);
  return row;
}

const std::vector<int32_t> kTokens = {5, 17, 40, 9, 33, 2, 61};
constexpr size_t kPrompt = 2;

// `top` < 0: full logits.
std::vector<ScoredToken> Side(double drift, int top) {
  std::vector<ScoredToken> tokens;
  for (size_t at = kPrompt; at < kTokens.size(); ++at) {
    const std::vector<double> row = Logprobs(std::span(kTokens).first(at), drift);
    ScoredToken token;
    token.id = kTokens[at];
    token.logprob = row[static_cast<size_t>(token.id)];
    if (top < 0) token.logits.assign(row.begin(), row.end());
    for (size_t v = 0; v < row.size() && top > 0; ++v) {
      token.top.emplace_back(static_cast<int32_t>(v), row[v]);
    }
    std::sort(token.top.begin(), token.top.end(),
              [](const auto& a, const auto& b) { return a.second > b.second; });
    if (top >= 0) token.top.resize(std::min<size_t>(token.top.size(), static_cast<size_t>(top)));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

Rows RowsOf(const std::vector<ScoredToken>& train, const std::vector<ScoredToken>& infer) {
  const RowMaker maker(RescoreContract());
  return maker.Make({train, infer, static_cast<int32_t>(kPrompt), kReferenceVocab, 1});
}

const TokenColumn* ColumnOf(const Rows& rows, const char* name) {
  for (const TokenColumn& column : rows.tokens.columns) {
    if (column.slot == TokenSlot(name)) return &column;
  }
  return nullptr;
}

TEST(TokenRows, EqualKernelsDifferByExactlyNothing) {
  const Rows rows = RowsOf(Side(0, 20), Side(0, 20));
  ASSERT_EQ(rows.broken_infer + rows.broken_train, "");
  ASSERT_EQ(rows.tokens.rows(), kTokens.size() - kPrompt);
  EXPECT_EQ(rows.tokens.position.front(), 2);
  EXPECT_EQ(rows.tokens.token.back(), 61);
  const TokenColumn* const ratio = ColumnOf(rows, "abs_log_ratio");
  ASSERT_NE(ratio, nullptr);
  EXPECT_TRUE(ratio->hi.empty()) << "of the token itself, both log-probs are known";
  for (const double value : ratio->lo) EXPECT_EQ(value, 0);
  const TokenColumn* const kl = ColumnOf(rows, "kl");
  ASSERT_NE(kl, nullptr);
  for (const double value : kl->lo) EXPECT_EQ(value, 0);
  const TokenColumn* const overlap = ColumnOf(rows, "top1_overlap");
  ASSERT_NE(overlap, nullptr);
  for (const double value : overlap->lo) EXPECT_EQ(value, 1);
}

TEST(TokenRows, IntervalsHoldWhatFullLogitsGive) {
  for (const double drift : {0.0, 0.01, 0.4}) {
    const Rows truth = RowsOf(Side(0, -1), Side(drift, -1));
    ASSERT_EQ(truth.broken_infer + truth.broken_train, "");
    for (const int top : {1, 5, 20, 64}) {
      for (const bool full_train : {false, true}) {
        const Rows rows = RowsOf(Side(0, full_train ? -1 : top), Side(drift, top));
        ASSERT_EQ(rows.broken_infer + rows.broken_train, "");
        for (const TokenColumn& exact : truth.tokens.columns) {
          const TokenColumn* const column = ColumnOf(rows, SlotName(exact.slot).c_str());
          ASSERT_NE(column, nullptr);
          for (size_t i = 0; i < exact.lo.size(); ++i) {
            const double low = column->lo[i];
            const double high = column->hi.empty() ? low : column->hi[i];
            if (std::isnan(low)) continue;  // unknown holds everything
            // Of the sampled token both sides are rounded to float32.
            const double slack = 1e-6 * (1 + std::abs(exact.lo[i]));
            EXPECT_LE(low, exact.lo[i] + slack) << SlotName(exact.slot) << " top " << top;
            EXPECT_GE(high, exact.lo[i] - slack) << SlotName(exact.slot) << " top " << top;
          }
        }
      }
    }
  }
}

TEST(TokenRows, ATokenWithoutALogprobIsMissingAndNotGood) {
  std::vector<ScoredToken> infer = Side(0, 0);
  infer[1].logprob = kMissing;
  const Rows rows = RowsOf(Side(0, 0), infer);
  ASSERT_EQ(rows.tokens.rows(), infer.size());
  const TokenColumn* const ratio = ColumnOf(rows, "abs_log_ratio");
  ASSERT_NE(ratio, nullptr);
  EXPECT_EQ(ratio->lo[0], 0);
  EXPECT_TRUE(std::isnan(ratio->lo[1]));
  const TokenColumn* const kl = ColumnOf(rows, "kl");
  ASSERT_NE(kl, nullptr) << "a column of values that are all missing is there";
  for (const double value : kl->lo) EXPECT_TRUE(std::isnan(value));
}

TEST(TokenRows, NumbersThatNoKernelCanMeanAreBrokenByWhoseTheyAre) {
  struct Case {
    const char* name;
    void (*spoil)(ScoredToken* token);
  };
  const Case cases[] = {
      {"above 0", [](ScoredToken* token) { token->top[0].second = 3; }},
      {"the same id twice", [](ScoredToken* token) { token->top[1].first = token->top[0].first; }},
      {"an id beyond the vocabulary", [](ScoredToken* token) { token->top[0].first = 64; }},
      {"logits",
       [](ScoredToken* token) {
         for (auto& entry : token->top) entry.second += 4;
         token->logprob += 4;
       }},
  };
  for (const Case& one : cases) {
    std::vector<ScoredToken> spoilt = Side(0, 20);
    one.spoil(&spoilt[2]);
    const Rows of_infer = RowsOf(Side(0, 20), spoilt);
    EXPECT_THAT(of_infer.broken_infer, HasSubstr("position 4")) << one.name;
    EXPECT_EQ(of_infer.broken_train, "") << one.name;
    const Rows of_train = RowsOf(spoilt, Side(0, 20));
    EXPECT_EQ(of_train.broken_infer, "") << one.name;
    EXPECT_NE(of_train.broken_train, "") << one.name;
  }
}

TEST(TokenRows, ARowOfAnotherLengthIsNotRead) {
  for (const bool longer : {false, true}) {
    for (const bool with_lists : {false, true}) {
      std::vector<ScoredToken> spoilt = Side(0, -1);
      spoilt[2].logits.resize(static_cast<size_t>(kReferenceVocab + (longer ? 1 : -1)));
      const std::vector<ScoredToken> good = Side(0, with_lists ? 20 : -1);
      const Rows of_infer = RowsOf(good, spoilt);
      EXPECT_THAT(of_infer.broken_infer, HasSubstr(longer ? "65 logits" : "63 logits"));
      EXPECT_EQ(of_infer.broken_train, "");
      const Rows of_train = RowsOf(spoilt, good);
      EXPECT_EQ(of_train.broken_infer, "");
      EXPECT_THAT(of_train.broken_train, HasSubstr("position 4: a row has"));
    }
  }
}

TEST(TokenRows, ADrawnTokenAtTheEndOfItsListShowsNoRank) {
  ServedToken served;
  served.id = 9;
  served.logprob = -6;
  served.top = {{9, -6}, {1, -0.5}, {2, -1.5}};
  const auto tokens = TokensAsServed(std::vector{served}, 20);
  ASSERT_EQ(tokens.size(), 1u);
  ASSERT_EQ(tokens[0].top.size(), 2u) << "what is drawn from below the list must not end it";
  EXPECT_EQ(tokens[0].top[0].first, 1);
  EXPECT_EQ(tokens[0].logprob, -6);
  served.top = {{1, -0.5}, {9, -6}, {2, -7}};
  EXPECT_EQ(TokensAsServed(std::vector{served}, 20)[0].top.size(), 3u);
  EXPECT_EQ(TokensAsServed(std::vector{served}, 1)[0].top.size(), 1u);
  for (const double sentinel : {-9999.0, -3.4028235e38}) {
    served.logprob = sentinel;
    EXPECT_TRUE(std::isnan(TokensAsServed(std::vector{served}, 20)[0].logprob));
  }
}

}  // namespace
}  // namespace kcc
