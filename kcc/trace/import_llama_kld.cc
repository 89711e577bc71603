// llama-perplexity .kld -> full "logits": log-probs are logits up to a constant. One request a
// chunk; the first half of a chunk is context and counts as prompt.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "kcc/format/mapped_file.h"
#include "kcc/trace/import_formats.h"
#include "kcc/trace/kld.h"
#include "kcc/trace/requests.h"
#include "kcc/trace/writer.h"

namespace kcc {
namespace {

Result<ImportReport> ImportFile(const MappedFile& file, const std::string& output,
                                const ImportOptions& options) {
  KCC_TRY(const std::string first,
          file.Read(0, static_cast<size_t>(std::min<int64_t>(file.size(), kKldHeaderBytes))));
  KCC_TRY(const KldHeader header, ParseKldHeader(first, file.size()));
  if (options.vocab_size != 0 && options.vocab_size != header.n_vocab) {
    return InvalidError("holds a vocabulary of " + std::to_string(header.n_vocab) + ", not " +
                        std::to_string(options.vocab_size));
  }
  if (options.fingerprint.empty()) {
    return InvalidError("a .kld file does not name its kernel; give --fingerprint");
  }
  TraceInfo info;
  info.kernel_fingerprint = options.fingerprint;
  info.model_digest = options.model_digest;
  info.vocab_size = header.n_vocab;
  info.evidence = EvidenceLevel::kLogits;
  info.path = options.path.value_or(TracePath::kPrefill);
  info.sampled_by = options.sampled_by.value_or(SampledBy::kDataset);
  SetTemperatures(options.temperature, &info);
  info.notes["quantisation"] = "16 bits over at most 16 nats; a KL below about 5.5e-4 is its own";
  info.notes["source"] = "llama-perplexity --kl-divergence-base";
  TraceWriter::Options writer_options;
  writer_options.replace = options.replace;
  KCC_TRY(TraceWriter writer, TraceWriter::Create(output, std::move(info), writer_options));

  ImportReport report;
  std::vector<float> logprobs(static_cast<size_t>(header.n_vocab));
  FileWindow window;
  const int64_t rows_in_window =
      std::max<int64_t>(static_cast<int64_t>(kWindowBytesMax) / 4 / header.row_bytes(), 1);
  for (int64_t chunk = 0; chunk < header.n_chunk; ++chunk) {
    KCC_TRY(const std::string bytes, file.Read(header.tokens_offset + chunk * header.n_ctx * 4,
                                               static_cast<size_t>(header.n_ctx * 4)));
    std::array<char, 32> id{};
    std::snprintf(id.data(), id.size(), "chunk-%06lld", static_cast<long long>(chunk));
    Request request;
    request.id = id.data();
    request.fields["prompt_tokens"] = static_cast<double>(header.first() + 1);
    request.fields["output_tokens"] = static_cast<double>(header.rows_per_chunk());
    FillFingerprint(options.fingerprint, &request);
    KCC_TRY(const int32_t row, writer.AddRequest(request));
    ++report.requests;
    for (int64_t i = 0; i < header.rows_per_chunk(); ++i) {
      const int64_t index = chunk * header.rows_per_chunk() + i;
      const int64_t offset = header.rows_offset + index * header.row_bytes();
      if (!window.Holds(offset, static_cast<size_t>(header.row_bytes()))) {
        const int64_t size = std::min(rows_in_window * header.row_bytes(), file.size() - offset);
        window = FileWindow();
        KCC_TRY(window, file.Map(offset, static_cast<size_t>(size)));
      }
      KCC_TRY_VOID(DecodeKldRow(header, window.At(offset), logprobs));
      TokenEvidence token;
      token.request = row;
      token.position = static_cast<int32_t>(header.first() + i + 1);
      std::memcpy(&token.token, bytes.data() + 4 * static_cast<size_t>(token.position), 4);
      token.logits = logprobs.data();
      KCC_TRY_VOID(writer.AddToken(token));
      ++report.tokens;
    }
  }
  KCC_TRY_VOID(writer.Finish());
  return report;
}

}  // namespace

Result<ImportReport> ImportLlamaKld(ImportInputs inputs, const std::string& output,
                                    const ImportOptions& options) {
  if (inputs.size() != 1) return InvalidError("give one .kld file");
  KCC_TRY(const MappedFile file, MappedFile::Open(inputs[0]));
  auto report = ImportFile(file, output, options);
  if (!report.has_value()) return std::move(report.error()).At(Place{inputs[0]});
  return report;
}

}  // namespace kcc
