#include "kcc/lab/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

// softmax(q k) v for some tokens and the query heads that share one KV head. Row r is (token,
// head); its state is the largest score so far m, the sum of the weights l = sum e^(s - m), and the
// weighted sum of the values o = sum e^(s - m) v.
//
// Invariant after each segment of keys: m, l and o are those of all keys so far. A segment with a
// larger maximum m' scales the old l and o by e^(m - m'). So the result is o / l for any tiles, up
// to rounding; that rounding is what the switch `attention` is about. Example: scores 1, 3 in tiles
// of one. After the first tile m = 1, l = 1; after the second m = 3, l = e^-2 + 1.
template <class Real>
class Attention {
 public:
  Attention(const AttentionJob& job, ExpKind exp, const RowOps& ops, AttentionScratch* scratch)
      : job_(job), exp_(exp), ops_(ops), scratch_(scratch) {
    keys_ = job.first_position + job.tokens;
    rows_ = job.tokens * job.heads;
    // A block's last store may run up to 15 keys past its end.
    stride_ = (keys_ + 2 * job.cache->page() + 31) / 16 * 16;
    scores().resize(rows_ * stride_);
    sums().assign(rows_ * job.head_dim, Real(0));
    maxima_.assign(rows_, -std::numeric_limits<Real>::infinity());
    totals_.assign(rows_, Real(0));
  }

  void Run(const AttentionChoice& choice) {
    Score();
    if (choice.kind == AttentionKind::kSplit && choice.n > 1) {
      for (size_t t = 0; t < job_.tokens; ++t) Split(t, choice.n);
    } else {
      const size_t tile = choice.kind == AttentionKind::kTiles ? choice.n : keys_;
      for (size_t begin = 0; begin < keys_; begin += tile) {
        Segment(begin, std::min(keys_, begin + tile), 0, job_.tokens);
      }
    }
    Finish();
  }

 private:
  std::vector<Real>& scores() {
    if constexpr (std::is_same_v<Real, float>) return scratch_->scores;
    if constexpr (std::is_same_v<Real, double>) return scratch_->wide_scores;
  }
  std::vector<Real>& sums() {
    if constexpr (std::is_same_v<Real, float>) return scratch_->sums;
    if constexpr (std::is_same_v<Real, double>) return scratch_->wide_sums;
  }
  size_t Visible(size_t token) const { return job_.first_position + token + 1; }
  Real* ScoresOf(size_t row) { return scores().data() + row * stride_; }

  void Score() {
    // Rows (token, head) one after the other, so that one call serves them all.
    // A copy of a few rows; the keys, which are many, are read where they lie.
    scratch_->queries.resize(rows_ * job_.head_dim);
    for (size_t t = 0; t < job_.tokens; ++t) {
      const float* from = job_.queries + t * job_.stride;
      std::copy(from, from + job_.heads * job_.head_dim,
                scratch_->queries.data() + t * job_.heads * job_.head_dim);
    }
    const size_t page = job_.cache->page();
    ScoreBlock<Real> block;
    block.queries = scratch_->queries.data();
    block.query_stride = job_.head_dim;
    block.rows = rows_;
    block.key_stride = job_.cache->key_stride();
    block.dims = job_.head_dim;
    block.scale = Real(1) / std::sqrt(static_cast<Real>(job_.head_dim));
    block.score_stride = stride_;
    for (size_t b = 0; b * page < keys_; ++b) {
      block.keys =
          job_.cache->Keys(job_.layer, job_.table->blocks[b], job_.kv_head, &scratch_->block);
      block.count = std::min(page, keys_ - b * page);
      block.scores = scores().data() + b * page;
      if constexpr (std::is_same_v<Real, float>) {
        ops_.scores(block);
      } else {
        ops_.scores_double(block);
      }
    }
  }

  Real Exponential(Real x) {
    if constexpr (std::is_same_v<Real, double>) {
      return WideExp(x, exp_, ops_);
    } else {
      ops_.exp(&x, 1, 0.0f, exp_);
      return x;
    }
  }

  // Turns scores into weights e^(s - shift) and returns their sum.
  Real Weigh(Real* row, size_t count, Real shift) {
    if constexpr (std::is_same_v<Real, double>) {
      Real total = 0;
      for (size_t j = 0; j < count; ++j) {
        row[j] = WideExp(row[j] - shift, exp_, ops_);
        total += row[j];
      }
      return total;
    } else {
      ops_.exp(row, count, shift, exp_);
      return ops_.sum(row, count);
    }
  }

  // One step of the online softmax for the rows of some tokens: keys [begin, end).
  void Segment(size_t begin, size_t end, size_t token_begin, size_t token_end) {
    for (size_t t = token_begin; t < token_end; ++t) {
      const size_t visible = std::min(end, Visible(t));
      for (size_t r = t * job_.heads; r < (t + 1) * job_.heads; ++r) {
        Real* row = ScoresOf(r) + begin;
        const size_t count = visible > begin ? visible - begin : 0;
        std::fill(row + count, row + (end - begin), Real(0));  // keys of later tokens
        if (count == 0) continue;
        const Real highest = std::max(maxima_[r], *std::max_element(row, row + count));
        const Real total = Weigh(row, count, highest);
        // Nothing was summed before the first segment, and -inf stands for its maximum.
        if (begin == 0) {
          totals_[r] = total;
        } else {
          const Real decay = Exponential(maxima_[r] - highest);
          totals_[r] = totals_[r] * decay + total;
          Real* sum = sums().data() + r * job_.head_dim;
          for (size_t d = 0; d < job_.head_dim; ++d) sum[d] *= decay;
        }
        maxima_[r] = highest;
      }
    }
    const size_t first = token_begin * job_.heads;
    SumValues(begin, end, first, token_end * job_.heads - first,
              sums().data() + first * job_.head_dim);
  }

  void SumValues(size_t begin, size_t end, size_t row, size_t rows, Real* to) {
    const size_t page = job_.cache->page();
    ValueBlock<Real> block;
    block.weight_stride = stride_;
    block.rows = rows;
    block.dims = job_.head_dim;
    block.sums = to;
    block.sum_stride = job_.head_dim;
    for (size_t at = begin; at < end;) {
      const size_t b = at / page;
      const size_t stop = std::min(end, (b + 1) * page);
      block.values =
          job_.cache->Values(job_.layer, job_.table->blocks[b], job_.kv_head, &scratch_->block) +
          at % page * job_.head_dim;
      block.weights = ScoresOf(row) + at;
      block.count = stop - at;
      if constexpr (std::is_same_v<Real, float>) {
        ops_.values(block);
      } else {
        ops_.values_double(block);
      }
      at = stop;
    }
  }

  // Parts of one token's context on their own, then merged under the common maximum.
  void Split(size_t token, size_t parts) {
    const size_t visible = Visible(token);
    const size_t size = (visible + parts - 1) / parts;
    std::vector<Real> part(job_.head_dim);
    for (size_t r = token * job_.heads; r < (token + 1) * job_.heads; ++r) {
      Real* row = ScoresOf(r);
      // Known in advance here, so that parts can be scaled as they come.
      const Real highest = *std::max_element(row, row + visible);
      Real* sum = sums().data() + r * job_.head_dim;
      for (size_t begin = 0; begin < visible; begin += size) {
        const size_t end = std::min(visible, begin + size);
        const Real local = *std::max_element(row + begin, row + end);
        const Real total = Weigh(row + begin, end - begin, local);
        std::fill(part.begin(), part.end(), Real(0));
        SumValues(begin, end, r, 1, part.data());
        const Real weight = Exponential(local - highest);
        totals_[r] += total * weight;
        for (size_t d = 0; d < job_.head_dim; ++d) sum[d] += part[d] * weight;
      }
    }
  }

  void Finish() {
    for (size_t t = 0; t < job_.tokens; ++t) {
      for (size_t h = 0; h < job_.heads; ++h) {
        const size_t r = t * job_.heads + h;
        const Real* sum = sums().data() + r * job_.head_dim;
        float* out = job_.out + t * job_.stride + h * job_.head_dim;
        for (size_t d = 0; d < job_.head_dim; ++d) {
          out[d] = static_cast<float>(sum[d] / totals_[r]);
        }
      }
    }
  }

  const AttentionJob& job_;
  ExpKind exp_;
  const RowOps& ops_;
  AttentionScratch* scratch_;
  size_t keys_ = 0;
  size_t rows_ = 0;
  size_t stride_ = 0;
  std::vector<Real> maxima_;
  std::vector<Real> totals_;
};

}  // namespace

double WideExp(double x, ExpKind kind, const RowOps& ops) {
  if (kind == ExpKind::kAccurate) return Exp(x);
  auto narrow = static_cast<float>(x);
  ops.exp(&narrow, 1, 0.0f, kind);
  return narrow;
}

void Attend(const AttentionJob& job, const AttentionChoice& choice, ExpKind exp, bool wide,
            const RowOps& ops, AttentionScratch* scratch) {
  if (wide) {
    Attention<double>(job, exp, ops, scratch).Run(choice);
  } else {
    Attention<float>(job, exp, ops, scratch).Run(choice);
  }
}

}  // namespace kcc
