// Real programs, well-behaved and faulty (tests/kernel/toy.py): each fault has its own error, and
// nothing of the program or of its files stays behind.
#include "kcc/kernel/exec_kernel.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "kcc/kernel/kernel_test_data.h"
#include "kcc/trace/reader.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::ScratchDir;
using testing::SomeRequests;
using testing::Toy;

int OpenDescriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

// Ids that the program wrote of processes that must be gone. A zombie would still take signal 0.
std::vector<pid_t> ProcessesIn(const std::string& path) {
  std::ifstream in(path);
  std::vector<pid_t> ids;
  for (pid_t id = 0; in >> id;) ids.push_back(id);
  return ids;
}

bool Runs(pid_t id) {
  std::ifstream status("/proc/" + std::to_string(id) + "/stat");
  std::string number, name, state;
  if (!(status >> number >> name >> state)) return false;
  return state != "Z" || ::getpgid(id) == id;  // an orphan's zombie is its new parent's to reap
}

// A process that was killed is on its way for a moment; what kcc left alone is here for good.
bool Alive(pid_t id) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (Runs(id)) {
    if (std::chrono::steady_clock::now() > until) return true;
    std::this_thread::yield();
  }
  return false;
}

struct Fault {
  std::string name;
  std::string words;  // of the error
  ErrorCode code = ErrorCode::kBrokenEvidence;
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

// Opens the kernel and scores until something fails or three batches are done.
Result<> ScoreThree(const std::string& uri, const std::string& directory,
                    KernelOpenOptions options = {}) {
  const std::array<KernelScheme, 1> schemes = {ExecScheme()};
  KCC_TRY(const std::unique_ptr<Kernel> kernel, OpenKernel(uri, options, schemes));
  for (int i = 0; i < 3; ++i) {
    KCC_TRY_VOID(kernel->Score(SomeRequests(4), directory + std::to_string(i)));
  }
  return {};
}

class ExecFault : public ::testing::TestWithParam<Fault> {};

TEST_P(ExecFault, IsAnErrorAndLeavesNothing) {
  const ScratchDir scratch;
  const std::string pids = scratch / "pids";
  const std::string out = scratch / "out";
  std::filesystem::create_directory(out);
  const int descriptors = OpenDescriptors();
  KernelOpenOptions options;
  options.start_timeout_s = GetParam().name == "hang-at-start" ? 0.5 : 60;
  options.batch_timeout_s = GetParam().words.find("did not answer") != std::string::npos ? 0.5 : 60;
  options.bye_timeout_s = 0.2;
  const std::string uri = Toy(GetParam().name + " --pid-file " + pids);
  const Result<> done = ScoreThree(uri, out + "/batch", options);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code(), GetParam().code) << done.error().Format();
  EXPECT_THAT(done.error().message(), HasSubstr(GetParam().words));
  EXPECT_THAT(done.error().message(), Not(HasSubstr("\x1b")));
  EXPECT_EQ(done.error().place().file, uri);
  EXPECT_LT(done.error().message().size(), 8000u);
  for (const auto& entry : std::filesystem::directory_iterator(out)) {
    EXPECT_THAT(entry.path().string(), Not(HasSubstr("partial")));
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
  const std::vector<pid_t> processes = ProcessesIn(pids);
  EXPECT_FALSE(processes.empty());
  for (const pid_t id : processes) EXPECT_FALSE(Alive(id)) << id;
}

constexpr ErrorCode kIo = ErrorCode::kIo;
INSTANTIATE_TEST_SUITE_P(
    Each, ExecFault,
    ::testing::Values(
        Fault{"crash-at-start",
              "exit code 3 instead of an answer\nits standard error ends with:\n"
              "cannot find the weights",
              kIo},
        Fault{"crash",
              "batch 1: the program was ended by signal 11 (SIGSEGV)\nits standard error "
              "ends with:\nCUDA error: an illegal memory access",
              kIo},
        Fault{"crash-after-answer", "batch 2: the program ended with exit code 7", kIo},
        Fault{"hang-at-start", "at the start: the program did not answer within 0.5 s", kIo},
        Fault{"hang", "did not answer within 0.5 s\nits standard error ends with:\nstill thinking",
              kIo},
        Fault{"with-child", "did not answer within 0.5 s", kIo},
        Fault{"daemon-hang", "did not answer within 0.5 s", kIo},
        Fault{"daemon-crash", "batch 1: the program was ended by signal 11 (SIGSEGV)", kIo},
        Fault{"deaf", "did not answer within 0.5 s", kIo},
        Fault{"flood-and-fail", "noise\nthe last word", kIo},
        Fault{"endless-line", "longer than", kIo}, Fault{"twice", "without being asked", kIo},
        Fault{"not-json", "the answer is not JSON"},
        Fault{"chatter", "only answers go to standard output"},
        Fault{"says-error", "the program says: out of memory"},
        Fault{"other-protocol", "version 2 of the exec protocol, this kcc speaks version 1"},
        Fault{"misspelt", "unknown key 'semantic'; did it mean 'semantics'?"},
        Fault{"wrong-batch", "answered batch 2 when asked for batch 1"},
        Fault{"wrong-order", "request 0 of the answer is 'r3', the one asked for is 'r0'"},
        Fault{"lost-request", "answered for 3 requests when asked for 4"},
        Fault{"fingerprint", "fingerprint became 'toy-2', it was 'toy-1 noise=0.0'"},
        Fault{"nan", "(request 'r3', position 6): the logit of token 10 is NaN"},
        Fault{"infinity", "(request 'r0', position 2): the logit of token 0 is NaN or +inf"},
        Fault{"narrow", "vocabSize"}, Fault{"fewer-rows", "tokens"},
        Fault{"shifted", "the file says request 0, position 1"}, Fault{"integers", "logits"},
        Fault{"other-token", "where request 0, position 2"}, Fault{"no-file", "wrote no file"},
        Fault{"fifo", "no regular file"}, Fault{"truncated", "truncated"}),
    [](const auto& row) {
      std::string name = row.param.name;
      for (char& c : name) c = c == '-' ? '_' : c;
      return name;
    });

TEST(ExecKernel, AFloodOnStandardErrorHoldsNothingUp) {
  const ScratchDir scratch;
  const Result<> done = ScoreThree(Toy("flood"), scratch / "batch");
  EXPECT_TRUE(done.has_value()) << done.error().Format();
}

TEST(ExecKernel, ASlowByeIsNotWaitedForLongerThanAllowed) {
  const ScratchDir scratch;
  KernelOpenOptions options;
  options.bye_timeout_s = 0.2;
  EXPECT_TRUE(ScoreThree(Toy("no-bye --pid-file " + (scratch / "pids")), scratch / "batch", options)
                  .has_value());
  for (const pid_t id : ProcessesIn(scratch / "pids")) EXPECT_FALSE(Alive(id));
}

TEST(ExecKernel, AGrandchildWithItsOwnSessionIsNotLeft) {
  const ScratchDir scratch;
  const Result<> done =
      ScoreThree(Toy("daemon --pid-file " + (scratch / "pids")), scratch / "batch");
  EXPECT_TRUE(done.has_value()) << done.error().Format();
  const std::vector<pid_t> processes = ProcessesIn(scratch / "pids");
  EXPECT_EQ(processes.size(), 2u);
  for (const pid_t id : processes) EXPECT_FALSE(Alive(id)) << id;
}

// Whoever else this process has, or gets by the death of a child, is none of the kernel's business.
TEST(ExecKernel, TheProcessThatOpensAKernelStaysWhatItWas) {
  const ScratchDir scratch;
  int before = -1;
  ASSERT_EQ(::prctl(PR_GET_CHILD_SUBREAPER, &before), 0);
  const pid_t own = ::fork();
  if (own == 0) {
    ::pause();
    ::_exit(0);
  }
  EXPECT_TRUE(ScoreThree(Toy("none"), scratch / "batch").has_value());
  int after = -1;
  ASSERT_EQ(::prctl(PR_GET_CHILD_SUBREAPER, &after), 0);
  EXPECT_EQ(before, after);
  EXPECT_EQ(::waitpid(own, nullptr, WNOHANG), 0) << "a child of the host was ended or reaped";
  ::kill(own, SIGKILL);
  ::waitpid(own, nullptr, 0);
}

TEST(ExecKernel, ATraceIsWhatWasAskedFor) {
  const ScratchDir scratch;
  const std::array<KernelScheme, 1> schemes = {ExecScheme()};
  auto kernel = OpenKernel(Toy("none"), {}, schemes);
  ASSERT_TRUE(kernel.has_value()) << kernel.error().Format();
  EXPECT_EQ((*kernel)->info().fingerprint, "toy-1 noise=0.0");
  EXPECT_EQ((*kernel)->info().options.at(0).source, "precision");
  ASSERT_TRUE((*kernel)->Score(SomeRequests(3), scratch / "t").has_value());
  const auto reader = TraceReader::Open(scratch / "t");
  ASSERT_TRUE(reader.has_value()) << reader.error().Format();
  EXPECT_EQ(reader->requests().size(), 3u);
  EXPECT_EQ(reader->token_count(), 4 + 5 + 4);
  EXPECT_TRUE(reader->VerifyPayload().has_value());
  // The program names its build for the batch, not for the request: filled in, and marked.
  EXPECT_EQ(*reader->requests()[2].Text(kFilledFingerprintField), "toy-1 noise=0.0");
  EXPECT_EQ(reader->requests()[2].Text("kernel_fingerprint"), nullptr);
  // What stands there already is never touched.
  EXPECT_FALSE((*kernel)->Score(SomeRequests(3), scratch / "t").has_value());
  EXPECT_TRUE(std::filesystem::exists(scratch / "t" + "/trace.json"));
}

TEST(ExecKernel, RefusesTokensOutsideTheVocabulary) {
  const ScratchDir scratch;
  const Result<> done = ScoreThree(Toy("none --vocab 3"), scratch / "batch");
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code(), ErrorCode::kInvalid);
  EXPECT_THAT(done.error().message(), HasSubstr("outside the kernel's vocabulary of 3"));
}

TEST(ExecKernel, AProgramThatIsNotThereIsNamed) {
  const std::array<KernelScheme, 1> schemes = {ExecScheme()};
  const auto none = OpenKernel("exec:/no/such/program x", {}, schemes);
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message(), HasSubstr("cannot start '/no/such/program': No such file"));
  const auto open_quote = OpenKernel("exec:'python3", {}, schemes);
  ASSERT_FALSE(open_quote.has_value());
  EXPECT_EQ(open_quote.error().code(), ErrorCode::kInvalid);
}

TEST(ExecKernel, StopsAtOnceWhenToldTo) {
  const ScratchDir scratch;
  std::array<int, 2> stop;
  ASSERT_EQ(::pipe2(stop.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::write(stop[1], "x", 1), 1);
  KernelOpenOptions options;
  options.stop_fd = stop[0];
  const Result<> done =
      ScoreThree(Toy("hang --pid-file " + (scratch / "pids")), scratch / "batch", options);
  ::close(stop[0]);
  ::close(stop[1]);
  ASSERT_FALSE(done.has_value());
  EXPECT_THAT(done.error().message(), HasSubstr("interrupted"));
  for (const pid_t id : ProcessesIn(scratch / "pids")) EXPECT_FALSE(Alive(id));
}

// Scored evidence carries no clock; a generated request has the one that was handed in.
TEST(ExecKernel, SaysOfEachRequestWhenInWhichPlaceAndWhetherItFailed) {
  const ScratchDir scratch;
  const std::array<KernelScheme, 1> schemes = {ExecScheme()};
  ManualClock clock(5000);
  KernelOpenOptions options;
  options.clock = &clock;
  const auto kernel = OpenKernel(Toy("fails-one"), options, schemes);
  ASSERT_TRUE(kernel.has_value()) << kernel.error().Format();
  std::vector<KernelRequest> requests = SomeRequests(3);
  for (size_t i = 0; i < 3; ++i) requests[i].ordinal = 7 + static_cast<int64_t>(i);
  requests[2].request.fields["ordinal"] = 1.0;  // the request's own
  ASSERT_TRUE((*kernel)->Score(requests, scratch / "scored").has_value());
  ASSERT_TRUE((*kernel)->Generate(requests, Sampling(), scratch / "written").has_value());
  for (const char* name : {"scored", "written"}) {
    const TraceReader reader = testing::MustOpen(scratch / name);
    const bool written = reader.info().mode == TraceMode::kGenerated;
    EXPECT_EQ(reader.requests()[1].Number("ordinal"), 8);
    EXPECT_EQ(reader.requests()[2].Number("ordinal"), 1);
    EXPECT_EQ(reader.requests()[1].Flag("failed"), false);
    EXPECT_EQ(reader.requests()[0].Flag("failed"), written);
    EXPECT_EQ(reader.requests()[0].Number("started_at_ms"),
              written ? std::optional(5000.0) : std::nullopt);
    EXPECT_EQ(reader.requests()[0].Number("output_tokens"),
              written ? std::optional(0.0) : std::nullopt);
  }
}

TEST(ExecKernel, GeneratesByTheRequestsOwnSeed) {
  const ScratchDir scratch;
  const std::array<KernelScheme, 1> schemes = {ExecScheme()};
  auto kernel = OpenKernel(Toy("none"), {}, schemes);
  ASSERT_TRUE(kernel.has_value());
  Sampling sampling;
  sampling.seed = 7;
  auto requests = SomeRequests(4);
  requests[1].request.fields["harmful"] = true;
  ASSERT_TRUE((*kernel)->Generate(requests, sampling, scratch / "all").has_value());
  ASSERT_TRUE((*kernel)
                  ->Generate(std::span(requests).subspan(1, 1), sampling, scratch / "one")
                  .has_value());
  const auto all = TraceReader::Open(scratch / "all");
  const auto one = TraceReader::Open(scratch / "one");
  ASSERT_TRUE(all.has_value() && one.has_value());
  EXPECT_EQ(all->info().mode, TraceMode::kGenerated);
  EXPECT_EQ(all->info().evidence, EvidenceLevel::kSampledToken);
  EXPECT_EQ(all->requests()[1].Number("latency_ms"), 12.5);
  EXPECT_EQ(all->requests()[1].Number("output_tokens"), 4);
  EXPECT_EQ(all->requests()[1].Flag("refused"), true);
  EXPECT_EQ(all->requests()[0].Flag("refused"), false);
  EXPECT_EQ(*all->requests()[0].Text(kFilledFingerprintField), "toy-1 noise=0.0");
  TokenCursor in_all(*all);
  TokenCursor alone(*one);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ((*in_all.At(4 + i))->token, (*alone.At(i))->token) << "not the same beside others";
  }
  const auto outside = OpenKernel(Toy("generates-outside"), {}, schemes);
  const Result<> bad = (*outside)->Generate(requests, sampling, scratch / "bad");
  ASSERT_FALSE(bad.has_value());
  EXPECT_THAT(bad.error().message(), HasSubstr("outside its vocabulary"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "bad"));
}

}  // namespace
}  // namespace kcc
