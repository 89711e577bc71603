#include "kcc/kernel/audit_points.h"

#include <gtest/gtest.h>

#include "kcc/trace/requests.h"

namespace kcc {
namespace {

using Outcome = AuditComparison::Outcome;

TEST(AuditField, ReadsBackWhatWasWritten) {
  Request request;
  request.id = "a";
  const RequestAudit audit{"0123", {{"embedding", {"x", "-", "z"}}, {"layer 0, gated", {"y"}}}};
  SetAudit(audit, &request);
  const auto read = AuditOf(request);
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_EQ(read->signature, "0123");
  EXPECT_EQ(read->points, audit.points);
  Request other;
  ASSERT_TRUE(AuditOf(other).has_value());
  EXPECT_TRUE(AuditOf(other)->signature.empty());
  other.fields["audit_points"] = std::string("no list");
  EXPECT_FALSE(AuditOf(other).has_value());
  other.fields["audit_points"] = std::vector<std::string>{"no sign"};
  EXPECT_FALSE(AuditOf(other).has_value());
}

TEST(CompareAudits, NamesTheEarliestPositionAndThereTheEarliestPoint) {
  const AuditPointList train = {{"norm", {"a", "b", "c"}}, {"mlp", {"d", "e", "f"}}};
  const AuditPointList infer = {{"norm", {"a", "b", "X"}}, {"mlp", {"d", "X", "X"}}};
  const AuditComparison found = CompareAudits(train, infer);
  EXPECT_EQ(found.outcome, Outcome::kDiverge);
  EXPECT_EQ(found.point, "mlp");
  EXPECT_EQ(found.position, 1);
  EXPECT_EQ(CompareAudits(train, train).outcome, Outcome::kAgree);
}

TEST(CompareAudits, TakesTheOrderOfPointsWhereADigestIsForAllPositions) {
  const AuditPointList train = {{"norm", {"a", "b"}}, {"mlp", {"d"}}};
  const AuditPointList infer = {{"norm", {"a", "X"}}, {"mlp", {"X"}}};
  const AuditComparison found = CompareAudits(train, infer);
  EXPECT_EQ(found.point, "norm");
  EXPECT_EQ(found.position, 1);
  const AuditComparison second = CompareAudits({{"mlp", {"d"}}}, {{"mlp", {"X"}}});
  EXPECT_EQ(second.point, "mlp");
  EXPECT_FALSE(second.position);
}

TEST(CompareAudits, ComparesWhatBothHaveAndSaysWhatIsMissing) {
  const AuditPointList some = {{"a", {"1"}}, {"b", {"2"}}};
  const AuditPointList more = {{"a", {"1"}}, {"x", {"9"}}, {"b", {"2"}}};
  const AuditComparison common = CompareAudits(some, more);
  EXPECT_EQ(common.outcome, Outcome::kAgree);
  EXPECT_EQ(common.compared, 2u);
  EXPECT_EQ(common.alone, 1u);
  struct Case {
    AuditPointList train, infer;
    std::string why;
  };
  const std::vector<Case> cases = {
      {{}, {}, "neither kernel gives audit points"},
      {{}, some, "train gives no audit points"},
      {some, {}, "infer gives no audit points"},
      {some, {{"c", {"1"}}}, "no audit point has the same name in both kernels"},
      {some,
       {{"b", {"2"}}, {"a", {"1"}}},
       "the kernels list their audit points in different orders"},
      {{{"a", {"1", "2"}}}, some, "the audit point 'a' has 2 digests in train and 1 in infer"},
      {{{"a", {"-"}}}, {{"a", {"1"}}}, "no audit point was recorded by both kernels"},
  };
  for (const Case& one : cases) {
    const AuditComparison found = CompareAudits(one.train, one.infer);
    EXPECT_EQ(found.outcome, Outcome::kNotComparable) << one.why;
    EXPECT_EQ(found.why, one.why);
  }
}

// Digests of every operator at every position of a long request: more than a line may hold.
RequestAudit LongAudit(size_t points, size_t positions) {
  RequestAudit audit{"0123", {}};
  for (size_t i = 0; i < points; ++i) {
    AuditDigests& point = audit.points.emplace_back();
    point.point = "point " + std::to_string(i);
    for (size_t at = 0; at < positions; ++at) {
      point.digests.push_back(std::string(56, 'd') + std::to_string(10'000'000 + at));
    }
  }
  audit.points.push_back({"logits", {"one-for-all"}});
  return audit;
}

TEST(AuditField, KeepsTheFirstPositionsOfALongRequest) {
  Request request;
  request.id = "a";
  const RequestAudit audit = LongAudit(100, 3000);
  SetAudit(audit, &request);
  const std::string line = RequestJson(request);
  EXPECT_LT(line.size(), kRequestLineBytesMax);
  EXPECT_GT(line.size(), kAuditPointsBytesMax / 10 * 9);
  const auto read = AuditOf(*ParseRequest(line));
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  ASSERT_EQ(read->points.size(), audit.points.size());
  const size_t kept = read->points[0].digests.size() - 1;
  EXPECT_GT(kept, 1000u);
  EXPECT_EQ(read->points[0].digests.back(), kMoreDigests);
  EXPECT_EQ(read->points[0].digests[kept - 1], audit.points[0].digests[kept - 1]);
  EXPECT_EQ(read->points.back(), audit.points.back());

  EXPECT_EQ(CompareAudits(read->points, read->points).outcome, Outcome::kAgree);
  EXPECT_EQ(CompareAudits(read->points, read->points).positions, kept);
  EXPECT_FALSE(CompareAudits(audit.points, audit.points).positions);
  // Of a side that keeps more, as many are compared as both have.
  EXPECT_EQ(CompareAudits(read->points, audit.points).outcome, Outcome::kAgree);
  EXPECT_EQ(CompareAudits(read->points, audit.points).positions, kept);
  AuditPointList other = read->points;
  other[7].digests[kept - 1] = "other";
  EXPECT_EQ(CompareAudits(audit.points, other).point, "point 7");
  EXPECT_EQ(CompareAudits(audit.points, other).position, static_cast<int64_t>(kept - 1));
  // One that has fewer, and says that it has all, is of another length.
  for (size_t i = 0; i < 100; ++i) other[i].digests.resize(kept - 2);
  EXPECT_EQ(CompareAudits(read->points, other).outcome, Outcome::kNotComparable);
}

}  // namespace
}  // namespace kcc
