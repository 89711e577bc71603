// TLS to clients and to kernels, with certificates that are made here.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <csignal>

#include "kcc/base/temporary.h"
#include "kcc/plane/plane_test_data.h"

namespace kcc {
namespace {

struct TestCertificate {
  std::string certificate;
  std::string key;
};

// A certificate that signs itself, for `alternatives` ("DNS:localhost").
TestCertificate MakeCertificate(const std::string& directory, const std::string& name,
                                const std::string& alternatives) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const x509 = X509_new();
  X509_set_version(x509, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x509), 86400);
  X509_set_pubkey(x509, key);
  X509_NAME* const subject = X509_get_subject_name(x509);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(x509, subject);
  X509V3_CTX context;
  X509V3_set_ctx(&context, x509, x509, nullptr, nullptr, 0);
  const std::pair<int, std::string> extensions[] = {{NID_subject_alt_name, alternatives},
                                                    {NID_basic_constraints, "critical,CA:TRUE"}};
  for (const auto& [kind, value] : extensions) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
    X509_add_ext(x509, extension, -1);
    X509_EXTENSION_free(extension);
  }
  X509_sign(x509, key, EVP_sha256());
  const TestCertificate files{directory + "/" + name + ".pem", directory + "/" + name + ".key"};
  FILE* file = std::fopen(files.certificate.c_str(), "w");
  PEM_write_X509(file, x509);
  std::fclose(file);
  file = std::fopen(files.key.c_str(), "w");
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  X509_free(x509);
  EVP_PKEY_free(key);
  return files;
}

class PlaneTls : public testing::Test {
 protected:
  void SetUp() override {
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to sockets without MSG_NOSIGNAL; Asio does not
    auto made = Temporary::Make(testing::TempDir(), Temporary::Kind::kDirectory, 0700);
    ASSERT_TRUE(made);
    directory_ = std::move(*made);
    mine_ = MakeCertificate(directory_.path(), "mine", "DNS:localhost,IP:127.0.0.1");
    other_ = MakeCertificate(directory_.path(), "other", "DNS:localhost,IP:127.0.0.1");
    elsewhere_ = MakeCertificate(directory_.path(), "elsewhere", "DNS:example.org");
  }
  ~PlaneTls() override {
    for (SSL_CTX* context : contexts_) SSL_CTX_free(context);
  }

  SSL_CTX* ServerOf(const TestCertificate& files) {
    contexts_.push_back(SSL_CTX_new(TLS_server_method()));
    SSL_CTX_use_certificate_chain_file(contexts_.back(), files.certificate.c_str());
    SSL_CTX_use_PrivateKey_file(contexts_.back(), files.key.c_str(), SSL_FILETYPE_PEM);
    return contexts_.back();
  }
  SSL_CTX* ClientTrusting(const TestCertificate& files) {
    contexts_.push_back(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_load_verify_locations(contexts_.back(), files.certificate.c_str(), nullptr);
    SSL_CTX_set_verify(contexts_.back(), SSL_VERIFY_PEER, nullptr);
    return contexts_.back();
  }
  PlaneOptions Secure() const {
    PlaneOptions options;
    options.tls = {mine_.certificate, mine_.key};
    return options;
  }

  Temporary directory_;
  TestCertificate mine_, other_, elsewhere_;
  std::vector<SSL_CTX*> contexts_;
};

TestKernel::Script Says(std::string answer) {
  return [answer](Channel& channel, const TestMessage&, int) { return channel.Write(answer); };
}

TEST_F(PlaneTls, ClientsAreAnsweredOverTls) {
  const std::string events = Token("one") + Token(std::string(200000, 'x')) + kDoneEvent;
  TestKernel kernel(Says(kStreamHead + Chunk(events) + "0\r\n\r\n"));
  TestPlane plane({kernel.port()}, Secure());
  EXPECT_EQ(plane.url.find("https://127.0.0.1:"), 0u);
  const auto client = plane.Connect();
  ASSERT_TRUE(client->UseTls(ClientTrusting(mine_), false));
  for (int i = 0; i < 3; ++i) {
    client->Write(ChatRequest("", true));
    const TestMessage answer = ReadMessage(*client, false);
    EXPECT_TRUE(answer.whole);
    EXPECT_TRUE(answer.body == events);
  }
}

TEST_F(PlaneTls, AnAnswerIsWholeWhateverTheClientSendsBehindIt) {
  const std::string body = Answer(std::string(2 << 20, 'x'));
  TestKernel kernel(Says(Sized(body)));
  TestPlane plane({kernel.port()}, Secure());
  const auto client = plane.Connect();
  ASSERT_TRUE(client->UseTls(ClientTrusting(mine_), false));
  client->Write(ChatRequest("Connection: close\r\n"));
  // More than the gateway has read when it says its end.
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(client->Write(std::string(20'000, 'x'))) << i;
  const TestMessage answer = ReadMessage(*client, false);
  EXPECT_TRUE(answer.whole && answer.body == body) << answer.body.size();
  EXPECT_TRUE(client->Ended());
  EXPECT_FALSE(client->reset()) << "it is told that this is the end";
}

TEST_F(PlaneTls, OldVersionsAndPlainTextAreRefused) {
  TestKernel kernel(Says(Sized(Answer("x"))));
  TestPlane plane({kernel.port()}, Secure());
  SSL_CTX* const old = ClientTrusting(mine_);
  SSL_CTX_set_security_level(old, 0);
  SSL_CTX_set_max_proto_version(old, TLS1_1_VERSION);
  EXPECT_FALSE(plane.Connect()->UseTls(old, false));
  const auto plain = plane.Connect();
  plain->Write(ChatRequest());
  EXPECT_EQ(plain->ReadAll().find("HTTP/"), std::string::npos);
  EXPECT_EQ(kernel.requests(), 0);
}

TEST_F(PlaneTls, ANewCertificateIsForNewConnections) {
  TestKernel kernel(Says(Sized(Answer("x"))));
  TestPlane plane({kernel.port()}, Secure());
  const auto open = plane.Connect();
  ASSERT_TRUE(open->UseTls(ClientTrusting(mine_), false));
  PlaneOptions renewed = plane.options_in_force;
  renewed.tls = {other_.certificate, mine_.key};
  EXPECT_FALSE(plane.plane->Reload(renewed)) << "the key is of another certificate";
  renewed.tls = {other_.certificate, directory_.path() + "/none.key"};
  EXPECT_FALSE(plane.plane->Reload(renewed));
  EXPECT_TRUE(plane.Connect()->UseTls(ClientTrusting(mine_), false)) << "as before";
  renewed.tls = {other_.certificate, other_.key};
  ASSERT_TRUE(plane.plane->Reload(renewed));
  EXPECT_TRUE(plane.Connect()->UseTls(ClientTrusting(other_), false));
  EXPECT_FALSE(plane.Connect()->UseTls(ClientTrusting(mine_), false));
  open->Write(ChatRequest());
  EXPECT_EQ(ReadMessage(*open, false).status(), 200);
}

std::string g_ca_file;
const char* g_host = "localhost";

void OverTls(GatewayPool& pool) {
  pool.kernels[0].scheme = "https";
  pool.kernels[0].host = g_host;
  pool.kernels[0].ca_file = g_ca_file;
}

TEST_F(PlaneTls, AKernelIsAskedOverTlsWhereItsCertificateHolds) {
  struct Case {
    const char* name;
    TestCertificate shown;
    TestCertificate trusted;
    const char* host;
    int status;
  };
  const Case cases[] = {{"by name", mine_, mine_, "localhost", 200},
                        {"by address", mine_, mine_, "127.0.0.1", 200},
                        {"another certificate", other_, mine_, "localhost", 502},
                        {"of another host", elsewhere_, elsewhere_, "localhost", 502}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    TestKernel kernel(Says(Sized(Answer("secret"))), ServerOf(one.shown));
    g_ca_file = one.trusted.certificate;
    g_host = one.host;
    TestPlane plane({kernel.port()}, {}, 1, OverTls);
    const auto client = plane.Connect();
    for (int i = 0; i < 3; ++i) {
      client->Write(ChatRequest());
      EXPECT_EQ(ReadMessage(*client, false).status(), one.status);
    }
    EXPECT_EQ(kernel.requests(), one.status == 200 ? 3 : 0);
    if (one.status == 200) {
      EXPECT_EQ(kernel.connections(), 1);
    }
  }
}

TEST_F(PlaneTls, FilesThatCannotBeReadAreSaidAtTheStart) {
  GatewayPool pool = *TestPlane::PoolOf({1});
  EXPECT_TRUE(CheckPlane(Secure(), pool));
  g_ca_file = directory_.path() + "/none.pem";
  OverTls(pool);
  EXPECT_FALSE(CheckPlane(Secure(), pool));
  PlaneOptions options;
  options.tls = {g_ca_file, mine_.key};
  EXPECT_FALSE(CheckPlane(options, *TestPlane::PoolOf({1})));
}

}  // namespace
}  // namespace kcc
