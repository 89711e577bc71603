// kcc run and kcc judge with --register: the verdict, its evidence and its report are kept.
#include "apps/kcc/judging.h"
#include "apps/kcc/registers.h"
#include "apps/kcc/safe_output.h"
#include "kcc/contract/canonical.h"
#include "kcc/register/promotion_evidence.h"
#include "kcc/register/record.h"

namespace kcc::cli {

Result<> CheckRecording(const JudgeFlags& flags, const Console& console) {
  if (flags.record.uri.empty()) return {};
  KCC_TRY_VOID(StampOf(flags.record, console));
  KCC_TRY_VOID(Register::Open(flags.record.uri));
  return {};
}

Result<std::vector<Contract>> ContractsBeside(const Contract& contract, const JudgeFlags& flags,
                                              Console& console) {
  std::vector<Contract> beside;
  if (flags.record.uri.empty()) return beside;
  KCC_TRY(Register source, Register::Open(flags.record.uri));
  KCC_TRY(const std::vector<std::string> digests,
          ContractsToCompare(source, ContractDigest(contract)));
  for (const std::string& digest : digests) {
    Result<Contract> read = ReadKeptContract(source, digest);
    if (read.has_value()) {
      beside.push_back(std::move(*read));
      continue;
    }
    if (read.error().code() != ErrorCode::kInvalid) return std::move(read.error());
    console.err << Paint(Style::kYellow, "warning:", console.colour_err)
                << " the evidence will not be judged under contract " << digest << ": "
                << Shown(read.error().message()) << '\n';
  }
  return beside;
}

Result<std::string> RecordVerdict(const ValidContract& contract, const Summary& summary,
                                  const Judgement& judgement, const std::string& report_json,
                                  const JudgeFlags& flags, Console& console) {
  if (flags.record.uri.empty()) return std::string();
  KCC_TRY(const Stamp stamp, StampOf(flags.record, console));
  KCC_TRY(Register target, Register::Open(flags.record.uri));
  const JudgedRun run{.contract = contract.contract,
                      .contract_source = contract.text,
                      .summary = summary,
                      .judgement = judgement,
                      .report = report_json,
                      .model = flags.model,
                      .kcc_version = std::string(Version()),
                      .actor = stamp.actor,
                      .time_ms = stamp.time_ms};
  std::string warning;
  KCC_TRY(const Head head, target.Update([&](Register& seen) {
    warning.clear();
    return RecordRun(seen, run, &warning);
  }));
  if (!warning.empty()) {
    console.err << Paint(Style::kYellow, "warning:", console.colour_err) << ' ' << Shown(warning)
                << '\n';
  }
  return std::to_string(head.sequence);
}

}  // namespace kcc::cli
