// The commands of `kcc register` that need no register: attest, verify-attestation and stamp.
#include "apps/kcc/cli_program.h"
#include "kcc/base/sha256.h"

namespace kcc::cli {
namespace {

Check IsDigest() {
  return [](const std::string& text) -> std::string {
    return IsSha256(text) ? ""
                          : "'" + text + "' is not 'sha256:' and 64 lower-case hexadecimal digits";
  };
}

CLI::Option* AddDigest(CLI::App* app, const char* name, std::string& target, const char* help) {
  return app->add_option(name, target, help)->type_name("DIGEST")->check(IsDigest());
}

CLI::Option* AddFile(CLI::App* app, const char* name, std::string& target, const char* help) {
  return app->add_option(name, target, help)->type_name(std::string(kFileValue));
}

void DeclareAttest(Program& program, CLI::App* group) {
  AttestOptions& options = program.statement.attest;
  CLI::App* app = Declare(
      program, "attest", "Sign what a report says, as an in-toto Statement in a DSSE envelope",
      "kcc register attest out --key key.pem -o out.intoto.json\n"
      "kcc register attest out --sign-with 'openssl dgst -sha256 -sign ec.pem' --public-key ec.pub "
      "-o out.intoto.json\n"
      "kcc register attest --cosign out.intoto.json --key second.pem -o both.intoto.json",
      [&](Console& console) { return RunAttest(options, console); }, group);
  Argument(app, "REPORT", options.report, kFileValue,
           "A report.json or its directory; - is standard input");
  AddFile(app, "--cosign", options.cosign, "Add signatures to this envelope instead");
  DeclareSigningFlags(app, options.signing);
  app->add_option("--time", options.time,
                  "When it was judged, as 2026-11-18T09:30:00Z; default: now")
      ->type_name("TIME");
  AddDigest(app, "--triple", options.triple,
            "The register's digest of model, kernels and contract");
  app->add_option("--evidence", options.evidence, "Name further evidence; repeatable")
      ->type_name("NAME=DIGEST")
      ->allow_extra_args(false);
  AddFile(app, "-o,--output", options.output, "The envelope to write")->required();
  AddFile(app, "--vsa", options.vsa, "Write a SLSA verification summary here too");
  app->add_option("--resource", options.resource, "URI of what was judged, for --vsa")
      ->type_name("URI");
  app->add_option("--verifier", options.verifier, "URI of who judged, for --vsa")->type_name("URI");
  AddFile(app, "--test-result", options.test_result, "Write an in-toto Test Result here too");
}

void DeclareVerify(Program& program, CLI::App* group) {
  VerifyAttestationOptions& options = program.statement.verify;
  CLI::App* app = Declare(
      program, "verify-attestation", "Verify a signed statement with a keyring; 1: not verified",
      "kcc register verify-attestation out.intoto.json --keyring keyring.yaml\n"
      "kcc register verify-attestation out.intoto.json --keyring keyring.yaml --threshold 2 "
      "--verdict satisfied",
      [&](Console& console) { return RunVerifyAttestation(options, console); }, group);
  Argument(app, "FILE", options.file, kFileValue, "A DSSE envelope; - is standard input")
      ->required();
  AddFile(app, "--keyring", options.keyring, "The keys that are trusted")->required();
  app->add_option("--subject", options.subjects, "It must be about this digest; repeatable")
      ->type_name("DIGEST")
      ->check(IsDigest())
      ->allow_extra_args(false);
  app->add_option("--threshold", options.threshold,
                  "Distinct keys that must have signed; default: 1")
      ->type_name("N")
      ->check(Between(1, 100));
  app->add_option(
         "--time", options.time,
         "When the event was; default: what the statement says. Keys are valid or not then")
      ->type_name("TIME");
  AddChoice(app, "--verdict", options.verdict, {"satisfied", "inconclusive", "error", "violated"},
            "It must say this verdict");
}

void DeclareStamp(Program& program, CLI::App* group) {
  StampOptions& options = program.statement.stamp;
  CLI::App* app = Declare(
      program, "stamp", "Write the digests of contract and triple into a checkpoint's metadata",
      "kcc register stamp model.safetensors --contract sha256:… --triple sha256:… -o "
      "stamped.safetensors\n"
      "kcc register stamp --show stamped.safetensors",
      [&](Console& console) { return RunStamp(options, console); }, group);
  Argument(app, "CHECKPOINT", options.checkpoint, kFileValue, "A safetensors file")->required();
  CLI::Option* show =
      AddSwitch(app, "--show", options.show, "Print the stamp it has; 1: it has none");
  AddDigest(app, "--contract", options.contract, "Digest of the contract")->excludes(show);
  AddDigest(app, "--triple", options.triple, "The register's digest of model, kernels and contract")
      ->excludes(show);
  AddFile(app, "-o,--output", options.output, "The file to write; may be CHECKPOINT")
      ->excludes(show);
}

}  // namespace

void DeclareSigningFlags(CLI::App* app, SigningFlags& flags) {
  app->add_option("--key", flags.keys, "A private key, PKCS#8 in PEM; repeatable")
      ->type_name(std::string(kFileValue))
      ->allow_extra_args(false);
  app->add_option("--sign-with", flags.sign_with,
                  "Or a command that gets the bytes on standard input and prints the signature")
      ->type_name("COMMAND");
  AddFile(app, "--public-key", flags.public_key, "The public key of --sign-with, in PEM");
  app->add_option("--timeout", flags.timeout_s, "Limit for --sign-with; default: 60")
      ->type_name("SECONDS")
      ->check(AboveZero());
}

void DeclareStatementCommands(Program& program, CLI::App* group) {
  DeclareAttest(program, group);
  DeclareVerify(program, group);
  DeclareStamp(program, group);
}

}  // namespace kcc::cli
