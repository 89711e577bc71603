#include "kcc/statement/signature.h"

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <limits>
#include <new>
#include <utility>

#include "kcc/base/check.h"
#include "kcc/base/sha256.h"
#include "kcc/statement/base64.h"

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

constexpr std::string_view kHowToMake =
    "; `openssl genpkey -algorithm ed25519 -out key.pem` makes a private key, `openssl pkey -in "
    "key.pem -pubout -out key.pub` its public one";

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
  if (no_memory) throw std::bad_alloc();
}

struct BioDeleter {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct OpenSslDeleter {
  void operator()(void* memory) const { OPENSSL_free(memory); }
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

// The DER of a private key leaves no copy behind.
struct PemBlock {
  std::string label;  // "PUBLIC KEY"
  std::string der;
  bool encrypted = false;
  PemBlock() = default;
  PemBlock(PemBlock&&) = default;
  PemBlock& operator=(PemBlock&&) = default;
  ~PemBlock() { OPENSSL_cleanse(der.data(), der.size()); }
};

Result<PemBlock> ReadPem(std::string_view pem) {
  if (pem.size() > kPemBytesMax) return InvalidError("is too large for a key in PEM");
  const std::unique_ptr<BIO, BioDeleter> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  if (!bio) throw std::bad_alloc();
  char* name = nullptr;
  char* header = nullptr;
  unsigned char* data = nullptr;
  long size = 0;
  if (PEM_read_bio(bio.get(), &name, &header, &data, &size) != 1) {
    ForgetErrors();
    return InvalidError("holds no key in PEM" + std::string(kHowToMake));
  }
  PemBlock block;
  const auto release = [&] {
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_clear_free(data, static_cast<size_t>(size));
  };
  try {
    block.label = name;
    block.der.assign(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
    block.encrypted = block.label == "ENCRYPTED PRIVATE KEY" ||
                      std::string_view(header).find("ENCRYPTED") != std::string_view::npos;
  } catch (...) {
    release();
    throw;
  }
  release();
  if (const size_t second = pem.find("-----BEGIN", pem.find("-----BEGIN") + 1);
      second != std::string_view::npos) {
    return InvalidError("holds more than one PEM block; keep one key in a file");
  }
  return block;
}

Error WrongKind() {
  return InvalidError(
      "is neither an Ed25519 key nor an ECDSA key on the named curve P-256 with an uncompressed "
      "point, and kcc uses no other");
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

// From the raw key, which stands at a known place of a known encoding: the library's own decoder
// of DER tries every format it knows, and would have to be trusted with bytes of others.
OwnedKey KeyOfDer(KeyKind kind, std::string_view der) {
  if (kind == KeyKind::kEd25519) {
    const std::string_view raw = der.substr(kEd25519Prefix.size());
    return Own(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Unsigned(raw), raw.size()));
  }
  std::string curve = "prime256v1";
  std::string point(der.substr(kP256Prefix.size() - 1));  // with the mark of an uncompressed one
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, curve.data(), curve.size()),
      OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()),
      OSSL_PARAM_construct_end()};
  const std::unique_ptr<EVP_PKEY_CTX, KeyContextDeleter> context(
      EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr));
  EVP_PKEY* key = nullptr;
  if (!context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY,
                        const_cast<OSSL_PARAM*>(parameters)) != 1) {
    EVP_PKEY_free(key);
    return nullptr;
  }
  return Own(key);
}

Result<std::string> PemSigner::MakeSignature(std::string_view bytes) const {
  const OwnedContext context = NewContext();
  std::string signature;
  size_t size = 0;
  const bool made =
      EVP_DigestSignInit(context.get(), nullptr, HashOf(public_key_.kind()), nullptr,
                         OpenSslKey(key_)) == 1 &&
      EVP_DigestSign(context.get(), nullptr, &size, Unsigned(bytes), bytes.size()) == 1;
  if (made) {
    signature.resize(size);
    auto* to = reinterpret_cast<unsigned char*>(signature.data());
    if (EVP_DigestSign(context.get(), to, &size, Unsigned(bytes), bytes.size()) == 1) {
      signature.resize(size);
      return signature;
    }
  }
  ForgetErrors();
  return InvalidError("OpenSSL cannot sign with this key");
}

// The public half of a private key, in the one encoding that has an id.
Result<PublicKey> PublicHalf(const OwnedKey& key) {
  // Not for Ed25519, which has no such parameter.
  (void)EVP_PKEY_set_utf8_string_param(OpenSslKey(key), OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT,
                                       "uncompressed");
  ForgetErrors();
  unsigned char* encoded = nullptr;
  const int size = i2d_PUBKEY(OpenSslKey(key), &encoded);
  if (size <= 0) {
    ForgetErrors();
    return WrongKind();
  }
  const std::unique_ptr<unsigned char, OpenSslDeleter> owner(encoded);
  const std::string der(reinterpret_cast<const char*>(encoded), static_cast<size_t>(size));
  return PublicKey::FromDer(der);
}

}  // namespace

void PrepareSignatures() {
  static const bool prepared = [] {
    constexpr size_t kMoreThanItTakes = size_t{4} << 20;
    (void)std::make_unique<char[]>(kMoreThanItTakes);
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
  OwnedKey key = KeyOfDer(*kind, der);
  if (!key) {
    ForgetErrors();
    return InvalidError("is not a key: its point is not on the curve");
  }
  return PublicKey(*kind, std::string(der), std::move(key));
}

Result<PublicKey> PublicKey::FromPem(std::string_view pem) {
  KCC_TRY(const PemBlock block, ReadPem(pem));
  if (block.label != "PUBLIC KEY") {
    const bool secret = block.label.find("PRIVATE") != std::string::npos;
    return InvalidError(
        "is a PEM block of the kind '" + block.label + "', not a 'PUBLIC KEY'" +
        (secret ? "; `openssl pkey -in key.pem -pubout` gives the public key of a private one"
                : std::string(kHowToMake)));
  }
  return FromDer(block.der);
}

std::string PublicKey::Pem() const {
  const std::string text = EncodeBase64(der_);
  std::string pem = "-----BEGIN PUBLIC KEY-----\n";
  constexpr size_t kLine = 64;
  for (size_t i = 0; i < text.size(); i += kLine) pem += text.substr(i, kLine) + "\n";
  return pem + "-----END PUBLIC KEY-----\n";
}

bool PublicKey::Verify(std::string_view bytes, std::string_view signature) const {
  const OwnedContext context = NewContext();
  const bool begun =
      EVP_DigestVerifyInit(context.get(), nullptr, HashOf(kind_), nullptr, OpenSslKey(key_)) == 1;
  const bool holds = begun && EVP_DigestVerify(context.get(), Unsigned(signature), signature.size(),
                                               Unsigned(bytes), bytes.size()) == 1;
  ForgetErrors();
  return holds;
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
                               : std::string(kHowToMake)));
  }
  const unsigned char* at = Unsigned(block.der);
  PKCS8_PRIV_KEY_INFO* info =
      d2i_PKCS8_PRIV_KEY_INFO(nullptr, &at, static_cast<long>(block.der.size()));
  OwnedKey key = Own(info == nullptr ? nullptr : EVP_PKCS82PKEY(info));
  PKCS8_PRIV_KEY_INFO_free(info);
  if (!key) {
    ForgetErrors();
    return InvalidError("holds no private key that OpenSSL can read");
  }
  KCC_TRY(PublicKey public_key, PublicHalf(key));
  return std::unique_ptr<Signer>(
      std::make_unique<PemSigner>(std::move(public_key), std::move(key)));
}

}  // namespace kcc
