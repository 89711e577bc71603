// A chunked request body, read strictly: sizes of hexadecimal digits alone, every line ended by
// CRLF, extensions and trailers bounded and dropped. It never takes a byte beyond the body's end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kcc {

class ChunkReader {
 public:
  enum class State : uint8_t { kMore, kDone, kBad, kTooLarge };

  explicit ChunkReader(size_t body_bytes_max) : body_bytes_max_(body_bytes_max) {}

  // Takes from the front of `bytes`, appends data to `body`, and returns how much it took. Nothing
  // is taken once the state is not kMore.
  size_t Read(std::string_view bytes, std::string* body);
  State state() const { return state_; }

 private:
  enum class Part : uint8_t {
    kSize,
    kExtension,
    kSizeEnd,
    kData,
    kDataCr,
    kDataLf,
    kTrailer,
    kTrailerLf
  };

  void Take(char c);
  void EndSize(uint64_t size);
  void Overhead();

  const size_t body_bytes_max_;
  State state_ = State::kMore;
  Part part_ = Part::kSize;
  uint64_t size_ = 0;        // of the chunk, then what is left of it
  uint64_t body_bytes_ = 0;  // so far, with the chunk under way
  int digits_ = 0;
  size_t overhead_ = 0;     // bytes of extensions and trailers
  bool line_empty_ = true;  // of the trailer
};

}  // namespace kcc
