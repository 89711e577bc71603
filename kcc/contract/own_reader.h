// Reads spec.metrics: metrics of the user's own (metric/own_metric.h). Everything that can be wrong
// with a definition is reported at the place where it stands.
#pragma once

#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/contract/problems.h"
#include "kcc/contract/yaml_document.h"

namespace kcc {

// Fills contract->metrics and gives the node of each name, in the same order. A wrong definition
// whose name is well still defines it, so that clauses that use it are not wrong as well.
std::vector<const YamlNode*> ReadOwnMetrics(const YamlDocument& document,
                                            const std::vector<const YamlNode*>& items,
                                            Contract* contract, Problems* problems);

}  // namespace kcc
