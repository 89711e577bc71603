#include "kcc/monitorlog/saved_state.h"

#include <filesystem>

#include "kcc/base/file.h"
#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

constexpr int kStateVersion = 1;
constexpr size_t kStateBytesMax = size_t{1} << 34;

std::string Header(const SavedState& state) {
  JsonWriter writer(JsonWriter::Style::kCompact);
  writer.BeginObject().Field("kccMonitorState", kStateVersion);
  writer.Field("observations", state.observations).Field("head", state.head);
  writer.Field("digest", Sha256Of(state.monitor)).EndObject();
  return writer.Take();
}

Error NotAState(const std::string& why) {
  return InvalidError("not a state of kcc monitor: " + why +
                      "; without it the session goes on from its log");
}

}  // namespace

Result<> WriteState(const std::string& path, const SavedState& state) {
  return WriteFileAtomically(path, Header(state) + state.monitor);
}

Result<SavedState> ParseState(std::string_view bytes) {
  const size_t end = bytes.find('\n');
  if (end == std::string_view::npos || end > 4096) return NotAState("it has no first line");
  json::parser parser;
  const auto root = ParseJson(parser, bytes.substr(0, end));
  json::object object;
  if (!root.has_value() || root->get(object) != simdjson::SUCCESS) {
    return NotAState("its first line is not JSON");
  }
  SavedState state;
  const auto observations = JsonMember(object, "observations");
  state.observations = observations ? JsonInteger(*observations).value_or(-1) : -1;
  state.head = JsonText(JsonMember(object, "head"));
  state.monitor = bytes.substr(end + 1);
  if (Header(state) != bytes.substr(0, end + 1)) {
    return NotAState("it was cut or changed, or another version of kcc wrote it");
  }
  return state;
}

Result<std::optional<SavedState>> ReadState(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::optional<SavedState>();
  KCC_TRY(const std::string bytes, ReadRegularFile(path, kStateBytesMax));
  auto state = ParseState(bytes);
  if (!state.has_value()) return std::move(state.error()).At(Place{path});
  return std::optional<SavedState>(std::move(*state));
}

}  // namespace kcc
