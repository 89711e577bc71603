// Experiments on a terminal: plain text in columns, and the sentences wrapped. The tables of the
// Markdown are for pages; what scrolls past in a terminal has to be short.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/experiment/experiment.h"

namespace kcc {

// The first column left, the others as wide as they need; indented by two.
std::string TextTable(std::span<const std::string> head,
                      std::span<const std::vector<std::string>> rows);

// Wrapped at 100 columns.
std::string TextParagraph(std::string_view text, size_t indent = 0);

// "yes: the prediction", and under it what was seen.
std::string FindingsText(std::span<const Finding> findings);

// What a preview says of itself, in every form: it shows what the experiment looks like, from too
// few requests to conclude anything.
inline constexpr std::string_view kPreviewText =
    "This is a preview: a few requests, to see what the experiment shows. It claims nothing. Run "
    "it "
    "without --quick for figures that can be quoted.";

}  // namespace kcc
