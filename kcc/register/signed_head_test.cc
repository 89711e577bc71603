// A head that was signed and kept outside: what it shows beyond the chain, and what it must be to
// be believed.
#include "kcc/register/signed_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/register/verify_test_data.h"
#include "kcc/statement/chain_head.h"
#include "kcc/statement/dsse.h"
#include "kcc/statement/statement_test_data.h"

namespace kcc {
namespace {

using testing::HasSubstr;

// After every event of the random log.
const int64_t kSigned = TestTime("2026-11-18T09:30:00Z");

class SignedHeadTest : public MutationTest {
 protected:
  static std::string Signed(Register& source, std::string_view key = kEd25519Private) {
    const auto statement = HeadToSign(source, kSigned);
    EXPECT_TRUE(statement.has_value()) << statement.error().Format();
    return TestEnvelope(*statement, {key});
  }
  RegisterCheck CheckedWith(Register& target, const std::string& head, size_t threshold = 1) {
    RegisterVerifyOptions options;
    options.signed_head = head;
    options.keyring = &keyring_;
    options.threshold = threshold;
    return Checked(target, options);
  }

  // The log from `first` on, changed and with all digests recomputed, as its writer can do.
  void WriteAnew(const std::vector<Event>& log, size_t first) {
    std::string previous = first == 0 ? std::string(kNoEventDigest) : log[first - 1].digest;
    std::string sql = "BEGIN;";
    for (size_t i = first; i < log.size(); ++i) {
      Event event = log[i];
      if (i == first) event.actor = "mallory";
      event.digest = EventDigest(previous, event);
      previous = event.digest;
      sql += "UPDATE kcc_event SET actor = " + TextOf(event.actor) +
             ", digest = " + TextOf(event.digest) +
             " WHERE sequence = " + std::to_string(event.sequence) + ";";
    }
    Run(sql + "COMMIT");
  }
  // Events from `first` on are gone, and so is every trace of them in the table.
  void CutOff(Register& target, int64_t first) {
    Run("DELETE FROM kcc_event WHERE sequence >= " + std::to_string(first));
    EXPECT_TRUE(target.Rebuild().has_value());
  }

  Keyring keyring_ =
      TestKeyring({TestKey(kEd25519Public, "ops", {"notAfter: 2027-01-01T00:00:00Z"}, "[head]"),
                   TestKey(kSecondPublic, "audit", {}, "[head]"),
                   TestKey(kEcdsaPublic, "ci", {}, "[evaluation]")});
};

TEST_P(SignedHeadTest, IsBelievedAndSaysWhatItShows) {
  Register target = Filled();
  const RegisterCheck check = CheckedWith(target, Signed(target));
  ASSERT_TRUE(check.ok()) << check.first_break->what;
  ASSERT_EQ(check.seen.size(), 2u);
  EXPECT_THAT(check.seen[0], HasSubstr("cut off or written anew"));
  EXPECT_THAT(check.seen[1], HasSubstr("signed by ops, 2026-11-18T09:30:00Z"));
  EXPECT_THAT(check.unseen[0], HasSubstr("changes of events after the kept head"));
  EXPECT_THAT(check.unseen[1], HasSubstr("another log whose head the same keys signed"));
}

// The mutations of EveryChangeIsNamed, and those that the chain alone cannot show.
TEST_P(SignedHeadTest, NoMutationIsMissed) {
  Register target = Filled();
  const std::vector<Event> log = LogOf(target);
  const RegisterState state = FoldOf(log);
  const std::string head = Signed(target);
  MutationDraw draw(20261119);
  for (int i = 0; i < MutationsAsked(); ++i) {
    const size_t choice = draw.Below(4);
    std::string what;
    BreakPlace place = BreakPlace::kHead;
    if (choice < 2) {
      const Mutation mutation = choice == 0 ? OfEvent(draw, log) : OfTheRest(draw, target, state);
      what = mutation.what + ": " + mutation.sql;
      place = mutation.place;
      Run(mutation.sql);
    } else if (choice == 2) {
      const auto first = static_cast<int64_t>(1 + draw.Below(log.size()));
      what = "cut off from event " + std::to_string(first);
      CutOff(target, first);
    } else {
      const size_t first = draw.Below(log.size());
      what = "written anew from event " + std::to_string(first + 1);
      WriteAnew(log, first);
    }
    const RegisterCheck check = CheckedWith(target, head);
    ASSERT_FALSE(check.ok()) << what;
    EXPECT_EQ(check.first_break->place, place) << what << ": " << check.first_break->what;
    Restore();
  }
  EXPECT_TRUE(CheckedWith(target, head).ok());
}

// One bit of the payload or of the signature: what the envelope means is changed, so it must fall.
TEST_P(SignedHeadTest, AForgedHeadIsNotBelieved) {
  Register target = Filled();
  const auto envelope = ReadEnvelope(Signed(target));
  ASSERT_TRUE(envelope.has_value());
  MutationDraw draw(7);
  for (int i = 0; i < MutationsAsked(); ++i) {
    DsseEnvelope forged = *envelope;
    std::string& part = i % 2 == 0 ? forged.payload : forged.signatures[0].signature;
    part = draw.OtherBytes(part);
    const RegisterCheck check = CheckedWith(target, EnvelopeJson(forged));
    ASSERT_FALSE(check.ok());
    EXPECT_EQ(check.first_break->place, BreakPlace::kHead);
    EXPECT_THAT(check.first_break->what, HasSubstr("the signed head does not hold: forged"));
  }
}

TEST_P(SignedHeadTest, WhoMaySignAndWhen) {
  Register target = Filled();
  const auto statement = HeadToSign(target, TestTime("2027-01-01T00:00:00Z"));
  const std::string late = TestEnvelope(*statement, {kEd25519Private});
  const auto says = [&](const std::string& head, size_t threshold = 1) {
    const RegisterCheck check = CheckedWith(target, head, threshold);
    return check.ok() ? std::string("ok") : check.first_break->what;
  };
  EXPECT_EQ(says(Signed(target)), "ok");
  EXPECT_THAT(says(late), HasSubstr("expired"));
  EXPECT_THAT(says(Signed(target, kEcdsaPrivate)), HasSubstr("wrong-role"));
  keyring_.keys.erase(keyring_.keys.begin() + 2);
  EXPECT_THAT(says(Signed(target, kEcdsaPrivate)), HasSubstr("unknown-key"));
  EXPECT_THAT(says(Signed(target), 2), HasSubstr("too-few-keys"));
  EXPECT_EQ(says(*AddSignatures(Signed(target), TestSigners({kSecondPrivate})), 2), "ok");
  EXPECT_THAT(says("12:sha256:00"), HasSubstr("malformed"));
}

// A key that has expired must not sign later events with an earlier date.
TEST_P(SignedHeadTest, AHeadFromBeforeItsEventIsNotBelieved) {
  Register target = Create();
  ASSERT_TRUE(target.Append(Story().Begin(), {}).has_value());
  const std::vector<Event> log = LogOf(target);
  const int64_t early = log.back().time_ms - 1;
  const auto refused = HeadToSign(target, early);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(), HasSubstr("is later than"));
  const std::string head = TestEnvelope(
      *ChainHeadStatement({log[0].digest, 5, log.back().digest, early}), {kEd25519Private});
  const RegisterCheck check = CheckedWith(target, head);
  ASSERT_FALSE(check.ok());
  EXPECT_THAT(check.first_break->what, HasSubstr("before its event"));
}

TEST_P(SignedHeadTest, IsOfOneRegister) {
  Register target = Create();
  EXPECT_FALSE(HeadToSign(target, kSigned).has_value());  // an empty log has no head
  ASSERT_TRUE(target.Append(Story().Begin(), {}).has_value());
  const std::vector<Event> log = LogOf(target);
  const std::string head = TestEnvelope(
      *ChainHeadStatement({MadeUpDigest(9), 5, log.back().digest, kSigned}), {kEd25519Private});
  EXPECT_THAT(CheckedWith(target, head).first_break->what, HasSubstr("of another register"));
  EXPECT_TRUE(CheckedWith(target, Signed(target)).ok());
}

INSTANTIATE_TEST_SUITE_P(On, SignedHeadTest, testing::Values(Backend::kSqlite, Backend::kPostgres),
                         BackendName);

}  // namespace
}  // namespace kcc
