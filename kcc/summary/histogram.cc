#include "kcc/summary/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kcc/base/check.h"

namespace kcc {
namespace {

constexpr Histogram::Bucket kBuckets = 1u << 19;

double FromOrdered(uint64_t ordered) {
  const uint64_t flip = (ordered >> 63) != 0 ? uint64_t{1} << 63 : ~uint64_t{0};
  return std::bit_cast<double>(ordered ^ flip);
}

}  // namespace

double Histogram::LowerEdge(Bucket bucket) {
  const double edge = FromOrdered(uint64_t{bucket} << 45);
  // The bucket of -inf has NaN patterns below it, that of +inf above it; neither is ever counted.
  return std::isnan(edge) ? -std::numeric_limits<double>::infinity() : edge;
}

double Histogram::UpperEdge(Bucket bucket) {
  const double edge = FromOrdered((uint64_t{bucket} << 45) | ((uint64_t{1} << 45) - 1));
  return std::isnan(edge) ? std::numeric_limits<double>::infinity() : edge;
}

uint32_t BucketIndex::Insert(Bucket bucket) {
  if (buckets_.size() * 2 >= table_.size()) Grow();
  const auto number = static_cast<uint32_t>(buckets_.size());
  table_[Place(bucket)] = {bucket, number};
  buckets_.push_back(bucket);
  return number;
}

void BucketIndex::Grow() {
  table_.assign(std::max<size_t>(16, table_.size() * 2), Slot());
  for (size_t i = 0; i < buckets_.size(); ++i) {
    table_[Place(buckets_[i])] = {buckets_[i], static_cast<uint32_t>(i)};
  }
}

// A quarter more than there are numbers, since the index grows with every new value.
void Histogram::GrowDense() { dense_.resize(index_->size() + index_->size() / 4); }

// Counts are in listed_ while they are few, a pair for every addition, and in dense_ from then on,
// a counter per number of the index. At most one of the two is in use. Most cells see a handful of
// values, and a counter for each bucket of the whole series would be mostly zeros.
void Histogram::MakeDense() {
  GrowDense();
  for (const auto& [number, count] : listed_) dense_[number] += count;
  listed_.clear();
}

void Histogram::Share(std::shared_ptr<BucketIndex> index) {
  KCC_CHECK(empty());
  index_ = std::move(index);
  shared_ = true;
}

void Histogram::AddBucket(Bucket bucket, uint64_t count) {
  if (index_ == nullptr) index_ = std::make_shared<BucketIndex>();
  // A copy of a histogram has the same index until one of the two needs a new number: an index that
  // is not shared on purpose must not grow for another.
  if (!shared_ && index_.use_count() > 1) index_ = std::make_shared<BucketIndex>(*index_);
  AddNumber(index_->NumberOf(bucket), count);
  total_ += count;
}

void Histogram::AddNumbers(std::span<const uint32_t> numbers) {
  KCC_CHECK(shared_);
  total_ += numbers.size();
  if (dense_.empty() && listed_.size() + numbers.size() > kListMax) MakeDense();
  if (dense_.empty()) {
    for (const uint32_t number : numbers) listed_.emplace_back(number, 1);
    return;
  }
  if (dense_.size() < index_->size()) GrowDense();
  for (const uint32_t number : numbers) ++dense_[number];
}

void Histogram::Clear() {
  dense_.clear();
  listed_.clear();
  index_ = nullptr;
  shared_ = false;
  total_ = 0;
}

void Histogram::MergeNumbers(const Histogram& other) {
  if (dense_.empty() && listed_.size() + other.listed_.size() <= kListMax && other.dense_.empty()) {
    listed_.insert(listed_.end(), other.listed_.begin(), other.listed_.end());
    return;
  }
  if (dense_.empty()) MakeDense();
  if (dense_.size() < index_->size()) GrowDense();
  for (const auto& [number, count] : other.listed_) dense_[number] += count;
  // Counters beyond the index are spare room, and 0.
  const size_t common = std::min(other.dense_.size(), index_->size());
  for (size_t i = 0; i < common; ++i) dense_[i] += other.dense_[i];
}

void Histogram::Merge(const Histogram& other) {
  if (index_ == nullptr && other.shared_) Share(other.index_);
  // Same index, same numbers: no bucket is looked up. Otherwise numbers mean different buckets.
  if (index_ != nullptr && index_ == other.index_) {
    MergeNumbers(other);
    total_ += other.total_;
    return;
  }
  for (const auto& [bucket, count] : other.Entries()) AddBucket(bucket, count);
}

std::vector<Histogram::Entry> Histogram::Entries() const {
  std::vector<Entry> entries;
  for (const auto& [number, count] : listed_) entries.emplace_back(index_->bucket(number), count);
  for (size_t number = 0; number < dense_.size(); ++number) {
    if (dense_[number] == 0) continue;
    entries.emplace_back(index_->bucket(static_cast<uint32_t>(number)), dense_[number]);
  }
  // By bucket, and equal ones joined: the order in which buckets appeared must not show in the
  // bytes.
  std::sort(entries.begin(), entries.end());
  size_t last = 0;
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].first == entries[last].first) {
      entries[last].second += entries[i].second;
    } else {
      entries[++last] = entries[i];
    }
  }
  if (!entries.empty()) entries.resize(last + 1);
  return entries;
}

void Histogram::Visit(Archive& archive) {
  std::vector<Entry> entries;
  if (!archive.reading()) entries = Entries();
  Bucket before = 0;
  archive.Each(
      entries,
      [&](Archive& a, Entry& entry) {
        uint32_t step = entry.first - before;  // gaps are short, buckets are not
        a.U32(step);
        a.U64(entry.second);
        if (!a.reading()) {
          before = entry.first;
          return;
        }
        const bool first = &entry == entries.data();
        if ((!first && step == 0) || step >= kBuckets - before || entry.second == 0) {
          a.Fail("a histogram that is not in order");
        }
        entry.first = before + step;
        before = entry.first;
      },
      2);
  if (!archive.reading() || !archive.ok()) return;
  *this = Histogram();
  for (const Entry& entry : entries) AddBucket(entry.first, entry.second);
}

}  // namespace kcc
