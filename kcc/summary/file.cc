#include "kcc/summary/file.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "kcc/base/file.h"
#include "kcc/base/sha256.h"
#include "kcc/summary/series.h"

namespace kcc {
namespace {

// The digit is the format.
constexpr std::string_view kMagic = "KCCSUM2\n";
constexpr std::string_view kMagicOfFormat1 = "KCCSUM1\n";
// Format 2 and each source's backend; written only where one is not the CPU, so that what the CPU
// measured has the bytes it always had.
constexpr std::string_view kMagicOfDevices = "KCCSUM3\n";
constexpr int kFormatOfDevices = 3;
constexpr std::string_view kMagicStem = "KCCSUM";
constexpr size_t kDigestLength = 64;

template <class Enum>
void VisitEnum(Archive& archive, Enum& value, Enum last) {
  auto number = static_cast<uint32_t>(value);
  archive.U32(number);
  if (number > static_cast<uint32_t>(last)) {
    archive.Fail("a word that this version does not know");
    number = 0;
  }
  value = static_cast<Enum>(number);
}

void VisitTexts(Archive& archive, std::map<std::string, std::string>& texts) {
  std::vector<std::pair<std::string, std::string>> rows(texts.begin(), texts.end());
  archive.Each(rows, [](Archive& a, std::pair<std::string, std::string>& row) {
    a.Text(row.first);
    a.Text(row.second);
  });
  if (!archive.reading()) return;
  texts = {rows.begin(), rows.end()};
  if (!std::is_sorted(rows.begin(), rows.end()) || texts.size() != rows.size()) {
    archive.Fail("texts that are not in order");
  }
}

void VisitSide(Archive& archive, SourceSide& side) {
  archive.Text(side.identity);
  archive.Text(side.kernel_fingerprint);
  archive.Text(side.model_digest);
  VisitEnum(archive, side.evidence, EvidenceLevel::kNone);
  VisitEnum(archive, side.semantics, LogprobSemantics::kProcessed);
  VisitEnum(archive, side.path, TracePath::kDecode);
  if (!archive.Since(2)) return;
  archive.Text(side.payload_digest);
  VisitTexts(archive, side.declares);
}

// `greedy`: 0 is allowed.
void VisitTemperature(Archive& archive, std::optional<double>& temperature, bool greedy) {
  bool known = temperature.has_value();
  archive.Bool(known);
  double value = temperature.value_or(0);
  if (known) archive.Double(value);
  if (!archive.reading()) return;
  temperature = known ? std::optional(value) : std::nullopt;
  const bool possible = std::isfinite(value) && (value > 0 || (greedy && value == 0));
  if (known && !possible) archive.Fail("an impossible temperature");
}

// Format 1 has one temperature, which holds of raw evidence in traces only.
void VisitTemperatures(Archive& archive, Source& source) {
  if (archive.Since(2)) {
    VisitTemperature(archive, source.temperature, false);
    VisitTemperature(archive, source.sampling_temperature, true);
    return;
  }
  double value = source.temperature.value_or(1);
  archive.Double(value);
  if (!archive.reading()) return;
  if (!(value > 0 && std::isfinite(value))) archive.Fail("an impossible temperature");
  const auto raw = [](const SourceSide& side) { return side.semantics == LogprobSemantics::kRaw; };
  const bool in_memory = source.train.identity.empty() && source.infer.identity.empty();
  const bool known = raw(source.train) && raw(source.infer) && source.mode == TraceMode::kScored &&
                     !(in_memory && source.evidence == EvidenceLevel::kSampledToken);
  source.temperature = known ? std::optional(value) : std::nullopt;
}

void VisitSource(Archive& archive, Source& source) {
  VisitSide(archive, source.train);
  VisitSide(archive, source.infer);
  VisitEnum(archive, source.evidence, EvidenceLevel::kNone);
  VisitEnum(archive, source.mode, TraceMode::kGenerated);
  VisitEnum(archive, source.sampled_by, SampledBy::kDataset);
  VisitTemperatures(archive, source);
  archive.I64(source.vocab_size);
  archive.U64(source.requests);
  archive.U64(source.tokens);
  archive.U64(source.manifest);
  if (!archive.Since(2)) return;
  archive.Text(source.request_set);
  archive.Each(source.infer_alone, [](Archive& a, std::string& text) { a.Text(text); });
  if (archive.reading() && !std::is_sorted(source.infer_alone.begin(), source.infer_alone.end())) {
    archive.Fail("names that are not in order");
  }
  if (!archive.Since(kFormatOfDevices)) return;
  archive.Text(source.backend);
  const bool known = source.backend.empty() ||
                     std::find(kDeviceBackends.begin(), kDeviceBackends.end(), source.backend) !=
                         kDeviceBackends.end();
  if (archive.reading() && !known) archive.Fail("a backend that this version does not know");
}

bool HasDevice(const Summary& summary) {
  return std::any_of(summary.sources.begin(), summary.sources.end(),
                     [](const Source& source) { return !source.backend.empty(); });
}

void VisitRequests(Archive& archive, std::vector<uint64_t>& requests) {
  uint64_t before = 0;
  archive.Each(requests, [&](Archive& a, uint64_t& hash) {
    uint64_t step = hash - before;  // hashes are spread evenly: a step is shorter than a hash
    a.U64(step);
    if (a.reading()) {
      const bool first = &hash == requests.data();
      hash = before + step;
      if (!first && hash <= before) a.Fail("request hashes that are not in order");
    }
    before = hash;
  });
}

// Format 1 has one fill a size, whichever side the windows are placed by.
void VisitFills(Archive& archive, std::vector<WindowFill>& fills) {
  for (size_t i = 0; i < fills.size(); ++i) {
    const bool shared = !archive.Since(2) && i > 0 && fills[i - 1].size == fills[i].size;
    if (!shared) {
      fills[i].Visit(archive);
    } else if (archive.reading()) {
      fills[i].open = fills[i - 1].open;
      fills[i].complete = fills[i - 1].complete;
    }
  }
}

void VisitStatistics(Archive& archive, const std::vector<size_t>& series, Summary& summary) {
  if (archive.Since(2)) {
    archive.I32(summary.format);
    if (summary.format < 1 || summary.format > Summary::kFormat) archive.Fail("no such format");
  } else if (archive.reading()) {
    summary.format = 1;
  }
  archive.Each(summary.sources, VisitSource, 8);
  if (archive.reading() && archive.Since(kFormatOfDevices) && !HasDevice(summary)) {
    archive.Fail("a format for devices, and no device");
  }
  for (size_t i = 1; i < summary.sources.size(); ++i) {
    if (!(summary.sources[i - 1] < summary.sources[i])) archive.Fail("sources not in order");
  }
  VisitRequests(archive, summary.requests);
  VisitFills(archive, summary.fills);
  for (SliceStats& slice : summary.slices) {
    if (archive.ok()) slice.Visit(archive, summary.plan, series);
  }
  if (!archive.Since(2)) return;
  archive.Double(summary.advantage_abs_max);
  const double most = summary.advantage_abs_max;
  if (archive.reading() && !(most == -1 || (most >= 0 && std::isfinite(most)))) {
    archive.Fail("an impossible advantage");
  }
}

Result<std::vector<size_t>> SeriesByName(const std::vector<std::string>& names, const Plan& plan) {
  std::vector<size_t> series;
  std::vector<bool> seen(plan.series_count());
  for (const std::string& name : names) {
    const auto found = plan.FindSeries(name);
    if (!found) {
      return InvalidError("the summary holds '" + name +
                          "', which this version of kcc does not know; use a newer one");
    }
    if (seen[*found]) return InvalidError("the summary is damaged: two series of one name");
    if (!plan.Keeps(*found)) {
      return InvalidError("the summary is damaged: its plan does not ask for '" + name + "'");
    }
    seen[*found] = true;
    series.push_back(*found);
  }
  return series;
}

Error Damaged(const std::string& why) { return InvalidError("the summary is damaged: " + why); }

}  // namespace

std::string EncodeSummary(const Summary& summary, int format) {
  if (format == Summary::kFormat && HasDevice(summary)) format = kFormatOfDevices;
  Archive archive = Archive::Writer(format);
  std::string plan = summary.plan.CanonicalJson();
  std::vector<std::string> names;
  std::vector<size_t> series;
  for (size_t i = 0; i < summary.plan.series_count(); ++i) {
    if (!summary.plan.Keeps(i)) continue;
    names.push_back(summary.plan.name(i));
    series.push_back(i);
  }
  archive.Text(plan);
  archive.Each(names, [](Archive& a, std::string& name) { a.Text(name); });
  Summary copy = summary;  // one Visit serves both ways, so it cannot take a const summary
  VisitStatistics(archive, series, copy);
  const std::string_view magic = format == 1                  ? kMagicOfFormat1
                                 : format == kFormatOfDevices ? kMagicOfDevices
                                                              : kMagic;
  std::string bytes = std::string(magic) + archive.Take();
  bytes += Sha256Of(bytes).substr(std::string_view("sha256:").size());
  return bytes;
}

Result<Summary> DecodeSummaryBody(std::string_view body, int format) {
  Archive archive = Archive::Reader(body, format);
  std::string plan_text;
  std::vector<std::string> names;
  archive.Text(plan_text);
  archive.Each(names, [](Archive& a, std::string& name) { a.Text(name); });
  if (!archive.ok()) return Damaged(archive.fault());
  KCC_TRY(Plan plan, Plan::Parse(plan_text));
  KCC_TRY(const std::vector<size_t> series, SeriesByName(names, plan));
  Summary summary(std::move(plan));
  VisitStatistics(archive, series, summary);
  if (!archive.ok()) return Damaged(archive.fault());
  if (!archive.AtEnd()) return Damaged("bytes after its end");
  return summary;
}

Result<Summary> DecodeSummary(std::string_view bytes) {
  if (!bytes.starts_with(kMagicStem)) {
    return InvalidError("not a kcc summary; `kcc measure` makes one");
  }
  int format = 0;
  if (bytes.starts_with(kMagicOfFormat1)) format = 1;
  if (bytes.starts_with(kMagic)) format = Summary::kFormat;
  if (bytes.starts_with(kMagicOfDevices)) format = kFormatOfDevices;
  if (format == 0) {
    return InvalidError("a summary of another format version; use the kcc that wrote it");
  }
  if (bytes.size() < kMagic.size() + kDigestLength) return Damaged("it is cut off");
  const std::string_view content = bytes.substr(0, bytes.size() - kDigestLength);
  const std::string digest = Sha256Of(content);
  if (std::string_view(digest).substr(7) != bytes.substr(content.size())) {
    return Damaged("its checksum does not match; it was cut off or changed");
  }
  return DecodeSummaryBody(content.substr(kMagic.size()), format);
}

Result<> WriteSummaryFile(const std::string& path, const Summary& summary) {
  return WriteFileAtomically(path, EncodeSummary(summary));
}

Result<Summary> ReadSummaryFile(const std::string& path) {
  KCC_TRY(const std::string bytes, ReadFile(path, kSummaryBytesMax));
  Result<Summary> summary = DecodeSummary(bytes);
  if (!summary) return std::move(summary.error()).At({path});
  return summary;
}

}  // namespace kcc
