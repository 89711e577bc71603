#include "kcc/kernel/exec_kernel.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <utility>
#include <vector>

#include "kcc/base/directory.h"
#include "kcc/base/file.h"
#include "kcc/kernel/child_process.h"
#include "kcc/kernel/command_line.h"
#include "kcc/kernel/exec_protocol.h"
#include "kcc/kernel/private_dir.h"
#include "kcc/trace/evidence_check.h"
#include "kcc/trace/reader.h"
#include "kcc/trace/requests.h"
#include "kcc/trace/writer.h"

namespace kcc {
namespace {

// The trace in the making, beside its place; gone unless it was finished.
class PartialTrace {
 public:
  static Result<std::unique_ptr<PartialTrace>> Make(const std::string& directory) {
    auto partial = std::unique_ptr<PartialTrace>(new PartialTrace(directory));
    if (::mkdir(partial->path_.c_str(), 0700) != 0) {
      const int why = errno;
      const std::string path = std::exchange(partial->path_, {});  // not ours to remove
      return IoError(std::string("cannot make the directory: ") + std::strerror(why), Place{path});
    }
    return partial;
  }
  ~PartialTrace() {
    if (!path_.empty()) RemoveTreeQuietly(path_.c_str());
  }

  const std::string& path() const { return path_; }
  std::string tokens_file() const { return path_ + "/tokens-00000.safetensors"; }

  Result<> Write(const std::string& name, const std::string& bytes) const {
    return WriteScratchFile(path_ + "/" + name, bytes);
  }

  Result<> Finish() {
    std::error_code failed;
    std::filesystem::rename(path_, target_, failed);
    if (failed) return IoError("cannot rename into place: " + failed.message(), Place{target_});
    path_.clear();
    return {};
  }

 private:
  explicit PartialTrace(const std::string& directory)
      : path_(directory + ".partial"), target_(directory) {}
  std::string path_;
  std::string target_;
};

Result<> CheckTokens(std::span<const KernelRequest> batch, int64_t vocab_size) {
  for (const KernelRequest& request : batch) {
    for (const int32_t token : request.tokens) {
      if (token >= 0 && token < vocab_size) continue;
      return InvalidError("request '" + request.request.id + "' holds token " +
                          std::to_string(token) + ", outside the kernel's vocabulary of " +
                          std::to_string(vocab_size) + ": made with another tokeniser?");
    }
  }
  return {};
}

// Every row is the one asked for, in the order asked for, and no number in it is broken.
// The program is not trusted to know what it was asked. A row too few, one twice or two in the
// other order would be paired with numbers about other tokens, and look like drift, or like none.
Result<> CheckRows(const TraceReader& reader, std::span<const KernelRequest> batch) {
  TokenCursor cursor(reader);
  int64_t row = 0;
  for (size_t r = 0; r < batch.size(); ++r) {
    const auto tokens = static_cast<int32_t>(batch[r].tokens.size());
    for (int32_t position = batch[r].prompt_tokens; position < tokens; ++position, ++row) {
      KCC_TRY(const TokenEvidence* const found, cursor.At(row));
      const auto fail = [&](const std::string& why) {
        return BrokenEvidenceError("row " + std::to_string(row) + " (request '" +
                                   batch[r].request.id + "', position " + std::to_string(position) +
                                   "): " + why);
      };
      const int32_t token = batch[r].tokens[static_cast<size_t>(position)];
      if (found->request != static_cast<int32_t>(r) || found->position != position ||
          found->token != token) {
        return fail("the file says request " + std::to_string(found->request) + ", position " +
                    std::to_string(found->position) + ", token " + std::to_string(found->token) +
                    " where request " + std::to_string(r) + ", position " +
                    std::to_string(position) + ", token " + std::to_string(token) +
                    " was asked for");
      }
      const Result<> checked = CheckEvidenceRow(EvidenceLimits(reader.info()), *found);
      if (!checked.has_value()) return fail(checked.error().message());
    }
  }
  return {};
}

// The program is started once and asked batch by batch. After its first fault child_ is null and
// every further call fails: a program whose answer was wrong or late may still be writing, and the
// next answer could be that of the last question.
class ExecKernel final : public Kernel {
 public:
  ExecKernel(std::string name, std::unique_ptr<ChildProcess> child, KernelOpenOptions options)
      : name_(std::move(name)), child_(std::move(child)), options_(options) {}

  ~ExecKernel() override {
    // One that failed or does not end by itself is ended by ChildProcess.
    try {
      if (child_ != nullptr) child_->Part(ByeMessage(), options_.bye_timeout_s);
    } catch (const std::exception&) {  // no memory for a goodbye
    }
  }

  Result<> Hello() {
    Result<std::string> line = child_->Ask(HelloMessage(), options_.start_timeout_s);
    if (!line.has_value()) return Fail(line.error(), "at the start");
    Result<KernelInfo> info = ParseHello(*line);
    if (!info.has_value()) return Fail(info.error(), "hello");
    info_ = std::move(*info);
    return {};
  }

  const KernelInfo& info() const override { return info_; }

  Result<> Score(std::span<const KernelRequest> batch, const std::string& directory) override {
    KCC_TRY_VOID(Ready(batch));
    if (info_.evidence == EvidenceLevel::kNone) {
      return InvalidError("the kernel gives no evidence about tokens; it only generates",
                          Place{name_});
    }
    // The program writes into a directory of ours and nowhere else. It becomes `directory` once
    // every row has been checked.
    KCC_TRY(const std::unique_ptr<PartialTrace> partial, PartialTrace::Make(directory));
    const std::string where = "batch " + std::to_string(++batches_);
    Result<std::string> line =
        child_->Ask(ScoreMessage(batches_, batch, partial->tokens_file(), AsksForAudits()),
                    options_.batch_timeout_s);
    if (!line.has_value()) return Fail(line.error(), where);
    auto audits = ParseScored(*line, batches_, batch, info_.fingerprint);
    if (!audits.has_value()) return Fail(audits.error(), where);
    Result<> taken = TakeFile(batch, *audits, *partial);
    if (!taken.has_value()) return Fail(taken.error(), where);
    return partial->Finish();
  }

  Result<> Generate(std::span<const KernelRequest> batch, const Sampling& sampling,
                    const std::string& directory) override {
    KCC_TRY_VOID(Ready(batch));
    if (!info_.generates) return InvalidError("the kernel does not generate", Place{name_});
    const std::string where = "batch " + std::to_string(++batches_);
    // All requests of a batch arrive together; how long each took is for the program to say.
    const int64_t started_at_ms = options_.clock->NowMs();
    Result<std::string> line = child_->Ask(
        GenerateMessage(batches_, batch, sampling, AsksForAudits()), options_.batch_timeout_s);
    if (!line.has_value()) return Fail(line.error(), where);
    auto generated = ParseGenerated(*line, batches_, batch, sampling, info_);
    if (!generated.has_value()) return Fail(generated.error(), where);
    Result<> written = WriteGenerated(batch, *generated, sampling, started_at_ms, directory);
    if (!written.has_value()) return Fail(written.error(), where);
    return {};
  }

 private:
  // A program from before the key was known would refuse it.
  bool AsksForAudits() const { return options_.audit_points && info_.audits; }

  Result<> Ready(std::span<const KernelRequest> batch) const {
    if (child_ == nullptr) return IoError("the program has failed before", Place{name_});
    Result<> checked = CheckTokens(batch, info_.vocab_size);
    if (!checked.has_value()) return std::move(checked.error()).At(Place{name_});
    return {};
  }

  // The program is ended; a message carries what it said last.
  Error Fail(const Error& error, const std::string& where) {
    const bool io = error.code() == ErrorCode::kIo;
    std::string message = where + ": " + (io ? error.Format() : error.message());
    if (const std::string tail = child_->StderrTail(); !tail.empty()) {
      message += "\nits standard error ends with:\n" + tail;
    }
    child_.reset();
    // What is invalid in an answer is the program's doing, not the user's.
    return Error(io ? ErrorCode::kIo : ErrorCode::kBrokenEvidence, std::move(message),
                 Place{name_});
  }

  // What the program wrote becomes a trace, unless it is not what was asked for.
  Result<> TakeFile(std::span<const KernelRequest> batch, std::span<const RequestAudit> audits,
                    const PartialTrace& partial) const {
    struct stat status {};
    // lstat: a link could lead to a file that changes after it was checked.
    if (::lstat(partial.tokens_file().c_str(), &status) != 0) {
      return BrokenEvidenceError("it answered, but wrote no file " + partial.tokens_file());
    }
    if (!S_ISREG(status.st_mode)) {
      return BrokenEvidenceError("what it wrote is no regular file: " + partial.tokens_file());
    }
    // The program writes tensors alone. Who was asked what, and what the kernel is, are written
    // here from what kcc knows.
    TraceInfo info = TraceInfoOf(info_);
    info.requests = static_cast<int64_t>(batch.size());
    info.tokens = 0;
    std::string lines;
    for (size_t i = 0; i < batch.size(); ++i) {
      const KernelRequest& request = batch[i];
      Request line = AnsweredLine(request);
      FillFingerprint(info_.fingerprint, &line);
      if (!audits.empty()) SetAudit(audits[i], &line);
      lines += RequestJson(line) + "\n";
      *info.tokens += static_cast<int64_t>(request.tokens.size()) - request.prompt_tokens;
    }
    KCC_TRY_VOID(partial.Write("requests.jsonl", lines));
    KCC_TRY_VOID(partial.Write("trace.json", TraceInfoJson(info)));
    KCC_TRY(const TraceReader reader, TraceReader::Open(partial.path()));
    return CheckRows(reader, batch);
  }

  Result<> WriteGenerated(std::span<const KernelRequest> batch,
                          const std::vector<GeneratedRequest>& generated, const Sampling& sampling,
                          int64_t started_at_ms, const std::string& directory) const {
    TraceInfo info = TraceInfoOf(info_);
    info.mode = TraceMode::kGenerated;
    info.sampled_by = SampledBy::kInfer;
    info.path = TracePath::kDecode;
    info.evidence = EvidenceLevel::kSampledToken;
    // A trace has one level of evidence: where one answer lacks log-probs, those of the others are
    // left out.
    for (const GeneratedRequest& row : generated) {
      if (row.logprobs.size() != row.tokens.size()) info.evidence = EvidenceLevel::kNone;
    }
    SetSampling(sampling, &info);
    TraceWriter::Options options;
    options.scratch = true;
    KCC_TRY(TraceWriter writer, TraceWriter::Create(directory, info, options));
    for (size_t i = 0; i < batch.size(); ++i) {
      const GeneratedRequest& row = generated[i];
      Request request = AnsweredLine(batch[i]);
      request.fields["started_at_ms"] = static_cast<double>(started_at_ms);
      if (row.failed) request.fields["failed"] = true;
      for (const auto& [name, value] : row.fields.fields) request.fields[name] = value;
      FillFingerprint(info_.fingerprint, &request);
      request.fields["prompt_tokens"] = static_cast<double>(batch[i].prompt_tokens);
      request.fields["output_tokens"] = static_cast<double>(row.tokens.size());
      if (row.latency_ms) request.fields["latency_ms"] = *row.latency_ms;
      if (row.ttft_ms) request.fields["ttft_ms"] = *row.ttft_ms;
      SetAudit(row.audit, &request);
      TokenEvidence token;
      KCC_TRY(token.request, writer.AddRequest(request));
      for (size_t t = 0; t < row.tokens.size(); ++t) {
        token.position = batch[i].prompt_tokens + static_cast<int32_t>(t);
        token.token = row.tokens[t];
        if (info.evidence == EvidenceLevel::kSampledToken) token.logprob = row.logprobs[t];
        KCC_TRY_VOID(writer.AddToken(token));
      }
    }
    return writer.Finish();
  }

  std::string name_;
  std::unique_ptr<ChildProcess> child_;  // null once it failed
  KernelOpenOptions options_;
  KernelInfo info_;
  int64_t batches_ = 0;
};

}  // namespace

Result<std::unique_ptr<Kernel>> OpenExecKernel(const KernelUri& uri,
                                               const KernelOpenOptions& options) {
  Result<std::vector<std::string>> command = SplitCommand(uri.rest);
  if (!command.has_value()) return std::move(command.error()).At(Place{uri.text});
  Result<std::unique_ptr<ChildProcess>> child = ChildProcess::Start(*command, options.stop_fd);
  if (!child.has_value()) return std::move(child.error()).At(Place{uri.text});
  auto kernel = std::make_unique<ExecKernel>(uri.text, std::move(*child), options);
  KCC_TRY_VOID(kernel->Hello());
  return std::unique_ptr<Kernel>(std::move(kernel));
}

KernelScheme ExecScheme() {
  const auto check = [](const KernelUri& uri) -> Result<> {
    Result<std::vector<std::string>> command = SplitCommand(uri.rest);
    if (!command.has_value()) return std::move(command.error()).At(Place{uri.text});
    const std::string& program = command->front();
    // One without a slash is looked for in PATH when it is started.
    if (program.find('/') == std::string::npos || ::access(program.c_str(), X_OK) == 0) return {};
    return IoError("cannot start '" + program + "': " + std::strerror(errno), Place{uri.text});
  };
  return {"exec", "exec:PROGRAM ARGS", OpenExecKernel, check};
}

}  // namespace kcc
