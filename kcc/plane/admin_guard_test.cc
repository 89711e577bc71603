#include "kcc/plane/admin_guard.h"

#include <gtest/gtest.h>

#include <vector>

namespace kcc {
namespace {

const std::string kSecret(32, 's');
using Fields = std::vector<HeaderField>;

struct Case {
  const char* name;
  const char* method;
  const char* target;
  Fields fields;
  int status;
};

const Fields kBearer = {{"Host", "127.0.0.1:8081"}, {"Authorization", "Bearer secret"}};
Fields And(Fields fields, Fields more) {
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

const Case kCases[] = {
    {"the token as a bearer", "GET", "/v1/verdict", kBearer, 0},
    {"no token", "GET", "/v1/verdict", {{"Host", "localhost:8081"}}, 401},
    {"another token", "GET", "/", {{"Host", "a"}, {"Authorization", "Bearer x"}}, 403},
    {"a wrong token", "GET", "/v1/status", {{"Host", "[::1]"}, {"Authorization", "Bearer x"}}, 401},
    {"an empty token", "GET", "/v1/status", {{"Host", "[::1]"}, {"Authorization", "Bearer "}}, 401},
    {"the page needs none", "GET", "/", {{"Host", "127.0.0.1"}}, 0},
    {"what is posted to it does", "POST", "/", {{"Host", "127.0.0.1"}}, 401},
    {"what begins like it does", "GET", "//", {{"Host", "127.0.0.1"}}, 401},
    {"health needs none", "GET", "/healthz", {{"Host", "127.0.0.1"}}, 0},
    {"readiness needs none", "GET", "/readyz?x", {{"Host", "127.0.0.1"}}, 0},
    {"a path that begins like health", "GET", "/healthzz", {{"Host", "127.0.0.1"}}, 401},
    {"a name that was made to lead here", "GET", "/healthz", {{"Host", "evil.example"}}, 403},
    {"a name that begins like an address", "GET", "/", {{"Host", "127.0.0.1.evil.example"}}, 403},
    {"a name that ends like the host", "GET", "/", {{"Host", "evil-localhost"}}, 403},
    {"the token, and another origin", "POST", "/v1/reload",
     And(kBearer, {{"Origin", "http://evil.example"}}), 403},
    {"an origin of another port", "POST", "/v1/reload",
     And(kBearer, {{"Origin", "http://127.0.0.1:3000"}}), 403},
    {"an origin without a name", "POST", "/v1/reload", And(kBearer, {{"Origin", "null"}}), 403},
    {"the origin itself", "POST", "/v1/reload",
     And(kBearer, {{"Origin", "http://127.0.0.1:8081"}, {"Sec-Fetch-Site", "same-origin"}}), 0},
    {"another site's fetch", "GET", "/v1/verdict",
     And(kBearer, {{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "no-cors"}}), 403},
    {"a fetch of another port", "GET", "/v1/verdict",
     And(kBearer, {{"Sec-Fetch-Site", "same-site"}}), 403},
    {"a link on another site", "GET", "/",
     And(kBearer, {{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "navigate"}}), 0},
    {"a form of another site", "POST", "/",
     And(kBearer, {{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "navigate"}}), 403},
};

TEST(AdminGuard, WhoMayAskWhat) {
  const AdminGuard guard("secret", kSecret, 8081);
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    EXPECT_EQ(guard.Check(one.method, one.target, one.fields).status, one.status);
  }
}

TEST(AdminGuard, WithoutATokenTheLoopbackIsEnough) {
  const AdminGuard guard("", kSecret, 8081);
  EXPECT_EQ(guard.Check("GET", "/", Fields{{"Host", "127.0.0.1"}}).status, 0);
  EXPECT_EQ(guard.Check("GET", "/", Fields{{"Host", "evil.example"}}).status, 403);
  EXPECT_EQ(guard.Check("GET", "/", Fields{}).status, 0) << "HTTP/1.0, which no browser speaks";
}

TEST(AdminGuard, ATokenInTheAddressBecomesACookie) {
  const AdminGuard guard("a secret&", kSecret, 8081);
  const Fields local = {{"Host", "127.0.0.1:8081"}};
  const AdminDecision first = guard.Check("GET", "//x?a=1&token=a%20secret%26&b=2", local);
  EXPECT_EQ(first.status, 303);
  EXPECT_EQ(first.location, "/x?a=1&b=2");
  EXPECT_NE(first.set_cookie.find("HttpOnly; SameSite=Strict"), std::string::npos);
  EXPECT_EQ(first.set_cookie.find("secret"), std::string::npos);

  const std::string cookie = first.set_cookie.substr(0, first.set_cookie.find(';'));
  const std::string among = "x=1; " + cookie + "; y=2";
  EXPECT_EQ(guard.Check("GET", "/v1/status", And(local, {{"Cookie", among}})).status, 0);
  EXPECT_EQ(guard.Check("GET", "/v1/status", And(local, {{"Cookie", cookie + "0"}})).status, 401);
  EXPECT_EQ(guard.Check("GET", "/v1/status", And(local, {{"Cookie", "kcc_admin_8081="}})).status,
            401);
  EXPECT_EQ(guard.Check("GET", "/?token=wrong", local).status, 401);
  EXPECT_EQ(guard.Check("POST", "/?token=a%20secret%26", local).status, 401);
  const AdminGuard restarted("a secret&", std::string(32, 't'), 8081);
  EXPECT_EQ(restarted.Check("GET", "/v1/status", And(local, {{"Cookie", cookie}})).status, 401);
}

TEST(IsLoopbackHost, NamesTheLoopbackOnly) {
  for (const char* host : {"127.0.0.1", "127.0.0.1:80", "127.1.2.3", "localhost", "LocalHost:8081",
                           "[::1]", "[::1]:8081"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host : {"", "128.0.0.1", "127.0.0.1.nip.io", "127.evil", "127.0.0.1:80:80",
                           "localhost.evil", "[::2]", "[::1", "[::1]x", "127.0.0.1:x", "0.0.0.0"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

}  // namespace
}  // namespace kcc
