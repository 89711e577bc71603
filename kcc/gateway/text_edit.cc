#include "kcc/gateway/text_edit.h"

#include <algorithm>

namespace kcc {

std::string ApplyEdits(std::string_view text, std::vector<TextEdit>& edits) {
  std::stable_sort(edits.begin(), edits.end(),
                   [](const TextEdit& a, const TextEdit& b) { return a.begin < b.begin; });
  size_t size = text.size();
  for (const TextEdit& edit : edits) size += edit.text.size();
  std::string edited;
  edited.reserve(size);
  size_t at = 0;
  for (const TextEdit& edit : edits) {
    edited.append(text.substr(at, edit.begin - at)).append(edit.text);
    at = edit.end;
  }
  return edited.append(text.substr(at));
}

}  // namespace kcc
