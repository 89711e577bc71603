#include "kcc/statement/signature.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <limits>
#include <new>
#include <utility>

#include "kcc/base/check.h"
#include "kcc/base/sha256.h"
#include "kcc/format/base64.h"
#include "kcc/statement/private_key.h"

namespace kcc {
namespace {

using namespace std::string_view_literals;

// What every SubjectPublicKeyInfo of a kind starts with; the raw key follows. The P-256 one ends in
// 4, the mark of an uncompressed point.
constexpr std::string_view kEd25519Prefix = "\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"sv;
constexpr std::string_view kP256Prefix =
    "\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07"
    "\x03\x42\x00\x04"sv;
constexpr std::string_view kP256Generator =
    "\x6b\x17\xd1\xf2\xe1\x2c\x42\x47\xf8\xbc\xe6\xe5\x63\xa4\x40\xf2\x77\x03\x7d\x81\x2d\xeb\x33"
    "\xa0\xf4\xa1\x39\x45\xd8\x98\xc2\x96\x4f\xe3\x42\xe2\xfe\x1a\x7f\x9b\x8e\xe7\xeb\x4a\x7c\x0f"
    "\x9e\x16\x2b\xce\x33\x57\x6b\x31\x5e\xce\xcb\xb6\x40\x68\x37\xbf\x51\xf5"sv;
constexpr size_t kEd25519Bytes = 32;
constexpr size_t kP256Bytes = 64;
constexpr size_t kP256SignatureBytesMax = 72;  // DER; Ed25519 takes 64

std::optional<KeyKind> KindOfDer(std::string_view der) {
  if (der.starts_with(kEd25519Prefix) && der.size() == kEd25519Prefix.size() + kEd25519Bytes) {
    return KeyKind::kEd25519;
  }
  if (der.starts_with(kP256Prefix) && der.size() == kP256Prefix.size() + kP256Bytes) {
    return KeyKind::kEcdsaP256;
  }
  return std::nullopt;
}

// OpenSSL keeps its errors in a queue of the thread. Memory that ran out is an exception here as
// everywhere; whatever else is in the queue is forgotten, since the caller knows better words.
void ForgetErrors() {
  bool no_memory = false;
  while (const unsigned long code = ERR_get_error()) {
    no_memory = no_memory || ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE;
  }
  // What was read keeps its texts until it is cleared.
  ERR_clear_error();
  if (no_memory) throw std::bad_alloc();
}

// Throws std::bad_alloc where there is not so much memory.
void AskForMemory(size_t size) {
  const auto block = std::make_unique_for_overwrite<char[]>(size);
  static_cast<volatile char*>(block.get())[0] = 0;  // a block that is not used may be left out
}

// OpenSSL does not always say that memory was the reason. So a failure counts when it is repeated
// with memory at hand: more than an attempt takes is asked for in between.
template <typename Attempt>
bool Holds(const Attempt& attempt) {
  if (attempt()) {
    ERR_clear_error();
    return true;
  }
  ForgetErrors();
  constexpr size_t kMoreThanItTakes = size_t{100} << 10;
  AskForMemory(kMoreThanItTakes);
  const bool holds = attempt();
  ForgetErrors();
  return holds;
}

struct GroupDeleter {
  void operator()(EC_GROUP* group) const { EC_GROUP_free(group); }
};
struct PointDeleter {
  void operator()(EC_POINT* point) const { EC_POINT_clear_free(point); }
};
struct NumberDeleter {
  void operator()(BIGNUM* number) const { BN_clear_free(number); }
};
struct KeyContextDeleter {
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
};
struct ContextDeleter {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

using OwnedContext = std::unique_ptr<EVP_MD_CTX, ContextDeleter>;
OwnedContext NewContext() {
  OwnedContext context(EVP_MD_CTX_new());
  if (!context) throw std::bad_alloc();
  return context;
}

const EVP_MD* HashOf(KeyKind kind) { return kind == KeyKind::kEd25519 ? nullptr : EVP_sha256(); }

const unsigned char* Unsigned(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

class PemSigner final : public Signer {
 public:
  PemSigner(PublicKey public_key, OwnedKey key)
      : public_key_(std::move(public_key)), key_(std::move(key)) {}
  const PublicKey& public_key() const override { return public_key_; }

 private:
  Result<std::string> MakeSignature(std::string_view bytes) const override;

  PublicKey public_key_;
  OwnedKey key_;
};

EVP_PKEY* OpenSslKey(const OwnedKey& key) { return reinterpret_cast<EVP_PKEY*>(key.get()); }
OwnedKey Own(EVP_PKEY* key) { return OwnedKey(reinterpret_cast<KeyHandle*>(key)); }

// A key on P-256 from its point, and where there is one its secret number.
OwnedKey P256Key(std::string point, const BIGNUM* secret) {
  std::string curve = "prime256v1";
  SecretBytes number;  // in the machine's order of bytes
  number.bytes.resize(kSecretBytes);
  OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, curve.data(), curve.size()),
      OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()),
      OSSL_PARAM_construct_end(), OSSL_PARAM_construct_end()};
  if (secret != nullptr) {
    auto* to = reinterpret_cast<unsigned char*>(number.bytes.data());
    if (BN_bn2nativepad(secret, to, static_cast<int>(kSecretBytes)) < 0) return nullptr;
    parameters[2] = OSSL_PARAM_construct_BN(OSSL_PKEY_PARAM_PRIV_KEY, to, kSecretBytes);
  }
  const std::unique_ptr<EVP_PKEY_CTX, KeyContextDeleter> context(
      EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr));
  EVP_PKEY* key = nullptr;
  const int selection = secret == nullptr ? EVP_PKEY_PUBLIC_KEY : EVP_PKEY_KEYPAIR;
  if (!context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, selection, parameters) != 1) {
    EVP_PKEY_free(key);
    return nullptr;
  }
  return Own(key);
}

// From the raw key, which stands at a known place of a known encoding: the library's own decoder
// of DER tries every format it knows, and would have to be trusted with bytes of others.
OwnedKey KeyOfDer(KeyKind kind, std::string_view der) {
  if (kind == KeyKind::kEcdsaP256) {
    return P256Key(std::string(der.substr(kP256Prefix.size() - 1)), nullptr);  // with its mark
  }
  const std::string_view raw = der.substr(kEd25519Prefix.size());
  return Own(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Unsigned(raw), raw.size()));
}

Result<std::string> PemSigner::MakeSignature(std::string_view bytes) const {
  std::string signature;
  const auto sign = [&] {
    const OwnedContext context = NewContext();
    size_t size = 0;
    if (EVP_DigestSignInit(context.get(), nullptr, HashOf(public_key_.kind()), nullptr,
                           OpenSslKey(key_)) != 1 ||
        EVP_DigestSign(context.get(), nullptr, &size, Unsigned(bytes), bytes.size()) != 1) {
      return false;
    }
    signature.resize(size);
    auto* to = reinterpret_cast<unsigned char*>(signature.data());
    if (EVP_DigestSign(context.get(), to, &size, Unsigned(bytes), bytes.size()) != 1) return false;
    signature.resize(size);
    // Where memory runs out, ECDSA may give a signature that does not hold and call it success.
    return public_key_.Verify(bytes, signature);
  };
  if (!Holds(sign))
    return InvalidError("OpenSSL cannot sign with this key, or the signature made does not hold");
  return signature;
}

// A private key with the encoding of its public half.
struct KeyPair {
  OwnedKey key;
  std::string der;
};

// False where the library fails; see Holds.
bool MakeEd25519Pair(std::string_view seed, KeyPair* pair) {
  pair->key =
      Own(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, Unsigned(seed), seed.size()));
  std::string raw(kEd25519Bytes, '\0');
  size_t size = raw.size();
  if (!pair->key ||
      EVP_PKEY_get_raw_public_key(OpenSslKey(pair->key),
                                  reinterpret_cast<unsigned char*>(raw.data()), &size) != 1) {
    return false;
  }
  pair->der = std::string(kEd25519Prefix) + raw;
  return true;
}

// The point is computed, since a file need not hold it, and could hold a wrong one. False also for
// a secret that is no key: 0, or not below the order of the curve.
bool MakeP256Pair(std::string_view secret, KeyPair* pair) {
  const std::unique_ptr<EC_GROUP, GroupDeleter> group(
      EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1));
  const std::unique_ptr<BIGNUM, NumberDeleter> number(
      BN_bin2bn(Unsigned(secret), static_cast<int>(secret.size()), nullptr));
  if (!group || !number || BN_is_zero(number.get()) != 0 ||
      BN_cmp(number.get(), EC_GROUP_get0_order(group.get())) >= 0) {
    return false;
  }
  BN_set_flags(number.get(), BN_FLG_CONSTTIME);
  const std::unique_ptr<EC_POINT, PointDeleter> point(EC_POINT_new(group.get()));
  std::string encoded(kP256Bytes + 1, '\0');
  if (!point ||
      EC_POINT_mul(group.get(), point.get(), number.get(), nullptr, nullptr, nullptr) != 1 ||
      EC_POINT_point2oct(group.get(), point.get(), POINT_CONVERSION_UNCOMPRESSED,
                         reinterpret_cast<unsigned char*>(encoded.data()), encoded.size(),
                         nullptr) != encoded.size()) {
    return false;
  }
  pair->key = P256Key(encoded, number.get());
  pair->der = std::string(kP256Prefix) + encoded.substr(1);
  return pair->key != nullptr;
}

}  // namespace

void PrepareSignatures() {
  static const bool prepared = [] {
    constexpr size_t kMoreThanItTakes = size_t{4} << 20;
    AskForMemory(kMoreThanItTakes);
    // The generators of both kinds as public keys, and a signature that does not hold: every part
    // of the library that a verification needs is looked up on the way.
    const std::string ed25519 =
        std::string(kEd25519Prefix) + std::string("\x58", 1) + std::string(31, '\x66');
    const std::string p256 = std::string(kP256Prefix) + std::string(kP256Generator);
    for (const std::string& der : {ed25519, p256}) {
      const KeyKind kind = *KindOfDer(der);
      const OwnedKey key = KeyOfDer(kind, der);
      if (!key) throw std::bad_alloc();
      const OwnedContext context = NewContext();
      if (EVP_DigestVerifyInit(context.get(), nullptr, HashOf(kind), nullptr, OpenSslKey(key)) !=
          1) {
        throw std::bad_alloc();
      }
      const std::string none(64, '\0');
      (void)EVP_DigestVerify(context.get(), Unsigned(none), none.size(), Unsigned(none), 1);
      ERR_clear_error();
    }
    // A signature of each kind: with it the source of random numbers starts, which ECDSA needs.
    for (const auto make : {MakeEd25519Pair, MakeP256Pair}) {
      KeyPair pair;
      if (!make(std::string(kSecretBytes, '\x01'), &pair)) throw std::bad_alloc();
      const OwnedContext context = NewContext();
      std::string signature(kP256SignatureBytesMax, '\0');
      size_t size = signature.size();
      if (EVP_DigestSignInit(context.get(), nullptr, HashOf(*KindOfDer(pair.der)), nullptr,
                             OpenSslKey(pair.key)) != 1 ||
          EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                         Unsigned(pair.der), 1) != 1) {
        throw std::bad_alloc();
      }
    }
    return true;
  }();
  (void)prepared;
}

void KeyHandleDeleter::operator()(KeyHandle* handle) const {
  EVP_PKEY_free(reinterpret_cast<EVP_PKEY*>(handle));
}

std::string_view Name(KeyKind kind) { return kind == KeyKind::kEd25519 ? "ed25519" : "ecdsa-p256"; }

PublicKey::PublicKey(KeyKind kind, std::string der, OwnedKey key)
    : kind_(kind), der_(std::move(der)), key_(std::move(key)) {
  id_ = Sha256Of(der_).substr(std::string_view("sha256:").size());
}

Result<PublicKey> PublicKey::FromDer(std::string_view der) {
  const auto kind = KindOfDer(der);
  if (!kind) return WrongKind();
  PrepareSignatures();
  OwnedKey key;
  const auto make = [&] { return (key = KeyOfDer(*kind, der)) != nullptr; };
  if (!Holds(make)) return InvalidError("is not a key: its point is not on the curve");
  return PublicKey(*kind, std::string(der), std::move(key));
}

Result<PublicKey> PublicKey::FromPem(std::string_view pem) {
  KCC_TRY(const PemBlock block, ReadPem(pem));
  if (block.label != "PUBLIC KEY") {
    const bool secret = block.label.find("PRIVATE") != std::string::npos;
    return InvalidError(
        "is a PEM block of the kind '" + block.label + "', not a 'PUBLIC KEY'" +
        (secret ? "; `openssl pkey -in key.pem -pubout` gives the public key of a private one"
                : std::string(HowToMakeKeys())));
  }
  return FromDer(block.der.bytes);
}

std::string PublicKey::Pem() const {
  const std::string text = EncodeBase64(der_);
  std::string pem = "-----BEGIN PUBLIC KEY-----\n";
  constexpr size_t kLine = 64;
  for (size_t i = 0; i < text.size(); i += kLine) pem += text.substr(i, kLine) + "\n";
  return pem + "-----END PUBLIC KEY-----\n";
}

bool PublicKey::Verify(std::string_view bytes, std::string_view signature) const {
  return Holds([&] {
    const OwnedContext context = NewContext();
    return EVP_DigestVerifyInit(context.get(), nullptr, HashOf(kind_), nullptr, OpenSslKey(key_)) ==
               1 &&
           EVP_DigestVerify(context.get(), Unsigned(signature), signature.size(), Unsigned(bytes),
                            bytes.size()) == 1;
  });
}

Result<std::string> Signer::Sign(std::string_view bytes) const {
  KCC_TRY(std::string signature, MakeSignature(bytes));
  if (!public_key().Verify(bytes, signature)) {
    return InvalidError("the signature made does not hold for the public key " + public_key().id() +
                        ": key and signer do not belong together");
  }
  return signature;
}

Result<std::unique_ptr<Signer>> SignerFromPem(std::string_view pem) {
  PrepareSignatures();
  KCC_TRY(const PemBlock block, ReadPem(pem));
  if (block.encrypted) {
    return InvalidError(
        "is an encrypted key, and kcc asks for no passphrase; `openssl pkey -in key.pem -out "
        "plain.pem` decrypts it, or sign with a program that holds the key (--sign-with)");
  }
  if (block.label != "PRIVATE KEY") {
    const bool older = block.label.ends_with("PRIVATE KEY");
    return InvalidError("is a PEM block of the kind '" + block.label + "', not a 'PRIVATE KEY'" +
                        (older ? "; `openssl pkcs8 -topk8 -nocrypt -in key.pem -out pkcs8.pem` "
                                 "converts it"
                               : std::string(HowToMakeKeys())));
  }
  KCC_TRY(const PrivateKeyBytes bytes, ReadPkcs8(block.der.bytes));
  KeyPair pair;
  const auto make = [&] {
    return bytes.kind == KeyKind::kEd25519 ? MakeEd25519Pair(bytes.secret.bytes, &pair)
                                           : MakeP256Pair(bytes.secret.bytes, &pair);
  };
  if (!Holds(make)) return InvalidError("holds no private key: its number is none of the curve");
  KCC_TRY(PublicKey public_key, PublicKey::FromDer(pair.der));
  return std::unique_ptr<Signer>(
      std::make_unique<PemSigner>(std::move(public_key), std::move(pair.key)));
}

}  // namespace kcc
