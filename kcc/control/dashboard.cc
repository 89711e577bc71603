#include "kcc/control/dashboard.h"

#include <string_view>

#include "kcc/base/check.h"
#include "kcc/control/dashboard_assets.h"
#include "kcc/report/content_policy.h"
#include "kcc/report/page_assets.h"

namespace kcc {
namespace {

std::string Style() {
  return "\n" + std::string(kPage_style_css) + std::string(kPage_dashboard_css);
}

std::string Script() {
  std::string script = "\n";
  for (const std::string_view part :
       {kPage_theme_js, kPage_elements_js, kPage_glyphs_js, kPage_copy_js, kPage_state_js,
        kPage_stream_js, kPage_timeline_js, kPage_sections_js, kPage_dashboard_js}) {
    script += part;
  }
  return script;
}

// Hashes in place of 'unsafe-inline': what hostile text might bring into the page does not run, and
// trusted types make the browser refuse every way of turning text into markup.
std::string PagePolicy() {
  return "default-src 'none'; script-src " + SourceHash(Script()) + "; style-src " +
         SourceHash(Style()) +
         "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
         "require-trusted-types-for 'script'";
}

void Fill(std::string_view name, std::string_view value, std::string* page) {
  const size_t at = page->find(name);
  KCC_CHECK(at != std::string::npos);
  page->replace(at, name.size(), value);
}

}  // namespace

std::string DashboardPage() {
  std::string page(kPage_dashboard_html);
  // From the end of the page, so that nothing that was filled in is looked through.
  Fill("{{script}}", Script(), &page);
  Fill("{{style}}", Style(), &page);
  Fill("{{policy}}", PagePolicy(), &page);
  return page;
}

std::string DashboardPolicy() { return PagePolicy() + "; frame-ancestors 'none'"; }

}  // namespace kcc
