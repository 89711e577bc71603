#include "kcc/plane/plane_check.h"

#include <gtest/gtest.h>

namespace kcc {
namespace {

struct Case {
  const char* name;
  void (*spoil)(PlaneOptions&);
};

const Case kWrong[] = {
    {"a name to listen on", [](PlaneOptions& o) { o.host = "example.org"; }},
    {"an admin port for everyone", [](PlaneOptions& o) { o.admin_host = "0.0.0.0"; }},
    {"one port for both", [](PlaneOptions& o) { o.admin_port = o.port; }},
    {"a certificate without a key", [](PlaneOptions& o) { o.tls.certificate = "c.pem"; }},
    {"no body at all", [](PlaneOptions& o) { o.body_bytes_max = 0; }},
    {"hardly a head", [](PlaneOptions& o) { o.header_bytes_max = 100; }},
    {"no time to connect", [](PlaneOptions& o) { o.connect_ms = 0; }},
    {"a negative rate", [](PlaneOptions& o) { o.requests_per_second_max = -1; }},
    {"a key that is no hash", [](PlaneOptions& o) { o.client_key_hashes = {"key"}; }},
};

TEST(PlaneCheck, WhatCannotWorkIsSaidBeforeItStarts) {
  EXPECT_TRUE(CheckPlaneOptions({}));
  for (const Case& one : kWrong) {
    PlaneOptions options;
    one.spoil(options);
    EXPECT_FALSE(CheckPlaneOptions(options)) << one.name;
  }
}

TEST(PlaneCheck, LoopbackAddressesAreGoodForTheAdminPort) {
  for (const char* host : {"127.0.0.1", "127.8.8.8", "localhost", "::1"}) {
    PlaneOptions options;
    options.admin_host = host;
    EXPECT_TRUE(CheckPlaneOptions(options)) << host;
  }
}

TEST(PlaneCheck, LimitsMayChangeAndAddressesMayNot) {
  PlaneOptions now;
  now.body_bytes_max = 5;
  EXPECT_TRUE(CheckPlaneReload({}, now));
  now.port = 1234;
  EXPECT_FALSE(CheckPlaneReload({}, now));
  PlaneOptions secure;
  secure.tls = {"c.pem", "k.pem"};
  EXPECT_FALSE(CheckPlaneReload({}, secure));
}

}  // namespace
}  // namespace kcc
