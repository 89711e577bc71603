// For tests: rows of logits and how the backends on the CPU measure them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kcc/drift/reference.h"
#include "kcc/drift/row_quantities.h"
#include "kcc/drift/row_truth.h"
#include "kcc/drift/simd.h"

namespace kcc::testing {

inline RowPair PairOf(const TestRow& row, double temperature = 1, int32_t token = 0) {
  RowPair pair;
  pair.train = row.train.data();
  pair.infer = row.infer.data();
  pair.vocab = row.train.size();
  pair.temperature = temperature;
  pair.token = token;
  return pair;
}

inline TokenDrift Simd(const RowPair& pair, Target target = BestTarget()) {
  static RowScratch scratch;
  TokenDrift drift;
  const Result<> status = MeasureRowSimd(pair, AllTokenSlots(), target, &scratch, &drift);
  EXPECT_TRUE(status.has_value()) << (status ? "" : status.error().Format());
  return drift;
}

inline TokenDrift Reference(const RowPair& pair) {
  TokenDrift drift;
  const Result<> status = MeasureRowReference(pair, AllTokenSlots(), &drift);
  EXPECT_TRUE(status.has_value()) << (status ? "" : status.error().Format());
  return drift;
}

inline double Value(const TokenDrift& drift, const std::string& name) {
  EXPECT_TRUE(drift.known[TokenSlot(name)]) << name;
  return drift.lo[TokenSlot(name)];
}

inline std::vector<TestRow> Rows() {
  std::vector<TestRow> rows;
  uint64_t seed = 1;
  for (const size_t vocab :
       std::initializer_list<size_t>{1, 2, 3, 17, 63, 64, 65, 200, 1000, 2048, 2049, 4097, 9000}) {
    for (const double sigma : {1e-7, 1e-5, 1e-3, 1e-2, 0.1, 1.0, 3.0, 10.0}) {
      for (const double sharpen : {1.0, 2.5}) {
        TestRow row = ModelRow(vocab, sigma, 0, sharpen, seed++);
        row.name = "V=" + std::to_string(vocab) + " sigma=" + std::to_string(sigma) +
                   " sharpen=" + std::to_string(sharpen);
        rows.push_back(row);
      }
    }
  }
  for (const double shift : {3.0, -0.7, 1e3, -1e5}) {
    TestRow row = ModelRow(3000, 1e-2, shift, 1, seed++);
    row.name = "shift=" + std::to_string(shift);
    rows.push_back(row);
    for (float& z : row.train) z += 1000;
    for (float& z : row.infer) z += 1000;
    row.name += " offset 1000";
    rows.push_back(row);
  }
  return rows;
}

// Rows in which one token has all but about `rest` of the mass.
inline std::vector<TestRow> PeakedRows() {
  std::vector<TestRow> rows;
  uint64_t seed = 1000;
  for (const double rest : {1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12}) {
    for (const double sigma : {1e-4, 1e-2, 0.3}) {
      for (const size_t vocab : std::initializer_list<size_t>{5, 100, 4500}) {
        TestRow row = ModelRow(vocab, sigma, 0, 1, seed++);
        double mass = 0;
        for (const float z : row.train) mass += std::exp(double{z});
        const size_t at = seed % vocab;
        const double d = double{row.infer[at]} - double{row.train[at]};
        row.train[at] = static_cast<float>(std::log(mass / rest));
        row.infer[at] = static_cast<float>(row.train[at] + d);
        row.name = "peaked V=" + std::to_string(vocab) + " 1-p=" + std::to_string(rest) +
                   " sigma=" + std::to_string(sigma);
        rows.push_back(row);
      }
    }
  }
  return rows;
}

}  // namespace kcc::testing
