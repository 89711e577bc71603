// kcc lab serve: the lab engine as an OpenAI-compatible server.
#include "apps/kcc/commands.h"
#include "apps/kcc/commands_lab.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/shipped.h"
#include "kcc/lab/lab_kernel.h"
#include "kcc/serve/serve.h"

namespace kcc::cli {
namespace {

Result<ServeOptions> OptionsOf(const LabServeOptions& options, const Console& console) {
  KCC_TRY(LabUri uri, ParseLabUri(options.kernel));
  if (!options.model.empty()) {
    if (!uri.model.empty()) {
      return InvalidError("the model is named twice; leave out --model or model=");
    }
    uri.model = options.model;
  }
  if (options.admin_port != 0 && !options.allow_faults) {
    return InvalidError("--admin-port is for --allow-faults");
  }
  ServeOptions serve;
  KCC_TRY(serve.switches, ResolveSwitches(uri.kernel, uri.options));
  KCC_TRY(serve.model_directory, uri.ModelDirectory(ShippedModelOf(console)));
  if (options.batch_max > 0) serve.switches.concurrency = static_cast<size_t>(options.batch_max);
  if (options.threads > 0) serve.switches.threads = static_cast<size_t>(options.threads);
  serve.program_version = Version();
  serve.host = options.host;
  serve.port = options.port;
  serve.queue_max = static_cast<size_t>(options.queue_max);
  if (options.allow_faults) serve.admin_port = options.admin_port;
  return serve;
}

// Flushed, since whoever started the server waits for the address. A stream keeps lost text to
// itself, and then they would wait for ever.
Result<> PrintStarted(const ServeStarted& started, Console& console) {
  if (console.json) {
    JsonWriter json(JsonWriter::Style::kCompact);
    json.BeginObject().Field("kccLabServe", 1).Field("url", started.url);
    if (!started.admin_url.empty()) json.Field("adminUrl", started.admin_url);
    json.Field("model", started.model).Field("fingerprint", started.fingerprint).EndObject();
    console.out << json.Take();
  } else {
    console.out << "serving " << Shown(started.model) << " at " << started.url << '\n';
    if (!started.admin_url.empty()) {
      console.out << "faults at " << started.admin_url << "/faults\n";
    }
  }
  console.out.flush();
  if (!console.out) return IoError("the address of the server could not be printed");
  return {};
}

}  // namespace

int RunLabServe(const LabServeOptions& options, Console& console) {
  const Result<ServeOptions> serve = OptionsOf(options, console);
  if (!serve.has_value()) return ReportError(serve.error(), console);
  const Result<> done =
      Serve(*serve, [&](const ServeStarted& started) { return PrintStarted(started, console); });
  return done.has_value() ? kExitOk : ReportError(done.error(), console);
}

}  // namespace kcc::cli
