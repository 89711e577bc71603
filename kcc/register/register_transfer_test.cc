// Export, import, gc, classes and migrations, on each backend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "kcc/base/file.h"
#include "kcc/register/gc.h"
#include "kcc/register/kernel_class.h"
#include "kcc/register/register_test_data.h"
#include "kcc/register/register_test_server.h"
#include "kcc/register/transfer.h"
#include "kcc/register/verify.h"

namespace kcc {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class TransferTest : public OnEachBackend {
 protected:
  static void Add(Register& target, const Batch& batch) {
    const auto appended = target.Append(batch, *target.ReadHead());
    ASSERT_TRUE(appended.has_value()) << appended.error().Format();
  }
  Register Filled() {
    Register target = Create();
    RandomLog random(11);
    while (target.ReadHead()->sequence < 150) {
      (void)target.Append(random.Next(10).batch, *target.ReadHead());
    }
    return target;
  }
  static void ExpectSound(Register& target) {
    const auto check = Verify(target);
    ASSERT_TRUE(check.has_value()) << check.error().Format();
    EXPECT_TRUE(check->ok()) << check->first_break->what;
  }
  static std::string Problem(const Result<Transfer>& transfer) {
    return transfer.has_value() ? "none" : transfer.error().Format();
  }
  std::string Export(Register& source, const char* name = "export") {
    const std::string directory = folder_.path() + "/" + name;
    const auto done = ExportRegister(source, directory);
    EXPECT_TRUE(done.has_value()) << done.error().Format();
    return directory;
  }
};

TEST_P(TransferTest, AnotherRegisterHasTheSameHeadAndState) {
  Register source = Filled();
  const std::string directory = Export(source);
  Register target = Create(NewUri());
  const auto done = ImportRegister(target, directory);
  ASSERT_TRUE(done.has_value()) << done.error().Format();
  EXPECT_EQ(done->head, *source.ReadHead());
  EXPECT_EQ(LogOf(target), LogOf(source));
  EXPECT_EQ(StoredState(target).entries, StoredState(source).entries);
  ExpectSound(target);
  // Again: nothing is left to do. After more events: only those.
  EXPECT_EQ(ImportRegister(target, directory)->events, 0);
  Add(source, {{EventOf("model.added", BodyOf({{"model", "later"}}))}, {}});
  const auto more = ImportRegister(target, Export(source, "later"));
  ASSERT_TRUE(more.has_value()) << more.error().Format();
  EXPECT_EQ(more->events, 1);
  ExpectSound(target);
}

TEST_P(TransferTest, NothingOfABrokenExportIsWritten) {
  Register source = Create();
  const Story story;
  Add(source, story.Begin());
  Add(source, story.Evaluation("satisfied", "the report"));
  const std::string directory = Export(source);
  const std::string events = *ReadFile(directory + "/events.jsonl", 1 << 20);
  const std::string blob = directory + "/blobs/" + BlobDigest("the report").substr(7);
  const auto imported = [&] {
    Register target = Create(NewUri());
    std::string problem = Problem(ImportRegister(target, directory));
    EXPECT_EQ(*target.ReadHead(), Head{}) << problem;
    EXPECT_TRUE(target.store().ListBlobs()->empty());
    EXPECT_TRUE(target.List({})->empty());
    return problem;
  };
  const auto with = [&](const std::string& file, const std::string& bytes) {
    const std::string before = *ReadFile(file, 1 << 20);
    EXPECT_TRUE(WriteFileAtomically(file, bytes).has_value());
    std::string problem = imported();
    EXPECT_TRUE(WriteFileAtomically(file, before).has_value());
    return problem;
  };
  const std::string log = directory + "/events.jsonl";
  EXPECT_THAT(with(blob, "another report"), HasSubstr("do not have the digest"));
  std::string changed = events;
  changed.replace(changed.find("satisfied"), 9, "satisfier");
  EXPECT_THAT(with(log, changed), HasSubstr("events.jsonl:6: event 6 is missing, or it does not"));
  EXPECT_THAT(with(log, events.substr(events.find('\n') + 1)), HasSubstr(":1: event 1 is missing"));
  EXPECT_THAT(with(log, events.substr(0, events.rfind("{\"sequence\":6"))),
              HasSubstr("the log ends with event 5"));
  EXPECT_THAT(with(log, events + "{}\n"), HasSubstr("not an event"));
  EXPECT_THAT(with(log, "[1]\n"), HasSubstr("not an event"));
  EXPECT_THAT(with(directory + "/register.json", "{}"), HasSubstr("not the index"));
  EXPECT_THAT(with(directory + "/register.json", "{\"format\":2}"), HasSubstr("has format 2"));
  fs::remove(blob);
  EXPECT_THAT(imported(), HasSubstr(BlobDigest("the report").substr(7)));
}

TEST_P(TransferTest, LogsThatWentDifferentWaysAreNotMerged) {
  Register source = Create();
  Add(source, {{EventOf("model.added", BodyOf({{"model", "a"}}))}, {}});
  const std::string directory = Export(source);
  Register other = Create(NewUri());
  Add(other, {{EventOf("model.added", BodyOf({{"model", "b"}}))}, {}});
  EXPECT_THAT(Problem(ImportRegister(other, directory)), HasSubstr("went another way"));
  Add(source, {{EventOf("model.added", BodyOf({{"model", "c"}}))}, {}});
  EXPECT_THAT(Problem(ImportRegister(source, directory)), HasSubstr("nothing to import"));
  EXPECT_THAT(Problem(ExportRegister(source, directory)), HasSubstr("is there already"));
}

TEST_P(TransferTest, GcRemovesWhatNobodyNames) {
  Register target = Create();
  const Story story;
  Add(target, story.Begin());
  ASSERT_TRUE(target.PutBlob("nobody's").has_value());
  const auto removals = FindRemovals(target, {});
  ASSERT_EQ(removals->size(), 1u);
  EXPECT_EQ((*removals)[0].blob, BlobDigest("nobody's"));
  EXPECT_EQ((*removals)[0].why, "gc");
  Add(target, RemovalBatch(*removals, "", "ann", 1));
  EXPECT_FALSE(*target.ReadBlob(BlobDigest("nobody's")));
  EXPECT_TRUE(FindRemovals(target, {})->empty());
  ExpectSound(target);
}

TEST_P(TransferTest, RetentionKeepsTheLastEvidenceOfATriple) {
  Register target = Create();
  const Story story;
  Add(target, story.Begin());
  const auto at = [&](int64_t time_ms, const std::string& report) {
    Batch batch = story.Evaluation("satisfied", report);
    batch.events[0].time_ms = time_ms;
    return batch;
  };
  Add(target, at(100, "old"));
  Add(target, at(200, "shared"));
  Add(target, at(300, "newer"));
  Add(target, at(400, "shared"));
  EXPECT_TRUE(FindRemovals(target, {})->empty());
  const auto removals = FindRemovals(target, {.evidence_before_ms = 1000, .redact = ""});
  std::vector<std::string> gone;
  for (const Removal& removal : *removals) gone.push_back(removal.blob);
  EXPECT_THAT(gone, testing::UnorderedElementsAre(BlobDigest("old"), BlobDigest("newer")));
  EXPECT_EQ(FindRemovals(target, {.evidence_before_ms = 300, .redact = ""})->size(), 1u);
  Add(target, RemovalBatch(*removals, "", "ann", 500));
  ExpectSound(target);
}

TEST_P(TransferTest, RedactionRemovesOneBlob) {
  Register target = Create();
  const Story story;
  Add(target, story.Begin());
  Add(target, story.Evaluation("satisfied", "secret"));
  EXPECT_FALSE(
      FindRemovals(target, {.evidence_before_ms = {}, .redact = MadeUpDigest(5)}).has_value());
  const auto removals =
      FindRemovals(target, {.evidence_before_ms = {}, .redact = BlobDigest("secret")});
  Add(target, RemovalBatch(*removals, "a name in it", "ann", 500));
  EXPECT_THAT(LogOf(target).back().body, HasSubstr("\"reason\":\"a name in it\""));
  ExpectSound(target);
  // What is gone stays gone in an export, and the copy is sound too.
  Register copy = Create(NewUri());
  ASSERT_TRUE(ImportRegister(copy, Export(target)).has_value());
  ExpectSound(copy);
}

TEST_P(TransferTest, AClassHoldsKernelsWhoseLastVerdictsAreSatisfied) {
  Register target = Create();
  const Story story;
  Add(target, story.Begin());
  const auto member = [&] { return KernelClasses(target, story.contract)->at(0).members.at(0); };
  EXPECT_FALSE(member().interchangeable);  // never judged
  Add(target, story.Evaluation("satisfied", "1"));
  EXPECT_TRUE(member().interchangeable);
  EXPECT_EQ(member().stages.at("offline").evaluation, "6");
  Batch canary = story.Evaluation("inconclusive", "2");
  canary.events[0].body.replace(canary.events[0].body.find("offline"), 7, "canary");
  Add(target, canary);
  EXPECT_FALSE(member().interchangeable);  // in one stage only
  Add(target, story.Evaluation("violated", "3"));
  EXPECT_EQ(member().stages.at("offline").verdict, "violated");
  EXPECT_FALSE(KernelClasses(target, MadeUpDigest(4)).has_value());
}

// tests/data/register: made by other code than this.
TEST_P(TransferTest, ARegisterOfVersion0IsBroughtForward) {
  if (GetParam() == Backend::kSqlite) {
    fs::copy_file("tests/data/register/version0.db", uri_);
  } else {
    PGconn* connection = PQconnectdb(uri_.c_str());
    const std::string sql = *ReadFile("tests/data/register/version0.sql", 1 << 20);
    PGresult* done = PQexec(connection, sql.c_str());
    EXPECT_EQ(PQresultStatus(done), PGRES_COMMAND_OK) << PQerrorMessage(connection);
    PQclear(done);
    PQfinish(connection);
  }
  const auto old = Register::Open(uri_);
  ASSERT_FALSE(old.has_value());
  EXPECT_THAT(old.error().message(), HasSubstr("the register has version 0, and this kcc writes"));
  Register::Created created;
  Result<Register> target = Register::Create(uri_, &created);
  ASSERT_TRUE(target.has_value()) << target.error().Format();
  EXPECT_EQ(created.version_before, 0);
  EXPECT_FALSE(created.is_new);
  ExpectSound(*target);
  EXPECT_EQ(LogOf(*target).size(), 7u);
  EXPECT_EQ(StoredState(*target).entries, FoldOf(LogOf(*target)).entries);
  ASSERT_TRUE(Register::Open(uri_).has_value());
}

TEST_P(TransferTest, ANewerVersionIsLeftAlone) {
  {
    Register target = Create();
    ASSERT_TRUE(target.store().WriteVersion(kRegisterVersion + 1).has_value());
  }
  for (const bool create : {false, true}) {
    const Result<Register> opened = create ? Register::Create(uri_) : Register::Open(uri_);
    ASSERT_FALSE(opened.has_value());
    EXPECT_THAT(opened.error().message(),
                HasSubstr("the register has version 2, and this kcc knows up to 1"));
  }
}

INSTANTIATE_TEST_SUITE_P(On, TransferTest, testing::Values(Backend::kSqlite, Backend::kPostgres),
                         BackendName);

}  // namespace
}  // namespace kcc
