// For tests: a promotion whose approvals must be signed, and what whoever can write may forge of
// it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "kcc/register/event_body.h"
#include "kcc/register/promotions_test_data.h"
#include "kcc/register/statement_check.h"
#include "kcc/register/verify.h"
#include "kcc/statement/statement_test_data.h"

namespace kcc {

inline constexpr std::string_view kSignedPolicy = R"(
apiVersion: kcc/v1
kind: PromotionPolicy
metadata: {name: p, version: 1.0.0}
spec:
  offline: {approvals: {count: 2, signed: true}}
  shadow: {minRequests: 100}
  full: {}
)";

class SignedPromotionsTest : public PromotionsTest {
 protected:
  void SetUp() override {
    PromotionsTest::SetUp();
    policy_text_ = kSignedPolicy;
  }

  // Proposed, and satisfied offline: only approvals are missing.
  Register Waiting() {
    Register target = Create();
    Started(target, "p-1", "infer-1", 0);
    Record(target, Stage::kOffline, Measured(100, 120, 0.001, "infer-1"));
    EXPECT_EQ(Advanced(target, "p-1").state.phase, Phase::kOffline);
    return target;
  }

  Result<PromotionChange> Approve(Register& target, const std::string& who,
                                  const std::vector<std::string_view>& keys,
                                  const Keyring* keyring) {
    const auto signers = TestSigners(keys);
    now_.time_ms += 1000;
    const Proposer by{who, now_.time_ms, {signers, keyring, "test"}};
    PromotionEvent event;
    event.kind = PromotionEventKind::kApproval;
    event.at_ms = by.time_ms;
    event.by = who;
    return SendEvent(target, "p-1", event, by);
  }
  std::string WhyNot(Register& target, const std::string& who,
                     const std::vector<std::string_view>& keys, const Keyring* keyring) {
    const Head before = *target.ReadHead();
    const auto change = Approve(target, who, keys, keyring);
    EXPECT_EQ(*target.ReadHead(), before) << "nothing is written";
    return change.has_value() ? "" : change.error().message();
  }
  std::string FirstBreak(Register& target) {
    RegisterVerifyOptions options;
    options.keyring = &keyring_;
    const auto check = Verify(target, options);
    EXPECT_TRUE(check.has_value()) << check.error().Format();
    return check->ok() ? "" : check->first_break->what;
  }

  static std::string Edited(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << " is not in " << text;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  }
  // What whoever can write to the register can do.
  void Append(Register& target, const std::string& kind, const std::string& body) {
    const auto appended = target.Append({{EventOf(kind, body)}, {}}, *target.ReadHead());
    ASSERT_TRUE(appended.has_value()) << appended.error().Format();
  }
  // With these approvals in the state.
  static std::string Forged(const std::string& body, const std::string& approvals) {
    return Edited(body, "\"progress\":{", "\"progress\":{\"approvals\":[" + approvals + "],");
  }

  // From offline to another phase, with the transition that the machine would give.
  static std::string Moved(std::string body, const std::string& to) {
    body = Edited(body, "\"phase\":\"offline\"", "\"phase\":\"" + to + "\"");
    body = Edited(body, "\"to\":\"offline\"", "\"to\":\"" + to + "\"");
    return Edited(
        body, "\"transitions\":[]",
        R"("transitions":[{"cause":"x","from":"offline","reason":"x","to":")" + to + "\"}]");
  }
  // What is wrong with a promotion.changed of this body, if it came next.
  std::string WrongNext(Register& target, const std::string& body) {
    StatementChecker checker(target, keyring_);
    std::vector<Event> log = LogOf(target);
    for (const Event& event : log) {
      if (event.kind != "statement.added") continue;
      EXPECT_EQ(
          *checker.CheckStatement(event, **target.ReadBlob(BodyText(event.body, "statement"))), "");
    }
    Event next = log.back();
    next.sequence += 1;
    next.kind = "promotion.changed";
    next.body = *CanonicalBody(body);
    for (const Event& event : log) {
      if (event.kind == next.kind) {
        EXPECT_EQ(*checker.CheckPromotion(event), "");
      }
    }
    return *checker.CheckPromotion(next);
  }
  // The statement about the last event of the register that bob's key would sign.
  PromotionRecord RecordOfLast(Register& target) {
    const Event last = LogOf(target).back();
    const KeptPromotion kept = *ReadPromotion(target, "p-1");
    PromotionRecord record;
    record.time_ms = last.time_ms;
    record.promotion = "p-1";
    record.sequence = last.sequence;
    record.step = "approve";
    record.from = record.to = "offline";
    record.triple = kept.triple;
    record.contract = {"c", kept.state.candidate.contract};
    record.policy = {"p", kept.state.policy};
    return record;
  }
  std::string Envelope(const PromotionRecord& record) {
    return TestEnvelope(*PromotionStatement(record), {kEd25519Private});
  }

  Keyring keyring_ =
      TestKeyring({TestKey(kEd25519Public, "bob", {"notBefore: 2023-01-01T00:00:00Z"}),
                   TestKey(kSecondPublic, "eve"),
                   TestKey(kEcdsaPublic, "old", {"notAfter: 2023-01-01T00:00:00Z"})});
};

}  // namespace kcc
