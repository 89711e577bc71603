// Measured drift of toy transformers stays inside every source's envelope.
#include <gtest/gtest.h>

#include "bench/bounds/envelope_check.h"
#include "bench/bounds/local_check.h"

namespace kcc::bench {
namespace {

TEST(Envelope, IsNeverExceededBySourceOnRandomNetworks) {
  for (const EnvelopeFinding& f : CheckEnvelopes(6, 7)) {
    EXPECT_EQ(f.violations, 0) << f.source << ", " << f.layers << " layers";
    EXPECT_GT(f.measured, 0) << f.source << " made no difference: the source is not switched on";
    if (f.layers == 1) {
      // Loose, but not by so much that any implementation error would hide under it.
      EXPECT_GT(f.best_ratio, 1e-6) << f.source;
      EXPECT_LT(f.statistical_ratio, 1) << f.source;
    }
  }
}

TEST(OperatorError, IsNeverExceededAndNotOutOfProportion) {
  for (const LocalFinding& f : CheckOperators(3000, 3)) {
    EXPECT_EQ(f.violations, 0) << f.op;
    EXPECT_GT(f.best_ratio, 0.01) << f.op << " is off by more than rounding can explain";
  }
}

}  // namespace
}  // namespace kcc::bench
