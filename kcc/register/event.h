// An event of the register's log, its canonical body and its digest (docs/register.md "The log").
//
// Events are numbered from 1. The digest of an event covers the digest before it, so that one
// digest stands for everything up to it: the head. Pure: no clock, no file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kcc/base/result.h"

namespace kcc {

inline constexpr size_t kEventBodyBytesMax = size_t{1} << 20;
inline constexpr size_t kActorBytesMax = 200;

// What comes before the first event.
inline constexpr std::string_view kNoEventDigest =
    "sha256:0000000000000000000000000000000000000000000000000000000000000000";

// What a writer wants to add. The time is the caller's word: nothing in the register reads a clock.
struct NewEvent {
  int64_t time_ms = 0;  // since the Unix epoch
  std::string actor;    // a person or a program
  std::string kind;     // event_kinds.h
  std::string body;     // a JSON object in any spelling
};

struct Event {
  int64_t sequence = 0;
  int64_t time_ms = 0;
  std::string actor;
  std::string kind;
  std::string body;    // canonical
  std::string digest;  // EventDigest

  bool operator==(const Event&) const = default;
};

// The last event of a log; an empty log has sequence 0.
struct Head {
  int64_t sequence = 0;
  std::string digest = std::string(kNoEventDigest);

  bool operator==(const Head&) const = default;
};

// "12:sha256:…", as `kcc register head` prints it and `verify --head` takes it.
std::string HeadText(const Head& head);
Result<Head> ParseHead(std::string_view text);

// A JSON object without blanks and with sorted keys, in which equal values have equal bytes. Fails
// on what is not an object, on a key that comes twice and on more than kEventBodyBytesMax.
Result<std::string> CanonicalBody(std::string_view json);

// SHA-256 of the JSON list ["kcc-register-event-1", previous, sequence, time, actor, kind, body].
std::string EventDigest(std::string_view previous, const Event& event);

// The event after `head`, with its body made canonical. Fails on an actor that is empty, too long
// or not one line of UTF-8; the kind is event_kinds.h's to check.
Result<Event> SealEvent(const Head& head, const NewEvent& event);

}  // namespace kcc
