// An attribution as one self-contained page: for each quantity and slice a waterfall from nothing
// to the whole drift, source by source. Bars, shares and intervals are all in the quantity's own
// unit, and the slices of a quantity share one scale.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "kcc/attribution/attribution.h"
#include "kcc/attribution/source_envelope.h"

namespace kcc {

// The worst slice and the source that brings most of it, of the first quantity: "precision brings
// 98.2 % of the mean kl on long-context (0.00123 nat)". Empty where nothing drifts.
std::string AttributionHeadline(const Attribution& attribution);

// `beside_report`: a report.html stands beside the page, to be linked.
std::string AttributionHtml(const Attribution& attribution,
                            const std::optional<std::array<SourceEnvelope, 5>>& envelopes,
                            bool beside_report);

}  // namespace kcc
