// kcc requests make: a requests file from text, by the tokenizer of a server or by a tokenizer
// file.
#include "apps/kcc/commands.h"
#include "apps/kcc/kernels.h"
#include "apps/kcc/progress.h"
#include "apps/kcc/run_tool.h"
#include "apps/kcc/safe_output.h"
#include "kcc/base/file.h"
#include "kcc/kernel/private_dir.h"
#include "kcc/kernel/text_requests.h"

namespace kcc::cli {
namespace {

constexpr double kTokenizerSeconds = 3600;

Result<std::vector<TokenIds>> TokenizeByFile(const RequestsMakeOptions& options,
                                             const PrivateDir& scratch,
                                             std::span<const TokenText> texts) {
  const std::string in = scratch / "texts";
  const std::string out = scratch / "ids";
  KCC_TRY_VOID(WriteScratchFile(in, TokenTextLines(texts)));
  KCC_TRY(
      const ToolRun run,
      RunTool({options.python, "-m", "kcc.tokens", options.tokenizer, in, out}, kTokenizerSeconds));
  if (run.exit_code == 0) return ReadTokenIds(out, texts.size());
  const std::string words = LastLine(run.err);
  // Python itself has no such module: the package is not installed for it.
  const bool no_package = words.find("No module named kcc") != std::string::npos ||
                          words.find("No module named 'kcc'") != std::string::npos;
  return IoError("'" + options.python + " -m kcc.tokens' fails: " + words +
                 (no_package ? "; install the Python package (pip install .), or name another "
                               "Python with --python PROGRAM"
                             : ""));
}

Result<std::vector<TokenIds>> TokenizeByServer(const RequestsMakeOptions& options,
                                               std::span<const TokenText> texts, Console& console) {
  const Interruptible interruptible(console);
  KCC_TRY_VOID(CheckKernelUri(options.server, KernelSchemes(console)));
  KCC_TRY(const KernelUri uri, ParseKernelUri(options.server));
  if (!uri.scheme.starts_with("openai+")) {
    return InvalidError("--server takes openai+http://HOST:PORT?server=NAME",
                        Place{options.server});
  }
  return TokenizeAtServer(uri, OpenOptionsOf(KernelFlags{}, interruptible), texts);
}

struct Made {
  RequestTotals totals;
  int64_t prompt_tokens = 0;
};

// Reads the file as every other command will, so that what it would refuse is refused now.
Result<Made> ReadBack(const std::string& path, bool have_outputs) {
  KCC_TRY(const auto source,
          OpenRequestFile(path, have_outputs ? RequestUse::kScore : RequestUse::kGenerate));
  Made made{source->totals(), 0};
  KernelRequest request;
  while (true) {
    KCC_TRY(const bool more, source->Next(&request));
    if (!more) return made;
    made.prompt_tokens += request.prompt_tokens;
    request = {};
  }
}

Result<Made> Make(const RequestsMakeOptions& options, Console& console) {
  if (options.tokenizer.empty() == options.server.empty()) {
    return InvalidError(options.server.empty()
                            ? "say which tokenizer: --tokenizer FILE or --server URI"
                            : "--tokenizer and --server are two tokenizers; give one");
  }
  KCC_TRY(const TextRequests requests, TextRequests::Read(options.prompts));
  KCC_TRY(const PrivateDir scratch, PrivateDir::Make(ScratchDirectory("")));
  const SystemClock clock;
  Progress progress(console, clock);
  progress.Wait("tokenising " + Counted(requests.count(), "prompt"));
  KCC_TRY(const std::vector<TokenIds> ids,
          options.server.empty() ? TokenizeByFile(options, scratch, requests.texts())
                                 : TokenizeByServer(options, requests.texts(), console));
  KCC_TRY(const std::string lines, requests.Lines(ids));
  const std::string draft = scratch / "requests";
  KCC_TRY_VOID(WriteScratchFile(draft, lines));
  Result<Made> made = ReadBack(draft, requests.have_outputs());
  if (!made.has_value()) {
    // Where it is to be mended: a line of the draft is a prompt.
    const int at = made.error().place().line;
    const int line = at > 0 ? requests.line(static_cast<size_t>(at) - 1) : 0;
    return Error(made.error().code(), made.error().message(), Place{options.prompts, line});
  }
  KCC_TRY_VOID(WriteFileAtomically(options.output, lines));
  return made;
}

}  // namespace

int RunRequestsMake(const RequestsMakeOptions& options, Console& console) {
  const Result<Made> made = Make(options, console);
  if (!made.has_value()) return ReportError(made.error(), console);
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("kccRequests", 1).Field("file", options.output);
    json.Field("requests", made->totals.requests).Field("promptTokens", made->prompt_tokens);
    json.Field("outputTokens", made->totals.output_tokens).EndObject();
    console.out << json.Take();
    return kExitOk;
  }
  console.out << Shown(options.output) << ": "
              << Counted(static_cast<size_t>(made->totals.requests), "request") << ", "
              << Counted(static_cast<size_t>(made->prompt_tokens), "token") << " of prompts, "
              << Counted(static_cast<size_t>(made->totals.output_tokens), "token")
              << " of outputs\n";
  return kExitOk;
}

}  // namespace kcc::cli
