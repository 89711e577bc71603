#include "kcc/trace/requests.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "kcc/base/json_writer.h"
#include "kcc/base/strings.h"
#include "kcc/format/json.h"
#include "kcc/format/line_reader.h"
#include "kcc/trace/request_value.h"

namespace kcc {
namespace {

constexpr int64_t kExactIntegerMax = int64_t{1} << 53;

std::string MinifiedJson(json::element element) { return simdjson::minify(element); }

Result<Request> ReadRequest(json::parser& parser, std::string_view line,
                            std::span<const std::string_view> without = {}) {
  KCC_TRY(const json::element root, ParseJson(parser, line));
  json::object object;
  if (root.get(object) != simdjson::SUCCESS) {
    return InvalidError("a request must be an object, this is " + std::string(JsonTypeName(root)));
  }
  Request request;
  bool has_id = false;
  for (const auto [key, element] : object) {
    if (key == "id") {
      std::string_view id;
      int64_t number = 0;
      if (has_id) return InvalidError("the field 'id' stands twice");
      has_id = true;
      if (element.get(id) == simdjson::SUCCESS) {
        request.id = id;
      } else if (element.get(number) == simdjson::SUCCESS) {
        request.id = std::to_string(number);
      } else {
        return InvalidError("'id' must be a string, it is " + std::string(JsonTypeName(element)));
      }
      continue;
    }
    if (element.is_null()) continue;
    if (std::find(without.begin(), without.end(), key) != without.end()) continue;
    const auto [field, fresh] = request.fields.try_emplace(std::string(key));
    if (!fresh) return InvalidError("the field '" + std::string(key) + "' stands twice");
    KCC_TRY_VOID(ReadRequestValue(element, &field->second));
  }
  KCC_TRY_VOID(CheckRequest(request));
  return request;
}

// A number beyond 2^53 keeps a point, or it would read back as an integer too large to be one.
std::string NumberJson(double number) {
  std::string text = ShortestNumber(number);
  const bool large = std::fabs(number) > static_cast<double>(kExactIntegerMax);
  if (large && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

Result<> CheckUnique(const std::vector<Request>& requests, const std::vector<int>& lines,
                     const std::string& path) {
  std::vector<size_t> order(requests.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(requests[a].id, a) < std::tie(requests[b].id, b);
  });
  size_t first = requests.size();  // the earliest line that repeats an id
  size_t original = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    if (requests[order[i]].id == requests[order[i - 1]].id && order[i] < first) {
      first = order[i];
      original = order[i - 1];
    }
  }
  if (first == requests.size()) return {};
  return InvalidError("the request id '" + requests[first].id + "' stood already in line " +
                          std::to_string(lines[original]) + "; ids must be unique",
                      Place{path, lines[first]});
}

}  // namespace

Result<> ReadRequestValue(json::element element, RequestValue* value) {
  switch (element.type()) {
    case json::element_type::NULL_VALUE:
      break;
    case json::element_type::BOOL:
      value->emplace<bool>(bool{element});
      return {};
    case json::element_type::STRING:
      value->emplace<std::string>(std::string_view(element));
      return {};
    case json::element_type::DOUBLE:
      value->emplace<double>(double{element});
      return {};
    case json::element_type::UINT64:
      value->emplace<std::string>(std::to_string(uint64_t{element}));
      return {};
    case json::element_type::INT64: {
      const int64_t integer{element};
      if (integer > kExactIntegerMax || integer < -kExactIntegerMax) {
        value->emplace<std::string>(std::to_string(integer));
      } else {
        value->emplace<double>(static_cast<double>(integer));
      }
      return {};
    }
    case json::element_type::OBJECT:
      value->emplace<std::string>(MinifiedJson(element));
      return {};
    case json::element_type::ARRAY: {
      auto& texts = value->emplace<std::vector<std::string>>();
      for (const json::element item : json::array(element)) {
        std::string_view text;
        texts.push_back(item.get(text) == simdjson::SUCCESS ? std::string(text)
                                                            : MinifiedJson(item));
      }
      return {};
    }
  }
  return InvalidError("a value of a kind that JSON does not have");
}

void FillFingerprint(const std::string& fingerprint, Request* request) {
  if (request->Text("kernel_fingerprint") != nullptr) return;
  request->fields.insert_or_assign(std::string(kFilledFingerprintField), fingerprint);
}

Result<> CheckRequest(const Request& request) {
  if (request.id.empty()) return InvalidError("the request has no 'id'");
  for (const std::string_view field : {"prompt_tokens", "output_tokens"}) {
    const auto it = request.fields.find(field);
    if (it == request.fields.end()) continue;
    const double* count = std::get_if<double>(&it->second);
    if (count == nullptr || *count < 0 || *count != std::floor(*count) ||
        *count > std::numeric_limits<int32_t>::max()) {
      return InvalidError("'" + std::string(field) + "' must be a non-negative integer");
    }
  }
  for (const auto& [name, value] : request.fields) {
    const double* number = std::get_if<double>(&value);
    if (number != nullptr && !std::isfinite(*number)) {
      return InvalidError("'" + name + "' is " + ShortestNumber(*number) + ", not a finite number");
    }
  }
  return {};
}

Result<> ForEachLine(const std::string& path, size_t line_bytes_max, const LineVisitor& visit) {
  KCC_TRY(LineReader reader, LineReader::Open(path, line_bytes_max));
  return ForEachLine(reader, visit);
}

Result<> ForEachLine(LineReader& reader, const LineVisitor& visit) {
  while (true) {
    std::string_view line;
    KCC_TRY(const bool more, reader.Next(&line));
    if (!more) return {};
    auto visited = visit(line, reader.number());
    if (!visited.has_value())
      return std::move(visited.error()).At({reader.path(), reader.number()});
  }
}

Result<std::vector<Request>> ReadRequests(const std::string& path) {
  std::vector<Request> requests;
  std::vector<int> lines;
  json::parser parser;
  KCC_TRY(LineReader reader, LineReader::Open(path, kRequestLineBytesMax, LineSource::kRegular));
  KCC_TRY_VOID(ForEachLine(reader, [&](std::string_view line, int number) -> Result<> {
    KCC_TRY(Request request, ReadRequest(parser, line));
    requests.push_back(std::move(request));
    lines.push_back(number);
    return {};
  }));
  if (requests.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return InvalidError("more than 2^31 - 1 requests", Place{path});
  }
  KCC_TRY_VOID(CheckUnique(requests, lines, path));
  return requests;
}

Result<Request> ParseRequest(std::string_view line, std::span<const std::string_view> without) {
  json::parser parser;
  return ReadRequest(parser, line, without);
}

void WriteRequestFields(const Request& request, JsonWriter* writer) {
  for (const auto& [name, value] : request.fields) {
    writer->Key(name);
    if (const auto* number = std::get_if<double>(&value)) {
      writer->Raw(NumberJson(*number));
    } else if (const auto* flag = std::get_if<bool>(&value)) {
      writer->Value(*flag);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      writer->Value(*text);
    } else {
      writer->BeginArray();
      for (const std::string& item : std::get<std::vector<std::string>>(value)) writer->Value(item);
      writer->EndArray();
    }
  }
}

std::string RequestJson(const Request& request) {
  JsonWriter writer(JsonWriter::Style::kCompact);
  writer.BeginObject();
  writer.Field("id", request.id);
  WriteRequestFields(request, &writer);
  writer.EndObject();
  std::string line = writer.Take();
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

}  // namespace kcc
