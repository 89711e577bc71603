#include "kcc/register/record.h"

#include <algorithm>
#include <array>

#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/contract/canonical.h"
#include "kcc/register/event_body.h"
#include "kcc/register/statements.h"
#include "kcc/summary/file.h"

namespace kcc {
namespace {

struct BuildWord {
  std::string_view name, other;
};
constexpr std::array<BuildWord, 9> kBuildWords = {{{"engine", ""},
                                                   {"version", "engineVersion"},
                                                   {"compiler", ""},
                                                   {"attention", "attentionBackend"},
                                                   {"quantisation", "quantization"},
                                                   {"hardware", "gpu"},
                                                   {"hardware", "device"},
                                                   {"dtype", ""},
                                                   {"kvCache", ""}}};

JsonWriter CompactJson() { return JsonWriter(JsonWriter::Style::kCompact); }

// Beyond, the body would not fit an event; the report has them all.
constexpr size_t kRecordedPairsMax = 2000;

void WriteClause(const ClauseVerdict& clause, bool with_slices, JsonWriter* json) {
  json->BeginObject().Field("id", clause.id).Field("family", Name(clause.family));
  json->Field("metric", clause.metric).Field("level", Name(clause.level));
  json->Field("hard", clause.hard).Field("verdict", Name(clause.verdict));
  if (!with_slices) {
    json->EndObject();
    return;
  }
  json->Key("slices").BeginArray();
  for (const SliceVerdict& slice : clause.slices) {
    json->BeginObject().Field("slice", slice.slice).Field("verdict", Name(slice.verdict()));
    json->Field("low", slice.value.lo).Field("high", slice.value.hi);
    json->Field("threshold", slice.threshold).EndObject();
  }
  json->EndArray().EndObject();
}

void WriteSource(const Source& source, JsonWriter* json) {
  json->BeginObject().Field("train", source.train.identity).Field("infer", source.infer.identity);
  const auto optional = [&](const char* key, const std::string& value) {
    if (!value.empty()) json->Field(key, value);
  };
  optional("trainPayload", source.train.payload_digest);
  optional("inferPayload", source.infer.payload_digest);
  optional("requestSet", source.request_set);
  json->Field("requests", source.requests).Field("tokens", source.tokens).EndObject();
}

std::string EvaluationBody(const JudgedRun& run, const std::string& triple,
                           const std::string& summary_digest) {
  const Judgement& judgement = run.judgement;
  JsonWriter json = CompactJson();
  json.BeginObject().Field("triple", triple).Field("stage", Name(judgement.stage));
  json.Field("about", Name(judgement.about)).Field("verdict", Name(judgement.verdict));
  json.Field("convergent", judgement.convergent).Field("health", judgement.health);
  if (judgement.action) json.Field("action", Name(*judgement.action));
  json.Field("summary", summary_digest).Field("report", BlobDigest(run.report));
  json.Field("kcc", run.kcc_version);
  if (!run.requests_kept.empty()) json.Field("requestsKept", run.requests_kept);
  if (!run.live.empty()) json.Key("live").Raw(run.live.substr(0, run.live.find('\n')));
  json.Key("clauses").BeginArray();
  size_t pairs = 0;
  for (const ClauseVerdict& clause : judgement.clauses) pairs += clause.slices.size();
  for (const ClauseVerdict& clause : judgement.clauses) {
    WriteClause(clause, pairs <= kRecordedPairsMax, &json);
  }
  json.EndArray().Key("evidence").BeginArray();
  for (const Source& source : run.summary.sources) WriteSource(source, &json);
  json.EndArray().Key("warnings").BeginArray();
  for (const std::string& warning : judgement.warnings) json.Value(warning);
  return json.EndArray().EndObject().Take();
}

}  // namespace

Result<Triple> TripleOf(const JudgedRun& run) {
  if (run.summary.sources.empty()) {
    return InvalidError("the summary names no traces, so the register cannot say what was judged");
  }
  const Source& first = run.summary.sources[0];
  Triple triple{.model = run.model.empty() ? first.infer.model_digest : run.model,
                .train = first.train.kernel_fingerprint,
                .infer = first.infer.kernel_fingerprint,
                .contract = ContractDigest(run.contract)};
  for (const Source& source : run.summary.sources) {
    const bool same_kernels = source.train.kernel_fingerprint == triple.train &&
                              source.infer.kernel_fingerprint == triple.infer;
    const bool same_model =
        source.infer.model_digest.empty() || source.infer.model_digest == triple.model;
    if (!same_kernels) {
      return InvalidError(
          "the evidence is of several pairs of kernels; judge each pair by itself to "
          "record it");
    }
    if (!same_model) {
      return InvalidError("the evidence is of model " + source.infer.model_digest + ", not of " +
                          triple.model);
    }
  }
  if (triple.model.empty()) {
    return InvalidError("the traces do not say which model they are of; name it with --model");
  }
  if (triple.train.empty() || triple.infer.empty()) {
    return InvalidError("a trace does not say which kernel made it, so it cannot be recorded");
  }
  return triple;
}

namespace {

// When the run's requests go; none: when somebody removes them.
std::optional<int64_t> ExpiryOf(const JudgedRun& run) {
  if (!run.requests_retention_ms) return {};
  return run.time_ms + *run.requests_retention_ms;
}

// Whether the run keeps the record for less time than its last event says. It never stays longer
// because it came again: what was promised to be gone by then is gone by then.
bool Sooner(std::optional<int64_t> expires, const Event& last) {
  if (!expires) return false;
  const std::optional<int64_t> before = BodyInteger(last.body, "expires");
  return !before || *expires < *before;
}

// The id itself stands in the record alone: bodies of events cannot be removed, and an id may name
// a person.
Result<> AddRequests(Register& target, const JudgedRun& run, const std::string& triple,
                     Batch* batch) {
  const std::optional<int64_t> expires = ExpiryOf(run);
  for (const RequestToKeep& request : run.requests) {
    const std::string digest = BlobDigest(request.record);
    KCC_TRY(const auto stored, target.ReadBlob(digest));
    KCC_TRY(const auto known, target.Find({EntryTable::kRequests, digest}));
    if (stored && known && !Sooner(expires, known->event)) continue;
    JsonWriter json = CompactJson();
    json.BeginObject().Field("request", digest).Field("store", request.store);
    json.Field("blob", digest).Field("triple", triple);
    json.Field("idDigest", Sha256Of(request.id));
    if (expires) json.Field("expires", *expires);
    batch->events.push_back({run.time_ms, run.actor, "request.stored", json.EndObject().Take()});
    batch->blobs.push_back(request.record);
  }
  return {};
}

// Adds the kernel, or looks whether the one that is there is the same build.
Result<> AddKernel(Register& target, const SourceSide& side, const JudgedRun& run, Batch* batch,
                   std::string* warning) {
  KCC_TRY(const auto known, target.Find({EntryTable::kKernels, side.kernel_fingerprint}));
  NewEvent event = KernelAdded(side.kernel_fingerprint, side.declares, run.actor, run.time_ms);
  if (!known) {
    batch->events.push_back(std::move(event));
    return {};
  }
  KCC_TRY(const std::string body, CanonicalBody(event.body));
  if (body != known->event.body) {
    *warning = "kernel " + side.kernel_fingerprint + " says other things of itself than in event " +
               std::to_string(known->state.added) +
               ": its fingerprint does not tell its builds apart";
  }
  return {};
}

}  // namespace

std::string TripleId(const Triple& triple) {
  return Sha256Of(
      "{\"contract\":" + JsonQuote(triple.contract) + ",\"infer\":" + JsonQuote(triple.infer) +
      ",\"model\":" + JsonQuote(triple.model) + ",\"train\":" + JsonQuote(triple.train) + "}");
}

NewEvent TripleAdded(const Triple& triple, const std::string& actor, int64_t time_ms) {
  JsonWriter json = CompactJson();
  json.BeginObject().Field("triple", TripleId(triple)).Field("model", triple.model);
  json.Field("train", triple.train).Field("infer", triple.infer);
  json.Field("contract", triple.contract).EndObject();
  return {time_ms, actor, "triple.added", json.Take()};
}

NewEvent KernelAdded(const std::string& fingerprint,
                     const std::map<std::string, std::string>& declares, const std::string& actor,
                     int64_t time_ms) {
  std::map<std::string, std::string> build;
  std::map<std::string, std::string> rest;
  for (const auto& [name, value] : declares) {
    const std::string& said = name;  // clang 14 captures no structured binding
    const auto word = std::find_if(kBuildWords.begin(), kBuildWords.end(), [&](const BuildWord& w) {
      return w.name == said || w.other == said;
    });
    if (word == kBuildWords.end() || !build.emplace(word->name, value).second) rest[name] = value;
  }
  JsonWriter json = CompactJson();
  json.BeginObject().Field("kernel", fingerprint).Key("build").BeginObject();
  for (const auto& [name, value] : build) json.Field(name, value);
  json.EndObject();
  if (!rest.empty()) {
    json.Key("declares").BeginObject();
    for (const auto& [name, value] : rest) json.Field(name, value);
    json.EndObject();
  }
  return {time_ms, actor, "kernel.added", json.EndObject().Take()};
}

ContractEvent ContractAdded(const Contract& contract, const std::string& source,
                            const std::string& actor, int64_t time_ms) {
  const std::string canonical = CanonicalJson(contract);
  JsonWriter json = CompactJson();
  json.BeginObject().Field("contract", ContractDigest(contract)).Field("name", contract.name);
  json.Field("version", contract.version).Field("source", BlobDigest(source)).EndObject();
  return {{time_ms, actor, "contract.added", json.Take()}, {canonical, source}};
}

Result<Batch> RecordRun(Register& target, const JudgedRun& run, std::string* warning) {
  KCC_TRY(const Triple triple, TripleOf(run));
  Batch batch;
  const auto missing = [&](EntryTable table, const std::string& id) -> Result<bool> {
    KCC_TRY(const auto known, target.Find({table, id}));
    return !known;
  };
  KCC_TRY(const bool new_model, missing(EntryTable::kModels, triple.model));
  if (new_model) {
    batch.events.push_back(
        {run.time_ms, run.actor, "model.added", "{\"model\":" + JsonQuote(triple.model) + "}"});
  }
  const Source& source = run.summary.sources[0];
  KCC_TRY_VOID(AddKernel(target, source.train, run, &batch, warning));
  if (triple.infer != triple.train) {
    KCC_TRY_VOID(AddKernel(target, source.infer, run, &batch, warning));
  }
  KCC_TRY(const bool new_contract, missing(EntryTable::kContracts, triple.contract));
  if (new_contract) {
    ContractEvent added = ContractAdded(run.contract, run.contract_source, run.actor, run.time_ms);
    batch.events.push_back(std::move(added.event));
    batch.blobs = std::move(added.blobs);
  }
  KCC_TRY(const bool new_triple, missing(EntryTable::kTriples, TripleId(triple)));
  if (new_triple) batch.events.push_back(TripleAdded(triple, run.actor, run.time_ms));
  KCC_TRY_VOID(AddRequests(target, run, TripleId(triple), &batch));
  std::string summary = EncodeSummary(run.summary);
  batch.events.push_back({run.time_ms, run.actor, "evaluation.recorded",
                          EvaluationBody(run, TripleId(triple), BlobDigest(summary))});
  batch.blobs.push_back(std::move(summary));
  batch.blobs.push_back(run.report);
  if (!run.statement.empty()) {
    KCC_TRY(const Head head, target.ReadHead());
    const int64_t evaluation = head.sequence + static_cast<int64_t>(batch.events.size());
    batch.events.push_back(StatementAdded(run.statement,
                                          {EntryTable::kEvaluations, std::to_string(evaluation)},
                                          evaluation, run.actor, run.time_ms));
    batch.blobs.push_back(run.statement);
  }
  return batch;
}

}  // namespace kcc
