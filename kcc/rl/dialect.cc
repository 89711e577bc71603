// The list of dialects, and the way from a name to its code.
#include "kcc/rl/dialect.h"

#include <algorithm>
#include <array>

#include "kcc/base/strings.h"
#include "kcc/rl/dialect_list.h"

namespace kcc {
namespace {

constexpr std::array<std::string_view, 1> kVerl = {"compute_rollout_correction_and_rejection_mask"};
constexpr std::array<std::string_view, 3> kTrl = {"importance_sampling", "get_off_policy_mask",
                                                  "get_gamma_weights"};
constexpr std::array<std::string_view, 1> kOpenRlhf = {"PolicyLoss"};
constexpr std::array<std::string_view, 4> kSlime = {"compute_mis_weights", "vanilla_tis_function",
                                                    "icepop_function", "compute_opsm_mask"};
constexpr std::array<std::string_view, 1> kSkyRl = {"compute_off_policy_correction"};
constexpr std::array<std::string_view, 1> kAreal = {"apply_rejection_sampling"};
constexpr std::array<std::string_view, 1> kMsSwift = {"rollout_correction"};
constexpr std::array<std::string_view, 2> kNemo = {"ClippedPGLossFn",
                                                   "compute_and_apply_seq_logprob_error_masking"};
constexpr std::array<std::string_view, 1> kRoll = {"compute_train_infer_correction"};
constexpr std::array<std::string_view, 2> kPrimeRl = {"default_loss_fn", "ipo_loss_fn"};
constexpr std::array<std::string_view, 1> kOpenInstruct = {"compute_rho_correction"};

constexpr std::array<DialectInfo, 11> kDialects = {{
    {"verl", "verl", "verl-project/verl", "1dda039b9", kVerl, ""},
    {"trl", "TRL", "huggingface/trl", "f2cd57710", kTrl, ""},
    {"openrlhf", "OpenRLHF", "OpenRLHF/OpenRLHF", "3c3be6234", kOpenRlhf, ""},
    {"slime", "slime", "THUDM/slime", "624b824a8", kSlime, "miles"},
    {"skyrl", "SkyRL", "NovaSky-AI/SkyRL", "a9564572e", kSkyRl, ""},
    {"areal", "AReaL", "inclusionAI/AReaL", "4aef98d8d", kAreal, ""},
    {"ms_swift", "ms-swift", "modelscope/ms-swift", "3602360a5", kMsSwift, "swift"},
    {"nemo", "NeMo-RL", "NVIDIA-NeMo/RL", "7ea279abf", kNemo, "nemo_rl"},
    {"roll", "ROLL", "alibaba/ROLL", "8eb27cc2d", kRoll, ""},
    {"prime_rl", "prime-rl", "PrimeIntellect-ai/prime-rl", "559b44772", kPrimeRl, "prime"},
    {"open_instruct", "open-instruct", "allenai/open-instruct", "e6c3044aa", kOpenInstruct, ""},
}};

const DialectCode& CodeOf(const DialectInfo& info) {
  static const std::array<const DialectCode*, kDialects.size()> codes = {
      &kVerlDialect,  &kTrlDialect,     &kOpenRlhfDialect,    &kSlimeDialect,
      &kSkyRlDialect, &kArealDialect,   &kMsSwiftDialect,     &kNemoDialect,
      &kRollDialect,  &kPrimeRlDialect, &kOpenInstructDialect};
  return *codes[static_cast<size_t>(&info - kDialects.data())];
}

std::string Plain(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != '-' && c != '_') out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
  }
  return out;
}

bool IsAlias(const DialectInfo& info, const std::string& plain) {
  if (Plain(info.id) == plain) return true;
  std::string_view rest = info.aliases;
  while (!rest.empty()) {
    const size_t end = rest.find(' ');
    if (Plain(rest.substr(0, end)) == plain) return true;
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
  }
  return false;
}

Result<std::string_view> FunctionOf(const DialectInfo& info, std::string_view function) {
  if (function.empty()) return info.functions.front();
  for (const std::string_view known : info.functions) {
    if (known == function) return known;
  }
  return InvalidError(std::string(info.title) + " has no function \"" + std::string(function) +
                      "\" here; known are " + JoinWords(info.functions));
}

}  // namespace

std::span<const DialectInfo> Dialects() { return kDialects; }

Result<const DialectInfo*> FindDialect(std::string_view name) {
  const std::string plain = Plain(name);
  std::vector<std::string_view> ids;
  for (const DialectInfo& info : kDialects) {
    if (IsAlias(info, plain)) return &info;
    ids.push_back(info.id);
  }
  const auto nearest = NearestWord(name, ids);
  return InvalidError("no dialect is called \"" + std::string(name) + "\"; " +
                      (nearest ? "did you mean \"" + std::string(*nearest) + "\"?"
                               : "known are " + JoinWords(ids)));
}

std::optional<double> DialectResult::Metric(std::string_view name) const {
  for (const auto& [known, value] : metrics) {
    if (known == name) return value;
  }
  return std::nullopt;
}

const DialectArray* DialectResult::Array(std::string_view name) const {
  for (const DialectArray& array : arrays) {
    if (array.name == name) return &array;
  }
  return nullptr;
}

Result<DialectResult> RunDialect(std::string_view dialect, std::string_view function,
                                 const RlBatch& batch, const DialectExtras& extras,
                                 std::string_view options_json) {
  KCC_TRY(const DialectInfo* info, FindDialect(dialect));
  KCC_TRY(const std::string_view called, FunctionOf(*info, function));
  KCC_TRY(const OptionValue options, ParseOptions(options_json));
  KCC_TRY(const DialectInput in, LoadDialectInput(batch, extras));
  return CodeOf(*info).run(in, called, options);
}

Result<DialectTranslation> TranslateDialect(std::string_view dialect, std::string_view function,
                                            std::string_view options_json) {
  KCC_TRY(const DialectInfo* info, FindDialect(dialect));
  KCC_TRY(const std::string_view called, FunctionOf(*info, function));
  KCC_TRY(const OptionValue options, ParseOptions(options_json));
  return CodeOf(*info).translate(called, options);
}

}  // namespace kcc
