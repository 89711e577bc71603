// Series: a dense numbering of everything a summary keeps statistics of, one value at a time. These
// are the built-in ones; those of metrics of the user's own follow them, by plan (plan.h).
//
// First the token slots (metric/token_slots.h), then the one-sample estimates of distributional
// quantities for traces that hold only the sampled token (docs/math.md B.4, drift/sampled_token.h;
// named "mc_kl" and so on, meaningful by their mean alone), then the catalog's request quantities.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "kcc/metric/metric.h"

namespace kcc {

size_t SeriesCount();
size_t TokenSeriesCount();  // token slots and estimates; request series follow

// The series whose mean estimates the quantity from sampled tokens, if there is one.
std::optional<size_t> EstimateSeries(const Quantity& quantity);
// By token slot of drift's EstimableSlots().
size_t EstimateSeriesOfSlot(size_t slot);

// Precondition: a token or request quantity; side kTrain only if it is sided.
size_t SeriesOf(const Quantity& quantity, Side side = Side::kInfer);
std::optional<size_t> FindSeries(std::string_view name);
const std::string& SeriesName(size_t series);
// The series of the quantity that this one is derived from (the catalog's column `of`).
// Precondition: it is derived from a token quantity.
size_t SourceSeries(const Quantity& quantity);
// The series whose values decide whether the most likely token flipped: top1_overlap's.
size_t Top1Series();
// The catalog's row; for an estimate the row of what it estimates.
const Quantity& SeriesQuantity(size_t series);
Side SeriesSide(size_t series);

// Of a built-in series.
inline bool IsTokenSeries(size_t series) { return series < TokenSeriesCount(); }

}  // namespace kcc
