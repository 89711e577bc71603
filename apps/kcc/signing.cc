#include "apps/kcc/signing.h"

#include <algorithm>

#include "kcc/base/file.h"
#include "kcc/statement/command_signer.h"

namespace kcc::cli {

Result<OwnedSigners> OpenSigners(const SigningFlags& flags) {
  if (!flags.keys.empty() && !flags.sign_with.empty()) {
    return InvalidError("sign with --key FILE or with --sign-with COMMAND, not with both");
  }
  if (flags.sign_with.empty() != flags.public_key.empty()) {
    return InvalidError(
        "--sign-with and --public-key belong together: what the command signs is verified at once");
  }
  OwnedSigners signers;
  for (const std::string& file : flags.keys) {
    KCC_TRY(std::string pem, ReadFile(file, kPemBytesMax));
    Result<std::unique_ptr<Signer>> signer = SignerFromPem(pem);
    std::fill(pem.begin(), pem.end(), '\0');
    if (!signer.has_value()) return std::move(signer.error()).At(Place{file});
    signers.push_back(std::move(*signer));
  }
  if (!flags.sign_with.empty()) {
    KCC_TRY(const std::string pem, ReadFile(flags.public_key, kPemBytesMax));
    Result<PublicKey> key = PublicKey::FromPem(pem);
    if (!key.has_value()) return std::move(key.error()).At(Place{flags.public_key});
    signers.push_back(CommandSigner(flags.sign_with, std::move(*key), flags.timeout_s));
  }
  return signers;
}

Result<Keyring> LoadKeyring(const std::string& file) {
  KCC_TRY(const std::string text, ReadFile(file, kKeyringBytesMax));
  return ReadKeyring(text, file);
}

std::string SignerLines(const OwnedSigners& signers) {
  std::string lines;
  for (const std::unique_ptr<Signer>& signer : signers) {
    lines += "signed by " + std::string(Name(signer->public_key().kind())) + " " +
             signer->public_key().id() + "\n";
  }
  return lines;
}

}  // namespace kcc::cli
