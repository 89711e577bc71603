// The process: standard streams, the terminal, the environment. Everything else is in cli.cc and
// the commands.
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "apps/kcc/cli.h"
#include "apps/kcc/safe_output.h"

namespace {

// https://no-color.org: any non-empty value switches colour off.
bool ColourAllowed() {
  const char* no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  const char* terminal = std::getenv("TERM");
  return terminal == nullptr || std::string_view(terminal) != "dumb";
}

int TerminalWidth(int descriptor) {
  constexpr int kDefault = 100;
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefault;
  return size.ws_col;
}

std::string RunningProgram() {
  std::error_code failed;
  return std::filesystem::read_symlink("/proc/self/exe", failed).string();
}

// PREFIX/share/kcc for PREFIX/bin/kcc; the build tree has links in the same place. A program that
// was copied without its data still finds what lies in the current folder, such as a checkout.
std::vector<std::string> ShippedFolders(const std::filesystem::path& program) {
  std::vector<std::string> folders;
  if (!program.empty()) {
    folders.push_back((program.parent_path().parent_path() / "share/kcc").string());
  }
  folders.emplace_back(".");
  return folders;
}

// Whom the register names where nobody is named: the user's name, or else the number.
std::string UserName() {
  for (const char* variable : {"USER", "LOGNAME"}) {
    const char* name = std::getenv(variable);
    if (name != nullptr && *name != '\0') return name;
  }
  return "uid " + std::to_string(::getuid());
}

int RunInProcess(int argc, char** argv) {
  // A file beyond the limit (ulimit -f) is a failed write, which cleans up after itself.
  std::signal(SIGXFSZ, SIG_IGN);
  const bool allowed = ColourAllowed();
  const bool colour_out = allowed && ::isatty(STDOUT_FILENO) == 1;
  const bool colour_err = allowed && ::isatty(STDERR_FILENO) == 1;
  kcc::cli::SafeOutput safe_out(*std::cout.rdbuf(), colour_out);
  kcc::cli::SafeOutput safe_err(*std::cerr.rdbuf(), colour_err);
  std::ostream out(&safe_out);
  std::ostream err(&safe_err);
  err << std::unitbuf;
  kcc::cli::Console console{.in = std::cin,
                            .out = out,
                            .err = err,
                            .progress = std::cerr,
                            .colour_out = colour_out,
                            .colour_err = colour_err,
                            .terminal_err = ::isatty(STDERR_FILENO) == 1,
                            .width = TerminalWidth(STDOUT_FILENO),
                            .width_err = TerminalWidth(STDERR_FILENO)};
  safe_out.Follow(&console.json, &console.contract);
  int code = kcc::cli::kExitError;
  try {
    console.program = RunningProgram();
    console.shipped = ShippedFolders(console.program);
    console.user = UserName();
    code = kcc::cli::RunProgram(argc, argv, console);
  } catch (const std::bad_alloc&) {
    // No memory is needed to say so.
    std::cerr << "kcc: error: out of memory\n";
    if (console.json) std::cout << "{\n  \"error\": {\"message\": \"out of memory\"}\n}\n";
  }
  if (!safe_out.Finish()) out.setstate(std::ios::badbit);
  out.flush();
  if (safe_out.out_of_memory() || safe_err.out_of_memory()) {
    std::cerr << "kcc: error: out of memory: not everything was printed\n";
    code = kcc::cli::kExitError;
  }
  if (console.interrupted_by != 0) std::raise(console.interrupted_by);  // as a shell expects
  if (!out) {
    // A full disk must not look like success.
    std::cerr << "kcc: error: cannot write standard output\n";
    return kcc::cli::kExitError;
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return RunInProcess(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "kcc: error: out of memory\n");
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "kcc: error: this is a fault of kcc: %s\n", fault.what());
  } catch (...) {
    std::fprintf(stderr, "kcc: error: this is a fault of kcc\n");
  }
  return kcc::cli::kExitError;
}
