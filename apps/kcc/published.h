// An experiment of the lab in its four forms.
#pragma once

#include <string>
#include <string_view>

#include "apps/kcc/console.h"
#include "kcc/base/result.h"

namespace kcc::cli {

struct Published {
  std::string_view name;
  std::string page;
  std::string table;    // Markdown
  std::string figures;  // JSON
  std::string text;     // for the terminal
};

// Writes page, table and figures into the directory, and prints the text.
Result<> Publish(const std::string& directory, const Published& made, Console& console);

}  // namespace kcc::cli
