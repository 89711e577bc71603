// Part of cli.cc: declares flags on a command that it made.
#pragma once

#include "apps/kcc/commands.h"

namespace CLI {
class App;
}

namespace kcc::cli {

void DeclareBoundFlags(CLI::App* app, BoundOptions& options);
void DeclareAuthorInput(CLI::App* app, AuthorInput& input);

}  // namespace kcc::cli
