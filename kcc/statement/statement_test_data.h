// For tests: keys that protect nothing, and a signed statement to begin with.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/statement/attest.h"
#include "kcc/statement/evaluation.h"
#include "kcc/statement/keyring.h"
#include "kcc/statement/signature.h"
#include "kcc/statement/timestamp.h"
#include "tests/report/sample/sample_report.h"

namespace kcc {

// The first test vector of RFC 8032, section 7.1.
inline constexpr std::string_view kEd25519Private =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
    "-----END PRIVATE KEY-----\n";

inline constexpr std::string_view kEd25519Public =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
    "-----END PUBLIC KEY-----\n";

inline constexpr std::string_view kSecondPrivate =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIOBKgMOqqnDx6PEJLj4y5GSXBHuAqgV5tbt4RtYDZnRw\n"
    "-----END PRIVATE KEY-----\n";

inline constexpr std::string_view kSecondPublic =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEAHbS1oJKB0MjIZ89ag/kXSA/zzPvVL5mBVs9agqb9d7s=\n"
    "-----END PUBLIC KEY-----\n";

inline constexpr std::string_view kEcdsaPrivate =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgUaooCLydl/8uh8lh\n"
    "iUf/p7rTiV+0re1Vogv8iZoEgUihRANCAAQjovZ51OtG1IMa7wr9PPgyLBWDlAY5\n"
    "Y4zDnQvgsS/r1086RUuGgGlDK8tmuT4bV9PWiWaG1GqBCdpXtuoIjmcl\n"
    "-----END PRIVATE KEY-----\n";

inline constexpr std::string_view kEcdsaPublic =
    "-----BEGIN PUBLIC KEY-----\n"
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEI6L2edTrRtSDGu8K/Tz4MiwVg5QG\n"
    "OWOMw50L4LEv69dPOkVLhoBpQyvLZrk+G1fT1olmhtRqgQnaV7bqCI5nJQ==\n"
    "-----END PUBLIC KEY-----\n";

inline constexpr std::string_view kEd25519Id =
    "06e3fd8fda29bb60ab59557de61edb0aecdb231134be30e75b455f8e1b792fa9";

inline int64_t TestTime(std::string_view text) {
  const auto time = ParseTimestamp(text);
  KCC_CHECK(time.has_value());
  return *time;
}
inline constexpr std::string_view kTestTime = "2026-11-18T09:30:00Z";

inline std::vector<std::unique_ptr<Signer>> TestSigners(const std::vector<std::string_view>& pems) {
  std::vector<std::unique_ptr<Signer>> signers;
  for (const std::string_view pem : pems) {
    auto signer = SignerFromPem(pem);
    KCC_CHECK(signer.has_value());
    signers.push_back(std::move(*signer));
  }
  return signers;
}

inline StatedEvaluation TestEvaluation(const ReportData& report) {
  EvaluationEvent event;
  event.time_ms = TestTime(kTestTime);
  event.report_digest = "sha256:" + std::string(64, 'a');
  auto evaluation = EvaluationOf(report, event);
  KCC_CHECK(evaluation.has_value());
  return *evaluation;
}

inline std::string TestEnvelope(const Statement& statement,
                                const std::vector<std::string_view>& pems) {
  auto made = SignStatement(statement, TestSigners(pems));
  KCC_CHECK(made.has_value());
  return *made;
}

// One key in YAML: `lines` are further lines of it, such as "notAfter: 2027-01-01T00:00:00Z".
inline std::string TestKey(std::string_view public_pem, std::string_view owner,
                           const std::vector<std::string>& lines = {},
                           std::string_view roles = "[evaluation, promotion, head]") {
  std::string text =
      "  - owner: " + std::string(owner) + "\n    roles: " + std::string(roles) + "\n";
  for (const std::string& line : lines) text += "    " + line + "\n";
  text += "    publicKey: |\n      ";
  for (const char c : public_pem.substr(0, public_pem.size() - 1)) {
    text += c;
    if (c == '\n') text += "      ";
  }
  return text + "\n";
}

inline std::string TestKeyringText(const std::vector<std::string>& keys) {
  std::string text = "apiVersion: kcc/v1\nkind: Keyring\nkeys:\n";
  for (const std::string& key : keys) text += key;
  return text;
}

inline Keyring TestKeyring(const std::vector<std::string>& keys) {
  auto keyring = ReadKeyring(TestKeyringText(keys), "ring.yaml");
  KCC_CHECK(keyring.has_value());
  return std::move(*keyring);
}

}  // namespace kcc
