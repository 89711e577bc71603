// kcc register head and verify: what stands for the whole log, and whether the log is still that.
#include "apps/kcc/commands.h"
#include "apps/kcc/registers.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/signing.h"
#include "kcc/base/file.h"
#include "kcc/register/signed_head.h"
#include "kcc/register/verify.h"
#include "kcc/statement/dsse.h"

namespace kcc::cli {
namespace {

void WriteCheck(const RegisterCheck& check, JsonWriter* json) {
  json->Field("ok", check.ok()).Field("head", HeadText(check.head));
  json->Field("events", check.events).Field("entries", check.entries);
  json->Field("statements", check.statements);
  json->Field("blobs", check.blobs).Field("blobBytes", check.blob_bytes);
  json->Field("blobsUnnamed", check.blobs_unnamed).Field("blobsRemoved", check.blobs_removed);
  if (check.time_goes_back > 0) json->Field("timeGoesBackAt", check.time_goes_back);
  if (check.first_break) {
    json->Key("break").BeginObject().Field("place", Name(check.first_break->place));
    json->Field("sequence", check.first_break->sequence).Field("id", check.first_break->id);
    json->Field("what", check.first_break->what).EndObject();
  }
  json->Key("canSee").BeginArray();
  for (const std::string& attack : check.seen) json->Value(attack);
  json->EndArray().Key("cannotSee").BeginArray();
  for (const std::string& attack : check.unseen) json->Value(attack);
  json->EndArray();
}

void PrintCheck(const RegisterCheck& check, const std::string& name, Console& console) {
  if (check.first_break) {
    console.out << Shown(name) << ": " << Paint(Style::kRed, "broken", console.colour_out) << ": "
                << Shown(check.first_break->what) << '\n';
    return;
  }
  console.out << Shown(name) << ": " << Paint(Style::kGreen, "ok", console.colour_out) << ": "
              << Counted(static_cast<size_t>(check.events), "event") << ", " << check.entries
              << (check.entries == 1 ? " entry, " : " entries, ")
              << Counted(static_cast<size_t>(check.blobs), "blob") << " of "
              << Counted(static_cast<size_t>(check.blob_bytes), "byte") << '\n';
  console.out << "  head " << HeadText(check.head) << '\n';
  if (check.blobs_unnamed > 0) {
    console.out << "  no event names " << Counted(static_cast<size_t>(check.blobs_unnamed), "blob")
                << ": `kcc register gc` removes them\n";
  }
  if (check.blobs_removed > 0) {
    console.out << "  removed by events: "
                << Counted(static_cast<size_t>(check.blobs_removed), "blob") << '\n';
  }
  if (check.time_goes_back > 0) {
    console.out << "  note: event " << check.time_goes_back
                << " is older than the one before it; its writer's clock was another\n";
  }
  for (const std::string& attack : check.seen) {
    console.out << "  can see: " << Shown(attack) << '\n';
  }
  for (const std::string& attack : check.unseen) console.out << "  cannot see: " << attack << '\n';
}

// The envelope, and the head that it holds.
Result<std::string> SignHead(const RegisterOptions& options, const OwnedSigners& signers,
                             Register& source, const Console& console) {
  KCC_TRY(const Stamp stamp, StampOf(options.flags, console));
  KCC_TRY(const Statement statement, HeadToSign(source, stamp.time_ms));
  return SignStatement(statement, signers);
}

Result<> PrintSignedHead(const RegisterOptions& options, const OwnedSigners& signers,
                         Register& source, Console& console) {
  KCC_TRY(const std::string envelope, SignHead(options, signers, source, console));
  if (options.output.empty()) {  // the envelope is JSON, so --json asks for nothing else
    console.out << envelope;
    return {};
  }
  KCC_TRY_VOID(WriteFileAtomically(options.output, envelope));
  if (console.json) {
    JsonWriter json = RegisterJson();
    json.Field("file", options.output);
    PrintRegisterJson(json, console);
  } else {
    console.out << Shown(options.output) << ": the head of " << Shown(source.name()) << ", signed\n"
                << SignerLines(signers);
  }
  return {};
}

Result<> PrintHead(const RegisterOptions& options, Console& console) {
  KCC_TRY(const OwnedSigners signers, OpenSigners(options.signing));
  KCC_TRY(Register source, Register::Open(options.flags.uri));
  if (!signers.empty()) return PrintSignedHead(options, signers, source, console);
  if (!options.output.empty()) {
    return InvalidError("-o writes a signed head: sign it with --key FILE or --sign-with COMMAND");
  }
  KCC_TRY(const Head head, source.ReadHead());
  if (console.json) {
    JsonWriter json = RegisterJson();
    json.Field("sequence", head.sequence).Field("digest", head.digest);
    PrintRegisterJson(json, console);
  } else {
    console.out << HeadText(head) << '\n';
  }
  return {};
}

// --head is a head, or a file that has one: what `kcc register head` printed or signed.
Result<> TakeHead(const RegisterOptions& options, RegisterVerifyOptions* how) {
  Result<Head> written = ParseHead(options.head);
  if (!written.has_value()) {
    const Result<std::string> text = ReadFile(options.head, kEnvelopeBytesMax);
    if (!text.has_value()) {
      return InvalidError(written.error().message() +
                          "; nor is it a file that has one: " + text.error().message());
    }
    const size_t end = text->find_last_not_of(" \r\n") + 1;
    written = ParseHead(std::string_view(*text).substr(0, end));
    if (!written.has_value()) how->signed_head = *text;
  }
  if (how->signed_head.empty()) {
    how->kept = std::move(*written);
    if (options.threshold > 1) {
      return InvalidError("--threshold counts who signed a head, and this head is not signed",
                          Place{options.head});
    }
    return {};
  }
  if (how->keyring == nullptr) {
    return InvalidError("the head is signed: say with --keyring whose keys are trusted",
                        Place{options.head});
  }
  return {};
}

Result<RegisterCheck> CheckRegister(const RegisterOptions& options, std::string* name) {
  RegisterVerifyOptions how;
  how.threshold = static_cast<size_t>(options.threshold);
  std::optional<Keyring> keyring;
  if (!options.keyring.empty()) {
    KCC_TRY(keyring, LoadKeyring(options.keyring));
    how.keyring = &*keyring;
  }
  if (!options.head.empty()) KCC_TRY_VOID(TakeHead(options, &how));
  KCC_TRY(Register source, Register::Open(options.flags.uri));
  *name = source.name();
  return Verify(source, how);
}

}  // namespace

int RunRegisterHead(const RegisterOptions& options, Console& console) {
  const Result<> done = PrintHead(options, console);
  return done.has_value() ? kExitOk : ReportError(done.error(), console);
}

int RunRegisterVerify(const RegisterOptions& options, Console& console) {
  std::string name;
  const Result<RegisterCheck> check = CheckRegister(options, &name);
  if (!check.has_value()) return ReportError(check.error(), console);
  if (console.json) {
    JsonWriter json = RegisterJson();
    WriteCheck(*check, &json);
    PrintRegisterJson(json, console);
  } else {
    PrintCheck(*check, name, console);
  }
  return check->ok() ? kExitOk : kExitError;
}

}  // namespace kcc::cli
