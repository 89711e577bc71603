// An export of a register, by anybody: parsed and imported into a new register. It is refused with
// words, and then the register is as before; or it is taken, and then it is sound.
//
//   byte 0   0: what follows is events.jsonl as it is, behind the text of register.json and a zero
//            byte; else each line is "KIND BODY", and gets number, time and digest here, so that
//            the chain holds and what events say is reached. A line "blob TEXT" is a file of the
//            export, and "@N" in a body stands for the digest of the N-th of them.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/bytes.h"
#include "fuzz/scratch_dir.h"
#include "kcc/base/check.h"
#include "kcc/base/json_writer.h"
#include "kcc/register/register.h"
#include "kcc/register/transfer.h"
#include "kcc/register/verify.h"

namespace {

void CheckWords(const kcc::Error& error) { KCC_CHECK(!error.message().empty()); }

// With the digests of blobs in the places of "@N".
std::string WithDigests(std::string_view body, const std::vector<std::string>& blobs) {
  std::string made;
  for (size_t i = 0; i < body.size(); ++i) {
    const bool digit = body[i] == '@' && i + 1 < body.size() && body[i + 1] >= '0' &&
                       body[i + 1] <= '9' && static_cast<size_t>(body[i + 1] - '0') < blobs.size();
    if (digit) {
      made += blobs[static_cast<size_t>(body[++i] - '0')];
    } else {
      made += body[i];
    }
  }
  return made;
}

// Events whose numbers and digests are right, whatever they say.
void PutSealed(const kcc::FuzzDir& dir, std::string_view text) {
  kcc::Head head;
  std::string lines;
  std::vector<std::string> blobs;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    const std::string_view rest = line.substr(blank + 1);
    if (line.substr(0, blank) == "blob") {
      blobs.push_back(kcc::BlobDigest(rest));
      dir.Put("export/blobs/" + blobs.back().substr(blobs.back().find(':') + 1), rest);
      continue;
    }
    const kcc::NewEvent said{.time_ms = 1'700'000'000'000 + static_cast<int64_t>(lines.size()),
                             .actor = "fuzz",
                             .kind = std::string(line.substr(0, blank)),
                             .body = WithDigests(rest, blobs)};
    const auto sealed = kcc::SealEvent(head, said);
    if (!sealed.has_value()) continue;
    head = {sealed->sequence, sealed->digest};
    kcc::JsonWriter json(kcc::JsonWriter::Style::kCompact);
    json.BeginObject().Field("sequence", sealed->sequence).Field("time", sealed->time_ms);
    json.Field("actor", sealed->actor).Field("kind", sealed->kind);
    json.Key("body").Raw(sealed->body).Field("digest", sealed->digest).EndObject();
    lines += json.Take();
    if (lines.back() != '\n') lines += '\n';
  }
  dir.Put("export/events.jsonl", lines);
  dir.Put("export/register.json", R"({"format":1,"head":")" + kcc::HeadText(head) + "\"}");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const kcc::FuzzDir dir;
  kcc::Bytes bytes(data, size);
  const bool sealed = bytes.Byte() != 0;
  const std::string rest = bytes.Rest();
  if (sealed) {
    PutSealed(dir, rest);
  } else {
    const size_t end = std::min(rest.find('\0'), rest.size());
    dir.Put("export/register.json", rest.substr(0, end));
    dir.Put("export/events.jsonl", rest.substr(std::min(end + 1, rest.size())));
  }
  {
    auto target = kcc::Register::Create(dir / "r.db");
    KCC_CHECK(target.has_value());
    const auto done = kcc::ImportRegister(*target, dir / "export");
    const auto head = target->ReadHead();
    KCC_CHECK(head.has_value());
    const auto check = kcc::Verify(*target);
    KCC_CHECK(check.has_value());
    if (done.has_value()) {
      KCC_CHECK(*head == done->head && check->ok());
    } else {
      CheckWords(done.error());
      // Nothing half: as it was, which is empty.
      KCC_CHECK(*head == kcc::Head{} && check->ok() && check->blobs == 0);
    }
  }
  dir.Empty();
  return 0;
}
