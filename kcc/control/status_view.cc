#include "kcc/control/status_view.h"

#include <algorithm>

#include "kcc/control/json_members.h"

namespace kcc {
namespace {

Result<JsonMembers> Parse(json::parser& parser, std::string_view body) {
  KCC_TRY(const json::element root, ParseJson(parser, body));
  json::object object;
  if (root.get(object) != simdjson::SUCCESS || JsonMembers(object).Integer("kccGateway") != 1) {
    return InvalidError("this is not the answer of a gateway that this kcc understands");
  }
  return JsonMembers(object);
}

}  // namespace

bool StatusView::bad() const {
  return evaluator != "running" ||
         std::any_of(kernels.begin(), kernels.end(), [](const KernelView& kernel) {
           return kernel.state == "guarded" || kernel.verdict == "violated" ||
                  kernel.verdict == "error";
         });
}

Result<StatusView> ReadStatusView(std::string_view body) {
  json::parser parser;
  KCC_TRY(const JsonMembers status, Parse(parser, body));
  StatusView view;
  view.at_ms = status.Integer("atMs");
  if (const auto route = status.Object("route")) {
    view.serves = route->Text("serves");
    view.canary = route->Text("canary");
    view.canary_share = route->Number("share");
    view.reason = route->Text("reason");
    view.since_ms = route->Integer("since");
    view.panic = route->Truth("panic");
  }
  if (const auto evaluator = status.Object("evaluator")) {
    view.evaluator = evaluator->Text("state");
    view.log_error = evaluator->Text("logError");
    view.register_warning = evaluator->Text("registerWarning");
  }
  if (const auto peers = status.Object("peers")) {
    view.decided_by = peers->Text("gateway");
    if (view.decided_by.empty()) view.decided_by = "nobody";
    view.decides = peers->Truth("decides");
    view.decides_since_ms = peers->Integer("since");
    view.followers = static_cast<int64_t>(peers->Objects("followers").size());
    view.held = peers->Text("held");
    view.peers_error = peers->Text("error");
  }
  if (const auto rates = status.Object("rates")) {
    view.requests_per_second = rates->Number("requestsPerSecond");
    view.sampled = rates->Integer("sampled");
    view.scored = rates->Integer("scored");
    view.lost = rates->Integer("lost");
    view.dropped = rates->Integer("dropped");
  }
  for (const JsonMembers& kernel : status.Objects("kernels")) {
    view.kernels.push_back({kernel.Text("name"), kernel.Text("role"), kernel.Text("state"),
                            kernel.Text("verdict"), kernel.Text("action"), kernel.Text("target"),
                            kernel.Number("share"), kernel.Integer("since"),
                            kernel.Integer("evidenceAtMs"), kernel.Text("stale")});
  }
  return view;
}

Result<WhyView> ReadWhyView(std::string_view body) {
  json::parser parser;
  KCC_TRY(const JsonMembers why, Parse(parser, body));
  return WhyView{why.Truth("found"), why.Text("text")};
}

}  // namespace kcc
