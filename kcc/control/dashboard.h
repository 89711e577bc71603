// The dashboard of a gateway (docs/dashboard.md): one page that holds no data and asks for nothing
// but the API of the process that serves it (docs/gateway-api.md).
#pragma once

#include <string>

namespace kcc {

// The page as HTML, scripts and styles included; its own policy allows no others.
std::string DashboardPage();

// The Content-Security-Policy to serve it with. It says what the page's own does, and what only a
// header may: that no other page shows this one in a frame.
std::string DashboardPolicy();

}  // namespace kcc
