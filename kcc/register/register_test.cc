// What every backend must do, the same suite on each.
#include "kcc/register/register.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "kcc/register/register_test_data.h"
#include "kcc/register/register_test_server.h"
#include "kcc/register/register_uri.h"
#include "kcc/register/verify.h"

namespace kcc {
namespace {

using testing::HasSubstr;

class RegisterTest : public OnEachBackend {
 protected:
  // Appends after the head, which must succeed.
  static Head Added(Register& target, const Batch& batch) {
    const auto head = target.ReadHead();
    EXPECT_TRUE(head.has_value()) << head.error().Format();
    const auto appended = target.Append(batch, *head);
    EXPECT_TRUE(appended.has_value()) << appended.error().Format();
    return appended.has_value() ? appended->head : Head{};
  }
  static std::string Refusal(Register& target, const Batch& batch) {
    const auto appended = target.Append(batch, *target.ReadHead());
    return appended.has_value() ? "accepted" : appended.error().message();
  }
  static void ExpectSound(Register& target) {
    const auto check = Verify(target);
    ASSERT_TRUE(check.has_value()) << check.error().Format();
    EXPECT_TRUE(check->ok()) << check->first_break->what;
  }
  const Story story_{};
};

TEST_P(RegisterTest, StartsEmpty) {
  Register target = Create();
  EXPECT_EQ(*target.ReadHead(), Head{});
  EXPECT_TRUE(LogOf(target).empty());
  EXPECT_TRUE(target.List({})->empty());
  ExpectSound(target);
}

TEST_P(RegisterTest, KeepsWhatIsAppended) {
  Head head;
  std::vector<Event> log;
  {
    Register target = Create();
    head = Added(target, story_.Begin());
    EXPECT_EQ(head.sequence, 5);
    log = LogOf(target);
  }
  Result<Register> again = Register::Open(uri_);
  ASSERT_TRUE(again.has_value()) << again.error().Format();
  EXPECT_EQ(*again->ReadHead(), head);
  EXPECT_EQ(LogOf(*again), log);
  EXPECT_EQ(log[2].body, R"({"build":{"engine":"x"},"kernel":"infer-1"})");
  EXPECT_EQ(**again->ReadBlob(story_.contract), story_.contract_text);
  const auto triple = again->Find({EntryTable::kTriples, story_.triple});
  ASSERT_TRUE(triple.has_value() && *triple);
  EXPECT_EQ((*triple)->event, log[4]);
  EXPECT_EQ((*triple)->state, (EntryState{story_.contract, 5, 5}));
  ExpectSound(*again);
}

TEST_P(RegisterTest, CreateLeavesARegisterAsItIs) {
  Register target = Create();
  const Head head = Added(target, story_.Begin());
  Register::Created created;
  Result<Register> again = Register::Create(uri_, &created);
  ASSERT_TRUE(again.has_value()) << again.error().Format();
  EXPECT_FALSE(created.is_new);
  EXPECT_EQ(*again->ReadHead(), head);
}

TEST_P(RegisterTest, RefusesAWriterWhoSawAnotherHead) {
  Register first = Create();
  Result<Register> second = Register::Open(uri_);
  const Head seen = *first.ReadHead();
  ASSERT_FALSE(first.Append(story_.Begin(), seen)->head_moved);
  const auto late = second->Append(story_.Begin(), seen);
  ASSERT_TRUE(late.has_value()) << late.error().Format();
  EXPECT_TRUE(late->head_moved);
  EXPECT_EQ(late->head, *first.ReadHead());
  EXPECT_EQ(LogOf(*second).size(), 5u);
  // A head with the right number and another digest is another log.
  EXPECT_TRUE(
      second->Append(story_.Evaluation("satisfied", "r"), {5, MadeUpDigest(9)})->head_moved);
}

TEST_P(RegisterTest, WritesAllOrNothing) {
  Register target = Create();
  Added(target, story_.Begin());
  const std::vector<Event> before = LogOf(target);
  Batch batch = story_.Evaluation("satisfied", "kept?");
  batch.events.push_back(EventOf("model.added", BodyOf({{"model", story_.model}})));
  EXPECT_EQ(Refusal(target, batch),
            "model " + story_.model + " is in the register already, by event 1");
  EXPECT_EQ(LogOf(target), before);
  EXPECT_FALSE(*target.ReadBlob(BlobDigest("kept?")));
  ExpectSound(target);
}

TEST_P(RegisterTest, RefusesWhatDoesNotFit) {
  Register target = Create();
  Added(target, story_.Begin());
  const auto refusal = [&](const char* kind, const std::string& body) {
    return Refusal(target, {{EventOf(kind, body)}, {}});
  };
  const std::string nowhere = MadeUpDigest(77);
  EXPECT_EQ(refusal("certificate.added", BodyOf({{"certificate", nowhere}, {"triple", nowhere}})),
            "certificate.added names triple " + nowhere + ", which is not in the register");
  EXPECT_EQ(
      refusal("certificate.added", BodyOf({{"certificate", nowhere}, {"triple", story_.triple}})),
      "certificate.added names blob " + nowhere + ", which is not in the register");
  EXPECT_EQ(refusal("blob.removed", BodyOf({{"blob", nowhere}, {"why", "gc"}})),
            "blob.removed names blob " + nowhere + ", which is not in the register");
  EXPECT_EQ(refusal("incident.closed", BodyOf({{"incident", "i"}, {"what", "w"}})),
            "incident.closed: there is no incident i");
  EXPECT_THAT(refusal("model.added", "{}"), HasSubstr("'model' must be a text"));
  EXPECT_THAT(refusal("model.added", "{"), HasSubstr("event model.added: not JSON"));
  EXPECT_THAT(refusal("nothing.happened", "{}"), HasSubstr("is not a kind of event"));
  EXPECT_EQ(LogOf(target).size(), 5u);
}

TEST_P(RegisterTest, KeepsTheLastStateOfAPromotion) {
  Register target = Create();
  Added(target, story_.Begin());
  const auto move = [&](const char* from, const char* to, int step) {
    return EventOf("promotion.changed", BodyOf({{"promotion", "p1"},
                                                {"triple", story_.triple},
                                                {"from", from},
                                                {"to", to},
                                                {"cause", "satisfied"}},
                                               R"("state":{"step":)" + std::to_string(step) + "}"));
  };
  Added(target, {{move("proposed", "offline", 1), move("offline", "shadow", 2)}, {}});
  const auto promotion = *target.Find({EntryTable::kPromotions, "p1"});
  ASSERT_TRUE(promotion);
  EXPECT_THAT(promotion->event.body, HasSubstr(R"("state":{"step":2})"));
  EXPECT_EQ(promotion->state, (EntryState{story_.triple, 6, 7}));
  Added(target, {{EventOf("approval.given", BodyOf({{"promotion", "p1"}}))}, {}});
  const auto approvals = *target.List({.table = EntryTable::kApprovals, .subject = "p1"});
  ASSERT_EQ(approvals.size(), 1u);
  EXPECT_EQ(approvals[0].key.id, "8");
}

TEST_P(RegisterTest, ListsTheLastChangedFirst) {
  Register target = Create();
  Added(target, story_.Begin());
  for (int i = 0; i < 7; ++i) Added(target, story_.Evaluation("satisfied", std::to_string(i)));
  const auto ids = [&](const EntryRange& range) {
    std::vector<std::string> found;
    const auto entries = target.List(range);
    for (const Entry& entry : *entries) found.push_back(entry.key.id);
    return found;
  };
  const EntryTable table = EntryTable::kEvaluations;
  EXPECT_THAT(ids({.table = table, .limit = 3}), testing::ElementsAre("12", "11", "10"));
  EXPECT_EQ(ids({.table = table, .subject = story_.triple}).size(), 7u);
  EXPECT_TRUE(ids({.table = table, .subject = "another"}).empty());
  EXPECT_THAT(ids({.table = EntryTable::kKernels, .id_prefix = "tra"}),
              testing::ElementsAre("train-1"));
  EXPECT_TRUE(ids({.id_prefix = "%"}).empty());
  EXPECT_EQ(ids({}).size(), 12u);
}

TEST_P(RegisterTest, ReadsRangesOfTheLog) {
  Register target = Create();
  Added(target, story_.Begin());
  for (int i = 0; i < 5; ++i) Added(target, story_.Evaluation("satisfied", std::to_string(i)));
  const auto numbers = [&](const EventRange& range) {
    std::vector<int64_t> found;
    const auto events = target.ReadEvents(range);
    for (const Event& event : *events) found.push_back(event.sequence);
    return found;
  };
  using testing::ElementsAre;
  EXPECT_THAT(numbers({.limit = 3, .newest_first = true}), ElementsAre(10, 9, 8));
  EXPECT_THAT(numbers({.first = 3, .last = 4}), ElementsAre(3, 4));
  EXPECT_THAT(numbers({.first = 9}), ElementsAre(9, 10));
  EXPECT_THAT(numbers({.kind = "kernel.added"}), ElementsAre(2, 3));
  EXPECT_TRUE(numbers({.first = 11}).empty());
}

TEST_P(RegisterTest, KeepsBytesOfEveryKind) {
  Register target = Create();
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  for (const std::string& blob : {bytes, std::string(), std::string(3'000'000, '\0')}) {
    const auto digest = target.PutBlob(blob);
    ASSERT_TRUE(digest.has_value()) << digest.error().Format();
    EXPECT_EQ(*target.PutBlob(blob), *digest);
    EXPECT_EQ(**target.ReadBlob(*digest), blob);
  }
  EXPECT_FALSE(*target.ReadBlob(MadeUpDigest(1)));
  ExpectSound(target);
}

TEST_P(RegisterTest, ABlobThatWasRemovedCanComeBack) {
  Register target = Create();
  Added(target, story_.Begin());
  Added(target, story_.Evaluation("satisfied", "r"));
  const auto removal =
      EventOf("blob.removed", BodyOf({{"blob", BlobDigest("r")}, {"why", "retention"}}));
  Added(target, {{removal}, {}});
  EXPECT_FALSE(*target.ReadBlob(BlobDigest("r")));
  ExpectSound(target);
  Added(target, story_.Evaluation("satisfied", "r"));
  EXPECT_TRUE(*target.ReadBlob(BlobDigest("r")));
  ExpectSound(target);
  Added(target, {{removal}, {}});
  ExpectSound(target);
}

TEST_P(RegisterTest, UpdateLooksAgainWhenAnotherWriterWasFaster) {
  Register target = Create();
  Added(target, story_.Begin());
  Result<Register> other = Register::Open(uri_);
  int calls = 0;
  const auto head = target.Update([&](Register&) -> Result<Batch> {
    if (++calls == 1) Added(*other, story_.Evaluation("violated", "other"));
    return story_.Evaluation("satisfied", "mine");
  });
  ASSERT_TRUE(head.has_value()) << head.error().Format();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(head->sequence, 7);
  EXPECT_EQ(target.Update([](Register&) -> Result<Batch> { return Batch{}; })->sequence, 7);
}

// Four processes count one promotion up, each by reading what is there: no step is lost or doubled.
TEST_P(RegisterTest, ProcessesDoNotLoseEachOthersSteps) {
  constexpr int kProcesses = 4;
  constexpr int kSteps = 15;
  {
    Register target = Create();
    Added(target, story_.Begin());
  }
  const auto count_up = [&](Register& target) -> Result<Batch> {
    KCC_TRY(const auto entry, target.Find({EntryTable::kPromotions, "p"}));
    int step = 0;
    if (entry)
      step = std::atoi(entry->event.body.substr(entry->event.body.find("step") + 6).c_str());
    return Batch{{EventOf("promotion.changed",
                          BodyOf({{"promotion", "p"},
                                  {"triple", story_.triple},
                                  {"from", "a"},
                                  {"to", "b"},
                                  {"cause", "c"}},
                                 R"("state":{"step":)" + std::to_string(step + 1) + "}"))},
                 {}};
  };
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(::fork());
    if (children.back() == 0) {
      Result<Register> own = Register::Open(uri_);
      bool fine = own.has_value();
      for (int step = 0; fine && step < kSteps; ++step) fine = own->Update(count_up).has_value();
      ::_exit(fine ? 0 : 1);
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  Result<Register> target = Register::Open(uri_);
  EXPECT_EQ(LogOf(*target).size(), 5u + kProcesses * kSteps);
  EXPECT_THAT((*target->Find({EntryTable::kPromotions, "p"}))->event.body,
              HasSubstr("\"step\":" + std::to_string(kProcesses * kSteps) + "}"));
  ExpectSound(*target);
}

TEST_P(RegisterTest, RebuildMakesTheSameTable) {
  Register target = Create();
  Added(target, story_.Begin());
  Added(target, story_.Evaluation("satisfied", "r"));
  const RegisterState before = StoredState(target);
  EXPECT_EQ(*target.Rebuild(), 6);
  EXPECT_EQ(StoredState(target).entries, before.entries);
}

INSTANTIATE_TEST_SUITE_P(On, RegisterTest, testing::Values(Backend::kSqlite, Backend::kPostgres),
                         BackendName);

TEST(RegisterUri, TellsFilesFromServers) {
  EXPECT_EQ(ParseRegisterUri("a.db")->target, "a.db");
  EXPECT_EQ(ParseRegisterUri("sqlite:/x/a.db")->target, "/x/a.db");
  EXPECT_FALSE(ParseRegisterUri("odd:name.db")->postgres);
  EXPECT_TRUE(ParseRegisterUri("postgresql://h/d")->postgres);
  EXPECT_TRUE(ParseRegisterUri("postgres://h/d")->postgres);
  EXPECT_FALSE(ParseRegisterUri("mysql://h/d").has_value());
  EXPECT_FALSE(ParseRegisterUri("").has_value());
  EXPECT_FALSE(ParseRegisterUri("sqlite:").has_value());
}

TEST(RegisterUri, NeverShowsAPassword) {
  EXPECT_EQ(ShownUri("postgresql://u:secret@h:1/d?x=y"), "postgresql://u:***@h:1/d?x=y");
  EXPECT_EQ(ShownUri("postgresql://u:se@c/ret:@h/d"), "postgresql://u:***@h/d");
  EXPECT_EQ(ShownUri("postgresql://h/d?password=secret&a=b"), "postgresql://h/d?password=***&a=b");
  EXPECT_EQ(ShownUri("postgresql://u@h:5432/d"), "postgresql://u@h:5432/d");
  EXPECT_EQ(ShownUri("a:b@c.db"), "a:b@c.db");
}

}  // namespace
}  // namespace kcc
