// Inside of dump.cc: the formats that have files of their own, and what becomes of names and masks.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/dtype.h"
#include "kcc/rl/dump.h"

namespace kcc {

// Gathers the arrays of a dump under canonical names.
class DumpBuilder {
 public:
  explicit DumpBuilder(const RlDumpOptions& options) : options_(options) {}

  const RlDumpOptions& options() const { return options_; }
  RlDump& dump() { return dump_; }

  // What an array of this name means, or empty; the name is noted as found.
  std::string_view MeaningOf(std::string_view name);
  // Takes an array under a known name; others are left alone. Two of one meaning are an error.
  Result<> Add(std::string_view name, std::vector<int64_t> shape, std::vector<double> values);
  // The same under a canonical name.
  Result<> AddAs(std::string_view meaning, std::vector<int64_t> shape, std::vector<double> values);
  // The slice of every row, as the values of the field that --slice-by names. Slices are numbered
  // in the order of their names: the same have the same numbers, however the rows are ordered.
  void SliceRows(const std::vector<std::string>& slice_of_row);
  bool sliced() const { return sliced_; }  // by SliceRows
  // Fields that rows could have been sliced by, for the error that names them.
  void NoteField(std::string_view name) {
    if (fields_.size() < kNamesMax) fields_.emplace(name);
  }

  // Checks what was asked for but never found, and gives the dump.
  Result<RlDump> Finish();

 private:
  static constexpr size_t kNamesMax = 1024;  // a file may invent one in every row

  Result<> FillMask();
  void FindPadding();

  const RlDumpOptions& options_;
  bool sliced_ = false;
  RlDump dump_;
  std::set<std::string, std::less<>> found_;
  std::set<std::string, std::less<>> fields_;
};

// One element of raw memory, widened.
Result<double> DumpElement(DType dtype, const std::byte* data, size_t i);

// torch.save of a dictionary of tensors, which may hold dictionaries of tensors in turn, or of a
// TensorDict; or a pickled DataProto around one.
Result<> ReadTorchDump(const std::string& path, DumpBuilder* to);
// A file begins as a pickle of protocol 2 or later does.
bool IsPickle(const std::string& path);
// One object a row: {"train": […], "rollout": […], "mask": […]?, "advantage": x or […]?,
// "slice": "…"?}, under any of the names known. prime-rl's token exports are such rows, with null
// for what is not finite and the slice under env_name. The files are one table.
Result<> ReadJsonDump(const std::vector<std::string>& paths, DumpBuilder* to);
// Adds the rank files of a step, or of all steps, of prime-rl's token_exports.
Result<> ListTokenExports(const std::string& directory, std::vector<std::string>* files);
// Two traces of the same sampled tokens.
Result<> ReadTraceDump(const std::string& train, const std::string& infer,
                       const RlDumpOptions& options, RlDump* dump);

}  // namespace kcc
