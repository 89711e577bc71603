// kcc register stamp: the digests of contract and triple in a checkpoint's own metadata.
#include "apps/kcc/commands.h"
#include "apps/kcc/register_statement.h"
#include "apps/kcc/safe_output.h"
#include "kcc/statement/stamp.h"

namespace kcc::cli {
namespace {

void StampField(std::string_view key, const std::string& digest, JsonWriter* json) {
  json->Key(key);
  if (digest.empty()) {
    json->Null();
  } else {
    json->Value(digest);
  }
}

void PrintStamp(const std::string& file, const CheckpointStamp& stamp, Console& console) {
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("kccStamp", 1).Field("file", file);
    StampField("contract", stamp.contract, &json);
    StampField("triple", stamp.triple, &json);
    json.EndObject();
    console.out << json.Take();
    return;
  }
  const auto line = [&](std::string_view name, const std::string& digest) {
    console.out << name << ' ' << (digest.empty() ? "not stamped" : Shown(digest)) << '\n';
  };
  line("contract", stamp.contract);
  line("triple  ", stamp.triple);
}

int ShowStamp(const StampOptions& options, Console& console) {
  const Result<CheckpointStamp> stamp = ReadCheckpointStamp(options.checkpoint);
  if (!stamp.has_value()) return ReportError(stamp.error(), console);
  PrintStamp(options.checkpoint, *stamp, console);
  return *stamp == CheckpointStamp{} ? kExitViolated : kExitOk;
}

}  // namespace

int RunStamp(const StampOptions& options, Console& console) {
  if (options.show) return ShowStamp(options, console);
  if (options.contract.empty() || options.triple.empty() || options.output.empty()) {
    return ReportError(InvalidError("stamp needs --contract, --triple and -o; or --show"), console);
  }
  const CheckpointStamp stamp{options.contract, options.triple};
  const Result<StampedCheckpoint> made = StampCheckpoint(options.checkpoint, options.output, stamp);
  if (!made.has_value()) return ReportError(made.error(), console);
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("kccStamp", 1).Field("file", options.output);
    StampField("contract", stamp.contract, &json);
    StampField("triple", stamp.triple, &json);
    json.Key("before").BeginObject();
    StampField("contract", made->before.contract, &json);
    StampField("triple", made->before.triple, &json);
    json.EndObject();
    json.Field("payloadBytes", made->payload_bytes).Field("payloadDigest", made->payload_digest);
    json.Field("fileDigest", made->file_digest).EndObject();
    console.out << json.Take();
    return kExitOk;
  }
  console.out << Shown(options.output) << ": stamped, " << made->payload_bytes
              << " bytes of tensors unchanged (" << made->payload_digest << ")\n";
  if (made->before != CheckpointStamp{} && made->before != stamp) {
    console.out << "it was stamped with contract "
                << (made->before.contract.empty() ? "none" : Shown(made->before.contract))
                << " and triple "
                << (made->before.triple.empty() ? "none" : Shown(made->before.triple)) << '\n';
  }
  return kExitOk;
}

}  // namespace kcc::cli
