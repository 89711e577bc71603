// Any bytes as what a client sends to the gateway: a head, and behind it a chunked body. What is
// taken is the same in whatever pieces it comes; what was read of a head holds no byte that could
// end a line; and the admin port lets nothing through that has no token. The first byte says how
// long the pieces are.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/bytes.h"
#include "kcc/base/check.h"
#include "kcc/plane/admin_guard.h"
#include "kcc/plane/chunk_reader.h"
#include "kcc/plane/request_head.h"

namespace {

constexpr size_t kHeadMax = 16 << 10;
constexpr size_t kBodyMax = 64 << 10;

kcc::HeadScan ScanInPieces(std::string_view bytes, size_t piece) {
  size_t seen = 0;
  for (;;) {
    const size_t now = std::min(bytes.size(), seen + piece);
    kcc::HeadScan scan = kcc::ScanHead(bytes.substr(0, now), seen);
    if (scan.fault || scan.end != 0 || now == bytes.size()) return scan;
    seen = now;
  }
}

void CheckBody(std::string_view bytes, size_t piece) {
  kcc::ChunkReader whole(kBodyMax);
  std::string body;
  const size_t taken = whole.Read(bytes, &body);
  KCC_CHECK(taken <= bytes.size() && body.size() <= kBodyMax);
  kcc::ChunkReader parts(kBodyMax);
  std::string same;
  size_t at = 0;
  while (at < bytes.size() && parts.state() == kcc::ChunkReader::State::kMore) {
    at += parts.Read(bytes.substr(at, piece), &same);
  }
  KCC_CHECK(parts.state() == whole.state() && at == taken && same == body);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kcc::Bytes input(data, size);
  const size_t piece = size_t{1} + input.Byte();
  const std::string text = input.Rest();
  const std::string_view bytes = std::string_view(text).substr(0, kHeadMax);
  const kcc::HeadScan scan = kcc::ScanHead(bytes, 0);
  if (scan.fault || scan.end == 0) return 0;
  static kcc::RequestHead head;
  if (const auto fault = kcc::ReadRequestHead(bytes.substr(0, scan.end), &head)) {
    KCC_CHECK(fault->status >= 400 && fault->status < 600 && !fault->why.empty());
    return 0;
  }
  const kcc::HeadScan again = ScanInPieces(bytes, piece);
  KCC_CHECK(!again.fault && again.end == scan.end);
  KCC_CHECK(!(head.chunked && head.length != 0) && head.target.starts_with('/'));
  for (const kcc::HeaderField& field : head.fields) {
    KCC_CHECK(!field.name.empty() && field.name.find_first_of(" :\r\n\t") == field.name.npos);
    KCC_CHECK(field.value.find_first_of(std::string_view("\0\r\n", 3)) == field.value.npos);
  }
  static const kcc::AdminGuard guard("a token that no input holds", "secret", 8081);
  const kcc::AdminDecision decision = guard.Check(head.method, head.target, head.fields);
  const std::string_view path = head.target.substr(0, head.target.find('?'));
  // The page itself holds no data, and asks its reader for the token.
  const bool open =
      path == "/healthz" || path == "/readyz" || (head.method == "GET" && path == "/");
  KCC_CHECK(decision.status != 0 || open);
  if (head.chunked) CheckBody(std::string_view(text).substr(scan.end), piece);
  return 0;
}
