#include "kcc/statement/keyring.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/contract/yaml_document.h"
#include "kcc/statement/timestamp.h"

namespace kcc {
namespace {

constexpr size_t kKeyNameBytesMax = 256;
constexpr std::array kRoles = {KeyRole::kEvaluation, KeyRole::kPromotion, KeyRole::kHead};

constexpr std::array<std::string_view, 3> kKeyringKeys = {"apiVersion", "kind", "keys"};
constexpr std::array<std::string_view, 7> kEntryKeys = {
    "id", "owner", "roles", "publicKey", "notBefore", "notAfter", "revokedAt"};

// The document with what its errors need.
class KeyringReader {
 public:
  KeyringReader(const YamlDocument& document, const std::string& file)
      : document_(document), file_(file) {}

  Result<Keyring> Read() const;

 private:
  using Members = std::map<std::string_view, const YamlNode*>;

  Error At(const YamlNode& node, std::string message) const {
    const Mark mark = document_.MarkOf(node);
    return InvalidError(std::move(message), Place{file_, mark.line, mark.column});
  }
  Result<Members> ReadMembers(const YamlNode& node, std::span<const std::string_view> known,
                              std::string_view what) const;
  Result<std::string> ReadText(const YamlNode& node, std::string_view what) const;
  Result<std::optional<int64_t>> ReadTime(const Members& members, std::string_view key) const;
  Result<std::vector<KeyRole>> ReadRoles(const YamlNode& node) const;
  Result<KeyringKey> ReadKey(const YamlNode& node) const;

  const YamlDocument& document_;
  const std::string& file_;
};

Result<KeyringReader::Members> KeyringReader::ReadMembers(const YamlNode& node,
                                                          std::span<const std::string_view> known,
                                                          std::string_view what) const {
  if (node.kind != YamlNode::Kind::kMapping) {
    return At(node, std::string(what) + " must be a mapping of " + JoinWords(known));
  }
  Members members;
  for (size_t i = 0; i < document_.size(node); ++i) {
    const YamlNode& key = document_.key(node, i);
    if (std::find(known.begin(), known.end(), key.text) == known.end()) {
      const auto nearest = NearestWord(key.text, known);
      return At(key, "unknown key '" + std::string(key.text) + "'; " +
                         (nearest ? "did you mean '" + std::string(*nearest) + "'?"
                                  : std::string(what) + " has " + JoinWords(known)));
    }
    if (!members.emplace(key.text, &document_.value(node, i)).second) {
      return At(key, "the key '" + std::string(key.text) + "' stands twice");
    }
  }
  return members;
}

Result<std::string> KeyringReader::ReadText(const YamlNode& node, std::string_view what) const {
  if (node.kind != YamlNode::Kind::kScalar || node.text.empty()) {
    return At(node, std::string(what) + " must be a text that is not empty");
  }
  return std::string(node.text);
}

Result<std::optional<int64_t>> KeyringReader::ReadTime(const Members& members,
                                                       std::string_view key) const {
  const auto found = members.find(key);
  if (found == members.end()) return std::optional<int64_t>();
  KCC_TRY(const std::string text, ReadText(*found->second, key));
  const auto time = ParseTimestamp(text);
  if (!time) {
    return At(*found->second,
              std::string(key) + " is '" + text + "', not a time such as 2026-11-18T09:30:00Z");
  }
  return time;
}

Result<std::vector<KeyRole>> KeyringReader::ReadRoles(const YamlNode& node) const {
  std::array<std::string_view, kRoles.size()> words;
  for (size_t i = 0; i < kRoles.size(); ++i) words[i] = Name(kRoles[i]);
  if (node.kind != YamlNode::Kind::kSequence || document_.size(node) == 0) {
    return At(node, "roles must be a list of one or more of " + JoinWords(words));
  }
  std::vector<KeyRole> roles;
  for (size_t i = 0; i < document_.size(node); ++i) {
    const YamlNode& item = document_.item(node, i);
    const auto found = std::find(words.begin(), words.end(), item.text);
    if (found == words.end()) {
      const auto nearest = NearestWord(item.text, words);
      return At(item, "'" + std::string(item.text) + "' is not a role; " +
                          (nearest ? "did you mean '" + std::string(*nearest) + "'?"
                                   : "roles are " + JoinWords(words)));
    }
    roles.push_back(kRoles[static_cast<size_t>(found - words.begin())]);
  }
  return roles;
}

Result<KeyringKey> KeyringReader::ReadKey(const YamlNode& node) const {
  KCC_TRY(const Members members, ReadMembers(node, kEntryKeys, "a key"));
  for (const std::string_view key : {"owner", "roles", "publicKey"}) {
    if (!members.contains(key)) return At(node, "a key lacks '" + std::string(key) + "'");
  }
  const YamlNode& pem = *members.at("publicKey");
  KCC_TRY(const std::string pem_text, ReadText(pem, "publicKey"));
  Result<PublicKey> key = PublicKey::FromPem(pem_text);
  if (!key.has_value()) return At(pem, "publicKey " + key.error().message());
  KeyringKey entry{std::move(*key), "", "", {}, {}, {}, {}};
  if (members.contains("id")) {
    const YamlNode& id = *members.at("id");
    KCC_TRY(entry.id, ReadText(id, "id"));
    if (entry.id.size() > kKeyNameBytesMax) return At(id, "id is longer than 256 bytes");
  }
  KCC_TRY(entry.owner, ReadText(*members.at("owner"), "owner"));
  KCC_TRY(entry.roles, ReadRoles(*members.at("roles")));
  KCC_TRY(entry.not_before_ms, ReadTime(members, "notBefore"));
  KCC_TRY(entry.not_after_ms, ReadTime(members, "notAfter"));
  KCC_TRY(entry.revoked_at_ms, ReadTime(members, "revokedAt"));
  if (entry.not_before_ms && entry.not_after_ms && *entry.not_after_ms <= *entry.not_before_ms) {
    return At(*members.at("notAfter"),
              "notAfter is not later than notBefore: the key is never "
              "valid");
  }
  return entry;
}

Result<Keyring> KeyringReader::Read() const {
  const YamlNode& root = document_.root();
  KCC_TRY(const Members members, ReadMembers(root, kKeyringKeys, "a keyring"));
  for (const std::string_view key : kKeyringKeys) {
    if (!members.contains(key)) return At(root, "a keyring lacks '" + std::string(key) + "'");
  }
  if (members.at("apiVersion")->text != "kcc/v1") {
    return At(*members.at("apiVersion"), "apiVersion must be kcc/v1");
  }
  if (members.at("kind")->text != "Keyring") {
    return At(*members.at("kind"), "kind must be Keyring");
  }
  const YamlNode& list = *members.at("keys");
  if (list.kind != YamlNode::Kind::kSequence || document_.size(list) == 0) {
    return At(list, "keys must be a list with at least one key");
  }
  if (document_.size(list) > kKeyringKeysMax) {
    return At(list, "a keyring holds " + std::to_string(kKeyringKeysMax) + " keys at most");
  }
  Keyring keyring;
  // One name, one key; and one key once, or its two entries could disagree about its dates.
  std::map<std::string, bool, std::less<>> names;
  for (size_t i = 0; i < document_.size(list); ++i) {
    const YamlNode& node = document_.item(list, i);
    KCC_TRY(KeyringKey key, ReadKey(node));
    if (!names.emplace(key.key.id(), true).second) {
      return At(node, "the key " + key.key.id() + " stands twice, or is another key's id");
    }
    if (!key.id.empty() && key.id != key.key.id() && !names.emplace(key.id, true).second) {
      return At(node, "the id '" + key.id + "' is that of another key too");
    }
    keyring.keys.push_back(std::move(key));
  }
  return keyring;
}

}  // namespace

std::string_view Name(KeyRole role) {
  switch (role) {
    case KeyRole::kEvaluation:
      return "evaluation";
    case KeyRole::kPromotion:
      return "promotion";
    case KeyRole::kHead:
      return "head";
  }
  return "unknown";
}

bool KeyringKey::Has(KeyRole role) const {
  return std::find(roles.begin(), roles.end(), role) != roles.end();
}

const KeyringKey* Keyring::Find(std::string_view name) const {
  for (const KeyringKey& one : keys) {
    if (one.key.id() == name || (!one.id.empty() && one.id == name)) return &one;
  }
  return nullptr;
}

Result<Keyring> ReadKeyring(std::string_view text, const std::string& file) {
  if (text.size() > kKeyringBytesMax) {
    return InvalidError(
        "larger than the limit of " + std::to_string(kKeyringBytesMax) + " bytes for a keyring",
        Place{file});
  }
  const auto document = YamlDocument::Parse(text);
  if (!document.has_value()) {
    const auto& problem = document.error();
    return InvalidError(problem.message + (problem.hint.empty() ? "" : "; " + problem.hint),
                        Place{file, problem.mark.line, problem.mark.column});
  }
  KCC_TRY(Keyring keyring, KeyringReader(*document, file).Read());
  keyring.digest = Sha256Of(text);
  return keyring;
}

}  // namespace kcc
