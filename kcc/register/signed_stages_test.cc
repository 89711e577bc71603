// Promotions that left a stage in the log, and what is wrong with how.
#include "kcc/register/signed_stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/register/signed_promotions_test_data.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
class SignedStagesTest : public SignedPromotionsTest {};

// However the event is written: what counts is the state before it and the state in it.
TEST_P(SignedStagesTest, AMoveIsWhatTheStatesSay) {
  Register target = Waiting();
  ASSERT_TRUE(Approve(target, "bob", {kEd25519Private}, &keyring_).has_value());
  const std::string body = ReadPromotion(target, "p-1")->event.body;
  const std::string too_few = "left offline in event";
  const std::string moved = Moved(body, "shadow");
  EXPECT_EQ(WrongNext(target, body), "");
  EXPECT_EQ(WrongNext(target, Moved(body, "rejected")), "");
  EXPECT_EQ(WrongNext(target, Moved(body, "frozen")), "");
  EXPECT_THAT(WrongNext(target, moved), HasSubstr(too_few));
  EXPECT_THAT(WrongNext(target, Edited(moved, "\"transitions\":[{", "\"x\":[{")),
              HasSubstr(too_few));
  EXPECT_THAT(WrongNext(target, Moved(body, "full")), HasSubstr(too_few));
  const std::string frozen = Moved(body, "frozen");
  for (const std::string at : {"shadow", "full"}) {
    const std::string from = "\"phase\":\"frozen\"";
    EXPECT_THAT(WrongNext(target, Edited(frozen, from, from + ",\"frozenFrom\":\"" + at + "\"")),
                HasSubstr(too_few));
  }
  const std::string phase = "\"phase\":\"offline\"";
  EXPECT_THAT(WrongNext(target, Edited(body, phase, phase + ",\"settled\":true")),
              HasSubstr(too_few));
  EXPECT_THAT(WrongNext(target, Edited(body, "\"to\":\"offline\"", "\"to\":\"full\"")),
              HasSubstr("is said to be full, and its state says offline"));
  EXPECT_THAT(WrongNext(target, Edited(body, phase, "\"phase\":\"fool\"")),
              HasSubstr("has a state that cannot be read"));
}

TEST_P(SignedStagesTest, AMoveWithoutItsPolicyIsNamed) {
  Register target = Waiting();
  const KeptPromotion kept = *ReadPromotion(target, "p-1");
  const std::string moved = Moved(kept.event.body, "shadow");
  const std::string blob = "\"policy\":\"" + kept.policy_blob + "\"";
  const std::string other = "\"policy\":\"" + *target.PutBlob(kPromotionPolicy) + "\"";
  EXPECT_THAT(WrongNext(target, Edited(moved, blob, "\"x\":1")), HasSubstr("names no policy"));
  const std::string swapped = Edited(moved, blob, other);
  EXPECT_THAT(WrongNext(target, swapped), HasSubstr("is not the policy of its state"));
  const std::string mine = "\"policy\":\"" + kept.state.policy + "\"";
  EXPECT_THAT(WrongNext(target, Edited(swapped, mine, other)), HasSubstr("has another policy"));
  EXPECT_THAT(WrongNext(target, Edited(moved, kept.triple, MadeUpDigest(7))),
              HasSubstr("has another triple"));
  EXPECT_THAT(WrongNext(target, Edited(moved, blob, "\"policy\":\"" + MadeUpDigest(8) + "\"")),
              HasSubstr("which cannot be read"));
}

TEST_P(SignedStagesTest, AStageThatWasSkippedNeedsItsApprovalsToo) {
  policy_text_ = Edited(Edited(policy_text_, "{approvals: {count: 2, signed: true}}", "{}"),
                        "{minRequests: 100}", "{approvals: {count: 1, signed: true}}");
  Register target = Create();
  Started(target, "p-1", "infer-1", 0);
  const std::string body = ReadPromotion(target, "p-1")->event.body;
  const auto to = [&](const std::string& phase) {
    return Edited(Edited(body, "\"phase\":\"offline\"", "\"phase\":\"" + phase + "\""),
                  "\"to\":\"offline\"", "\"to\":\"" + phase + "\"");
  };
  EXPECT_EQ(WrongNext(target, to("shadow")), "");
  EXPECT_THAT(WrongNext(target, to("full")), HasSubstr("left shadow in event"));
}

INSTANTIATE_TEST_SUITE_P(On, SignedStagesTest,
                         ::testing::Values(Backend::kSqlite, Backend::kPostgres), BackendName);

}  // namespace
}  // namespace kcc
