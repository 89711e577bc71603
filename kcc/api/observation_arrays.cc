#include "kcc/api/observation_arrays.h"

#include <array>
#include <numeric>
#include <optional>
#include <string_view>

#include "kcc/api/guard.h"
#include "kcc/api/sized.h"
#include "kcc/metric/token_slots.h"
#include "kcc/trace/requests.h"

namespace kcc::api {
namespace {

constexpr int64_t kRowsMax = int64_t{1} << 31;
constexpr int64_t kColumnsMax = 1024;

// Columns that are not quantities of the catalog, by Side.
constexpr std::array<const char*, 2> kLogprob = {"logprob", "train_logprob"};
constexpr std::array<const char*, 2> kConfidence = {"confidence", "train_confidence"};

template <class T>
std::vector<T> Copied(const T* data, int64_t rows) {
  if (data == nullptr) return {};
  return {data, data + rows};
}

Result<Request> RecordOf(const char* json, const char* name) {
  Result<Request> request = ParseRequest(json);
  if (request) return request;
  return Error(request.error().code(), std::string(name) + ": " + request.error().message());
}

bool IsOwnTokenMetric(const Contract& contract, std::string_view name) {
  constexpr std::string_view kTrain = "train_";
  for (const OwnDefinition& definition : contract.metrics) {
    const OwnMetric& metric = *definition.row->own;
    if (metric.of != QuantityLevel::kToken) continue;
    if (name == metric.name) return true;
    if (name.starts_with(kTrain) && name.substr(kTrain.size()) == metric.name) return true;
  }
  return false;
}

// None: no column of that name besides those of the catalog.
std::vector<double>* PlainColumn(std::string_view name, ObservedTokens* tokens) {
  for (size_t side = 0; side < 2; ++side) {
    if (name == kLogprob[side]) return &tokens->logprob[side];
    if (name == kConfidence[side]) return &tokens->confidence[side];
  }
  return nullptr;
}

Result<> TakeColumn(const kcc_column& from, int64_t rows, const Contract& contract,
                    ObservedTokens* tokens) {
  KCC_TRY_VOID(RequirePointer(from.name, "columns[i].name"));
  KCC_TRY_VOID(RequirePointer(from.values, "columns[i].values"));
  const std::string_view name = from.name;
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    if (SlotName(slot) != name) continue;
    tokens->columns.push_back({slot, Copied(from.values, rows), Copied(from.upper, rows)});
    return {};
  }
  if (from.upper != nullptr) {
    return InvalidError("columns: '" + std::string(name) +
                        "' has no intervals; upper must be NULL");
  }
  if (std::vector<double>* const plain = PlainColumn(name, tokens)) {
    *plain = Copied(from.values, rows);
    return {};
  }
  if (IsOwnTokenMetric(contract, name)) {
    tokens->own.push_back({std::string(name), Copied(from.values, rows)});
    return {};
  }
  return InvalidError(
      "columns: '" + std::string(name) +
      "' is no token quantity of the catalog (`kcc metrics` lists them), nor a token "
      "metric of the contract's own");
}

Result<> TakeTokens(const kcc_observation& from, const Contract& contract, ObservedTokens* to) {
  if (from.rows < 0 || from.rows > kRowsMax) {
    return InvalidError("rows must be from 0 to 2^31, and they are " + std::to_string(from.rows));
  }
  if (from.column_count < 0 || from.column_count > kColumnsMax) {
    return InvalidError("column_count must be from 0 to " + std::to_string(kColumnsMax));
  }
  to->position = Copied(from.positions, from.rows);
  if (from.positions == nullptr) {
    to->position.resize(static_cast<size_t>(from.rows));
    std::iota(to->position.begin(), to->position.end(), 0);
  }
  to->token = Copied(from.tokens, from.rows);
  to->gold = Copied(from.gold, from.rows);
  to->argmax = {Copied(from.infer_argmax, from.rows), Copied(from.train_argmax, from.rows)};
  to->advantage = Copied(from.advantages, from.rows);
  to->masked = from.masked;
  if (from.column_count > 0) KCC_TRY_VOID(RequirePointer(from.columns, "columns"));
  for (int64_t i = 0; i < from.column_count; ++i) {
    KCC_TRY_VOID(TakeColumn(from.columns[i], from.rows, contract, to));
  }
  return {};
}

}  // namespace

Result<MonitorObservation> ObservationOf(const kcc_observation* given, const Contract& contract) {
  KCC_TRY_VOID(RequirePointer(given, "observation"));
  KCC_TRY(const kcc_observation from, Sized(given, kObservationFirstSize, "kcc_observation"));
  KCC_TRY_VOID(RequirePointer(from.kernel, "kernel"));
  KCC_TRY_VOID(RequirePointer(from.infer_request, "infer_request"));
  MonitorObservation made;
  made.time_ms = from.time_ms;
  made.kernel = from.kernel;
  if (from.session != nullptr) made.session = from.session;
  made.probe = from.probe != 0;
  made.audited = from.audited != 0;
  made.one_record = from.one_record != 0;
  KCC_TRY(made.infer, RecordOf(from.infer_request, "infer_request"));
  if (from.train_request != nullptr) {
    KCC_TRY(made.train, RecordOf(from.train_request, "train_request"));
  }
  if (from.asked_request != nullptr) {
    KCC_TRY(made.asked, RecordOf(from.asked_request, "asked_request"));
  }
  KCC_TRY_VOID(TakeTokens(from, contract, &made.tokens));
  return made;
}

std::vector<kcc_column> ColumnsOf(const ObservedTokens& tokens,
                                  const std::vector<std::string>& slot_names) {
  std::vector<kcc_column> columns;
  for (const TokenColumn& column : tokens.columns) {
    columns.push_back({slot_names[column.slot].c_str(), column.lo.data(),
                       column.hi.empty() ? nullptr : column.hi.data()});
  }
  for (const OwnTokenColumn& column : tokens.own) {
    columns.push_back({column.name.c_str(), column.values.data(), nullptr});
  }
  for (size_t side = 0; side < 2; ++side) {
    if (!tokens.logprob[side].empty()) {
      columns.push_back({kLogprob[side], tokens.logprob[side].data(), nullptr});
    }
    if (!tokens.confidence[side].empty()) {
      columns.push_back({kConfidence[side], tokens.confidence[side].data(), nullptr});
    }
  }
  return columns;
}

std::vector<std::string> SlotNames() {
  std::vector<std::string> names;
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) names.push_back(SlotName(slot));
  return names;
}

}  // namespace kcc::api
