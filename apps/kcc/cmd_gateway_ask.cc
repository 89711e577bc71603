// kcc status and kcc gateway why: what a running gateway says of itself, for people.
#include <algorithm>
#include <array>
#include <cctype>

#include "apps/kcc/commands.h"
#include "apps/kcc/commands_gateway.h"
#include "apps/kcc/gateway_client.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/times.h"
#include "kcc/base/strings.h"
#include "kcc/control/status_view.h"

namespace kcc::cli {
namespace {

std::string Percent(double share) { return ReadableNumber(100 * share) + "%"; }

std::string SpanText(int64_t since_ms, int64_t now_ms) {
  const int64_t seconds = std::max<int64_t>(0, now_ms - since_ms) / 1000;
  constexpr int64_t kMinute = 60, kHour = 3600, kDay = 86400;
  if (seconds < 2 * kMinute) return std::to_string(seconds) + "s";
  if (seconds < 2 * kHour) return std::to_string(seconds / kMinute) + "min";
  if (seconds < 2 * kDay) return std::to_string(seconds / kHour) + "h";
  return std::to_string(seconds / kDay) + "d";
}

constexpr size_t kColumns = 8;
using StatusRow = std::array<std::string, kColumns>;

StatusRow RowOf(const KernelView& kernel, int64_t now_ms) {
  std::string order = kernel.action.empty() ? "none" : kernel.action;
  if (!kernel.action.empty() && !kernel.target.empty()) order += " to " + kernel.target;
  return {kernel.name,
          kernel.role,
          kernel.state,
          kernel.verdict,
          SpanText(kernel.since_ms, now_ms),
          Percent(kernel.share),
          kernel.evidence_at_ms == 0 ? "none" : SpanText(kernel.evidence_at_ms, now_ms) + " ago",
          order};
}

Style StyleOfCell(const std::string& cell) {
  if (cell == "guarded" || cell == "violated") return Style::kRed;
  if (cell == "probation" || cell == "error") return Style::kYellow;
  return cell == "satisfied" ? Style::kGreen : Style::kPlain;
}

void PrintStatusRows(const std::vector<StatusRow>& rows, Console& console) {
  std::array<size_t, kColumns> widths{};
  for (const StatusRow& row : rows) {
    for (size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const StatusRow& row : rows) {
    std::string line;
    for (size_t i = 0; i < kColumns; ++i) {
      std::string cell = row[i];
      if (i + 1 < kColumns) cell.resize(widths[i] + 2, ' ');
      line += Paint(StyleOfCell(row[i]), Shown(cell), console.colour_out);
    }
    console.out << line << '\n';
  }
}

// Who decides, where several gateways share a register.
void PrintPeers(const StatusView& status, Console& console) {
  if (status.decided_by.empty()) return;
  const std::string span = SpanText(status.decides_since_ms, status.at_ms);
  if (status.decides) {
    console.out << "this gateway decides, for " << span << "; "
                << Counted(static_cast<size_t>(status.followers), "gateway")
                << (status.followers == 1 ? " follows" : " follow") << " it\n";
  } else {
    console.out << "this gateway follows " << Shown(status.decided_by) << ", for " << span << '\n';
  }
  if (!status.peers_error.empty()) {
    console.out << "the register is not read, and the last route is held: "
                << Shown(status.peers_error) << '\n';
  }
}

void PrintGatewayStatus(const StatusView& status, Console& console) {
  console.out << (status.serves.empty() ? "no kernel serves" : Shown(status.serves) + " serves")
              << (status.panic ? " (panic)" : "") << ", for "
              << SpanText(status.since_ms, status.at_ms) << ": " << Shown(status.reason) << '\n';
  if (!status.canary.empty()) {
    console.out << Shown(status.canary) << " is the canary, with " << Percent(status.canary_share)
                << " of sessions\n";
  }
  if (status.evaluator != "running") {
    console.out << "the evaluator is " << Shown(status.evaluator)
                << ": the last route is held, and no share grows"
                << (status.log_error.empty() ? "" : "; ") << Shown(status.log_error) << '\n';
  }
  PrintPeers(status, console);
  if (!status.register_warning.empty()) console.out << Shown(status.register_warning) << '\n';
  std::vector<StatusRow> rows = {
      {"kernel", "role", "state", "verdict", "since", "share", "evidence", "order"}};
  for (const KernelView& kernel : status.kernels) rows.push_back(RowOf(kernel, status.at_ms));
  console.out << '\n';
  PrintStatusRows(rows, console);
  console.out << '\n';
  for (const KernelView& kernel : status.kernels) {
    if (kernel.stale.empty()) continue;
    console.out << Shown(kernel.name) << ": " << Shown(kernel.stale) << '\n';
  }
  console.out << ReadableNumber(status.requests_per_second) << " requests a second; "
              << status.sampled << " sampled, " << status.scored << " scored, " << status.lost
              << " lost, " << status.dropped << " dropped\n";
}

// For a query: what an id or a time may hold stays, the rest is escaped.
std::string Escaped(const std::string& text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.') {
      escaped += c;
    } else {
      escaped += '%';
      escaped += kHex[byte >> 4];
      escaped += kHex[byte & 15];
    }
  }
  return escaped;
}

}  // namespace

int RunStatus(const StatusOptions& options, Console& console) {
  const auto body = AskGateway(options.gateway, "/v1/status");
  if (!body.has_value()) return ReportError(body.error(), console);
  const auto status = ReadStatusView(*body);
  if (!status.has_value()) return ReportError(status.error(), console);
  if (console.json) {
    console.out << *body << '\n';
  } else {
    PrintGatewayStatus(*status, console);
  }
  return status->bad() ? kExitViolated : kExitOk;
}

int RunGatewayWhy(const GatewayWhyOptions& options, Console& console) {
  // No id is taken for a time: those are digits alone, or begin with a day.
  const auto time = ParseTime(options.what);
  const std::string query =
      time.has_value() ? "at=" + std::to_string(*time) : "request=" + Escaped(options.what);
  const auto body = AskGateway(options.gateway, "/v1/why?" + query);
  if (!body.has_value()) return ReportError(body.error(), console);
  const auto answer = ReadWhyView(*body);
  if (!answer.has_value()) return ReportError(answer.error(), console);
  if (console.json) {
    console.out << *body;
  } else {
    console.out << WrapText(Shown(answer->text), 0, static_cast<size_t>(console.width)) << '\n';
  }
  return answer->found ? kExitOk : kExitInconclusive;
}

}  // namespace kcc::cli
