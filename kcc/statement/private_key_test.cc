#include "kcc/statement/private_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/format/base64.h"
#include "kcc/statement/statement_test_data.h"

namespace kcc {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;
using ::testing::HasSubstr;

std::string Pem(std::string_view der) {
  return "-----BEGIN PRIVATE KEY-----\n" + EncodeBase64(der) + "\n-----END PRIVATE KEY-----\n";
}

// PKCS#8 of a number on P-256 without its public key, which RFC 5915 allows.
std::string P256Without(std::string_view number) {
  return std::string(
             "\x30\x41\x02\x01\x00\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48"
             "\xce\x3d\x03\x01\x07\x04\x27\x30\x25\x02\x01\x01\x04\x20"sv) +
         std::string(number);
}

TEST(PrivateKey, ThePublicHalfIsComputed) {
  const auto block = ReadPem(kEcdsaPrivate);
  ASSERT_TRUE(block);
  const auto key = ReadPkcs8(block->der.bytes);
  ASSERT_TRUE(key) << key.error().Format();
  EXPECT_EQ(key->kind, KeyKind::kEcdsaP256);
  const auto signer = SignerFromPem(Pem(P256Without(key->secret.bytes)));
  ASSERT_TRUE(signer) << signer.error().Format();
  EXPECT_EQ((*signer)->public_key().Pem(), kEcdsaPublic);
  EXPECT_TRUE((*signer)->Sign("bytes"));
}

TEST(PrivateKey, ANumberOutsideOfTheCurveIsNone) {
  const std::string order =
      "\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xbc\xe6\xfa\xad\xa7\x17\x9e"
      "\x84\xf3\xb9\xca\xc2\xfc\x63\x25\x51"s;
  for (const std::string& number : {std::string(kSecretBytes, '\0'), order}) {
    const auto signer = SignerFromPem(Pem(P256Without(number)));
    ASSERT_FALSE(signer);
    EXPECT_EQ(signer.error().code(), ErrorCode::kInvalid);
    EXPECT_THAT(signer.error().message(), HasSubstr("none of the curve"));
  }
  std::string last = order;
  last.back() = '\x50';
  EXPECT_TRUE(SignerFromPem(Pem(P256Without(last))));
}

TEST(PrivateKey, DamagedBytesAreNoKey) {
  for (const std::string_view pem : {kEd25519Private, kEcdsaPrivate}) {
    const auto block = ReadPem(pem);
    ASSERT_TRUE(block);
    const std::string der = block->der.bytes;
    for (size_t size = 0; size < der.size(); ++size) {
      EXPECT_FALSE(ReadPkcs8(der.substr(0, size))) << size;
    }
    EXPECT_FALSE(ReadPkcs8(der + "x"));
  }
}

TEST(PrivateKey, PemAsOthersWriteIt) {
  std::string windows;
  for (const char c : std::string_view(kEd25519Private))
    windows += c == '\n' ? "\r\n" : std::string(1, c);
  const std::string spoken = "Our key:\n" + std::string(kEd25519Private) + "\nkeep it\n";
  for (const std::string& pem : {windows, spoken}) {
    const auto signer = SignerFromPem(pem);
    ASSERT_TRUE(signer) << signer.error().Format();
    EXPECT_EQ((*signer)->public_key().id(), kEd25519Id);
  }
}

TEST(PrivateKey, PemThatIsNone) {
  const std::string whole(kEd25519Private);
  const size_t end = whole.find("-----END");
  for (const std::string& pem :
       {whole.substr(0, end), whole.substr(0, end) + "-----END PUBLIC KEY-----\n",
        whole.substr(0, end - 2) + whole.substr(end), "x" + whole,
        std::string("-----BEGIN PRIVATE KEY-----\n!!!!\n-----END PRIVATE KEY-----\n")}) {
    const auto block = ReadPem(pem);
    ASSERT_FALSE(block) << pem;
    EXPECT_THAT(block.error().message(), HasSubstr("holds no key in PEM")) << pem;
  }
}

}  // namespace
}  // namespace kcc
