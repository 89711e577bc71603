// Base64, times and the pre-authentication encoding: the small formats that a statement rests on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "kcc/format/base64.h"
#include "kcc/statement/dsse.h"
#include "kcc/statement/timestamp.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;

// RFC 4648, section 10.
TEST(Base64, IsThatOfRfc4648) {
  const std::pair<std::string, std::string> cases[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(EncodeBase64(bytes), text);
    EXPECT_EQ(DecodeBase64(text), bytes);
  }
  EXPECT_EQ(DecodeBase64("+/+/"), DecodeBase64("-_-_"));
}

TEST(Base64, WhatIsNotOneTextWithOneMeaningIsRefused) {
  for (const char* text : {"Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Z===", "====", "=Zg=", "Zm 9",
                           "Zm9v\n", "Zm9v====", "+_+_", "Zm9\xc3", "Zg==Zg=="}) {
    EXPECT_FALSE(DecodeBase64(text)) << text;
  }
}

RC_GTEST_PROP(Base64, ReadsBackAnyBytes, (const std::string& bytes)) {
  RC_ASSERT(DecodeBase64(EncodeBase64(bytes)) == bytes);
}

TEST(Timestamp, ReadsAndWritesUtc) {
  const std::pair<const char*, int64_t> cases[] = {{"1970-01-01T00:00:00Z", 0},
                                                   {"2000-02-29T12:34:56.789Z", 951827696789},
                                                   {"2026-11-18T09:30:00Z", 1794994200000},
                                                   {"9999-12-31T23:59:59.999Z", kTimestampMsMax}};
  for (const auto& [text, time_ms] : cases) {
    EXPECT_EQ(ParseTimestamp(text), time_ms) << text;
    EXPECT_EQ(FormatTimestamp(time_ms), text);
  }
  EXPECT_EQ(ParseTimestamp("1985-04-12T23:20:50.52Z"), 482196050520);
  EXPECT_EQ(ParseTimestamp("1985-04-12T23:20:50.520999999Z"), 482196050520);
}

TEST(Timestamp, NothingElseIsATime) {
  for (const char* text : {"",
                           "Z",
                           "2026-11-18",
                           "2026-11-18T09:30:00",
                           "2026-11-18T09:30:00+00:00",
                           "2026-11-18 09:30:00Z",
                           "2026-11-18T09:30:00z",
                           "2026-02-29T00:00:00Z",
                           "2026-13-01T00:00:00Z",
                           "2026-00-01T00:00:00Z",
                           "2026-01-00T00:00:00Z",
                           "2026-01-01T24:00:00Z",
                           "2026-01-01T00:60:00Z",
                           "2026-01-01T00:00:60Z",
                           "1969-12-31T23:59:59Z",
                           "2026-01-01T00:00:00.Z",
                           "2026-01-01T00:00:00.0000000000Z",
                           "2026-01-01T00:00:00.+1Z",
                           "+026-01-01T00:00:00Z",
                           "2026-01-01T00:00:00ZZ"}) {
    EXPECT_FALSE(ParseTimestamp(text)) << text;
  }
}

RC_GTEST_PROP(Timestamp, ReadsBack, ()) {
  const int64_t time_ms = *rc::gen::inRange<int64_t>(0, kTimestampMsMax + 1);
  RC_ASSERT(ParseTimestamp(FormatTimestamp(time_ms)) == time_ms);
}

// The example of the DSSE protocol, section "Test Vectors".
TEST(Dsse, EncodesAsTheProtocolsExample) {
  EXPECT_EQ(PreAuthEncoding("http://example.com/HelloWorld", "hello world"),
            "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
  EXPECT_EQ(PreAuthEncoding("", ""), "DSSEv1 0  0 ");
}

TEST(Dsse, ReadsBackWhatItWrote) {
  const DsseEnvelope envelope{"a/b", std::string("\0\xff{}", 4), {{"key", "sig"}, {"other", ""}}};
  const auto read = ReadEnvelope(EnvelopeJson(envelope));
  ASSERT_TRUE(read) << read.error().Format();
  EXPECT_EQ(read->payload, envelope.payload);
  EXPECT_EQ(read->payload_type, "a/b");
  ASSERT_EQ(read->signatures.size(), 2u);
  EXPECT_EQ(read->signatures[0].key_id, "key");
  EXPECT_EQ(read->signatures[0].signature, "sig");
}

TEST(Dsse, WhatIsNotAnEnvelopeIsRefusedWithTheKey) {
  const std::string good = R"("payload":"aGk=","payloadType":"t")";
  const std::string sig = R"({"keyid":"k","sig":"aGk="})";
  const std::pair<std::string, const char*> cases[] = {
      {"", "nothing here"},
      {"[]", "is a list, not an object"},
      {"{}", "lacks the key 'payloadType'"},
      {"{" + good + "}", "lacks the key 'signatures'"},
      {"{" + good + R"(,"signatures":[]})", "has no signature"},
      {"{" + good + R"(,"signatures":{}})", "not a list"},
      {"{" + good + R"(,"signatures":[7]})", "is a number, not an object"},
      {"{" + good + R"(,"signatures":[{"sig":"aGk="}]})", "lacks the key 'keyid'"},
      {"{" + good + R"(,"signatures":[{"keyid":"k","sig":"a"}]})", "sig is not base64"},
      {"{" + good + R"(,"signatures":[{"keyid":7,"sig":"aGk="}]})", "is a number, not a string"},
      {"{" + good + R"(,"payload":"aGk=","signatures":[)" + sig + "]}", "'payload' twice"},
      {"{" + good + R"(,"signatures":[{"keyid":"k","keyid":"k","sig":"aGk="}]})", "'keyid' twice"},
      {R"({"payload":"aGk","payloadType":"t","signatures":[)" + sig + "]}",
       "payload is not base64"},
      {R"({"payload":null,"payloadType":"t","signatures":[)" + sig + "]}", "null, not a string"},
      {"{" + good + R"(,"signatures":[)" + sig + "]} x", "not JSON"},
      {std::string(5000, '[') + std::string(5000, ']'), "nested too deeply"},
  };
  for (const auto& [text, words] : cases) {
    const auto read = ReadEnvelope(text);
    ASSERT_FALSE(read) << words;
    EXPECT_EQ(read.error().code(), ErrorCode::kInvalid);
    EXPECT_THAT(read.error().message(), HasSubstr(words));
  }
  std::string many = "{" + good + R"(,"signatures":[)" + sig;
  for (size_t i = 0; i < kEnvelopeSignaturesMax; ++i) many += "," + sig;
  EXPECT_FALSE(ReadEnvelope(many + "]}"));
}

}  // namespace
}  // namespace kcc
