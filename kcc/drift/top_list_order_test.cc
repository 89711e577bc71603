// Overlaps and ranks against every row that a small list allows.
#include "kcc/drift/top_list_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>
#include <string>

namespace kcc {
namespace {

struct List {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
};

SideView View(const List& list, size_t vocab) {
  TopListPair pair;
  pair.infer = {list.ids, list.logprobs};
  pair.vocab = vocab;
  return ViewOf(pair, Side::kInfer).value();
}

// Tokens in any order, each as likely as the one before it or half as likely, and the whole scaled
// so that every unlisted token may be as likely as the last.
List RandomList(size_t vocab, std::mt19937* random) {
  List list;
  std::vector<int32_t> ids(vocab);
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), *random);
  const size_t length = 1 + (*random)() % vocab;
  list.ids.assign(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(length));
  double p = 1;
  double sum = 0;
  for (size_t i = 0; i < length; ++i) {
    if ((*random)() % 3 == 0) p /= 2;
    list.logprobs.push_back(static_cast<float>(p));
    sum += p;
  }
  sum += p * static_cast<double>(vocab - length);
  for (float& value : list.logprobs) value = static_cast<float>(std::log(value / sum));
  return list;
}

// All that a list leaves open: which of its equal log-probs are equal logits, which unlisted tokens
// tie with the last, and the order of the others.
struct Worlds {
  std::vector<unsigned> firsts;  // the sets of the first k, as bits
  std::vector<size_t> least_rank;
  std::vector<size_t> most_rank;

  Worlds(const List& list, size_t vocab, size_t k) : least_rank(vocab, vocab), most_rank(vocab, 0) {
    const size_t length = list.ids.size();
    std::vector<int32_t> unlisted;
    for (int32_t id = 0; id < static_cast<int32_t>(vocab); ++id) {
      if (std::find(list.ids.begin(), list.ids.end(), id) == list.ids.end()) unlisted.push_back(id);
    }
    for (unsigned falls = 0; falls < 1u << (length - 1); ++falls) {
      std::vector<std::pair<int, int32_t>> order;  // the logit's level, from above, and the id
      int level = 0;
      bool possible = true;
      for (size_t i = 0; i < length; ++i) {
        const bool fell = i > 0 && (falls >> (i - 1) & 1) != 0;
        if (i > 0 && !fell && list.logprobs[i] != list.logprobs[i - 1]) possible = false;
        level += fell ? 1 : 0;
        order.push_back({level, list.ids[i]});
      }
      if (!possible) continue;
      for (unsigned ties = 0; ties < 1u << unlisted.size(); ++ties) Add(order, unlisted, ties, k);
    }
  }

 private:
  void Add(std::vector<std::pair<int, int32_t>> order, const std::vector<int32_t>& unlisted,
           unsigned ties, size_t k) {
    const int last = order.back().first;
    std::vector<int32_t> below;
    for (size_t i = 0; i < unlisted.size(); ++i) {
      if ((ties >> i & 1) != 0) {
        order.push_back({last, unlisted[i]});
      } else {
        below.push_back(unlisted[i]);
      }
    }
    std::sort(order.begin(), order.end());
    unsigned first = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      Rank(order[i].second, i, i);
      if (i < k) first |= 1u << order[i].second;
    }
    for (const int32_t id : below) Rank(id, order.size(), order.size() + below.size() - 1);
    const size_t missing = k - std::min(k, order.size());
    for (unsigned chosen = 0; chosen < 1u << below.size(); ++chosen) {
      if (static_cast<size_t>(std::popcount(chosen)) != missing) continue;
      unsigned set = first;
      for (size_t i = 0; i < below.size(); ++i) {
        if ((chosen >> i & 1) != 0) set |= 1u << below[i];
      }
      if (std::find(firsts.begin(), firsts.end(), set) == firsts.end()) firsts.push_back(set);
    }
  }

  void Rank(int32_t id, size_t least, size_t most) {
    const auto at = static_cast<size_t>(id);
    least_rank[at] = std::min(least_rank[at], least);
    most_rank[at] = std::max(most_rank[at], most);
  }
};

std::string Text(const List& list) {
  std::string text;
  for (size_t i = 0; i < list.ids.size(); ++i) {
    text += std::to_string(list.ids[i]) + ":" + std::to_string(list.logprobs[i]) + " ";
  }
  return text;
}

TEST(TopListOrder, BothEndsOfARankAreThoseOfAllRowsThatAListAllows) {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    const size_t vocab = 1 + random() % 7;
    const List list = RandomList(vocab, &random);
    const Worlds worlds(list, vocab, 1);
    const SideView view = View(list, vocab);
    for (size_t id = 0; id < vocab; ++id) {
      const Interval rank = RankInterval(view, static_cast<int32_t>(id), vocab);
      const bool listed = std::find(list.ids.begin(), list.ids.end(), id) != list.ids.end();
      EXPECT_EQ(rank.lo, static_cast<double>(worlds.least_rank[id])) << id << " of " << Text(list);
      EXPECT_EQ(rank.hi, static_cast<double>(listed ? worlds.most_rank[id] : vocab - 1))
          << id << " of " << Text(list);
    }
  }
}

TEST(TopListOrder, BothEndsOfAnOverlapAreThoseOfAllRowsThatTwoListsAllow) {
  std::mt19937 random(6);
  size_t wider = 0;
  size_t exact = 0;
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds; ++round) {
    const size_t vocab = 1 + random() % 7;
    const size_t k = std::min<size_t>(vocab, 1 + random() % 5);
    const List lists[2] = {RandomList(vocab, &random), RandomList(vocab, &random)};
    const Worlds p(lists[0], vocab, k);
    const Worlds q(lists[1], vocab, k);
    size_t least = k;
    size_t most = 0;
    for (const unsigned a : p.firsts) {
      for (const unsigned b : q.firsts) {
        const auto shared = static_cast<size_t>(std::popcount(a & b));
        least = std::min(least, shared);
        most = std::max(most, shared);
      }
    }
    const Interval overlap =
        OverlapInterval(View(lists[0], vocab), View(lists[1], vocab), k, vocab);
    const double lo = static_cast<double>(least) / static_cast<double>(k);
    const double hi = static_cast<double>(most) / static_cast<double>(k);
    EXPECT_LE(overlap.lo, lo) << "k=" << k << " " << Text(lists[0]) << "| " << Text(lists[1]);
    EXPECT_GE(overlap.hi, hi) << "k=" << k << " " << Text(lists[0]) << "| " << Text(lists[1]);
    wider += overlap.lo < lo || overlap.hi > hi ? 1 : 0;
    exact += overlap.lo == overlap.hi ? 1 : 0;
  }
  // Each side's choice is counted as free; a chain of ties in a tiny vocabulary may not be.
  EXPECT_LE(wider, kRounds / 30);
  EXPECT_GE(exact, kRounds / 5);
}

Interval Overlap(const List& train, const List& infer, size_t k) {
  return OverlapInterval(View(train, 100), View(infer, 100), k, 100);
}

TEST(TopListOrder, TheLastPlaceOfAListIsOpenAndThoseBeforeItAreNot) {
  const List train{{1, 2, 3, 4, 5}, {-1, -2, -3, -4, -5}};
  const List infer{{2, 1, 3, 6, 7}, {-1, -2, -3, -4, -5}};
  const auto expect = [&](size_t k, double lo, double hi) {
    EXPECT_DOUBLE_EQ(Overlap(train, infer, k).lo, lo) << k;
    EXPECT_DOUBLE_EQ(Overlap(train, infer, k).hi, hi) << k;
  };
  expect(1, 0, 0);
  expect(3, 1, 1);
  expect(4, 0.75, 0.75);
  expect(5, 0.6, 0.8);  // token 0 may tie with 5; 0, 4 or 5 with 7
  expect(10, 0.3, 1);
}

TEST(TopListOrder, MassTooSmallForATieLeavesTheLastPlaceExact) {
  const List train{{7, 9}, {std::log(0.6f), std::log(0.25f)}};
  const List infer{{7, 8}, {std::log(0.6f), std::log(0.15f)}};
  EXPECT_EQ(RankInterval(View(train, 100), 9, 100).hi, 1);
  EXPECT_EQ(RankInterval(View(infer, 100), 8, 100).hi, 2) << "one tie of mass 0.15 fits into 0.25";
  const List sharp{{7}, {std::log(0.6f)}};
  EXPECT_EQ(Overlap(sharp, sharp, 1).lo, 1);
  const List even{{7}, {std::log(0.4f)}};
  EXPECT_EQ(Overlap(even, even, 1).lo, 0);
  EXPECT_EQ(Overlap(even, even, 1).hi, 1);
}

TEST(TopListOrder, ATieWithinAListIsDecidedWhereItsOrderIsThatOfTheIds) {
  const List other{{1, 2, 3, 4}, {-1, -2, -3, -4}};
  const List by_id{{1, 2, 3, 4}, {-1, -2, -2, -3}};
  EXPECT_EQ(Overlap(by_id, other, 2).lo, 1);
  EXPECT_EQ(RankInterval(View(by_id, 100), 3, 100).lo, 2);
  const List reversed{{1, 3, 2, 4}, {-1, -2, -2, -3}};
  EXPECT_EQ(Overlap(reversed, other, 2).lo, 0.5);
  EXPECT_EQ(Overlap(reversed, other, 2).hi, 1);
  EXPECT_EQ(RankInterval(View(reversed, 100), 3, 100).lo, 1);
  EXPECT_EQ(RankInterval(View(reversed, 100), 3, 100).hi, 2);
}

TEST(TopListOrder, AListThatReachesProbabilityZeroHoldsAllThatCanOccur) {
  const float zero = -std::numeric_limits<float>::infinity();
  const List two{{5, 6, 7}, {std::log(0.75f), std::log(0.25f), zero}};
  const List three{{5, 6, 9, 8}, {std::log(0.5f), std::log(0.25f), std::log(0.25f), zero}};
  EXPECT_DOUBLE_EQ(Overlap(two, three, 5).lo, 2.0 / 3);
  EXPECT_DOUBLE_EQ(Overlap(two, three, 5).hi, 2.0 / 3);
  EXPECT_EQ(RankInterval(View(two, 100), 0, 100).lo, 2) << "impossible tokens come last";
}

}  // namespace
}  // namespace kcc
