// kcc run and kcc judge with --register: the verdict, its evidence and its report are kept.
#include "apps/kcc/judging.h"
#include "apps/kcc/registers.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/signing.h"
#include "kcc/register/record.h"
#include "kcc/register/statements.h"

namespace kcc::cli {

Result<> CheckRecording(const JudgeFlags& flags, const Console& console) {
  if (flags.record.uri.empty()) {
    if (flags.signing.any()) {
      return InvalidError("--key and --sign-with sign what is recorded: name a --register");
    }
    return {};
  }
  KCC_TRY_VOID(StampOf(flags.record, console));
  KCC_TRY_VOID(OpenSigners(flags.signing));
  KCC_TRY_VOID(Register::Open(flags.record.uri));
  return {};
}

Result<std::string> RecordVerdict(const ValidContract& contract, const Summary& summary,
                                  const Judgement& judgement, const std::string& report_json,
                                  const JudgeFlags& flags, Console& console) {
  if (flags.record.uri.empty()) return std::string();
  KCC_TRY(const Stamp stamp, StampOf(flags.record, console));
  KCC_TRY(Register target, Register::Open(flags.record.uri));
  KCC_TRY(const OwnedSigners signers, OpenSigners(flags.signing));
  JudgedRun run{.contract = contract.contract,
                .contract_source = contract.text,
                .summary = summary,
                .judgement = judgement,
                .report = report_json,
                .model = flags.model,
                .kcc_version = std::string(Version()),
                .actor = stamp.actor,
                .time_ms = stamp.time_ms};
  if (!signers.empty()) {
    KCC_TRY(run.statement, SignRun(run, signers));
  }
  std::string warning;
  KCC_TRY(const Head head, target.Update([&](Register& seen) {
    warning.clear();
    return RecordRun(seen, run, &warning);
  }));
  if (!warning.empty()) {
    console.err << Paint(Style::kYellow, "warning:", console.colour_err) << ' ' << Shown(warning)
                << '\n';
  }
  return std::to_string(head.sequence - (signers.empty() ? 0 : 1));
}

}  // namespace kcc::cli
