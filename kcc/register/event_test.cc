#include "kcc/register/event.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/register/event_kinds.h"

namespace kcc {
namespace {

std::string Canonical(std::string_view json) {
  const auto body = CanonicalBody(json);
  return body.has_value() ? *body : "error: " + body.error().message();
}

TEST(CanonicalBody, SortsKeysAndDropsBlanks) {
  EXPECT_EQ(Canonical(R"( { "b" : 1, "a" : [ true, null, "x\u0041" ], "c": {"z":1,"y":2} } )"),
            R"({"a":[true,null,"xA"],"b":1,"c":{"y":2,"z":1}})");
}

TEST(CanonicalBody, NumbersHaveOneSpelling) {
  EXPECT_EQ(Canonical(R"({"a":[1.0,1e0,100e-2,0.5,5e-1,-0.0,-0]})"),
            R"({"a":[1,1,1,0.5,0.5,0,0]})");
  EXPECT_EQ(Canonical(R"({"a":[9223372036854775807,18446744073709551615,-9223372036854775808]})"),
            R"({"a":[9223372036854775807,18446744073709551615,-9223372036854775808]})");
}

TEST(CanonicalBody, RefusesWhatHasNoOneMeaning) {
  EXPECT_EQ(Canonical(R"({"a":1,"a":2})"), "error: the key 'a' comes twice");
  EXPECT_EQ(Canonical(R"({"x":{"a":1,"b":0,"a":2}})"), "error: the key 'a' comes twice");
  EXPECT_EQ(Canonical("[]"), "error: the body is a list, not an object");
  for (const char* bad : {"", "{", "{\"a\":}", "{\"a\":1}x", "{\"a\":NaN}", "{\"a\":\"\xff\"}"}) {
    EXPECT_TRUE(Canonical(bad).starts_with("error: ")) << bad;
  }
  EXPECT_TRUE(Canonical("{\"a\":\"" + std::string(kEventBodyBytesMax, 'x') + "\"}")
                  .starts_with("error: the body has "));
}

TEST(CanonicalBody, IsItsOwnCanonicalForm) {
  EXPECT_TRUE(rc::check("canonical", [](double number, int64_t integer, const std::string& text) {
    std::string utf8;
    for (const char c : text) utf8 += static_cast<char>(c & 0x7f);
    JsonWriter json;
    json.BeginObject().Field("z", number).Field("i", integer).Field(utf8 + "k", utf8).EndObject();
    const auto once = CanonicalBody(json.Take());
    RC_ASSERT(once.has_value());
    RC_ASSERT(*CanonicalBody(*once) == *once);
  }));
}

// Computed by Python: hashlib.sha256('["kcc-register-event-1",…]'.encode()).
TEST(EventDigest, IsThatOfTheDocumentedText) {
  const auto event = SealEvent({}, {.time_ms = 1700000000000,
                                    .actor = "ann \"é\"",
                                    .kind = "model.added",
                                    .body = R"({"model": "m"})"});
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->sequence, 1);
  EXPECT_EQ(event->digest,
            Sha256Of(std::string("[\"kcc-register-event-1\",\"") + std::string(kNoEventDigest) +
                     "\",1,1700000000000,\"ann \\\"é\\\"\",\"model.added\",{\"model\":\"m\"}]"));
  EXPECT_EQ(event->digest,
            "sha256:8eea9abee15ea777045f31a717d3274e85900a77ae85d4f1c6d36a0c1996fef7");
}

TEST(EventDigest, CoversEveryPart) {
  const Event event{
      .sequence = 3, .time_ms = 4, .actor = "a", .kind = "k", .body = "{}", .digest = ""};
  std::set<std::string> digests = {EventDigest(kNoEventDigest, event)};
  Event other = event;
  const auto differs = [&] { return digests.insert(EventDigest(kNoEventDigest, other)).second; };
  EXPECT_TRUE((other.sequence = 4, differs()));
  EXPECT_TRUE((other = event, other.time_ms = 5, differs()));
  EXPECT_TRUE((other = event, other.actor = "b", differs()));
  EXPECT_TRUE((other = event, other.kind = "l", differs()));
  EXPECT_TRUE((other = event, other.body = "{\"a\":1}", differs()));
  // A quote in one part must not move the border to the next.
  EXPECT_TRUE((other = event, other.actor = "a\",\"k", other.kind = "", differs()));
  EXPECT_TRUE(digests.insert(EventDigest(Sha256Of("x"), event)).second);
}

TEST(SealEvent, RefusesActorsThatCouldPassForAnother) {
  const std::string long_name(kActorBytesMax + 1, 'a');
  for (const char* actor : {"", "a\nb", "\x1b[2J", "\xff", long_name.c_str()}) {
    EXPECT_FALSE(
        SealEvent({}, {.time_ms = 0, .actor = actor, .kind = "k", .body = "{}"}).has_value());
  }
}

TEST(Head, IsReadAsItIsWritten) {
  const Head head{12, Sha256Of("x")};
  EXPECT_EQ(*ParseHead(HeadText(head)), head);
  EXPECT_EQ(*ParseHead(HeadText(Head{})), Head{});
  for (const char* bad : {"", "12", "12:", ":sha256:00", "x:y", "-1:sha256:", "1:sha256:abc"}) {
    EXPECT_FALSE(ParseHead(bad).has_value()) << bad;
  }
  EXPECT_FALSE(ParseHead("12:" + Sha256Of("x") + " ").has_value());
  EXPECT_FALSE(ParseHead("0:" + Sha256Of("x")).has_value());
}

TEST(EventKinds, NameFieldsThatTheyHave) {
  std::set<std::string_view> names;
  for (const EventKind& kind : EventKinds()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    std::set<std::string_view> fields;
    for (const EventField& field : kind.fields) {
      EXPECT_TRUE(fields.insert(field.name).second) << kind.name << field.name;
      EXPECT_TRUE(field.name != kind.id || field.required) << kind.name;
    }
    EXPECT_TRUE(kind.id.empty() || fields.contains(kind.id)) << kind.name;
    EXPECT_TRUE(kind.subject.empty() || fields.contains(kind.subject)) << kind.name;
    for (const EventReference& reference : kind.references) {
      EXPECT_TRUE(fields.contains(reference.field)) << kind.name;
    }
  }
  for (const EntryTable table : kEntryTables) {
    EXPECT_EQ(*FindTable(Name(table)), table);
    EXPECT_EQ(*FindTable(Singular(table)), table);
  }
}

TEST(EventReader, SaysWhichFieldIsWrong) {
  EventReader reader;
  const auto problem = [&](const char* kind, const char* body) {
    const auto facts = reader.Read(
        {.sequence = 1, .time_ms = 0, .actor = "a", .kind = kind, .body = body, .digest = ""});
    return facts.has_value() ? "fine" : facts.error().message();
  };
  EXPECT_EQ(problem("model.added", R"({"model":"m","more":1})"), "fine");
  EXPECT_EQ(problem("model.added", "{}"), "model.added: 'model' must be a text");
  EXPECT_EQ(problem("model.added", R"({"model":1})"),
            "model.added: 'model' must be a text, and is a number");
  EXPECT_EQ(problem("model.added", R"({"model":""})"),
            "model.added: 'model' must be a text, and is a string");
  EXPECT_EQ(problem("contract.added", R"({"contract":"sha256:12","name":"n"})"),
            "contract.added: 'contract' must be a digest, sha256:…, and is a string");
  EXPECT_EQ(problem("model.addde", "{}"),
            "'model.addde' is not a kind of event; did you mean 'model.added'?");
}

}  // namespace
}  // namespace kcc
