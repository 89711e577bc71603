// Importers of RL dumps (kcc/trace/import.h): a trace of either side of a step, for those who want
// traces. Who wants a verdict judges the dump itself (kcc rl judge).
#pragma once

#include <span>

#include "kcc/trace/import.h"

namespace kcc {

std::span<const Importer> RlImporters();

}  // namespace kcc
