#include "kcc/summary/file.h"

#include <cmath>

#include "kcc/base/file.h"
#include "kcc/base/sha256.h"
#include "kcc/summary/series.h"

namespace kcc {
namespace {

constexpr std::string_view kMagic = "KCCSUM1\n";
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

void VisitSide(Archive& archive, SourceSide& side) {
  archive.Text(side.identity);
  archive.Text(side.kernel_fingerprint);
  archive.Text(side.model_digest);
  VisitEnum(archive, side.evidence, EvidenceLevel::kNone);
  VisitEnum(archive, side.semantics, LogprobSemantics::kProcessed);
  VisitEnum(archive, side.path, TracePath::kDecode);
}

void VisitSource(Archive& archive, Source& source) {
  VisitSide(archive, source.train);
  VisitSide(archive, source.infer);
  VisitEnum(archive, source.evidence, EvidenceLevel::kNone);
  VisitEnum(archive, source.mode, TraceMode::kGenerated);
  VisitEnum(archive, source.sampled_by, SampledBy::kDataset);
  archive.Double(source.temperature);
  archive.I64(source.vocab_size);
  archive.U64(source.requests);
  archive.U64(source.tokens);
  archive.U64(source.manifest);
  if (archive.reading() && std::isnan(source.temperature)) archive.Fail("no temperature");
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

void VisitStatistics(Archive& archive, const std::vector<size_t>& series, Summary& summary) {
  archive.Each(summary.sources, VisitSource, 8);
  for (size_t i = 1; i < summary.sources.size(); ++i) {
    if (!(summary.sources[i - 1] < summary.sources[i])) archive.Fail("sources not in order");
  }
  VisitRequests(archive, summary.requests);
  for (WindowFill& fill : summary.fills) fill.Visit(archive);
  for (SliceStats& slice : summary.slices) {
    if (archive.ok()) slice.Visit(archive, summary.plan, series);
  }
}

std::vector<std::string> AllSeriesNames() {
  std::vector<std::string> names;
  for (size_t i = 0; i < SeriesCount(); ++i) names.push_back(SeriesName(i));
  return names;
}

Result<std::vector<size_t>> SeriesByName(const std::vector<std::string>& names) {
  std::vector<size_t> series;
  std::vector<bool> seen(SeriesCount());
  for (const std::string& name : names) {
    const auto found = FindSeries(name);
    if (!found) {
      return InvalidError("the summary holds '" + name +
                          "', which this version of kcc does not know; use a newer one");
    }
    if (seen[*found]) return InvalidError("the summary is damaged: two series of one name");
    seen[*found] = true;
    series.push_back(*found);
  }
  return series;
}

Error Damaged(const std::string& why) { return InvalidError("the summary is damaged: " + why); }

}  // namespace

std::string EncodeSummary(const Summary& summary) {
  Archive archive = Archive::Writer();
  std::string plan = summary.plan.CanonicalJson();
  std::vector<std::string> names = AllSeriesNames();
  archive.Text(plan);
  archive.Each(names, [](Archive& a, std::string& name) { a.Text(name); });
  std::vector<size_t> series(names.size());
  for (size_t i = 0; i < series.size(); ++i) series[i] = i;
  Summary copy = summary;  // one Visit serves both ways, so it cannot take a const summary
  VisitStatistics(archive, series, copy);
  std::string bytes = std::string(kMagic) + archive.Take();
  bytes += Sha256Of(bytes).substr(std::string_view("sha256:").size());
  return bytes;
}

Result<Summary> DecodeSummaryBody(std::string_view body) {
  Archive archive = Archive::Reader(body);
  std::string plan_text;
  std::vector<std::string> names;
  archive.Text(plan_text);
  archive.Each(names, [](Archive& a, std::string& name) { a.Text(name); });
  if (!archive.ok()) return Damaged(archive.fault());
  KCC_TRY(Plan plan, Plan::Parse(plan_text));
  KCC_TRY(const std::vector<size_t> series, SeriesByName(names));
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
  if (!bytes.starts_with(kMagic)) {
    return InvalidError("a summary of another format version; use the kcc that wrote it");
  }
  if (bytes.size() < kMagic.size() + kDigestLength) return Damaged("it is cut off");
  const std::string_view content = bytes.substr(0, bytes.size() - kDigestLength);
  const std::string digest = Sha256Of(content);
  if (std::string_view(digest).substr(7) != bytes.substr(content.size())) {
    return Damaged("its checksum does not match; it was cut off or changed");
  }
  return DecodeSummaryBody(content.substr(kMagic.size()));
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
