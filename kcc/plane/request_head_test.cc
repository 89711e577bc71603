#include "kcc/plane/request_head.h"

#include <gtest/gtest.h>

#include <string>

namespace kcc {
namespace {

struct Refused {
  const char* name;
  std::string head;
  int status = 400;
};

std::string Post(const std::string& fields) {
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
}

// What docs/gateway.md promises of hostile heads.
const Refused kRefused[] = {
    {"a length and chunked coding", Post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n")},
    {"chunked coding and a length", Post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n")},
    {"two lengths that differ", Post("Content-Length: 5\r\nContent-Length: 6\r\n")},
    {"two lengths that are the same", Post("Content-Length: 5\r\nContent-Length: 5\r\n")},
    {"a list of lengths", Post("Content-Length: 5, 5\r\n")},
    {"a length with a sign", Post("Content-Length: +5\r\n")},
    {"a negative length", Post("Content-Length: -1\r\n")},
    {"a length in hexadecimal", Post("Content-Length: 0x5\r\n")},
    {"a length beyond 64 bits", Post("Content-Length: 99999999999999999999\r\n")},
    {"an empty length", Post("Content-Length:\r\n")},
    {"a blank within the length's name", Post("Content-Length : 5\r\n")},
    {"another coding", Post("Transfer-Encoding: gzip\r\n")},
    {"chunked after another coding", Post("Transfer-Encoding: gzip, chunked\r\n")},
    {"chunked before another coding", Post("Transfer-Encoding: chunked, identity\r\n")},
    {"chunked twice", Post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n")},
    {"a coding that looks like chunked", Post("Transfer-Encoding: xchunked\r\n")},
    {"chunked in quotes", Post("Transfer-Encoding: \"chunked\"\r\n")},
    {"chunked behind a vertical tab", Post("Transfer-Encoding: \vchunked\r\n")},
    {"chunked coding in HTTP/1.0",
     "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {"a folded line", Post("X-A: b\r\n c\r\n")},
    {"a first line that is folded", "GET / HTTP/1.1\r\n Host: a\r\n\r\n"},
    {"a CR within a value", Post("X-A: b\rc\r\n")},
    {"a NUL within a value", Post(std::string("X-A: b\0c\r\n", 10))},
    {"a DEL within a value", Post("X-A: b\x7f\r\n")},
    {"an empty name", Post(": b\r\n")},
    {"a name that is no token", Post("X(A): b\r\n")},
    {"a line without a colon", Post("X-A b\r\n")},
    {"no Host", "GET / HTTP/1.1\r\n\r\n"},
    {"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"},
    {"no version", "GET /\r\nHost: a\r\n\r\n"},
    {"two blanks", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"a tab for a blank", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"a target with a blank", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"a whole URL of another kind", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"a whole URL without a host", "GET http:///v1 HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"a whole URL with a name", "GET http://b@a/ HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"a whole URL with a fragment", "GET http://a/#b HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"a whole URL and no Host", "GET http://a/ HTTP/1.1\r\n\r\n"},
    {"a target of OPTIONS alone", "GET * HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"a name for a target", "GET a:443 HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"a target that is no ASCII", "GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"a target for proxies", "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", 501},
    {"a method that is no token", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n"},
    {"HTTP/2", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
    {"HTTP/1.10", "GET / HTTP/1.10\r\nHost: a\r\n\r\n"},
    {"a version of letters", "GET / HTTP/a.b\r\nHost: a\r\n\r\n"},
    {"HTTP/0.9", "GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505},
    {"a version in small letters", "GET / http/1.1\r\nHost: a\r\n\r\n"},
    {"an expectation of another kind", Post("Expect: the best\r\n"), 417},
};

TEST(RequestHead, WhatCouldBeReadInTwoWaysIsRefused) {
  for (const Refused& one : kRefused) {
    SCOPED_TRACE(one.name);
    RequestHead head;
    const auto fault = ReadRequestHead(one.head, &head);
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->status, one.status) << fault->why;
  }
}

TEST(RequestHead, APlainRequestIsReadWithItsFields) {
  const std::string text =
      "POST /v1/completions?x=1 HTTP/1.1\r\nHost: a:1\r\nContent-Type:application/json \r\n"
      "X-Session-Id: \t s 1\t\r\nAuthorization: Bearer k\r\ncontent-length: 12\r\n\r\n";
  RequestHead head;
  ASSERT_FALSE(ReadRequestHead(text, &head));
  EXPECT_EQ(head.method, "POST");
  EXPECT_EQ(head.target, "/v1/completions?x=1");
  EXPECT_TRUE(head.http11);
  EXPECT_TRUE(head.keep_alive);
  EXPECT_FALSE(head.chunked);
  EXPECT_EQ(head.length, 12u);
  EXPECT_EQ(head.authorization, "Bearer k");
  ASSERT_EQ(head.fields.size(), 3u);  // Host and Content-Length speak of this message alone
  EXPECT_EQ(head.fields[0].value, "application/json");
  EXPECT_EQ(FindHeader(head.fields, "x-session-id"), "s 1");
}

TEST(RequestHead, AWholeUrlIsReadAsItsPath) {
  const std::pair<const char*, const char*> targets[] = {
      {"http://a/v1/models", "/v1/models"},
      {"HTTPS://b:1/v1/models?x=http://c/", "/v1/models?x=http://c/"},
      {"http://[::1]:80", "/"},
      {"http://a?x", "?x"},
      {"/http://a/", "/http://a/"}};
  for (const auto& [target, path] : targets) {
    RequestHead head;
    const std::string text = "GET " + std::string(target) + " HTTP/1.1\r\nHost: other\r\n\r\n";
    ASSERT_FALSE(ReadRequestHead(text, &head)) << target;
    EXPECT_EQ(head.target, path);
  }
  EXPECT_EQ(SplitTarget("http://[::1]:80/x")->authority, "[::1]:80");
}

TEST(RequestHead, ALaterVersionOfHttp1IsReadAsTheLatestKnown) {
  RequestHead head;
  ASSERT_FALSE(ReadRequestHead("GET / HTTP/1.2\r\nHost: a\r\n\r\n", &head));
  EXPECT_TRUE(head.http11 && head.keep_alive);
  ASSERT_FALSE(ReadRequestHead("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", &head));
  EXPECT_EQ(head.target, "*");
}

TEST(RequestHead, WhatConnectionNamesIsNotPassedOn) {
  const std::string text =
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\n"
      "Upgrade: h2c\r\nTE: trailers\r\nKeep-Alive: 5\r\nProxy-Authorization: p\r\n\r\n";
  RequestHead head;
  ASSERT_FALSE(ReadRequestHead(text, &head));
  EXPECT_FALSE(head.keep_alive);
  ASSERT_EQ(head.fields.size(), 1u);
  EXPECT_EQ(head.fields[0].name, "X-End");
}

TEST(RequestHead, ItIsReadAnewEachTime) {
  RequestHead head;
  ASSERT_FALSE(
      ReadRequestHead(Post("Transfer-Encoding: Chunked\r\nExpect: 100-continue\r\n"), &head));
  EXPECT_TRUE(head.chunked);
  EXPECT_TRUE(head.expects_continue);
  ASSERT_FALSE(ReadRequestHead("GET / HTTP/1.0\r\n\r\n", &head));
  EXPECT_FALSE(head.chunked);
  EXPECT_FALSE(head.expects_continue);
  EXPECT_FALSE(head.keep_alive);
  EXPECT_TRUE(head.fields.empty());
  ASSERT_FALSE(ReadRequestHead("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", &head));
  EXPECT_TRUE(head.keep_alive);
}

TEST(RequestHead, MoreThanAHundredFieldsAreTooMany) {
  std::string fields;
  for (int i = 0; i < 99; ++i) fields += "x: y\r\n";
  RequestHead head;
  EXPECT_FALSE(ReadRequestHead(Post(fields), &head));
  const auto fault = ReadRequestHead(Post(fields + "x: y\r\n"), &head);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->status, 431);
}

TEST(ScanHead, TheEndIsFoundHoweverTheBytesArrive) {
  const std::string text = "GET / HTTP/1.1\r\nHost: a\r\n\r\nrest";
  for (size_t first = 0; first <= text.size(); ++first) {
    const HeadScan scan = ScanHead(std::string_view(text).substr(0, first), 0);
    ASSERT_FALSE(scan.fault);
    if (first >= text.size() - 4) {
      EXPECT_EQ(scan.end, text.size() - 4);
      continue;
    }
    EXPECT_EQ(scan.end, 0u);
    EXPECT_EQ(ScanHead(text, first).end, text.size() - 4) << first;
  }
}

TEST(ScanHead, ABareLineFeedOrANulIsRefusedBeforeTheEndCame) {
  EXPECT_TRUE(ScanHead("GET / HTTP/1.1\nHost: a\n", 0).fault);
  EXPECT_TRUE(ScanHead("\n", 0).fault);
  EXPECT_TRUE(ScanHead("GET / HTTP/1.1\r\nHost: a\r\nX: y\n\r\n", 0).fault);
  EXPECT_TRUE(ScanHead(std::string("\x16\x03\x01\x00\xa5", 5), 0).fault);  // TLS, to a plain port
  EXPECT_FALSE(ScanHead("GET / HTTP/1.1\r\nHost: a\r\n", 0).fault);
  EXPECT_EQ(ScanHead(std::string("GET / HTTP/1.1\r\n\r\n\0\n", 20), 0).end, 18u) << "a body";
}

}  // namespace
}  // namespace kcc
