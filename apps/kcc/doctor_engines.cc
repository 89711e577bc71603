// What kcc asks: Python with its packages, the adapters of a checkout, a GPU, a server. None of
// them is needed to judge traces, so what is missing is said and is no fault.
#include <filesystem>

#include "apps/kcc/doctor.h"
#include "apps/kcc/kernels.h"
#include "apps/kcc/run_tool.h"
#include "kcc/base/strings.h"
#include "kcc/device/cuda_device.h"
#include "kcc/kernel/server_kernel.h"

namespace kcc::cli {
namespace {

constexpr std::string_view kEngines = "engines";
constexpr std::string_view kGpu = "gpu";
constexpr std::string_view kServer = "server";
constexpr double kPythonSeconds = 120;  // a first import of PyTorch may compile its modules
constexpr double kServerSeconds = 60;

// One line for each package: name, ok | missing | broken, version or reason. Only what has
// something to load that may be broken is imported.
constexpr const char* kPythonQuestion = R"(
import importlib, importlib.metadata, importlib.util, sys
print("python", "ok", sys.version.split()[0] + " at " + sys.executable, sep="\t")
for name in ("kcc", "numpy", "torch", "transformers", "tokenizers"):
    try:
        # Any folder of that name, such as kcc/ of a checkout, is a package without an origin.
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            print(name, "missing", "not installed for this Python", sep="\t")
        elif name in ("kcc", "numpy", "torch"):
            print(name, "ok", importlib.import_module(name).__version__, sep="\t")
        else:
            print(name, "ok", importlib.metadata.version(name), sep="\t")
    except Exception as error:
        print(name, "broken", " ".join(f"{type(error).__name__}: {error}".split()), sep="\t")
)";

std::string RemedyOf(std::string_view package) {
  if (package == "kcc") return "pip install . in a checkout, or give another with --python PROGRAM";
  if (package == "torch") return "pip install torch, for kcc.kernels.torch_lm";
  if (package == "transformers") return "pip install transformers, for kcc.kernels.torch_lm";
  if (package == "tokenizers") return "pip install tokenizers, for kcc requests make --tokenizer";
  return "pip install " + std::string(package);
}

// "torch\tok\t2.4.0" and so on.
void AddPackages(std::string_view lines, std::vector<Finding>* findings) {
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    const size_t first = line.find('\t');
    const size_t second = first == std::string_view::npos ? first : line.find('\t', first + 1);
    if (second == std::string_view::npos) continue;  // a package that prints when it is imported
    const std::string_view word = line.substr(first + 1, second - first - 1);
    Finding finding{kEngines,   std::string(line.substr(0, first)),
                    Found::kOk, std::string(line.substr(second + 1)),
                    "",         false};
    if (word != "ok") {
      finding.found = word == "missing" ? Found::kMissing : Found::kBroken;
      finding.remedy = RemedyOf(finding.name);
    }
    findings->push_back(std::move(finding));
  }
}

void CheckPython(const DoctorOptions& options, std::vector<Finding>* findings) {
  Finding finding{kEngines, "python", Found::kMissing, "", "", false};
  const Result<ToolRun> run = RunTool({options.python, "-c", kPythonQuestion}, kPythonSeconds);
  if (!run.has_value()) {
    finding.detail = run.error().message();
    finding.remedy = "install Python 3.10 or later, or name it with --python PROGRAM";
    findings->push_back(std::move(finding));
    return;
  }
  AddPackages(run->out, findings);
  if (run->exit_code == 0) return;
  finding.found = Found::kBroken;
  finding.detail = options.python + " ends with exit code " + std::to_string(run->exit_code) +
                   ", " + LastLine(run->err);
  finding.remedy = "name another with --python PROGRAM";
  findings->push_back(std::move(finding));
}

// The adapters stand in a checkout, beside the packages that tools/setup.sh installs.
void CheckAdapters(std::vector<Finding>* findings) {
  for (const char* name : {"llamacpp", "onnxruntime"}) {
    const std::string folder = std::string("adapters/") + name;
    Finding finding{kEngines, name, Found::kOk, folder, "", false};
    std::error_code ignored;
    if (!std::filesystem::exists(folder + "/kernel.mjs", ignored)) {
      finding.found = Found::kMissing;
      finding.detail = "no " + folder + " in this folder";
      finding.remedy = "run doctor in a checkout of kcc";
    } else if (!std::filesystem::exists(folder + "/node_modules", ignored)) {
      finding.found = Found::kMissing;
      finding.detail = "no " + folder + "/node_modules";
      finding.remedy = "run tools/setup.sh";
    }
    findings->push_back(std::move(finding));
  }
}

Finding Broken(std::string_view group, std::string name, const Error& error, std::string remedy) {
  return {group, std::move(name), Found::kBroken, error.message(), std::move(remedy), true};
}

// The URI with who answers in it: as it was given, or found out by asking.
Result<std::string> FindServerUri(const std::string& text, const KernelOpenOptions& open,
                                  std::string* who) {
  std::string uri = text;
  if (const std::string pasted = ServerUriFor(text); !pasted.empty()) uri = pasted;
  KCC_TRY(KernelUri parsed, ParseKernelUri(uri));
  if (!parsed.scheme.starts_with("openai+")) {
    return InvalidError("'" + text + "' is not a server's address; write http://HOST:PORT");
  }
  KCC_TRY(const std::vector<std::string_view> names, AnsweringServers(parsed, open));
  if (names.empty()) {
    return InvalidError("somebody answers, but it is no server that kcc can ask");
  }
  *who = JoinWords(names, "or");
  const std::string* said = parsed.Find("server");
  constexpr std::string_view kUnknown = "server=NAME";  // of ServerUriFor
  if (said == nullptr) {
    uri += (parsed.options.empty() ? "?server=" : "&server=") + std::string(names[0]);
  } else if (const size_t at = uri.find(kUnknown); *said == "NAME" && at != std::string::npos) {
    uri.replace(at, kUnknown.size(), "server=" + std::string(names[0]));
  }
  return uri;
}

}  // namespace

void CheckEngines(const DoctorOptions& options, std::vector<Finding>* findings) {
  CheckPython(options, findings);
  CheckAdapters(findings);
}

void CheckGpu(const DoctorOptions& options, std::vector<Finding>* findings) {
  Finding finding{kGpu, "cuda", Found::kOk, "", "", !options.cuda_library.empty()};
  const std::optional<std::string> found =
      options.cuda_library.empty() ? FindCudaLibrary() : options.cuda_library;
  if (!found) {
    finding.found = Found::kMissing;
    finding.detail = "no libkcc_cuda.so beside kcc";
    finding.remedy = "without a GPU it is not needed; docs/gpu.md says how to build it";
    findings->push_back(std::move(finding));
    return;
  }
  finding.detail = *found;
  const auto works = [&]() -> Result<> {
    KCC_TRY(const std::unique_ptr<RowDevice> device, OpenCudaDevice(*found));
    SlotSet wanted;
    wanted.set(TokenSlot("kl"));
    KCC_TRY(const std::unique_ptr<DeviceRun> run, device->Begin(wanted, 1, {}));
    return {};
  };
  if (const Result<> run = works(); !run.has_value()) {
    finding.found = Found::kBroken;
    finding.detail = run.error().message();
    finding.remedy = "see docs/gpu.md, or measure with --device cpu";
  }
  findings->push_back(std::move(finding));
}

void CheckServer(const DoctorOptions& options, Console& console, std::vector<Finding>* findings) {
  const Interruptible interruptible(console);
  KernelFlags flags;
  flags.start_timeout_s = flags.batch_timeout_s = kServerSeconds;
  const KernelOpenOptions open = OpenOptionsOf(flags, interruptible);
  std::string who;
  const Result<std::string> uri = FindServerUri(options.server, open, &who);
  if (!uri.has_value()) {
    findings->push_back(Broken(kServer, "answers", uri.error(),
                               "docs/servers.md says how to start it and how to name it"));
    return;
  }
  findings->push_back(
      {kServer, "answers", Found::kOk, "as " + who + "; its URI is '" + *uri + "'", "", true});
  const auto kernel = OpenKernel(*uri, open, KernelSchemes(console));
  if (!kernel.has_value()) {
    findings->push_back(Broken(kServer, "scores", kernel.error(), "see docs/servers.md"));
    return;
  }
  findings->push_back({kServer, "scores", Found::kOk, (*kernel)->info().fingerprint, "", true});
}

}  // namespace kcc::cli
