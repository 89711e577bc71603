#include "kcc/statement/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "kcc/base/file.h"
#include "kcc/statement/command_signer.h"
#include "kcc/statement/statement_test_data.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;

std::string Hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

TEST(Signature, Ed25519GivesTheSignatureOfRfc8032) {
  const auto signer = SignerFromPem(kEd25519Private);
  ASSERT_TRUE(signer) << signer.error().Format();
  EXPECT_EQ((*signer)->public_key().id(), kEd25519Id);
  EXPECT_EQ((*signer)->public_key().Pem(), kEd25519Public);
  EXPECT_EQ(
      Hex(*(*signer)->Sign("")),
      "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701"
      "cf9b46bd25bf5f0595bbe24655141438e7a100b");
}

TEST(Signature, HoldsForItsBytesAndItsKeyAlone) {
  for (const auto& [secret, open] :
       {std::pair(kEd25519Private, kEd25519Public), std::pair(kEcdsaPrivate, kEcdsaPublic)}) {
    const auto signer = SignerFromPem(secret);
    ASSERT_TRUE(signer) << signer.error().Format();
    const auto signature = (*signer)->Sign("bytes");
    ASSERT_TRUE(signature);
    const auto key = PublicKey::FromPem(open);
    ASSERT_TRUE(key) << key.error().Format();
    EXPECT_EQ(key->id(), (*signer)->public_key().id());
    EXPECT_TRUE(key->Verify("bytes", *signature));
    EXPECT_FALSE(key->Verify("byteS", *signature));
    EXPECT_FALSE(key->Verify("bytes", ""));
    EXPECT_FALSE(key->Verify("bytes", *signature + "x"));
    EXPECT_FALSE(key->Verify("bytes", std::string_view(*signature).substr(1)));
    EXPECT_FALSE(PublicKey::FromPem(kSecondPublic)->Verify("bytes", *signature));
    for (size_t i = 0; i < signature->size(); ++i) {
      std::string flipped = *signature;
      flipped[i] = static_cast<char>(flipped[i] ^ 1);
      EXPECT_FALSE(key->Verify("bytes", flipped)) << i;
    }
  }
}

struct KeyCase {
  const char* name;
  std::string pem;
  const char* words;
};

TEST(Signature, PrivateKeysThatCannotBeUsedAreNamed) {
  const KeyCase cases[] = {
      {"nothing", "", "holds no key in PEM"},
      {"no PEM", "hello", "holds no key in PEM"},
      {"an encrypted key", R"(-----BEGIN ENCRYPTED PRIVATE KEY-----
MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAjOEv4YNMMclQICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEELB6+AgRy5MFrP+5UYq0U+IEQE2M
9ZGEPbVIyOg0nFT8lqIi8ExKBcT88Xo7J9m33shCo7/RZ+JZ1gleS4tuFJFkScoN
25ZbfcXCyVGxmqgI6pk=
-----END ENCRYPTED PRIVATE KEY-----
)",
       "is an encrypted key"},
      {"an encrypted key of the older form",
       "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: "
       "AES-128-CBC,00000000000000"
       "000000000000000000\n\nAAAA\n-----END EC PRIVATE KEY-----\n",
       "is an encrypted key"},
      {"SEC1", R"(-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIFGqKAi8nZf/LofJYYlH/6e604lftK3tVaIL/ImaBIFIoAoGCCqGSM49
AwEHoUQDQgAEI6L2edTrRtSDGu8K/Tz4MiwVg5QGOWOMw50L4LEv69dPOkVLhoBp
QyvLZrk+G1fT1olmhtRqgQnaV7bqCI5nJQ==
-----END EC PRIVATE KEY-----
)",
       "openssl pkcs8 -topk8"},
      {"a public key", std::string(kEd25519Public), "not a 'PRIVATE KEY'"},
      {"another curve", R"(-----BEGIN PRIVATE KEY-----
MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDDf8LzZ2j8Tmq/VbRL+
yp9pZxJi2JocNUSaA1lSANUxItc1UJdc0HZjBq63bLl50J6hZANiAAQPZzxyUWDy
Yaacbh9KnVqy/QlmoP/WycJmvW+8JWQTh6QpdFPhoZHhhAKcuW2/dUpRd2r9vxv1
wNdL+4z1nygC3fzDnrK513gdCI5AEwBUJkolpGzw3ZHCONFIes+4mK0=
-----END PRIVATE KEY-----
)",
       "is neither an Ed25519 key nor an ECDSA key"},
      {"two keys", std::string(kEd25519Private) + std::string(kEcdsaPrivate), "more than one"},
      {"bytes that are no key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
       "holds no private key"},
      {"too much", std::string(kPemBytesMax + 1, 'x'), "too large"},
  };
  for (const KeyCase& one : cases) {
    const auto signer = SignerFromPem(one.pem);
    ASSERT_FALSE(signer) << one.name;
    EXPECT_EQ(signer.error().code(), ErrorCode::kInvalid) << one.name;
    EXPECT_THAT(signer.error().message(), HasSubstr(one.words)) << one.name;
  }
}

// One key in two encodings would have two ids, and count twice where two keys are asked for.
TEST(Signature, PublicKeysHaveOneEncoding) {
  const KeyCase cases[] = {
      {"a compressed point", R"(-----BEGIN PUBLIC KEY-----
MDkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDIgADI6L2edTrRtSDGu8K/Tz4MiwVg5QG
OWOMw50L4LEv69c=
-----END PUBLIC KEY-----
)",
       "uncompressed point"},
      {"explicit parameters", R"(-----BEGIN PUBLIC KEY-----
MIIBSzCCAQMGByqGSM49AgEwgfcCAQEwLAYHKoZIzj0BAQIhAP////8AAAABAAAA
AAAAAAAAAAAA////////////////MFsEIP////8AAAABAAAAAAAAAAAAAAAA////
///////////8BCBaxjXYqjqT57PrvVV2mIa8ZR0GsMxTsPY7zjw+J9JgSwMVAMSd
NgiG5wSTamZ44ROdJreBn36QBEEEaxfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5
RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9QIhAP////8AAAAA
//////////+85vqtpxeehPO5ysL8YyVRAgEBA0IABCOi9nnU60bUgxrvCv08+DIs
FYOUBjljjMOdC+CxL+vXTzpFS4aAaUMry2a5PhtX09aJZobUaoEJ2le26giOZyU=
-----END PUBLIC KEY-----
)",
       "named curve"},
      {"RSA", R"(-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC84i/vZPIxGH3032OfQNFyTi/a
q17B76/L52oUXq+Sf3De6014USrdc7YHrIiSvYzsF9EEjHrBxmTGNFDHTz20n3Zc
g9NCQ5oiqDncAr5azeUAkceu4STmqOr+U5mNjTJRJmF15QrwGBNMT46xi3Y59d4k
A1vRGUPLcRadrPLOLwIDAQAB
-----END PUBLIC KEY-----
)",
       "and kcc uses no other"},
      {"a private key", std::string(kEd25519Private), "-pubout"},
      {"a point that is not on the curve",
       "-----BEGIN PUBLIC KEY-----\n"
       "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEI6L2edTrRtSDGu8K/Tz4MiwVg5QG\n"
       "OWOMw50L4LEv69dPOkVLhoBpQyvLZrk+G1fT1olmhtRqgQnaV7bqCI5nJg==\n"
       "-----END PUBLIC KEY-----\n",
       "not on the curve"},
  };
  for (const KeyCase& one : cases) {
    const auto key = PublicKey::FromPem(one.pem);
    ASSERT_FALSE(key) << one.name;
    EXPECT_THAT(key.error().message(), HasSubstr(one.words)) << one.name;
  }
}

// A signer that is a shell script; what it prints is verified with kEcdsaPublic.
std::unique_ptr<Signer> Program(const std::string& command, double timeout_s = 20) {
  return CommandSigner(command, std::move(*PublicKey::FromPem(kEcdsaPublic)), timeout_s);
}

TEST(CommandSigner, GetsTheBytesAndGivesTheSignature) {
  const std::string key = ::testing::TempDir() + "/statement_ec_" + std::to_string(::getpid());
  ASSERT_TRUE(WriteFileAtomically(key, kEcdsaPrivate));
  const std::string bytes(300'000, 'x');  // more than a pipe holds
  const auto signature = Program("openssl dgst -sha256 -sign " + key)->Sign(bytes);
  ::unlink(key.c_str());
  ASSERT_TRUE(signature) << signature.error().Format();
  EXPECT_TRUE(PublicKey::FromPem(kEcdsaPublic)->Verify(bytes, *signature));
}

TEST(CommandSigner, FailuresAreNamed) {
  struct Case {
    const char* command;
    const char* words;
  };
  const Case cases[] = {
      {"cat >/dev/null; echo no such slot >&2; exit 7", "exit code 7; it said: no such slot"},
      {"cat >/dev/null", "wrote no signature"},
      {"exit 0", "wrote no signature"},
      {"kill -9 $$", "exit code 137"},
      {"yes", "more than a signature can have"},
      {"/nonexistent/signer", "exit code 127"},
      {"echo 'not a signature'", "does not hold for the public key"},
  };
  for (const Case& one : cases) {
    const auto signature = Program(one.command)->Sign(std::string(200'000, 'x'));
    ASSERT_FALSE(signature) << one.command;
    EXPECT_THAT(signature.error().message(), HasSubstr(one.words)) << one.command;
  }
}

TEST(CommandSigner, IsEndedInTimeWithWhatItStarted) {
  for (const char* command : {"sleep 600", "sleep 600 & wait", "exec >&- 2>&-; sleep 600"}) {
    const double begin = TheSystemClock().MonotonicSeconds();
    const auto signature = Program(command, 0.2)->Sign("bytes");
    ASSERT_FALSE(signature);
    EXPECT_THAT(signature.error().message(), HasSubstr("is not done in time"));
    EXPECT_LT(TheSystemClock().MonotonicSeconds() - begin, 60);
  }
}

}  // namespace
}  // namespace kcc
