// The admin side of a gateway as the plane sees it: whole answers, and streams of events that go on
// until the client leaves.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "kcc/gateway/head.h"

namespace kcc {

// One listener to events. Functions may be called from any thread and return at once.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // False: the client is gone, or too slow to take more.
  virtual bool Event(std::string_view event, std::string_view data) = 0;
};

class AdminHandler {
 public:
  virtual ~AdminHandler() = default;
  // Called by one thread at a time. `sink` is set for a GET that accepts text/event-stream: a
  // handler that keeps it returns an answer of status 200 with that content type and no body.
  virtual GatewayAnswer Handle(const AskHead& head, const std::string& body,
                               const std::shared_ptr<EventSink>& sink) = 0;
};

}  // namespace kcc
