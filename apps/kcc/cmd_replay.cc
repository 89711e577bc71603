// kcc replay: a stored request under both kernels again. The exit code says whether each kernel
// still does what it did: 0 both, 1 one does not, 3 it cannot be told.
#include <filesystem>

#include "apps/kcc/commands.h"
#include "apps/kcc/kernels.h"
#include "apps/kcc/registers.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/shipped.h"
#include "kcc/attribution/attribution_page.h"
#include "kcc/attribution/corners.h"
#include "kcc/base/file.h"
#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/register/event_body.h"
#include "kcc/replay/replay.h"

namespace kcc::cli {
namespace {

struct Record {
  StoredRequest stored;
  std::string digest;
};

Result<Record> ParseRecord(const std::string& bytes, const std::string& name) {
  Result<StoredRequest> stored = ParseStoredRequest(bytes);
  if (!stored.has_value()) return std::move(stored.error()).At(Place{name});
  return Record{std::move(*stored), StoredRequestDigest(bytes)};
}

// By the request's id. The register has only its digest; of several records the user must choose.
Result<std::optional<Entry>> FindById(Register& source, const std::string& id) {
  KCC_TRY(std::vector<Entry> all, source.List({.table = EntryTable::kRequests}));
  const std::string digest = Sha256Of(id);
  std::erase_if(
      all, [&](const Entry& entry) { return BodyText(entry.event.body, "idDigest") != digest; });
  if (all.empty()) return std::optional<Entry>();
  if (all.size() == 1) return std::optional<Entry>(std::move(all[0]));
  std::string message = "request '" + id + "' is stored " + std::to_string(all.size()) +
                        " times; name one by its digest, the newest first:";
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(all.size(), kShown); ++i) message += " " + all[i].key.id;
  return InvalidError(message + (all.size() > kShown ? " …" : ""));
}

Result<Record> RecordInRegister(const ReplayCommandOptions& options) {
  KCC_TRY(Register source, Register::Open(options.record.uri));
  KCC_TRY(std::optional<Entry> entry, FindById(source, options.request));
  if (!entry) {
    KCC_TRY(entry, FindEntry(source, EntryTable::kRequests, options.request));
  }
  const std::string blob = BodyText(entry->event.body, "blob");
  if (blob.empty())
    return InvalidError("request " + entry->key.id + " was stored without a record");
  KCC_TRY(const auto bytes, source.ReadBlob(blob));
  if (!bytes) {
    return InvalidError("the record of request " + entry->key.id +
                        " was removed; kcc register show removal " + blob + " says why");
  }
  return ParseRecord(*bytes, blob);
}

Result<Record> RecordOf(const ReplayCommandOptions& options) {
  if (!options.record.uri.empty()) return RecordInRegister(options);
  std::error_code unknown;
  if (!std::filesystem::exists(options.request, unknown)) {
    return InvalidError(
        "there is no such file; name a record that kcc register blob wrote, or a "
        "register with --register",
        Place{options.request});
  }
  KCC_TRY(const std::string bytes, ReadFile(options.request, kStoredRequestBytesMax));
  return ParseRecord(bytes, options.request);
}

// The request itself: from the record, or from the user where the record has digests alone.
Result<KernelRequest> RequestOf(const ReplayCommandOptions& options, const StoredRequest& stored) {
  if (stored.store == StoreRequests::kFull) {
    if (options.kernels.requests.empty()) return RequestToRun(stored);
    return InvalidError("the record holds the token ids: leave --requests out");
  }
  if (options.kernels.requests.empty()) {
    return InvalidError(
        "the record holds digests of the token ids alone; give the ids with "
        "--requests");
  }
  KCC_TRY(const auto source,
          OpenRequests(options.kernels, RequestUse::kScore, SampledBy::kDataset));
  KernelRequest request;
  while (true) {
    KCC_TRY(const bool more, source->Next(&request));
    if (!more) break;
    if (request.request.id != stored.id) continue;
    KCC_TRY_VOID(CheckSuppliedRequest(stored, request));
    return request;
  }
  return InvalidError("there is no request '" + stored.id + "' in it",
                      Place{options.kernels.requests});
}

// A trace says again what it said, whatever the kernel would do now.
Result<> RefuseTrace(const std::string& uri) {
  KCC_TRY(const KernelUri parsed, ParseKernelUri(uri));
  if (parsed.scheme != "trace") return {};
  return InvalidError("a trace was recorded once and runs nothing; name the kernel itself",
                      Place{uri});
}

Result<Attribution> AttributeRequest(const ReplayCommandOptions& options,
                                     const KernelRequest& request, const KernelOpenOptions& opening,
                                     Console& console) {
  KCC_TRY(CornerSet corners, CornersBetween(options.train, options.infer, opening,
                                            KernelSchemes(console), ShippedModelOf(console)));
  AttributionOptions how;
  how.active = corners.active;
  how.measure_base = !corners.repeatable;
  how.quantities = options.quantities.empty() ? std::vector<std::string>{"kl"} : options.quantities;
  how.scratch = ScratchDirectory(options.kernels.scratch);
  return Attribute(*corners.train, corners.open, {&request, 1}, how);
}

// With audit points. Where a kernel fails at them, such as by an answer that is too long, once more
// without: they say where two runs part, and signatures alone whether a run is the one of then.
Result<ReplayResult> RunBoth(const ReplayCommandOptions& options, const StoredRequest& stored,
                             const KernelRequest& request, const KernelOpenOptions& opening,
                             const Interruptible& interruptible, Console& console) {
  const auto open = [&](bool audit_points) {
    KernelOpenOptions audited = opening;
    audited.audit_points = audit_points;
    return OpenKernelPair(options.train, options.infer, audited, KernelSchemes(console),
                          [&] { interruptible.Stop(); });
  };
  const ReplayOptions how{ScratchDirectory(options.kernels.scratch), options.alone};
  KCC_TRY(KernelPair pair, open(true));
  Result<ReplayResult> result = Replay(stored, request, pair, how);
  if (result.has_value() || result.error().code() == ErrorCode::kInvalid) return result;
  pair = {};  // two models at once may be more than fits
  Result<KernelPair> silent = open(false);
  if (!silent.has_value()) return result;
  Result<ReplayResult> without = Replay(stored, request, *silent, how);
  if (!without.has_value()) return result;
  without->audit.why = "with audit points a kernel fails (" + result.error().Format() +
                       "); ask it for fewer of them, if it has a setting for that";
  return without;
}

Result<ReplayResult> Run(const ReplayCommandOptions& options, const StoredRequest& stored,
                         Console& console) {
  const std::vector<KernelScheme> schemes = KernelSchemes(console);
  for (const std::string* uri : {&options.train, &options.infer}) {
    KCC_TRY_VOID(RefuseTrace(*uri));
    KCC_TRY_VOID(CheckKernelUri(*uri, schemes));
  }
  KCC_TRY(const KernelRequest request, RequestOf(options, stored));
  const Interruptible interruptible(console);
  const KernelOpenOptions opening = OpenOptionsOf(options.kernels, interruptible);
  KCC_TRY(ReplayResult result, RunBoth(options, stored, request, opening, interruptible, console));
  if (options.no_attribution) {
    result.no_attribution = "it was not asked for";
  } else if (result.sides_agree == true) {
    result.no_attribution = "the kernels agree bit for bit";
  } else {
    auto attribution = AttributeRequest(options, request, opening, console);
    if (attribution.has_value()) {
      result.attribution = std::move(*attribution);
    } else {
      result.no_attribution = "it needs kernels whose options belong to sources of error: " +
                              attribution.error().Format();
    }
  }
  return result;
}

void WriteSide(std::string_view key, const SideReplay& side, JsonWriter* json) {
  json->Key(key).BeginObject().Field("outcome", Name(side.outcome)).Field("why", side.why);
  json->Field("fingerprint", side.fingerprint);
  json->Field("storedFingerprint", side.stored_fingerprint);
  json->Field("signature", side.signature).Field("storedSignature", side.stored_signature);
  json->EndObject();
}

void WriteAttribution(const ReplayResult& result, JsonWriter* json) {
  json->Key("attribution");
  if (!result.attribution) {
    json->Null().Field("noAttribution", result.no_attribution);
    return;
  }
  json->BeginArray();
  for (const AttributedCell& cell : result.attribution->cells) {
    json->BeginObject().Field("quantity", cell.quantity).Field("total", cell.shapley.total);
    for (size_t i = 0; i < kShapleySources; ++i) {
      json->Field(Name(kErrorSources[i]), cell.shapley.share[i]);
    }
    json->Field("interaction", cell.shapley.interaction).EndObject();
  }
  json->EndArray();
}

void PrintJson(const Record& record, const ReplayResult& result, Console& console) {
  JsonWriter json;
  json.BeginObject().Field("kccReplay", 1).Field("request", record.stored.id);
  json.Field("record", record.digest).Key("reproduced");
  if (result.Reproduced() || result.Refuted()) {
    json.Value(result.Reproduced());
  } else {
    json.Null();
  }
  WriteSide("train", result.train, &json);
  WriteSide("infer", result.infer, &json);
  json.Key("sidesAgree");
  result.sides_agree ? json.Value(*result.sides_agree) : json.Null();
  json.Field("company", result.company);
  json.Key("audit").BeginObject().Field("points", result.audit.compared);
  if (result.audit.positions) json.Field("positions", *result.audit.positions);
  json.Field("pointsOfOneSide", result.audit.alone).Field("why", result.audit.why);
  json.Key("firstDivergence");
  if (result.audit.outcome == AuditComparison::Outcome::kDiverge) {
    json.BeginObject().Field("point", result.audit.point);
    if (result.audit.position) json.Field("position", *result.audit.position);
    json.EndObject();
  } else {
    json.Null();
  }
  json.EndObject();
  WriteAttribution(result, &json);
  console.out << json.EndObject().Take();
}

void PrintSide(std::string_view name, const SideReplay& side, Console& console) {
  console.out << name << "  " << Name(side.outcome);
  if (!side.why.empty()) console.out << ": " << Shown(side.why);
  console.out << '\n';
  const auto pair = [&](std::string_view what, const std::string& then, const std::string& now) {
    if (then == now) return;
    const auto word = [](const std::string& text) { return text.empty() ? "none" : Shown(text); };
    console.out << "  " << what << " then  " << word(then) << "\n  " << what << " now   "
                << word(now) << '\n';
  };
  pair("fingerprint", side.stored_fingerprint, side.fingerprint);
  pair("signature", side.stored_signature, side.signature);
}

void PrintStored(const Record& record, Console& console) {
  const StoredRequest& stored = record.stored;
  console.out << "request " << Shown(stored.id) << ", record " << ShortId(record.digest) << '\n';
  for (const RequestFlag& flag : stored.flags) {
    console.out << "  flagged by " << Shown(flag.clause) << " on " << Shown(flag.slice) << ": "
                << Shown(flag.quantity) << " " << ReadableNumber(flag.value) << ", threshold "
                << ReadableNumber(flag.threshold);
    if (flag.position >= 0) console.out << ", position " << flag.position;
    console.out << '\n';
  }
  if (stored.flags.empty()) console.out << "  in the sample\n";
}

void PrintDifference(const ReplayResult& result, Console& console) {
  if (!result.sides_agree) {
    console.out << "train and infer: signatures cannot be compared\n";
  } else {
    console.out << "train and infer " << (*result.sides_agree ? "agree" : "differ") << '\n';
  }
  switch (result.audit.outcome) {
    case AuditComparison::Outcome::kDiverge:
      console.out << "first difference at " << Shown(result.audit.point);
      if (result.audit.position) console.out << ", position " << *result.audit.position;
      break;
    case AuditComparison::Outcome::kAgree:
      console.out << "no difference at " << Counted(result.audit.compared, "audit point");
      if (result.audit.positions) {
        console.out << " in the first " << Counted(*result.audit.positions, "position")
                    << "; those of later ones are too many to be kept";
      }
      break;
    case AuditComparison::Outcome::kNotComparable:
      console.out << "no first difference: " << Shown(result.audit.why);
      break;
  }
  console.out << '\n';
  if (result.audit.alone > 0) {
    console.out << "  " << Counted(result.audit.alone, "audit point")
                << " of one kernel alone not compared\n";
  }
  if (!result.attribution) {
    console.out << "source: none named; " << Shown(result.no_attribution) << '\n';
    return;
  }
  const std::string headline = AttributionHeadline(*result.attribution);
  console.out << "source: " << (headline.empty() ? "nothing drifts" : Shown(headline)) << '\n';
}

}  // namespace

int RunReplay(const ReplayCommandOptions& options, Console& console) {
  const Result<Record> record = RecordOf(options);
  if (!record.has_value()) return ReportError(record.error(), console);
  const Result<ReplayResult> result = Run(options, record->stored, console);
  if (!result.has_value()) return ReportError(result.error(), console);
  if (console.json) {
    PrintJson(*record, *result, console);
  } else {
    PrintStored(*record, console);
    PrintSide("train", result->train, console);
    PrintSide("infer", result->infer, console);
    PrintDifference(*result, console);
  }
  if (result->Refuted()) return kExitViolated;
  return result->Reproduced() ? kExitOk : kExitInconclusive;
}

}  // namespace kcc::cli
