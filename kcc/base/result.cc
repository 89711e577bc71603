#include "kcc/base/result.h"

namespace kcc {

std::string Error::Format() const {
  std::string text = place_.file;
  if (place_.line > 0) {
    if (!text.empty()) text += ':';
    text += std::to_string(place_.line);
    if (place_.column > 0) text += ':' + std::to_string(place_.column);
  }
  if (!text.empty()) text += ": ";
  return text + message_;
}

Error Error::At(Place place) && {
  if (place_ == Place{}) place_ = std::move(place);
  return std::move(*this);
}

}  // namespace kcc
