// Dumps from a pair of kcc traces: the sampled tokens' log-probs as recorded, or from full logits
// at the pair's temperature.
#include <cmath>
#include <map>

#include "kcc/base/strings.h"
#include "kcc/rl/dump_formats.h"
#include "kcc/summary/token_meter.h"
#include "kcc/trace/pairing.h"

namespace kcc {
namespace {

std::string FieldText(const FieldValue& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return std::string(*text);
  if (const auto* number = std::get_if<double>(&value)) return ShortestNumber(*number);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  return "none";
}

Result<double> Logprob(const PairedTraces& pair, const TokenEvidence& token, int32_t request,
                       std::string_view side) {
  auto logprob = SampledLogprob(token, pair.vocab_size(), pair.temperature(), side);
  if (logprob.has_value() && !std::isnan(*logprob)) return *logprob;
  const std::string place = "request \"" +
                            std::string(pair.requests()[static_cast<size_t>(request)].id) +
                            "\", position " + std::to_string(token.position);
  if (!logprob.has_value()) return BrokenEvidenceError(place + ": " + logprob.error().message());
  return BrokenEvidenceError(place + " has no " + std::string(side) +
                             " log-prob; kcc rl needs the sampled token's log-prob, or full "
                             "logits, on both sides");
}

}  // namespace

Result<> ReadTraceDump(const std::string& train, const std::string& infer,
                       const RlDumpOptions& options, RlDump* dump) {
  KCC_TRY(TraceReader train_reader, TraceReader::Open(train));
  KCC_TRY(TraceReader infer_reader, TraceReader::Open(infer));
  KCC_TRY(const PairedTraces pair,
          PairedTraces::Make(std::move(train_reader), std::move(infer_reader)));
  if (pair.mode() == TraceMode::kGenerated) {
    return InvalidError(
        "generated traces do not pair token by token; score the sampled tokens with the trainer");
  }
  if (pair.evidence() == EvidenceLevel::kNone) {
    return InvalidError("one of the traces holds no log-probs and no logits; record either");
  }
  std::vector<double> lhs, rhs, advantages;
  std::map<std::string, int32_t> slices;
  std::vector<std::string> slice_of;
  dump->offsets = {0};
  PairCursor cursor(pair);
  bool advantage_known = true;
  for (size_t r = 0; r < pair.requests().size(); ++r) {
    const auto request = static_cast<int32_t>(r);
    cursor.Seek(request);
    while (true) {
      KCC_TRY(const bool more, cursor.Next());
      if (!more) break;
      KCC_TRY(const double of_train, Logprob(pair, cursor.train(), request, "train"));
      KCC_TRY(const double of_infer, Logprob(pair, cursor.infer(), request, "infer"));
      lhs.push_back(of_train);
      rhs.push_back(of_infer);
      const float advantage = std::isnan(cursor.infer().advantage) ? cursor.train().advantage
                                                                   : cursor.infer().advantage;
      advantage_known = advantage_known && !std::isnan(advantage);
      advantages.push_back(static_cast<double>(advantage));
    }
    dump->offsets.push_back(static_cast<int64_t>(lhs.size()));
    if (!options.slice_by.empty()) {
      slice_of.push_back(FieldText(pair.Field(request, options.slice_by)));
      slices.emplace(slice_of.back(), 0);
    }
  }
  const auto count = static_cast<int64_t>(lhs.size());
  dump->arrays.push_back({"train", {count}, std::move(lhs)});
  dump->arrays.push_back({"rollout", {count}, std::move(rhs)});
  if (advantage_known && count > 0) {
    dump->arrays.push_back({"advantages", {count}, std::move(advantages)});
  }
  for (auto& [name, number] : slices) {
    number = static_cast<int32_t>(dump->slice_names.size());
    dump->slice_names.push_back(name);
  }
  for (const std::string& name : slice_of) dump->slice_of_row.push_back(slices[name]);
  return {};
}

}  // namespace kcc
