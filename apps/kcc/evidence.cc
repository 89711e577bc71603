#include "apps/kcc/evidence.h"

#include "apps/kcc/measuring.h"
#include "kcc/summary/file.h"

namespace kcc::cli {

Result<std::pair<std::string, std::string>> SplitTraces(const std::string& name) {
  const size_t colon = name.find(':');
  const std::string train = name.substr(0, colon);
  const std::string infer = colon == std::string::npos ? "" : name.substr(colon + 1);
  if (train.empty() || infer.empty() || infer.find(':') != std::string::npos) {
    return InvalidError("'" + name +
                        "' is not TRAIN:INFER; for directories with a colon in their name, run kcc "
                        "measure first and name the summary");
  }
  return std::pair(train, infer);
}

Result<Summary> LoadEvidence(const std::string& name, const Contract* contract,
                             const MeasureFlags& flags, Console& console) {
  if (name.find(':') == std::string::npos) {
    if (!name.ends_with(".kccs")) {
      return InvalidError("'" + name +
                          "' is not evidence: write TRAIN:INFER for two traces, or name a summary "
                          "(.kccs, from kcc measure)");
    }
    return ReadSummaryFile(name);
  }
  KCC_TRY(const auto names, SplitTraces(name));
  KCC_TRY(const PairedTraces pair, OpenPair(names.first, names.second, flags));
  return MeasurePair(pair, contract, flags, console);
}

}  // namespace kcc::cli
