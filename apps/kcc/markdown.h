// Tables for the generated parts of docs/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kcc::cli {

// Escapes what would end a cell.
std::string MarkdownTable(const std::vector<std::string>& head,
                          const std::vector<std::vector<std::string>>& rows);

// `text`, or nothing for an empty text.
std::string MarkdownCode(std::string_view text);

}  // namespace kcc::cli
