// A keyring: whose keys a verifier trusts, for what, and from when to when.
//
//   apiVersion: kcc/v1
//   kind: Keyring
//   keys:
//     - owner: release-team
//       roles: [evaluation, promotion]
//       notBefore: 2026-01-01T00:00:00Z
//       notAfter: 2027-01-01T00:00:00Z
//       revokedAt: 2026-06-01T00:00:00Z
//       publicKey: |
//         -----BEGIN PUBLIC KEY-----
//         …
//
// YAML, of which JSON is a part. A key is valid at t if notBefore <= t < notAfter and t <
// revokedAt; a date that is missing limits nothing. t is the time of the event that was signed: an
// old statement stays valid when its key has expired since. Rotation is two entries whose times
// follow each other. Unknown keys, repeated ones and a public key that stands twice are errors: a
// misspelt revokedAt must not be a key that is trusted for ever.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/statement/signature.h"

namespace kcc {

// What a key may sign: evaluations (also as SLSA or Test Result predicates), promotions, the heads
// of registers.
enum class KeyRole : uint8_t { kEvaluation, kPromotion, kHead };
std::string_view Name(KeyRole role);  // "evaluation"

struct KeyringKey {
  PublicKey key;
  std::string id;  // another name for it in envelopes; empty: key.id() alone
  std::string owner;
  std::vector<KeyRole> roles;  // never empty
  std::optional<int64_t> not_before_ms;
  std::optional<int64_t> not_after_ms;
  std::optional<int64_t> revoked_at_ms;

  bool Has(KeyRole role) const;
};

struct Keyring {
  std::vector<KeyringKey> keys;  // never empty; names and public keys are distinct
  std::string digest = {};       // "sha256:…" of the file

  // By the name that an envelope gives: key.id() or `id`. Null: unknown.
  const KeyringKey* Find(std::string_view name) const;
};

inline constexpr size_t kKeyringBytesMax = size_t{4} << 20;
inline constexpr size_t kKeyringKeysMax = 10'000;

// Errors (kInvalid) have the line of `file` at which the mistake stands.
Result<Keyring> ReadKeyring(std::string_view text, const std::string& file);

}  // namespace kcc
