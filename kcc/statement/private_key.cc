#include "kcc/statement/private_key.h"

#include <openssl/crypto.h>

#include <optional>

#include "kcc/format/base64.h"

namespace kcc {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kBegin = "-----BEGIN ";
constexpr std::string_view kEnd = "-----END ";
constexpr std::string_view kDashes = "-----";
constexpr std::string_view kBlanks = " \t\r";

// The contents of the algorithm's SEQUENCE: an object identifier, and for a curve its name.
constexpr std::string_view kEd25519Algorithm = "\x06\x03\x2b\x65\x70"sv;
constexpr std::string_view kP256Algorithm =
    "\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07"sv;

constexpr char kInteger = '\x02';
constexpr char kOctets = '\x04';
constexpr char kSequence = '\x30';

std::string_view NextLine(std::string_view* text) {
  const size_t end = text->find('\n');
  std::string_view line = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  line.remove_suffix(line.size() - (line.find_last_not_of(kBlanks) + 1));
  return line;
}

// The label of "-----BEGIN LABEL-----".
std::optional<std::string_view> LabelOf(std::string_view line, std::string_view mark) {
  if (!line.starts_with(mark) || !line.ends_with(kDashes)) return std::nullopt;
  if (line.size() < mark.size() + kDashes.size()) return std::nullopt;
  return line.substr(mark.size(), line.size() - mark.size() - kDashes.size());
}

Error NoKeyInPem() { return InvalidError("holds no key in PEM" + std::string(HowToMakeKeys())); }

// Takes one element with this tag off the front and gives its contents. None: it is not there, its
// length is not in the shortest form, or it reaches beyond the end. Keys are short: at most two
// bytes of length.
std::optional<std::string_view> TakeElement(std::string_view* der, char tag) {
  constexpr size_t kLong = 0x80;
  if (der->size() < 2 || (*der)[0] != tag) return std::nullopt;
  const auto byte = [&](size_t at) {
    return static_cast<size_t>(static_cast<uint8_t>((*der)[at]));
  };
  size_t head = 2;
  size_t size = byte(1);
  if (size >= kLong) {
    const size_t more = size - kLong;
    if (more < 1 || more > 2 || der->size() < head + more) return std::nullopt;
    size = more == 1 ? byte(2) : byte(2) << 8 | byte(3);
    if (size < (more == 1 ? kLong : size_t{256})) return std::nullopt;
    head += more;
  }
  if (der->size() - head < size) return std::nullopt;
  const std::string_view contents = der->substr(head, size);
  der->remove_prefix(head + size);
  return contents;
}

Error NoPrivateKey() { return InvalidError("holds no private key: its PKCS#8 is damaged"); }

}  // namespace

SecretBytes::~SecretBytes() { OPENSSL_cleanse(bytes.data(), bytes.size()); }

std::string_view HowToMakeKeys() {
  return "; `openssl genpkey -algorithm ed25519 -out key.pem` makes a private key, `openssl pkey "
         "-in key.pem -pubout -out key.pub` its public one";
}

Error WrongKind() {
  return InvalidError(
      "is neither an Ed25519 key nor an ECDSA key on the named curve P-256 with an uncompressed "
      "point, and kcc uses no other");
}

Result<PemBlock> ReadPem(std::string_view pem) {
  if (pem.size() > kPemBytesMax) return InvalidError("is too large for a key in PEM");
  PemBlock block;
  std::string_view rest = pem;
  std::optional<std::string_view> label;
  while (!rest.empty() && !label) label = LabelOf(NextLine(&rest), kBegin);
  if (!label) return NoKeyInPem();
  block.label = *label;
  block.encrypted = block.label == "ENCRYPTED PRIVATE KEY";
  SecretBytes text;
  text.bytes.reserve(pem.size());  // in one place, so that no copy stays where it grew
  std::optional<std::string_view> end;
  while (!rest.empty()) {
    const std::string_view line = NextLine(&rest);
    end = LabelOf(line, kEnd);
    if (end) break;
    // Headers, of keys in the older form: base64 has no colon.
    if (line.find(':') != std::string_view::npos) {
      block.encrypted = block.encrypted || line.find("ENCRYPTED") != std::string_view::npos;
    } else {
      text.bytes += line;
    }
  }
  if (end != label) return NoKeyInPem();
  auto der = DecodeBase64(text.bytes);
  if (!der || text.bytes.find_first_of("-_") != std::string::npos) return NoKeyInPem();
  block.der.bytes = std::move(*der);
  if (rest.find(kBegin) != std::string_view::npos) {
    return InvalidError("holds more than one PEM block; keep one key in a file");
  }
  return block;
}

// OneAsymmetricKey ::= SEQUENCE { version, algorithm, privateKey OCTET STRING, … }. The octets of
// Ed25519 are an OCTET STRING with the seed (RFC 8410), those of a curve an ECPrivateKey ::=
// SEQUENCE { 1, privateKey OCTET STRING, … } (RFC 5915).
Result<PrivateKeyBytes> ReadPkcs8(std::string_view der) {
  auto info = TakeElement(&der, kSequence);
  if (!info || !der.empty()) return NoPrivateKey();
  const auto version = TakeElement(&*info, kInteger);
  const auto algorithm = TakeElement(&*info, kSequence);
  auto octets = TakeElement(&*info, kOctets);
  if (!version || !algorithm || !octets) return NoPrivateKey();
  PrivateKeyBytes key;
  std::optional<std::string_view> secret;
  if (*algorithm == kEd25519Algorithm) {
    secret = TakeElement(&*octets, kOctets);
  } else if (*algorithm == kP256Algorithm) {
    key.kind = KeyKind::kEcdsaP256;
    auto fields = TakeElement(&*octets, kSequence);
    if (!fields || TakeElement(&*fields, kInteger) != "\x01"sv) return NoPrivateKey();
    secret = TakeElement(&*fields, kOctets);
  } else {
    return WrongKind();
  }
  if (!secret || secret->size() != kSecretBytes) return NoPrivateKey();
  key.secret.bytes = *secret;
  return key;
}

}  // namespace kcc
