#include "kcc/kernel/audit_points.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "kcc/base/json_writer.h"

namespace kcc {
namespace {

bool HasControl(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::vector<std::string> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t blank = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, blank));
    text.remove_prefix(std::min(blank + 1, text.size()));
  }
  return words;
}

// What a list of digests holds: how many, and whether further ones are left out.
struct Held {
  size_t count = 0;
  bool more = false;
};
Held HeldBy(const std::vector<std::string>& digests) {
  const bool more = digests.size() > 1 && digests.back() == kMoreDigests;
  return {digests.size() - (more ? 1 : 0), more};
}

struct CommonPoint {
  const AuditDigests* train;
  const AuditDigests* infer;
  size_t count = 0;  // digests to compare
};

// How many digests of a point are compared; none where the two lists are not of one length, as far
// as they say.
std::optional<Held> ComparedOf(const CommonPoint& point) {
  const Held train = HeldBy(point.train->digests);
  const Held infer = HeldBy(point.infer->digests);
  const bool fits =
      (train.count == infer.count || (train.count < infer.count ? train : infer).more);
  if (!fits) return {};
  return Held{std::min(train.count, infer.count), train.more || infer.more};
}

// Where one side did not record a position there is nothing to compare.
bool Differ(const std::string& a, const std::string& b) {
  return a != b && a != kNoDigest && b != kNoDigest;
}

std::optional<size_t> FirstDifference(const CommonPoint& point) {
  for (size_t i = 0; i < point.count; ++i) {
    if (Differ(point.train->digests[i], point.infer->digests[i])) return i;
  }
  return {};
}

bool AnyRecorded(const std::vector<CommonPoint>& common) {
  for (const CommonPoint& point : common) {
    for (size_t i = 0; i < point.count; ++i) {
      if (point.train->digests[i] != kNoDigest && point.infer->digests[i] != kNoDigest) return true;
    }
  }
  return false;
}

// The points of both lists, in train's order. Nothing where the lists have them in other orders:
// "first" would then depend on the side.
std::optional<std::vector<CommonPoint>> CommonPoints(const AuditPointList& train,
                                                     const AuditPointList& infer) {
  std::map<std::string_view, size_t> places;
  for (size_t i = 0; i < infer.size(); ++i) places.emplace(infer[i].point, i);
  std::vector<CommonPoint> common;
  size_t next = 0;
  for (const AuditDigests& point : train) {
    const auto found = places.find(point.point);
    if (found == places.end()) continue;
    if (found->second < next) return {};
    next = found->second + 1;
    common.push_back({&point, &infer[found->second], 0});
  }
  return common;
}

AuditComparison NotComparable(std::string why) {
  AuditComparison comparison;
  comparison.why = std::move(why);
  return comparison;
}

}  // namespace

Result<> CheckAudit(const RequestAudit& audit) {
  if (audit.signature.size() > kReplaySignatureBytesMax || HasControl(audit.signature)) {
    return BrokenEvidenceError("a replay signature must be one line of at most " +
                               std::to_string(kReplaySignatureBytesMax) + " bytes");
  }
  std::set<std::string_view> names;
  for (const AuditDigests& point : audit.points) {
    if (point.point.empty() || HasControl(point.point) ||
        point.point.find('=') != std::string::npos) {
      return BrokenEvidenceError("the name of an audit point must be a text without '=', not '" +
                                 point.point + "'");
    }
    if (!names.insert(point.point).second) {
      return BrokenEvidenceError("the audit point '" + point.point + "' comes twice");
    }
    if (point.digests.empty()) {
      return BrokenEvidenceError("the audit point '" + point.point + "' has no digest");
    }
    for (const std::string& digest : point.digests) {
      if (digest.empty() || HasControl(digest) || digest.find(' ') != std::string::npos) {
        return BrokenEvidenceError("the audit point '" + point.point +
                                   "' has a digest that is empty or holds a blank");
      }
    }
  }
  return {};
}

namespace {

// For how many positions the digests of all points fit into a line, as JSON.
size_t PositionsThatFit(const AuditPointList& points) {
  size_t longest = 0;
  size_t bytes = 0;
  for (const AuditDigests& point : points) {
    longest = std::max(longest, point.digests.size());
    bytes += JsonQuote(point.point).size() + kMoreDigests.size() + 3;  // '=', ' ' and ','
  }
  for (size_t position = 0; position < longest; ++position) {
    for (const AuditDigests& point : points) {
      if (position < point.digests.size()) bytes += JsonQuote(point.digests[position]).size() + 1;
    }
    if (bytes > kAuditPointsBytesMax) return position;
  }
  return longest;
}

}  // namespace

void SetAudit(const RequestAudit& audit, Request* request) {
  if (!audit.signature.empty()) {
    request->fields[std::string(kReplaySignatureField)] = audit.signature;
  }
  const size_t kept = PositionsThatFit(audit.points);
  if (kept == 0) return;  // no points, or too many of them for even one position
  std::vector<std::string> lines;
  lines.reserve(audit.points.size());
  for (const AuditDigests& point : audit.points) {
    std::string line = point.point + "=";
    for (size_t i = 0; i < std::min(kept, point.digests.size()); ++i) {
      if (i > 0) line += ' ';
      line += point.digests[i];
    }
    if (point.digests.size() > kept) line.append(" ").append(kMoreDigests);
    lines.push_back(std::move(line));
  }
  request->fields[std::string(kAuditPointsField)] = std::move(lines);
}

Result<RequestAudit> AuditOf(const Request& request) {
  RequestAudit audit;
  if (const std::string* signature = request.Text(kReplaySignatureField)) {
    audit.signature = *signature;
  }
  const auto field = request.fields.find(kAuditPointsField);
  if (field == request.fields.end()) return audit;
  const auto* lines = std::get_if<std::vector<std::string>>(&field->second);
  if (lines == nullptr) {
    return BrokenEvidenceError("request '" + request.id + "': audit_points is not a list of texts");
  }
  for (const std::string& line : *lines) {
    const size_t sign = line.find('=');
    if (sign == std::string::npos) {
      return BrokenEvidenceError("request '" + request.id + "': the audit point '" + line +
                                 "' is not POINT=DIGEST …");
    }
    audit.points.push_back(
        {line.substr(0, sign), SplitWords(std::string_view(line).substr(sign + 1))});
  }
  Result<> checked = CheckAudit(audit);
  if (!checked.has_value()) {
    return BrokenEvidenceError("request '" + request.id + "': " + checked.error().message());
  }
  return audit;
}

AuditComparison CompareAudits(const AuditPointList& train, const AuditPointList& infer) {
  if (train.empty() || infer.empty()) {
    return NotComparable(train.empty() && infer.empty()
                             ? "neither kernel gives audit points"
                             : std::string(train.empty() ? "train" : "infer") +
                                   " gives no audit points");
  }
  auto common = CommonPoints(train, infer);
  if (!common) {
    return NotComparable("the kernels list their audit points in different orders");
  }
  if (common->empty()) return NotComparable("no audit point has the same name in both kernels");
  AuditComparison comparison;
  bool by_position = true;
  for (CommonPoint& point : *common) {
    const std::optional<Held> compared = ComparedOf(point);
    if (!compared) {
      return NotComparable("the audit point '" + point.train->point + "' has " +
                           std::to_string(point.train->digests.size()) + " digests in train and " +
                           std::to_string(point.infer->digests.size()) + " in infer");
    }
    point.count = compared->count;
    by_position &= point.count == common->front().count && point.train->digests.size() > 1;
    if (compared->more) {
      comparison.positions = std::min(comparison.positions.value_or(point.count), point.count);
    }
  }
  if (!AnyRecorded(*common)) return NotComparable("no audit point was recorded by both kernels");
  comparison.outcome = AuditComparison::Outcome::kAgree;
  comparison.compared = common->size();
  comparison.alone = train.size() + infer.size() - 2 * common->size();
  size_t earliest = std::numeric_limits<size_t>::max();
  for (const CommonPoint& point : *common) {
    const std::optional<size_t> at = FirstDifference(point);
    if (!at || (by_position && *at >= earliest)) continue;
    earliest = *at;
    comparison.outcome = AuditComparison::Outcome::kDiverge;
    comparison.point = point.train->point;
    if (point.train->digests.size() > 1) comparison.position = static_cast<int64_t>(*at);
    if (!by_position) break;
  }
  return comparison;
}

}  // namespace kcc
