// The commands of `kcc register` that sign, verify and stamp; they need no register.
#pragma once

#include <string>
#include <vector>

#include "apps/kcc/console.h"
#include "apps/kcc/signing.h"

namespace kcc::cli {

struct AttestOptions {
  std::string report;  // empty: cosign
  std::string cosign;  // an envelope to add signatures to; empty: none
  SigningFlags signing;
  std::string time;                   // of the event; empty: now
  std::string triple;                 // digest; empty: not known
  std::vector<std::string> evidence;  // further evidence: NAME=DIGEST
  std::string output;
  std::string vsa;       // a SLSA verification summary too; empty: none
  std::string resource;  // its resourceUri
  std::string verifier;  // its verifier.id; empty: the default
  std::string test_result;
};
int RunAttest(const AttestOptions& options, Console& console);

struct VerifyAttestationOptions {
  std::string file;
  std::string keyring;
  std::vector<std::string> subjects;
  int threshold = 1;
  std::string time;     // empty: what the statement says
  std::string verdict;  // empty: any
};
int RunVerifyAttestation(const VerifyAttestationOptions& options, Console& console);

struct StampOptions {
  std::string checkpoint;
  std::string contract;
  std::string triple;
  std::string output;
  bool show = false;
};
int RunStamp(const StampOptions& options, Console& console);

// Owns what the parser writes into.
struct StatementProgram {
  AttestOptions attest;
  VerifyAttestationOptions verify;
  StampOptions stamp;
};

}  // namespace kcc::cli
