#include "kcc/register/event.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

Result<> WriteCanonical(json::element value, std::string* text);

Result<> WriteCanonicalObject(json::object object, std::string* text) {
  std::vector<std::pair<std::string_view, json::element>> members;
  for (const auto member : object) members.emplace_back(member.key, member.value);
  std::sort(members.begin(), members.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  *text += '{';
  for (size_t i = 0; i < members.size(); ++i) {
    // Of two values of one key every reader may take another one.
    if (i > 0 && members[i].first == members[i - 1].first) {
      return InvalidError("the key '" + std::string(members[i].first) + "' comes twice");
    }
    if (i > 0) *text += ',';
    *text += JsonQuote(members[i].first);
    *text += ':';
    KCC_TRY_VOID(WriteCanonical(members[i].second, text));
  }
  *text += '}';
  return {};
}

Result<> WriteCanonical(json::element value, std::string* text) {
  switch (value.type()) {
    case json::element_type::OBJECT:
      return WriteCanonicalObject(value.get_object().value_unsafe(), text);
    case json::element_type::ARRAY: {
      const json::array items = value.get_array().value_unsafe();
      *text += '[';
      bool first = true;
      for (const json::element item : items) {
        if (!std::exchange(first, false)) *text += ',';
        KCC_TRY_VOID(WriteCanonical(item, text));
      }
      *text += ']';
      return {};
    }
    case json::element_type::INT64:
      *text += std::to_string(value.get_int64().value_unsafe());
      return {};
    case json::element_type::UINT64:
      *text += std::to_string(value.get_uint64().value_unsafe());
      return {};
    case json::element_type::DOUBLE: {
      // -0 would be read back as the integer 0, and a canonical text must stay what it is.
      const double number = value.get_double().value_unsafe();
      *text += number == 0 ? "0" : ShortestNumber(number);
      return {};
    }
    case json::element_type::STRING:
      *text += JsonQuote(value.get_string().value_unsafe());
      return {};
    case json::element_type::BOOL:
      *text += value.get_bool().value_unsafe() ? "true" : "false";
      return {};
    case json::element_type::NULL_VALUE:
      *text += "null";
      return {};
  }
  return {};
}

bool IsOneLine(std::string_view text) {
  size_t bad = 0;
  return IsUtf8(text, &bad) && std::none_of(text.begin(), text.end(), [](char c) {
           return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
         });
}

}  // namespace

std::string HeadText(const Head& head) { return std::to_string(head.sequence) + ":" + head.digest; }

Result<Head> ParseHead(std::string_view text) {
  Head head;
  const size_t colon = text.find(':');
  const std::string_view number = text.substr(0, colon);
  const auto [end, failed] =
      std::from_chars(number.data(), number.data() + number.size(), head.sequence);
  if (colon != std::string_view::npos) head.digest = text.substr(colon + 1);
  if (colon == std::string_view::npos || failed != std::errc() ||
      end != number.data() + number.size() || head.sequence < 0 || !IsSha256(head.digest) ||
      (head.sequence == 0 && head.digest != kNoEventDigest)) {
    return InvalidError(
        "'" + std::string(text) +
        "' is not a head; it looks like 12:sha256:…, as `kcc register head` prints");
  }
  return head;
}

Result<std::string> CanonicalBody(std::string_view text) {
  if (text.size() > kEventBodyBytesMax) {
    return InvalidError("the body has " + std::to_string(text.size()) + " bytes, more than " +
                        std::to_string(kEventBodyBytesMax) + "; large data belongs into a blob");
  }
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, text));
  if (!root.is_object()) {
    return InvalidError("the body is " + std::string(JsonTypeName(root)) + ", not an object");
  }
  std::string canonical;
  canonical.reserve(text.size());
  KCC_TRY_VOID(WriteCanonical(root, &canonical));
  return canonical;
}

std::string EventDigest(std::string_view previous, const Event& event) {
  // The body is the last element: whatever it holds, it ends where the text does, so that two
  // different events cannot give one text.
  std::string text = "[\"kcc-register-event-1\",\"";
  text.append(previous).append("\",").append(std::to_string(event.sequence)).append(",");
  text.append(std::to_string(event.time_ms)).append(",").append(JsonQuote(event.actor));
  text.append(",").append(JsonQuote(event.kind)).append(",").append(event.body).append("]");
  return Sha256Of(text);
}

Result<Event> SealEvent(const Head& head, const NewEvent& event) {
  if (event.actor.empty() || event.actor.size() > kActorBytesMax || !IsOneLine(event.actor)) {
    return InvalidError("the actor of an event must be one line of 1 to " +
                        std::to_string(kActorBytesMax) + " bytes: who does this?");
  }
  Event sealed{.sequence = head.sequence + 1,
               .time_ms = event.time_ms,
               .actor = event.actor,
               .kind = event.kind,
               .body = {},
               .digest = {}};
  Result<std::string> body = CanonicalBody(event.body);
  if (!body.has_value()) {
    return InvalidError("event " + event.kind + ": " + body.error().message());
  }
  sealed.body = std::move(*body);
  sealed.digest = EventDigest(head.digest, sealed);
  return sealed;
}

}  // namespace kcc
