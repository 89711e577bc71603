// What the program itself needs: its data, vector instructions that agree, the libraries it was
// linked with, and room for what it measures.
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>

#include "apps/kcc/doctor.h"
#include "apps/kcc/kernels.h"
#include "apps/kcc/shipped.h"
#include "kcc/base/strings.h"
#include "kcc/contract/reader.h"
#include "kcc/drift/simd.h"
#include "kcc/kernel/private_dir.h"
#include "kcc/kernel/server_kernel.h"
#include "kcc/lab/checkpoint.h"
#include "kcc/numeric/target.h"

namespace kcc::cli {
namespace {

constexpr std::string_view kGroup = "installation";
constexpr const char* kReinstall =
    "install kcc with its data, cmake --install build/release --prefix PREFIX, or run it in a "
    "checkout";

// `where` is found if it was shipped; `works` says whether it can be read.
Finding Data(const char* name, const Result<std::string>& where,
             const std::function<Result<>(const std::string&)>& works) {
  Finding finding{kGroup, name, Found::kOk, "", "", true};
  if (!where.has_value()) {
    finding.found = Found::kMissing;
    finding.detail = "not beside the program, nor in this folder";
    finding.remedy = kReinstall;
    return finding;
  }
  finding.detail = *where;
  if (const Result<> read = works(*where); !read.has_value()) {
    finding.found = Found::kBroken;
    finding.detail = read.error().Format() + read.error().message();
    finding.remedy = kReinstall;
  }
  return finding;
}

Result<> ReadsContract(const std::string& path) {
  KCC_TRY(const ContractFile file, ReadContractFile(path));
  if (file.outcome.contract) return {};
  return InvalidError("not a valid contract", Place{path});
}

// The KL of one row pair; the same bits on every target, or kcc's promise is broken on this CPU.
Finding Vectors() {
  constexpr size_t kEntries = 1000;
  std::array<float, kEntries> train{};
  std::array<float, kEntries> infer{};
  for (size_t i = 0; i < kEntries; ++i) {
    train[i] = std::sin(static_cast<float>(i));
    infer[i] = train[i] + 0.01F * std::cos(3 * static_cast<float>(i));
  }
  RowPair pair;
  pair.train = train.data();
  pair.infer = infer.data();
  pair.vocab = kEntries;
  const size_t slot = TokenSlot("kl");
  SlotSet wanted;
  wanted.set(slot);
  Finding finding{kGroup, "vectors", Found::kOk, "", "", true};
  std::optional<uint64_t> bits;
  for (const Target target : AvailableTargets()) {
    RowScratch scratch;
    TokenDrift drift;
    const Result<> measured = MeasureRowSimd(pair, wanted, target, &scratch, &drift);
    const auto mine = std::bit_cast<uint64_t>(drift.lo[slot]);
    if (!measured.has_value() || (bits && *bits != mine)) {
      finding.found = Found::kBroken;
      finding.remedy = "the targets give different bits; please report it with this CPU's name";
    }
    bits = mine;
    finding.detail += (finding.detail.empty() ? "" : ", ") + std::string(TargetName(target));
  }
  finding.detail += AvailableTargets().size() > 1 ? "; all give the same bits" : "";
  return finding;
}

Finding Scratch() {
  const std::string place = ScratchDirectory("");
  Finding finding{kGroup, "scratch", Found::kOk, place + " can be written", "", true};
  if (const Result<PrivateDir> made = PrivateDir::Make(place); !made.has_value()) {
    finding.found = Found::kBroken;
    finding.detail = place + ": " + made.error().message();
    finding.remedy = "give another with --scratch DIR or TMPDIR";
  }
  return finding;
}

}  // namespace

void CheckInstallation(const Console& console, std::vector<Finding>* findings) {
  findings->push_back({kGroup, "program", Found::kOk,
                       "kcc " + std::string(Version()) + " at " + console.program, "", true});
  findings->push_back(Data("model", ShippedModelOf(console)(), [](const std::string& path) {
    const Result<Checkpoint> read = ReadCheckpoint(path);
    return read.has_value() ? Result<>() : Result<>(read.error());
  }));
  findings->push_back(Data("requests", ShippedRequests(console), [](const std::string& path) {
    const auto read = OpenRequestFile(path, RequestUse::kScore);
    return read.has_value() ? Result<>() : Result<>(read.error());
  }));
  findings->push_back(Data("contract", ShippedLabContract(console), ReadsContract));
  findings->push_back(Vectors());
  // The program would not run without the others.
  findings->push_back({kGroup, "libraries", Found::kOk, HttpLibraryVersion(), "", true});
  findings->push_back(Scratch());
}

}  // namespace kcc::cli
